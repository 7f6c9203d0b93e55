//! Output of processes: its lines, and the threads that read it.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    thread::{Builder, JoinHandle},
};

use regatta_bed::{Exit, LaunchedProcess};

use crate::{error::EngineError, limits};

/// Starts a thread with a name.
pub(crate) fn spawn(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, EngineError> {
    let thread = Builder::new().name(name).spawn(work);
    thread.map_err(|source| EngineError::Thread { source })
}

/// Passes each line of an output to `take` until the output ends or `take` returns false. What is longer than `longest`
/// bytes is passed in parts.
///
/// # Errors
/// The output cannot be read.
pub(crate) fn each_line(
    output: File,
    longest: u64,
    mut take: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while (&mut output).take(longest).read_until(b'\n', &mut line)? > 0 && take(&line) {
        line.clear();
    }
    Ok(())
}

/// Returns the first characters of a line, for messages.
pub(crate) fn beginning(line: &[u8], characters: usize) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim_end().chars().take(characters).collect()
}

/// End of a process whose input was closed.
pub(crate) struct ProcessEnd {
    /// Whether it was killed, as it did not end by itself.
    pub killed: bool,
    /// How it ended, or why it did not, if that is known.
    pub exit: Option<Exit>,
}

/// Waits for a process whose input is closed, and kills it if it does not end.
pub(crate) fn end(mut process: Box<dyn LaunchedProcess>) -> ProcessEnd {
    let status = process.ended(limits::EXIT_LIMIT);
    ProcessEnd {
        killed: status.is_none(),
        exit: status.or_else(|| process.kill()),
    }
}
