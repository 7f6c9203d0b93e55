//! The entries of the registry.

use std::{
    env,
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};
use regatta_control::TrialOrder;
use regatta_model::{IpProtocol, WorkloadKind, metric::id, reason, shell::quoted};
use regatta_transport::{
    ClientSession, Driver, DriverDescriptor, OptionDefinition, OptionError, OptionKind,
    OptionValues, Result, ServerSession, Stop, TransportError, TrialContext, Unsupported,
};

use crate::{
    describe,
    error::ProgramFailure,
    files::{KEEP, TrialFiles},
    program::{Command, path_here},
    session,
};

const CC: OptionDefinition = OptionDefinition {
    name: "cc",
    kind: OptionKind::Name,
    // The same for all transports where none is asked for, so that these are compared and not their defaults.
    default: "cubic",
    help: "congestion control that the program must use; a trial with one that it cannot set is unsupported",
};

/// The drivers of this crate.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &DRIVERS
}

static DRIVERS: [&dyn Driver; 4] = [
    &Program(&EXTERNAL),
    &Program(&AIOQUIC),
    &Program(&QUIC_GO),
    &Program(&PYSCTP),
];

/// Program of the user, or one that comes with Regatta and is built by `make external`.
struct Program(&'static DriverDescriptor);

pub(crate) static EXTERNAL: DriverDescriptor = DriverDescriptor {
    name: "external",
    title: "External program",
    summary: "your own program, which implements the protocol of docs/external-drivers.md",
    congestion_control_choosable: true,
    stack: "the program's own",
    options: &[PROGRAM, ARGUMENTS, ENVIRONMENT, DIRECTORY, KEEP, CC],
    ..DriverDescriptor::PLAIN
};

/// Name of the file of a program that comes with Regatta, in its directory.
pub(crate) const PROGRAM_FILE: &str = "driver";

pub(crate) const DIRECTORY: OptionDefinition = OptionDefinition {
    name: "directory",
    kind: OptionKind::Path,
    default: "",
    help: "directory with `program` and all that it needs, which hosts that are reached by SSH get; without it they get the program alone",
};

pub(crate) const PROGRAM: OptionDefinition = OptionDefinition {
    name: "program",
    kind: OptionKind::Path,
    default: "",
    help: "required: the executable file, relative to the directory where the run was started; `PATH` is not searched, and a guest does not have the host's `/tmp`",
};

const ARGUMENTS: OptionDefinition = OptionDefinition {
    name: "arguments",
    kind: OptionKind::Text,
    default: "",
    help: "arguments of the program, split into words as a shell does",
};

const ENVIRONMENT: OptionDefinition = OptionDefinition {
    name: "environment",
    kind: OptionKind::Text,
    default: "",
    help: "variables of the program, `NAME=VALUE`, split into words as a shell does",
};

static AIOQUIC: DriverDescriptor = DriverDescriptor {
    name: "quic-aioquic",
    title: "QUIC (aioquic)",
    ip_protocol: Some(IpProtocol::Udp),
    summary: "QUIC of aioquic in Python, a program of its own, as some published experiments used it",
    encrypted: true,
    congestion_control_choosable: true,
    stack: "aioquic",
    stack_version: "1.7.2",
    options: &[
        OptionDefinition {
            name: CC.name,
            kind: OptionKind::OneOf(&["cubic", "reno"]),
            default: CC.default,
            help: "congestion control of the sender, aioquic's own, read back; with `profile = \"library\"` the default \
                   is aioquic's, `reno`",
        },
        PROFILE,
    ],
    metrics: &[id::MIN_RTT_NS, id::SMOOTHED_RTT_LAST_NS],
    ..DriverDescriptor::PLAIN
};

const PROFILE: OptionDefinition = OptionDefinition {
    name: "profile",
    kind: OptionKind::OneOf(&["bench", "library"]),
    default: "bench",
    help: "`bench`: windows, packets, cipher, key exchange and buffers as those of all stacks; `library`: those of aioquic \
           and of the kernel",
};

const PROFILE_OF_SCTP: OptionDefinition = OptionDefinition {
    help: "`bench`: buffers of the window of all transports, and no waiting for more data (SCTP_NODELAY); `library`: as the \
           kernel has them, as a program that sets nothing",
    ..PROFILE
};

/// Value of [`PROFILE`] that leaves the library's own settings alone.
const LIBRARY: &str = "library";

static QUIC_GO: DriverDescriptor = DriverDescriptor {
    name: "quic-go",
    title: "QUIC (quic-go)",
    ip_protocol: Some(IpProtocol::Udp),
    summary: "QUIC of quic-go in Go, a program of its own",
    encrypted: true,
    stack: "quic-go",
    stack_version: "0.60.0",
    options: &[OptionDefinition {
        name: "cc",
        kind: OptionKind::OneOf(&["reno"]),
        // Not everybody's default: quic-go has nothing else.
        default: "reno",
        help: "congestion control of the sender; there is no other",
    }],
    metrics: &[
        id::RETRANSMITTED_PACKETS,
        id::RETRANSMIT_RATIO,
        id::MIN_RTT_NS,
        id::SMOOTHED_RTT_LAST_NS,
    ],
    ..DriverDescriptor::PLAIN
};

static PYSCTP: DriverDescriptor = DriverDescriptor {
    name: "sctp-pysctp",
    title: "SCTP (pysctp)",
    ip_protocol: Some(IpProtocol::Sctp),
    summary: "SCTP of the running kernel through pysctp in Python, a program of its own, as some \
              published experiments used it",
    stack: "pysctp",
    stack_version: "0.7.3",
    options: &[PROFILE_OF_SCTP],
    ..DriverDescriptor::PLAIN
};

/// Returns the directory of the programs that come with Regatta.
pub(crate) fn directory() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    named("REGATTA_EXTERNAL_DIR")
        .map(PathBuf::from)
        .or_else(|| named("HOME").map(|home| Path::new(&home).join(".cache/regatta/external")))
}

