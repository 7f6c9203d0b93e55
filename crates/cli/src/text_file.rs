//! Text files that a user names: studies, traces, lists of losses.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::Duration,
};

use crate::output;

/// Largest file that is read, in bytes.
const LARGEST_BYTES: usize = 16 << 20;

/// Time without data after which the user is told of the wait.
const TELL_AFTER: Duration = Duration::from_secs(1);

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

/// Reads a whole text file. A pipe is read as long as data comes from it; the user is told of one
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
        let shown = path.display().to_string();
        collect(&chunks_of(path)?, (TELL_AFTER, LIMIT), || {
            output::err(&format!(
                "waiting for `{shown}`, a pipe from which nothing comes; it is given up after {} s",
                LIMIT.as_secs()
            ));
        })?
    };
    if bytes.len() > LARGEST_BYTES {
        return Err(TextFileError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|error| {
        let sound = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        TextFileError::NotText {
            line: 1 + sound.iter().filter(|byte| **byte == b'\n').count(),
        }
    })
}

/// Reads a file in a thread of its own, since opening a pipe and reading from it block.
fn chunks_of(path: &Path) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let path = path.to_owned();
    let (chunks, received) = mpsc::channel();
    let failed = chunks.clone();
    let read = move || -> io::Result<()> {
        let mut file = File::open(&path)?;
        loop {
            let mut chunk = vec![0; 64 << 10];
            let length = file.read(&mut chunk)?;
            chunk.truncate(length);
            // Whoever has enough does not listen any more.
            if length == 0 || chunks.send(Ok(chunk)).is_err() {
                return Ok(());
            }
        }
    };
    std::thread::Builder::new()
        .name("text file".to_owned())
        .spawn(move || {
            if let Err(error) = read() {
                let _ = failed.send(Err(error));
            }
        })?;
    Ok(received)
}

/// Joins chunks until there are no more, or more than a file may have. `tell` is called after
/// `tell_after` without a chunk, and `limit` ends the wait.
fn collect(
    chunks: &Receiver<io::Result<Vec<u8>>>,
    (tell_after, limit): (Duration, Duration),
    mut tell: impl FnMut(),
) -> Result<Vec<u8>, TextFileError> {
    let mut bytes = Vec::new();
    while bytes.len() <= LARGEST_BYTES {
        let mut chunk = chunks.recv_timeout(tell_after);
        if matches!(chunk, Err(RecvTimeoutError::Timeout)) {
            tell();
            chunk = chunks.recv_timeout(limit.saturating_sub(tell_after));
        }
        match chunk {
            Ok(chunk) => bytes.extend(chunk?),
            Err(RecvTimeoutError::Timeout) => return Err(TextFileError::Silent),
            Err(RecvTimeoutError::Disconnected) => break,
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
    fn a_file_that_is_no_text_is_refused_with_its_line() {
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
    fn a_pipe_is_read_to_its_end_and_given_up_when_it_is_silent() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pipe");
        mkfifo(&path, Mode::from_bits_truncate(0o600)).expect("a pipe");
        let brief = (Duration::from_millis(5), Duration::from_millis(10));
        let mut told = 0;
        let chunks = chunks_of(&path).expect("a thread");
        let silent = collect(&chunks, brief, || told += 1);
        assert!(matches!(silent, Err(TextFileError::Silent)), "{silent:?}");
        assert_eq!(told, 1);
        // Opening it ends the wait of the thread above, which must not read what comes next.
        std::fs::write(&path, "late").expect("read by somebody");
        while chunks.recv().is_ok() {}

        let writer = path.clone();
        let writer = std::thread::spawn(move || std::fs::write(writer, "name = \"x\"\n"));
        assert_eq!(read(&path).expect("text"), "name = \"x\"\n");
        writer.join().expect("no panic").expect("written");
    }
}
