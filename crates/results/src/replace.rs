//! Files that are replaced as a whole. Every file that Regatta writes anew is written by these functions.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
    path::Path,
};

use nix::{
    fcntl::{AT_FDCWD, AtFlags, OFlag},
    unistd::linkat,
};
use tempfile::{Builder, NamedTempFile};

use crate::error::parent;

/// Permissions of a file that everybody may read whom the user's mask lets.
const PUBLIC: u32 = 0o666;

/// Permissions of a file of its owner alone.
const PRIVATE: u32 = 0o600;

/// Replaces a file, or creates it: a reader sees the old file or the new one, whole, which is on the disk when this
/// returns.
///
/// The new file has no name until it is complete, so that a process that is killed leaves nothing; on a file system without such
/// files, as NFS is, it has an unpredictable one in the same directory.
///
/// # Errors
/// A target that is a link, a device, a pipe, a socket or a directory; errors of `write`, or of the system. `failed` converts those
/// of the system. Then the old file is still there, unchanged.
pub fn replace<E>(
    path: &Path,
    failed: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<(), E> {
    replace_by(path, PUBLIC, true, failed, write)
}

/// Replaces a file as [`replace`] does by one that its owner alone may read.
///
/// # Errors
/// As [`replace`].
pub fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let write = |out: &mut (dyn Write + Send)| out.write_all(content);
    replace_by(path, PRIVATE, true, |error| error, write)
}

/// Replaces a file as [`replace`] does, and does not wait for the disk: for one that is replaced many times a second.
///
/// # Errors
/// As [`replace`].
pub fn replace_unflushed(path: &Path, content: &[u8]) -> io::Result<()> {
    let write = |out: &mut (dyn Write + Send)| out.write_all(content);
    replace_by(path, PUBLIC, false, |error| error, write)
}

fn replace_by<E>(
    path: &Path,
    mode: u32,
    is_flushed: bool,
    failed: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<(), E> {
    let unfinished = check_target(path).and_then(|()| Unfinished::create(parent(path), mode));
    let unfinished = unfinished.map_err(&failed)?;
    let mut out = BufWriter::new(unfinished.file());
    write(&mut out)?;
    let written = out.flush().and_then(|()| match is_flushed {
        true => unfinished.file().sync_all(),
        false => Ok(()),
    });
    drop(out);
    written
        .and_then(|()| unfinished.put_at(path))
        .map_err(failed)
}

/// Refuses a target that is there and is no regular file.
fn check_target(path: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?.file_type(),
    };
    let found = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_dir() => "a directory",
        _ => "a device, a pipe or a socket",
    };
    let message = format!("it is {found}, and only a file is replaced");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// New file until it is complete.
enum Unfinished {
    /// Without a name.
    Unnamed(File),
    /// Removed when it is dropped.
    Named(NamedTempFile<File>),
}

impl Unfinished {
    fn create(directory: &Path, mode: u32) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).mode(mode);
        let unnamed = (options.clone())
            .custom_flags(OFlag::O_TMPFILE.bits())
            .open(directory);
        match unnamed {
            Ok(file) => Ok(Self::Unnamed(file)),
            // The error of a file with a name is the one to tell, if there is one.
            Err(_) => {
                options
                    .create_new(true)
                    .custom_flags(OFlag::O_NOFOLLOW.bits());
                named(directory, |path| options.open(path)).map(Self::Named)
            }
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    /// Puts the file at its place.
    fn put_at(self, path: &Path) -> io::Result<()> {
        let complete = match self {
            Self::Named(file) => file,
            // The kernel gives a name only to a path that is free.
            Self::Unnamed(file) => {
                let open = format!("/proc/self/fd/{}", file.as_raw_fd());
                let mut file = Some(file);
                named(parent(path), |name| {
                    linkat(AT_FDCWD, &*open, AT_FDCWD, name, AtFlags::AT_SYMLINK_FOLLOW)?;
                    file.take().ok_or_else(|| io::ErrorKind::NotFound.into())
                })?
            }
        };
        complete.persist(path).map(drop).map_err(|e| e.error)
    }
}

/// Creates a file with an unpredictable name in a directory.
fn named(
    directory: &Path,
    create: impl FnMut(&Path) -> io::Result<File>,
) -> io::Result<NamedTempFile<File>> {
    Builder::new()
        .prefix(".regatta-")
        .suffix(".tmp")
        .rand_bytes(16)
        .make_in(directory, create)
}