/// Whether the library's own settings are left alone.
fn is_library(options: &OptionValues) -> bool {
    options.contains_key(PROFILE.name) && PROFILE.text(options) == Some(LIBRARY)
}

/// Returns the arguments of a program that comes with Regatta.
fn arguments(options: &OptionValues) -> Vec<String> {
    let library = is_library(options).then(|| format!("--profile={LIBRARY}"));
    library.into_iter().collect()
}

/// Returns the congestion control that is asked for, or the driver's default; `None` where it is left to the library.
fn congestion_control(descriptor: &DriverDescriptor, options: &OptionValues) -> Option<String> {
    if is_library(options) && !options.contains_key(CC.name) {
        return None;
    }
    let mut known = descriptor.options.iter();
    let option = known.find(|option| option.name == CC.name)?;
    option.text(options).map(str::to_owned)
}

/// Returns the program that the options name; its file must exist.
fn user_command(options: &OptionValues) -> Result<Command, OptionError> {
    let invalid = |option: OptionDefinition, value: &str, hint: String| OptionError::Value {
        driver: EXTERNAL.name,
        name: option.name,
        value: value.to_owned(),
        hint,
    };
    let Some(named) = PROGRAM.text(options) else {
        return Err(OptionError::Missing {
            driver: EXTERNAL.name,
            name: PROGRAM.name,
            hint: "write `--transport external:program=./my-driver`; \
                   docs/external-drivers.md shows how one is made"
                .to_owned(),
        });
    };
    // Never looked up by its name alone: what runs is the file that the study names.
    let program = match (path_here(named), named.contains('/')) {
        (Some(path), _) => path,
        (None, true) => PathBuf::from(named),
        (None, false) => Path::new(".").join(named),
    };
    if !program.is_file() {
        let found = if program.is_dir() {
            "a directory"
        } else {
            "no file"
        };
        let hint = format!("`{}` is {found}; name a program", program.display());
        return Err(invalid(PROGRAM, named, hint));
    }
    if let Some(files) = DIRECTORY.text(options)
        && !Path::new(named).starts_with(files)
    {
        let hint = format!("`program` is to be in it: write `program = \"{files}/NAME\"`");
        return Err(invalid(DIRECTORY, files, hint));
    }
    let words = |option: OptionDefinition| {
        let text = option.text(options).unwrap_or_default();
        let unbalanced = || invalid(option, text, "close every quote".to_owned());
        shlex::split(text).ok_or_else(unbalanced)
    };
    let environment = words(ENVIRONMENT)?.into_iter().map(|word| {
        let variable = word.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = variable.ok_or_else(|| {
            let hint = "write `NAME=VALUE`, several with blanks between them".to_owned();
            invalid(ENVIRONMENT, &word, hint)
        })?;
        Ok((name.to_owned(), value.to_owned()))
    });
    Ok(Command {
        program,
        arguments: words(ARGUMENTS)?,
        environment: environment.collect::<Result<_, OptionError>>()?,
    })
}

