//! Text files that a user names: studies, traces, lists of losses.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, unix::fs::OpenOptionsExt as _},
    path::Path,
    time::Duration,
};

use nix::fcntl::OFlag;
use regatta_process::readable;

use crate::output;

/// Largest file that is read, in bytes.
const LARGEST_BYTES: usize = 16 << 20;

/// Time without data after which the wait is reported.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// Time without data after which reading is given up.
const LIMIT: Duration = Duration::from_secs(30);

/// Reason for which a file cannot be used as text.
#[derive(Debug, thiserror::Error)]
pub enum TextFileError {
    /// Error of the system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// File larger than any of its kind.
    #[error("it is larger than 16 MiB")]
    TooLarge,
    /// File that is not UTF-8.
    #[error("line {line} is not UTF-8 text")]
    NotText {
        /// Line of the first wrong byte, from 1.
        line: usize,
    },
    /// Pipe whose other end writes nothing.
    #[error("it is a pipe from which nothing came for {} s", LIMIT.as_secs())]
    Silent,
}

/// Reads a whole text file. A pipe is read as long as data comes from it; a notice is printed for one
/// that is silent for a second.
///
/// # Errors
/// See [`TextFileError`].
pub fn read(path: &Path) -> Result<String, TextFileError> {
    let bytes = if path.metadata()?.is_file() {
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        file.take(LARGEST_BYTES as u64 + 1)
            .read_to_end(&mut bytes)?;
        bytes
    } else {
        collect(&open(path)?, (NOTICE_AFTER, LIMIT), || {
            output::err(&format!(
                "waiting for `{}`, a pipe from which nothing comes; it is given up after {} s",
                path.display(),
                LIMIT.as_secs()
            ));
        })?
    };
    if bytes.len() > LARGEST_BYTES {
        return Err(TextFileError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        TextFileError::NotText {
            line: 1 + valid.iter().filter(|byte| **byte == b'\n').count(),
        }
    })
}

/// Opens a pipe or a device without waiting for its other end.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK.bits();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Reads until the end, or until there is more than a file may have. Calls `on_notice` after `notice_after` without
/// data; `limit` without data ends the wait.
fn collect(
    mut file: &File,
    (notice_after, limit): (Duration, Duration),
    mut on_notice: impl FnMut(),
) -> Result<Vec<u8>, TextFileError> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    while bytes.len() <= LARGEST_BYTES {
        let has_data = |within| readable(&[file.as_fd()], Some(within));
        if !has_data(notice_after)? {
            on_notice();
            if !has_data(limit.saturating_sub(notice_after))? {
                return Err(TextFileError::Silent);
            }
        }
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => bytes.extend(&chunk[..length]),
            // Another reader of the pipe was faster.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    fn read_bytes(bytes: &[u8]) -> Result<String, TextFileError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, bytes).expect("written");
        read(&path)
    }

    #[test]
    fn non_utf8_file_is_refused_with_its_line() {
        assert_eq!(read_bytes("ä\n".as_bytes()).expect("text"), "ä\n");
        let error = read_bytes(b"one\ntwo\nth\xffree\n").expect_err("no text");
        assert_eq!(error.to_string(), "line 3 is not UTF-8 text");
        let error = read_bytes(&vec![b'\n'; LARGEST_BYTES + 1]).expect_err("too large");
        assert!(matches!(error, TextFileError::TooLarge));
        assert!(matches!(
            read(Path::new("/dev/zero")),
            Err(TextFileError::TooLarge)
        ));
    }

    #[test]
    fn pipe_is_read_to_its_end_and_a_silent_one_times_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pipe");
        mkfifo(&path, Mode::from_bits_truncate(0o600)).expect("a pipe");
        let brief = (Duration::from_millis(5), Duration::from_millis(10));
        let mut notices = 0;
        let silent = collect(&open(&path).expect("a pipe"), brief, || notices += 1);
        assert!(matches!(silent, Err(TextFileError::Silent)), "{silent:?}");
        assert_eq!(notices, 1);

        let writer = path.clone();
        let writer = std::thread::spawn(move || std::fs::write(writer, "name = \"x\"\n"));
        assert_eq!(read(&path).expect("text"), "name = \"x\"\n");
        writer.join().expect("no panic").expect("written");
    }
}
