//! Files that Regatta itself has written.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use nix::fcntl::OFlag;

/// Reads a file of text whole. Anything else that has its name is refused: a pipe would be waited for, a device read without
/// an end.
///
/// # Errors
/// An error of the system, or [`io::ErrorKind::InvalidInput`].
pub fn read_regular(path: &Path) -> io::Result<String> {
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let mut file = options.open(path)?;
    if !file.metadata()?.is_file() {
        let message = "it is a directory, a device or a pipe, and no file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn a_pipe_and_a_device_are_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), directory.path()] {
            let error = read_regular(path).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::InvalidInput,
                "{}",
                path.display()
            );
        }
        let file = directory.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read_regular(&file).unwrap(), "text");
    }
}