/// Returns a program that comes with Regatta; its file must exist.
fn installed_program(name: &str) -> Result<PathBuf, Unsupported> {
    let missing =
        |what| Unsupported::new(reason::not_installed(name, what), reason::make_external());
    let in_directory = || Some(directory()?.join(name).join(PROGRAM_FILE));
    let program = path_here(name)
        .or_else(in_directory)
        .ok_or_else(|| missing(reason::no_directories_set()))?;
    if !program.is_file() {
        return Err(missing(reason::no_such_file(
            &program.display().to_string(),
        )));
    }
    Ok(program)
}

impl Program {
    fn is_user_program(&self) -> bool {
        self.0.name == EXTERNAL.name
    }

    /// Makes the directory of one end of a trial, if the options ask for it.
    fn files(&self, order: &TrialOrder) -> Result<TrialFiles> {
        let is_requested = self.is_user_program() && KEEP.flag(&order.transport.options);
        let shown = order.files.as_ref().map(|it| it.display().to_string());
        let doing = reason::cannot_make_directory(&shown.unwrap_or_default());
        TrialFiles::new(order, is_requested).map_err(TransportError::io(doing))
    }

    fn command(&self, options: &OptionValues) -> Result<Command> {
        Ok(match self.is_user_program() {
            true => user_command(options)?,
            false => Command {
                program: installed_program(self.0.name)?,
                arguments: arguments(options),
                environment: Vec::new(),
            },
        })
    }
}

