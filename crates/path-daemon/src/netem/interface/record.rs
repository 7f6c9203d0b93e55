//! Record of the discipline of an interface while it is shaped: if all processes that could restore it are killed at
//! the same moment, the next run on the host does. It is also the lock of the interface.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::saved_qdisc::SavedQdisc;
use crate::error::InterfaceError;

/// Directory of the records, which the next start of the host empties.
const DIRECTORY: &str = "/run/regatta/interfaces";

/// Longest wait for an earlier run: less than a request to the path daemon may take, and as much as a lost one does.
const WAIT: Duration = Duration::from_secs(8);

/// Record of one interface. Locked until every process that has the file has ended.
#[derive(Debug)]
pub(super) struct Record {
    file: File,
    path: PathBuf,
}

impl Record {
    /// Opens the record of an interface of this network namespace and locks it. Waits for an earlier run, which may have
    /// lost its controller and not noticed yet.
    ///
    /// # Errors
    /// [`InterfaceError::Busy`] if another run has it.
    pub(super) fn open(name: &str, interface: i32) -> Result<Self, InterfaceError> {
        let failed = InterfaceError::system("write a record below `/run/regatta/interfaces`");
        let (sender, opened) = mpsc::sync_channel(1);
        let opening = move || {
            // Nobody waits any more for one that comes too late; it ends with this process.
            let _ = sender.send(opened_and_locked(interface));
        };
        let thread = thread::Builder::new().name("record".into());
        thread.spawn(opening).map_err(&failed)?;
        match opened.recv_timeout(WAIT) {
            Ok(opened) => opened.map_err(&failed),
            Err(_) => Err(InterfaceError::Busy {
                interface: name.to_owned(),
            }),
        }
    }

    /// Reads the record of an earlier run.
    pub(super) fn read(&self) -> Option<SavedQdisc> {
        let mut text = String::new();
        (&self.file).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Returns the file, for another process that is to hold the lock, too.
    pub(super) fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Returns the path of the file, which is to be removed before the lock ends.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file.
    pub(super) fn remove(&self) {
        // A file that stays is harmless once the interface is restored.
        let _ = fs::remove_file(&self.path);
    }

    /// Writes the discipline that an interface has.
    pub(super) fn write(&self, former: &SavedQdisc) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(serde_json::to_string(former)?.as_bytes())
    }
}

/// Whether a run has locked the record of an interface of this network namespace; `None` if there is no record.
///
/// # Errors
/// Errors of the file system. Only root may write to the directory.
pub(super) fn is_locked(interface: i32) -> io::Result<Option<bool>> {
    let file = match File::open(path_of(interface)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(false)),
        Err(fs::TryLockError::WouldBlock) => Ok(Some(true)),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Returns the path of the record of an interface of this network namespace.
fn path_of(interface: i32) -> io::Result<PathBuf> {
    // Names and indices of interfaces are those of a network namespace.
    let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(Path::new(DIRECTORY).join(format!("{namespace}-{interface}.json")))
}

fn opened_and_locked(interface: i32) -> io::Result<Record> {
    let mut directory = DirBuilder::new();
    directory.recursive(true).mode(0o700).create(DIRECTORY)?;
    let path = path_of(interface)?;
    loop {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let file = options.mode(0o600).open(&path)?;
        file.lock()?;
        // The one that had it before may have removed the file meanwhile.
        if file.metadata()?.nlink() > 0 {
            return Ok(Record { file, path });
        }
    }
}
