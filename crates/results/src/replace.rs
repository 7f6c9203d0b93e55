//! Files that are replaced as a whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use nix::fcntl::OFlag;

/// Replaces a file by writing to `.NAME.tmp` beside it and renaming that: a reader sees the old
/// file or the new one, whole. A temporary file left by a process that was killed is overwritten
/// the next time.
///
/// # Errors
/// Errors of `write`, or of the system, which `failed` converts; then the old file is still there, unchanged.
pub fn replace<E>(
    path: &Path,
    failed: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<(), E> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    let beside = path.with_file_name(name);
    let file = claim(&beside).map_err(&failed)?;
    let written = (|| {
        let mut out = BufWriter::new(&file);
        write(&mut out)?;
        let written = out.flush().and_then(|()| file.sync_all());
        let moved = written.and_then(|()| fs::rename(&beside, path));
        moved.map_err(&failed)
    })();
    if written.is_err() {
        // The first error is the one to tell; a leftover is no second one.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Opens a temporary file, locked for this process and emptied.
fn claim(path: &Path) -> io::Result<File> {
    loop {
        let open = || {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                // Never through a link to somewhere else, nor waiting for who reads a pipe.
                .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
                .open(path)
        };
        let file = open().or_else(|error| {
            // A leftover of another user, or no file.
            fs::remove_file(path).map_err(|_| error)?;
            open()
        })?;
        if !file.metadata()?.is_file() {
            fs::remove_file(path)?;
            continue;
        }
        // Another process may be writing the same; it moves its file away when it is done. Where a
        // file system has no locks, the last one wins.
        let _ = file.lock();
        let opened = file.metadata()?;
        match fs::metadata(path) {
            Ok(current) if (current.dev(), current.ino()) == (opened.dev(), opened.ino()) => {
                file.set_len(0)?;
                return Ok(file);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
}