impl Driver for Program {
    fn descriptor(&self) -> &'static DriverDescriptor {
        self.0
    }

    fn check_options(&self, options: &OptionValues) -> Result<(), OptionError> {
        self.0.check(options)?;
        if self.is_user_program() {
            let program = user_command(options)?.program;
            if access(&program, AccessFlags::X_OK).is_err() {
                let path = quoted(&program);
                return Err(OptionError::Value {
                    driver: EXTERNAL.name,
                    name: PROGRAM.name,
                    value: program.display().to_string(),
                    hint: format!("it cannot be executed; run `chmod +x {path}`"),
                });
            }
        }
        Ok(())
    }

    fn applicable(
        &self,
        options: &OptionValues,
        workload: &WorkloadKind,
    ) -> Result<(), Unsupported> {
        session::check_workload(workload)?;
        // A trial asks a program that has not been asked yet.
        let description = self
            .command(options)
            .ok()
            .as_ref()
            .and_then(describe::known);
        description.map_or(Ok(()), |it| session::can_do(&it, workload))
    }

    fn supported(&self, options: &OptionValues) -> Result<(), Unsupported> {
        match self.command(options) {
            Ok(command) => can_run(&command),
            Err(TransportError::Unsupported(missing)) => Err(missing),
            // `check_options` reports errors of options.
            Err(_) => Ok(()),
        }
    }

    fn client(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ClientSession>> {
        let options = &order.transport.options;
        self.0.check(options)?;
        let congestion_control = congestion_control(self.0, options);
        let files = self.files(order)?;
        session::client(
            self.command(options)?,
            congestion_control,
            files,
            order,
            context,
        )
    }

    fn server(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ServerSession>> {
        let options = &order.transport.options;
        self.0.check(options)?;
        let congestion_control = congestion_control(self.0, options);
        let files = self.files(order)?;
        session::server(
            self.command(options)?,
            congestion_control,
            files,
            order,
            context,
        )
    }
}

/// Asks a program whether it can run here. A program that fails to answer counts as supported: the trial reports its
/// error.
fn can_run(command: &Command) -> Result<(), Unsupported> {
    match describe::describe(command, &Stop::new()) {
        Err(ProgramFailure::Transport(TransportError::Unsupported(unsupported))) => {
            Err(unsupported)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use regatta_model::{BulkOptions, Bytes, OptionValue, Pattern, Script};

    use super::*;

    #[test]
    fn a_program_is_a_file_and_arguments_are_split_as_by_a_shell() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let options = |program: &str, arguments: &str| {
            BTreeMap::from([
                ("program".to_owned(), OptionValue::Text(program.to_owned())),
                (
                    "arguments".to_owned(),
                    OptionValue::Text(arguments.to_owned()),
                ),
            ])
        };
        let command = user_command(&options(&path, "--a 'b c' d\\ e")).unwrap();
        assert_eq!(command.program, file.path());
        assert_eq!(command.arguments, ["--a", "b c", "d e"]);
        let congestion_control = congestion_control(&EXTERNAL, &BTreeMap::new());
        assert_eq!(congestion_control.as_deref(), Some("cubic"));
        let wrong = Program(&EXTERNAL).check_options(&options(&path, "'open"));
        assert!(matches!(wrong, Err(OptionError::Value { .. })), "{wrong:?}");
        let missing = Program(&EXTERNAL).check_options(&options("no-such-driver", ""));
        let hint = missing.unwrap_err().hint().to_owned();
        assert_eq!(hint, "`./no-such-driver` is no file; name a program");
        let passive = Program(&EXTERNAL).check_options(&options(&path, ""));
        let hint = passive.unwrap_err().hint().to_owned();
        assert_eq!(
            hint,
            format!("it cannot be executed; run `chmod +x {path}`")
        );
        let none = Program(&EXTERNAL).check_options(&BTreeMap::new());
        assert!(matches!(none, Err(OptionError::Missing { .. })), "{none:?}");
    }

    /// A dry run says it, too.
    #[test]
    fn work_that_the_contract_lacks_is_not_applicable() {
        let check = |kind: &WorkloadKind| Program(&AIOQUIC).applicable(&BTreeMap::new(), kind);
        let bulk = |flows| WorkloadKind::Bulk {
            amount: Bytes(1).into(),
            message: Bytes(1),
            pattern: Pattern::Data,
            options: BulkOptions {
                flows,
                ..BulkOptions::default()
            },
        };
        assert_eq!(check(&bulk(1)), Ok(()));
        let refused = check(&bulk(2)).expect_err("one connection");
        assert!(refused.reason.contains("`flows`"), "{refused}");
        let refused = check(&WorkloadKind::Script(Script::page_load())).expect_err("no steps");
        assert!(refused.reason.contains("not `script`"), "{refused}");
    }

    #[test]
    fn a_program_is_told_to_leave_its_library_alone() {
        for descriptor in [&PYSCTP, &AIOQUIC] {
            let library = OptionValue::Text(LIBRARY.to_owned());
            let options = BTreeMap::from([(PROFILE.name.to_owned(), library)]);
            descriptor.check(&options).expect("it has the option");
            assert_eq!(arguments(&options), ["--profile=library"]);
        }
        assert_eq!(arguments(&BTreeMap::new()), [""; 0]);
    }

    #[test]
    fn a_library_profile_chooses_no_congestion_control() {
        let of = |options: &[(&str, &str)]| {
            let options = options.iter().map(|&(name, value)| {
                let value = OptionValue::Text(value.to_owned());
                (name.to_owned(), value)
            });
            congestion_control(&AIOQUIC, &options.collect())
        };
        assert_eq!(of(&[]).as_deref(), Some("cubic"));
        assert_eq!(of(&[("profile", "bench")]).as_deref(), Some("cubic"));
        assert_eq!(of(&[("profile", "library")]), None);
        let chosen = [("profile", "library"), ("cc", "cubic")];
        assert_eq!(of(&chosen).as_deref(), Some("cubic"));
    }

    #[test]
    fn every_entry_has_its_own_description() {
        let names: Vec<_> = drivers().iter().map(|d| d.descriptor().name).collect();
        assert_eq!(
            names,
            ["external", "quic-aioquic", "quic-go", "sctp-pysctp"]
        );
    }
}
