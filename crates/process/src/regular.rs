//! Regular files alone: a directory, a device, a pipe or a socket of a file's name is neither opened nor waited for.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use nix::fcntl::OFlag;

/// Creates a file with these permissions, in place of an older one of its name.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] where the name belongs to a link, a directory, a device, a pipe or a socket, which
/// stays as it is; or an error of the system.
pub fn create_replacing(path: &Path, mode: u32) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        fs::remove_file(path)?;
    }
    let mut options = OpenOptions::new();
    let created = options.write(true).create_new(true).mode(mode).open(path);
    created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => no_file(),
        _ => error,
    })
}

/// Opens a file by a name that others can guess, as the options say: a path whose last name is no link.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for anything but a regular file, at once; or an error of the system.
pub fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<File> {
    open(path, options, OFlag::O_NOFOLLOW)
}

/// Reads a file of text whole, also one to which a link leads.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for anything but a regular file, at once; or an error of the system.
pub fn read_regular(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path, OpenOptions::new().read(true), OFlag::empty())?.read_to_string(&mut text)?;
    Ok(text)
}

fn open(path: &Path, options: &OpenOptions, flags: OFlag) -> io::Result<File> {
    let flags = flags | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = options.clone().custom_flags(flags.bits()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        // A link; a pipe that nobody reads, or a socket.
        Some(libc::ELOOP | libc::ENXIO) => no_file(),
        _ => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_file()),
    }
}

fn no_file() -> io::Error {
    let message = "it is a link, a directory, a device, a pipe or a socket, and no file";
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::net::UnixListener};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;
    use crate::TemporaryDirectory;

    fn directory() -> TemporaryDirectory {
        TemporaryDirectory::new("regatta-test-").unwrap()
    }

    fn lock(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        open_regular(path, options.write(true).create(true).truncate(false))
    }

    #[track_caller]
    fn assert_refused(opened: io::Result<File>) {
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn an_older_file_is_replaced_with_its_permissions() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = directory();
        let [path, other] = ["file", "other"].map(|name| directory.path().join(name));
        fs::write(&path, "older").unwrap();
        // Another name of the older file keeps what it had.
        fs::hard_link(&path, &other).unwrap();
        let mut file = create_replacing(&path, 0o600).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_to_string(&other).unwrap(), "older");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn no_file_is_created_where_a_link_leads() {
        let directory = directory();
        let [link, target] = ["link", "target"].map(|name| directory.path().join(name));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert_refused(create_replacing(&link, 0o600));
        assert!(!target.exists());
    }

    #[test]
    fn a_file_to_which_a_link_leads_is_neither_replaced_nor_opened() {
        let directory = directory();
        let [link, target] = ["link", "target"].map(|name| directory.path().join(name));
        fs::write(&target, "content").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert_refused(create_replacing(&link, 0o600));
        assert_refused(lock(&link));
        assert_eq!(fs::read_to_string(&target).unwrap(), "content");
    }

    #[test]
    fn a_pipe_is_refused_at_once() {
        let directory = directory();
        let pipe = directory.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        assert_refused(create_replacing(&pipe, 0o600));
        assert_refused(lock(&pipe));
    }

    #[test]
    fn a_pipe_that_somebody_reads_is_refused() {
        let directory = directory();
        let pipe = directory.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let mut options = OpenOptions::new();
        let _reader = (options.read(true).custom_flags(libc::O_NONBLOCK))
            .open(&pipe)
            .unwrap();
        assert_refused(create_replacing(&pipe, 0o600));
        assert_refused(lock(&pipe));
    }

    #[test]
    fn a_socket_is_refused() {
        let directory = directory();
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_refused(create_replacing(&socket, 0o600));
        assert_refused(lock(&socket));
    }

    #[test]
    fn a_device_is_not_opened() {
        assert_refused(lock(Path::new("/dev/zero")));
    }

    #[test]
    fn only_a_file_is_read_also_by_a_link() {
        let directory = directory();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| directory.path().join(name));
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), directory.path()] {
            let error = read_regular(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_regular(&link).unwrap(), "text");
    }

    #[test]
    fn a_file_is_created_and_opened_again() {
        let directory = directory();
        let path = directory.path().join("lock");
        lock(&path).unwrap().write_all(b"kept").unwrap();
        lock(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    }
}
