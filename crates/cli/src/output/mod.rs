//! Writing to the terminal: results on standard output, everything else on standard error.

pub mod charset;
pub mod line_output;
pub mod typeset;

use std::io::{self, IsTerminal, Write};

use regatta_model::{Warning, shell::printable};
use regatta_process::write_line;
use serde::Serialize;

use self::charset::encoded;
use crate::{
    args::ColorChoice,
    exit::{Code, Result},
};

/// Use of colour on each of the two outputs.
#[derive(Debug, Clone, Copy)]
pub struct Colour {
    /// Whether standard output is coloured.
    pub stdout: bool,
    /// Whether standard error is coloured.
    pub stderr: bool,
}

impl Colour {
    /// Decides from the option, `NO_COLOR` (<https://no-color.org>), and the kind of the outputs.
    pub fn new(choice: ColorChoice) -> Self {
        let silenced = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let decide = |terminal: bool| match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !silenced,
        };
        Self {
            stdout: decide(io::stdout().is_terminal()),
            stderr: decide(io::stderr().is_terminal()),
        }
    }
}

/// Error of writing to standard output.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct OutputError(#[from] io::Error);

/// Writes the result of a command that measures nothing else.
///
/// # Errors
/// As [`out`].
pub fn show(text: &str) -> Result<Code> {
    out(text)?;
    Ok(Code::Measured)
}

/// Writes text to standard output, with characters that control a terminal replaced.
///
/// # Errors
/// As [`exactly`].
pub fn out(text: &str) -> Result<()> {
    Ok(coloured(&printable(text))?)
}

/// Writes lines to standard output as they come, without control characters, until the reader
/// closes its end.
///
/// # Errors
/// As [`exactly`].
pub fn lines(lines: impl Iterator<Item = String>) -> Result<()> {
    exact_lines(lines.map(|line| Ok(encoded(&printable(&line)).to_string())))
}

/// Writes a value as a line of JSON to standard output.
///
/// # Errors
/// As [`exactly`].
pub fn json_line(value: &impl Serialize) -> Result<(), OutputError> {
    ignore_broken_pipe(write_line(&mut io::stdout().lock(), value))
}

/// Writes each value as a line of JSON to standard output as they come, until the reader closes its end.
///
/// # Errors
/// As [`exactly`].
pub fn json_lines<T: Serialize>(values: impl Iterator<Item = T>) -> Result<()> {
    exact_lines(values.map(|value| Ok(serde_json::to_string(&value)?)))
}

/// Returns a value as JSON for people and programs, with a line break at its end.
///
/// # Errors
/// A value that has no form in JSON.
pub fn pretty(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Writes a value as JSON to standard output, for people, too.
///
/// # Errors
/// As [`exactly`].
pub fn json(value: &impl Serialize) -> Result<Code> {
    exactly(&pretty(value)?)?;
    Ok(Code::Measured)
}

fn exact_lines(mut lines: impl Iterator<Item = io::Result<String>>) -> Result<()> {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    let written = lines
        .try_for_each(|line| writeln!(stdout, "{}", line?))
        .and_then(|()| stdout.flush());
    if written.is_err() {
        // Without this, dropping the writer would write the rest again.
        let _ = stdout.into_parts();
    }
    Ok(ignore_broken_pipe(written)?)
}

/// Formats a number with its noun: `1 trial`, `2 trials`.
pub fn counted(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Writes text that may have colours to standard output.
///
/// # Errors
/// As [`exactly`].
pub fn coloured(text: &str) -> Result<(), OutputError> {
    exactly(&encoded(text))
}

/// Writes output for a program to standard output, in UTF-8. A closed reader (`| head`) is no
/// error.
///
/// # Errors
/// Any other error of the output, such as a full disk behind a redirection.
pub fn exactly(text: &str) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    ignore_broken_pipe(written.and_then(|()| stdout.flush()))
}

/// Returns an error of standard output, unless its reader has closed its end.
///
/// # Errors
/// As [`exactly`].
pub fn ignore_broken_pipe(written: io::Result<()>) -> Result<(), OutputError> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Writes a warning and its hint to standard error.
pub fn warn(warning: &Warning) {
    err(&in_lines(warning));
}

/// Returns a warning and its hint, a line for each.
pub fn in_lines(warning: &Warning) -> String {
    match &*warning.hint {
        "" => format!("warning: {}", warning.message),
        hint => format!("warning: {}\nhint: {hint}", warning.message),
    }
}

/// Writes a line to standard error, with characters that control a terminal replaced. An error of
/// this cannot be reported anywhere.
pub fn err(line: &str) {
    styled(&printable(line));
}

/// Writes a line that may have colours to standard error.
pub fn styled(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", encoded(line));
}

/// Returns the width of the terminal in columns; 100 without a terminal.
pub fn width() -> u16 {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    columns
        .or_else(|| terminal_size::terminal_size().map(|(width, _)| width.0))
        .unwrap_or(100)
        .clamp(60, 240)
}
