//! Writing to the terminal: results on standard output, everything else on standard error.

use std::io::{self, IsTerminal, Write};

use crate::args::ColorChoice;

/// Which of the two outputs may be coloured.
#[derive(Debug, Clone, Copy)]
pub struct Colour {
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
}

impl Colour {
    /// Decides from the option, `NO_COLOR` (<https://no-color.org>), and what the outputs are.
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

/// Standard output takes no more.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct OutputError(#[from] io::Error);

/// Writes to standard output. A reader who has gone (`| head`) is no error: what he wanted he has.
///
/// # Errors
/// Any other error of the output, such as a full disk behind a redirection.
pub fn out(text: &str) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Writes a line to standard error. There is nowhere to report an error of this to.
pub fn err(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Columns of the terminal; 100 where there is none.
pub fn width() -> u16 {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    columns
        .or_else(|| terminal_size::terminal_size().map(|(width, _)| width.0))
        .unwrap_or(100)
        .clamp(60, 240)
}
