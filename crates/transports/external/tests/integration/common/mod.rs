//! Programs for tests: small scripts in a directory of their own.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    ClientSession, Driver, DriverDescriptor, OptionValues, ServerSession, TransportError,
    TrialContext, Unsupported,
};

/// Description of every script, so that it is taken for a driver.
pub const DESCRIPTION: &str =
    r#"{"type":"description","contract":2,"name":"test","version":"1","workloads":["bulk"]}"#;

/// The driver of the user's own programs.
pub fn external() -> &'static dyn Driver {
    regatta_transport_external::drivers()
        .iter()
        .copied()
        .find(|driver| driver.descriptor().name == "external")
        .expect("it is in the registry")
}

/// The commented example.
pub fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../external/example/driver")
}

/// The driver of the commented example, as one without options.
#[derive(Debug)]
pub struct Example;

impl Driver for Example {
    fn descriptor(&self) -> &'static DriverDescriptor {
        external().descriptor()
    }

    fn supported(&self, _: &OptionValues) -> Result<(), Unsupported> {
        Ok(())
    }

    fn client(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ClientSession>, TransportError> {
        external().client(&self.changed(order), context)
    }

    fn server(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ServerSession>, TransportError> {
        external().server(&self.changed(order), context)
    }
}

impl Example {
    fn changed(&self, order: &TrialOrder) -> TrialOrder {
        let mut order = order.clone();
        with_program(&mut order, &example());
        order
    }
}

/// Sets the program that carries out an order.
pub fn with_program(order: &mut TrialOrder, program: &Path) {
    let text = OptionValue::Text(program.to_str().expect("UTF-8").to_owned());
    order.transport.options.insert("program".to_owned(), text);
}

/// A shell script that describes itself and then runs given commands.
pub struct Script {
    directory: tempfile::TempDir,
}

impl Script {
    /// Makes a script that runs `then` with the order in `$order`.
    pub fn new(then: &str) -> Self {
        Self::raw(&format!(
            "read -r order\ncase $order in *describe*) echo '{DESCRIPTION}'; exit 0;; esac\n{then}\n"
        ))
    }

    /// Makes a script of this text, without a description.
    pub fn raw(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("driver");
        fs::write(&path, format!("#!/bin/sh\n{text}")).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        Self { directory }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("driver")
    }

    /// Returns the path of a file beside the script.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
