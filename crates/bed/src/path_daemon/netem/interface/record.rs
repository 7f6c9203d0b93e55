//! Record of the discipline of an interface while it is shaped: if all processes that could restore it are killed at
//! the same moment, the next run on the host does. It is also the lock of the interface.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use super::{InterfaceError, former::Former};

/// Directory of the records, which the next start of the host empties.
const DIRECTORY: &str = "/run/regatta";

/// Record of one interface. Locked until every process that has the file has ended.
#[derive(Debug)]
pub(super) struct Record {
    pub file: File,
    pub path: PathBuf,
}

impl Record {
    /// Opens the record of an interface of this network namespace and locks it.
    ///
    /// # Errors
    /// [`InterfaceError::Busy`] if another run has it.
    pub(super) fn open(name: &str, interface: i32) -> Result<Self, InterfaceError> {
        let step = "write a record below `/run/regatta`";
        let opened = || -> io::Result<(PathBuf, File)> {
            let mut directory = DirBuilder::new();
            directory.recursive(true).mode(0o700).create(DIRECTORY)?;
            // Names and indices of interfaces are those of a network namespace.
            let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
            let path = Path::new(DIRECTORY).join(format!("{namespace}-{interface}.json"));
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).read(true).write(true);
            let file = options.mode(0o600).open(&path)?;
            Ok((path, file))
        };
        let (path, file) = opened().map_err(InterfaceError::system(step))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file, path }),
            Err(TryLockError::WouldBlock) => Err(InterfaceError::Busy {
                interface: name.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(InterfaceError::System { step, source }),
        }
    }

    /// Returns what an earlier run has left here.
    pub(super) fn left(&self) -> Option<Former> {
        let mut text = String::new();
        (&self.file).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the discipline that an interface has.
    pub(super) fn write(&self, former: &Former) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(serde_json::to_string(former)?.as_bytes())
    }
}
