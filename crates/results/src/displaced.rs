//! A results file that is moved, deleted or replaced while it is written.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use crate::{Displaced, FILE_NAME, ResultsError, error::parent, open::explain_io};

/// What the kernel appends to the name of an open file that has none any more.
const DELETED: &str = " (deleted)";

/// Which file a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// The file that has this name now.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub(crate) fn of(path: &Path) -> Result<Self, ResultsError> {
        let about = fs::metadata(path).map_err(|e| explain_io(e, "open", path))?;
        Ok(Self::from(&about))
    }

    /// Whether the name stands for this file.
    pub(crate) fn is_at(self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|about| Self::from(&about) == self)
    }

    fn from(about: &fs::Metadata) -> Self {
        Self {
            device: about.dev(),
            inode: about.ino(),
        }
    }

    /// The name that the kernel has for this file, which is open in this process.
    fn name(self) -> Option<PathBuf> {
        let open = fs::read_dir("/proc/self/fd").ok()?;
        open.flatten()
            .map(|entry| entry.path())
            .find(|descriptor| self.is_at(descriptor))
            .and_then(|descriptor| fs::read_link(descriptor).ok())
    }
}

/// Finds the run that `connection` writes and that is not at `path` any more; saves what it holds if
/// the file was deleted.
pub(crate) fn find(connection: &Connection, path: &Path, identity: FileIdentity) -> Displaced {
    let moved = identity
        .name()
        .filter(|name| !name.to_string_lossy().ends_with(DELETED) && identity.is_at(name));
    if let Some(name) = moved {
        return Displaced::Moved(parent(&name).to_owned());
    }
    let beside = parent(path);
    let temporary = std::env::temp_dir().join(beside.file_name().unwrap_or_default());
    [beside, &temporary]
        .into_iter()
        .find_map(|dir| save(connection, dir))
        .map_or(Displaced::Lost, Displaced::Saved)
}

/// Copies what the connection reads into a new directory whose name begins as that of `dir`.
fn save(connection: &Connection, dir: &Path) -> Option<PathBuf> {
    let dir = (1..100).find_map(|n| {
        let mut name = dir.file_name()?.to_owned();
        name.push(format!("-saved-{n}"));
        let saved = dir.with_file_name(name);
        fs::create_dir(&saved).is_ok().then_some(saved)
    })?;
    let copied = dir.join(FILE_NAME);
    match connection.execute("VACUUM INTO ?1", [copied.to_string_lossy()]) {
        Ok(_) => Some(dir),
        Err(_) => {
            // What was begun is of no use.
            let _ = fs::remove_dir_all(dir);
            None
        }
    }
}
