//! Files that are replaced as a whole. Every file that Regatta writes anew is written by these functions.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
    path::Path,
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag},
    unistd::linkat,
};
use tempfile::{Builder, NamedTempFile};

use crate::error::parent;

/// Permissions of a file that everybody may read whom the user's mask lets.
pub(crate) const PUBLIC: u32 = 0o666;

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

/// Checks that a file can be replaced or created, and leaves everything as it is: for a file that is written after a long time.
///
/// # Errors
/// As [`replace`].
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    check_target(path).and_then(|()| Unfinished::create(parent(path), PUBLIC).map(drop))
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

/// Refuses a target that exists and is no regular file.
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
        let options = options.write(true).mode(mode);
        match options
            .custom_flags(OFlag::O_TMPFILE.bits())
            .open(directory)
        {
            Ok(file) => Ok(Self::Unnamed(file)),
            // The error of a file with a name is the one to tell, if there is one.
            Err(_) => create_unfinished(directory, mode).map(Self::Named),
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
            Self::Unnamed(file) => {
                let open = format!("/proc/self/fd/{}", file.as_raw_fd());
                let link = |name: &Path| {
                    linkat(AT_FDCWD, &*open, AT_FDCWD, name, AtFlags::AT_SYMLINK_FOLLOW)
                };
                // The kernel gives a name only to a path that is free. A new file has no other name before.
                match link(path) {
                    Err(Errno::EEXIST) => {}
                    linked => return Ok(linked?),
                }
                let mut file = Some(file);
                named(parent(path), |name| {
                    link(name)?;
                    file.take().ok_or_else(|| io::ErrorKind::NotFound.into())
                })?
            }
        };
        complete.persist(path).map(drop).map_err(|e| e.error)
    }
}

/// Creates a file with an unpredictable name, which is removed unless it is given its own. A killed process leaves it for a day.
pub(crate) fn create_unfinished(directory: &Path, mode: u32) -> io::Result<NamedTempFile<File>> {
    remove_left(directory);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    named(directory, |path| options.open(path))
}

/// Beginning and end of the name of a file that is not complete.
const UNFINISHED: [&str; 2] = [".regatta-", ".tmp"];

/// Age at which a file that is not complete is one that a killed process has left.
const LEFT_AFTER: Duration = Duration::from_secs(86_400);

/// Removes files that killed processes have left in a directory. Errors are ignored.
fn remove_left(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name();
        let is_unfinished = (name.to_str())
            .is_some_and(|name| name.starts_with(UNFINISHED[0]) && name.ends_with(UNFINISHED[1]));
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        is_unfinished
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && age().is_some_and(|age| age >= LEFT_AFTER)
    });
    left.for_each(|entry| drop(fs::remove_file(entry.path())));
}

/// Creates a file with an unpredictable name in a directory.
fn named(
    directory: &Path,
    create: impl FnMut(&Path) -> io::Result<File>,
) -> io::Result<NamedTempFile<File>> {
    Builder::new()
        .prefix(UNFINISHED[0])
        .suffix(UNFINISHED[1])
        .rand_bytes(16)
        .make_in(directory, create)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn unfinished_files_of_killed_processes_are_removed_after_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        make(".regatta-old.tmp", 2 * LEFT_AFTER);
        make(".regatta-new.tmp", Duration::ZERO);
        make("results.tmp", 2 * LEFT_AFTER);
        fs::create_dir(directory.path().join(".regatta-directory.tmp")).unwrap();
        remove_left(directory.path());
        let mut left: Vec<_> = (fs::read_dir(directory.path()).unwrap())
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        let expected = [".regatta-directory.tmp", ".regatta-new.tmp", "results.tmp"];
        assert_eq!(left, expected);
    }

    #[test]
    fn a_file_is_created_and_replaced_and_nothing_else_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for content in ["new", "newer"] {
            let write = |out: &mut (dyn Write + Send)| out.write_all(content.as_bytes());
            replace(&path, |error| error, write).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
