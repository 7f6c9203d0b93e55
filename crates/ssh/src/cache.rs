//! Caches of files that are known by their digest.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    time::{Duration, SystemTime},
};

use tempfile::NamedTempFile;

/// Time after which a file that was not used is removed.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Marks a file or directory as used now: its modification time is that of its last use. Errors are ignored.
pub(crate) fn mark_used(path: &Path) {
    let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Calls `remove` for the entries of a cache that were not used for [`MAX_AGE`].
pub(crate) fn prune(cache: &Path, remove: impl Fn(&Path) -> io::Result<()>) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > MAX_AGE) {
            let _ = remove(&entry.path());
        }
    }
}

/// Writes a file of a cache under a name that nobody knows, and puts it at its place when it is complete.
pub(crate) fn replace(cache: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(cache)?;
    file.write_all(content)?;
    file.persist(path)?;
    Ok(())
}

/// Returns the hexadecimal digits of bytes.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
