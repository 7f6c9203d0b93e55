//! Writing to the terminal: results on standard output, everything else on standard error.

use std::io::{self, IsTerminal, Write};

use regatta_model::shell::printable;

use crate::{args::ColorChoice, charset::encoded};

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

/// Writes text to standard output, with characters that control a terminal replaced.
///
/// # Errors
/// As [`exactly`].
pub fn out(text: &str) -> Result<(), OutputError> {
    coloured(&printable(text))
}

/// Writes lines to standard output as they come, without what a terminal would obey, until the reader
/// has gone.
///
/// # Errors
/// As [`exactly`].
pub fn lines(mut lines: impl Iterator<Item = String>) -> Result<(), OutputError> {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    let written = lines
        .try_for_each(|line| writeln!(stdout, "{}", encoded(&printable(&line))))
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // What could not be written would be tried once more.
            let _ = stdout.into_parts();
            Ok(())
        }
        result => Ok(result?),
    }
}

/// A number of things: `1 trial`, `2 trials`.
pub fn counted(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

/// Writes text that may have colours to standard output.
///
/// # Errors
/// As [`exactly`].
pub fn coloured(text: &str) -> Result<(), OutputError> {
    exactly(&encoded(text))
}

/// Writes output for a program to standard output, in UTF-8. A reader that is gone (`| head`) is no
/// error.
///
/// # Errors
/// Any other error of the output, such as a full disk behind a redirection.
pub fn exactly(text: &str) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    unless_gone(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
    )
}

/// Passes on an error of standard output, unless its reader is gone.
///
/// # Errors
/// As [`exactly`].
pub fn unless_gone(written: io::Result<()>) -> Result<(), OutputError> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Writes a line to standard error, with characters that control a terminal replaced. An error of
/// this cannot be reported anywhere.
pub fn err(line: &str) {
    styled(&printable(line));
}

/// Formats an error, its causes and its hint, for [`styled`].
pub fn failure(message: &str, causes: &[String], hint: &str, colour: bool) -> String {
    let (red, cyan, plain) = match colour {
        true => ("\x1b[1;31m", "\x1b[36m", "\x1b[0m"),
        false => ("", "", ""),
    };
    let mut text = format!("{red}error{plain}: {}", printable(message));
    for cause in causes {
        text.push_str(&format!("\n  caused by: {}", printable(cause)));
    }
    if !hint.is_empty() {
        text.push_str(&format!("\n{cyan}hint{plain}: {}", printable(hint)));
    }
    text
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
