//! Caches of files that are known by their digest.

use std::{
    fs::{self, File},
    io,
    path::Path,
    time::{Duration, SystemTime},
};

/// Time after which a file that was not used is removed.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Marks a file or directory as used now: its time is that of its last use. Errors leave it as it is.
pub(crate) fn mark_used(path: &Path) {
    let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes what was not used for a long time from a cache, by `remove`.
pub(crate) fn prune(cache: &Path, remove: impl Fn(&Path) -> io::Result<()>) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|facts| facts.modified());
        let age = modified.ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > KEPT) {
            let _ = remove(&entry.path());
        }
    }
}

/// Returns the hexadecimal digits of bytes.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
