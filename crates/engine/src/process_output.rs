//! Output of processes: its lines, the last of them, and the threads that read it.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    thread::{Builder, JoinHandle},
};

use regatta_bed::{Exit, LaunchedProcess};
use regatta_model::{Text, reason, shell::printable};

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

impl ProcessEnd {
    /// Whether somebody outside of the run ended or stopped the process.
    pub(crate) fn is_from_outside(&self) -> bool {
        self.exit.as_ref().is_some_and(Exit::is_from_outside)
    }

    /// Returns a sentence about the end, if anything is known.
    pub(crate) fn description(&self) -> Option<Text> {
        let text = self.exit.as_ref()?.text();
        Some(match self.killed {
            true => text,
            false => reason::process_ended_with(text).into(),
        })
    }
}

/// Waits for a process whose input is closed, and kills it if it does not end.
pub(crate) fn end(mut process: Box<dyn LaunchedProcess>) -> ProcessEnd {
    let status = process.ended(limits::EXIT_LIMIT);
    ProcessEnd {
        killed: status.is_none(),
        exit: status.or_else(|| process.kill()),
    }
}

/// Last lines of the output of a process, which explain its end.
#[derive(Debug)]
pub(crate) struct LastLines {
    lines: VecDeque<String>,
    most: usize,
    /// Prefix of the lines on standard error if logs are enabled.
    prefix: &'static str,
}

impl LastLines {
    pub(crate) const fn new(most: usize, prefix: &'static str) -> Self {
        Self {
            lines: VecDeque::new(),
            most,
            prefix,
        }
    }

    /// Keeps a line instead of the oldest, and copies it to this process's standard error if logs are enabled.
    pub(crate) fn keep(&mut self, line: String) {
        if std::env::var_os("REGATTA_LOG").is_some() {
            eprintln!("{}{}", self.prefix, printable(&line));
        }
        if self.lines.len() == self.most {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Returns the lines as one text, if there are any.
    pub(crate) fn description(&self) -> Option<Text> {
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        (!lines.is_empty()).then(|| reason::last_lines(&lines.join(" / ")).into())
    }
}
