//! Results files that are moved, deleted or replaced while they are written.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use crate::{Displaced, FILE_NAME, ResultsError, error::parent, explain::explain_io};

/// Suffix that the kernel appends to the name of an open file that was deleted.
const DELETED: &str = " (deleted)";

/// Identity of a file: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// Returns the identity of the file at `path`.
    ///
    /// # Errors
    /// The file's metadata cannot be read.
    pub(crate) fn of(path: &Path) -> Result<Self, ResultsError> {
        let about = fs::metadata(path).map_err(|e| explain_io(e, "open", path))?;
        Ok(Self::from(&about))
    }

    /// Whether `path` names this file.
    pub(crate) fn is_at(self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|about| Self::from(&about) == self)
    }

    fn from(about: &fs::Metadata) -> Self {
        Self {
            device: about.dev(),
            inode: about.ino(),
        }
    }

    /// Returns the current name of this file, which is open in this process, according to the
    /// kernel.
    fn name(self) -> Option<PathBuf> {
        let mut open = fs::read_dir("/proc/self/fd").ok()?.flatten();
        let descriptor = open.find(|entry| self.is_at(&entry.path()))?;
        fs::read_link(descriptor.path()).ok()
    }
}

/// Finds the run that `connection` writes and that is no longer at `path`; saves its data if the
/// file was deleted.
pub(crate) fn find(connection: &Connection, path: &Path, identity: FileIdentity) -> Displaced {
    let moved = identity
        .name()
        .filter(|name| !name.to_string_lossy().ends_with(DELETED) && identity.is_at(name));
    if let Some(name) = moved {
        return Displaced::Moved(parent(&name).to_owned());
    }
    let beside = parent(path);
    let temporary = std::env::temp_dir().join(beside.file_name().unwrap_or_default());
    let saved = save(connection, beside).or_else(|| save(connection, &temporary));
    saved.map_or(Displaced::Lost, Displaced::Saved)
}

/// Copies the data that the connection reads into a new directory whose name begins with that of
/// `dir`.
fn save(connection: &Connection, dir: &Path) -> Option<PathBuf> {
    let dir = (1..100).find_map(|n| {
        let mut name = dir.file_name()?.to_owned();
        name.push(format!("-saved-{n}"));
        let saved = dir.with_file_name(name);
        fs::create_dir(&saved).is_ok().then_some(saved)
    })?;
    let copied = dir.join(FILE_NAME);
    let saved = connection.execute("VACUUM INTO ?1", [copied.to_string_lossy()]);
    if saved.is_err() {
        // What was begun is of no use.
        let _ = fs::remove_dir_all(&dir);
    }
    saved.is_ok().then_some(dir)
}
