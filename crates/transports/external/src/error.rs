//! Errors of external programs.

use std::{io, path::Path, time::Duration};

use regatta_model::{Phrase, reason, units::format_duration};
use regatta_transport::TransportError;

/// Error of a program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// The program could not be started.
    #[error("it cannot be started")]
    Start(#[source] io::Error),
    /// The program ended before it was done.
    #[error("it {how} before it was done")]
    Ended {
        /// `ended with exit code 1`, `was ended by signal 9`.
        how: Phrase,
        /// Its last lines on standard error.
        #[source]
        stderr: Option<StderrTail>,
    },
    /// The program sent nothing for too long.
    #[error("it sent no `{what}` within {}", format_duration(*within))]
    Timeout {
        /// Message that was waited for.
        what: &'static str,
        /// Duration of the wait.
        within: Duration,
        /// Its last lines on standard error.
        #[source]
        stderr: Option<StderrTail>,
    },
    /// A line of its output does not follow the contract.
    #[error("it wrote a line that is not of the contract: `{line}`")]
    Malformed {
        /// Beginning of the line.
        line: String,
        /// Error of the JSON parser.
        #[source]
        source: serde_json::Error,
    },
    /// A line of its output is too long.
    #[error("it wrote a line of more than {limit} bytes")]
    TooLong {
        /// Longest line that is read, in bytes.
        limit: u64,
    },
    /// The program sent a message at the wrong time.
    #[error("it sent `{message}` {when}")]
    UnexpectedMessage {
        /// Type of the message.
        message: &'static str,
        /// Text of the time: `before it was ready`.
        when: &'static str,
    },
    /// The program sent an impossible value.
    #[error("{0}")]
    Invalid(String),
    /// The program does not read its input.
    #[error("its standard input cannot be written")]
    StdinClosed(#[source] io::Error),
}

/// Last lines that a program wrote to standard error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.phrase())]
pub(crate) struct StderrTail(pub String);

impl StderrTail {
    /// Returns the lines with what they are.
    pub(crate) fn phrase(&self) -> Phrase {
        reason::last_stderr(&self.0)
    }
}

/// Reason why a program cannot be used any further.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum ProgramFailure {
    /// Not the program's fault: it does not support the request on this host, the host raised the trial's stop, or the
    /// other end failed.
    Transport(#[from] TransportError),
    /// The program failed or broke the contract.
    Program(#[from] ProgramError),
}

impl ProgramFailure {
    /// Returns the error of a program that sent an impossible value.
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        ProgramError::Invalid(what.into()).into()
    }

    /// Converts to the error of a driver, with the program's name.
    pub(crate) fn explain(self, program: &Path) -> TransportError {
        match self {
            Self::Transport(error) => error,
            Self::Program(error) => {
                let program = program.display();
                TransportError::stack(format!("the program `{program}` failed"))(error)
            }
        }
    }
}
