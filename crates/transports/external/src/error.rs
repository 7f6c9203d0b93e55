//! Errors of external programs.

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use regatta_model::{Phrase, Problem, ProblemKind, Text, reason};
use regatta_transport::TransportError;

/// Error of a program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// The program could not be started.
    #[error("{}", reason::program_not_started())]
    Start(#[source] io::Error),
    /// The program ended before it was done.
    #[error("{}", reason::program_ended_early(.how.clone()))]
    Ended {
        /// Kind of the end: `ended with exit code 1`, `was ended by signal 9`.
        how: Phrase,
        /// Tail of the program's stderr.
        #[source]
        stderr: Option<StderrTail>,
    },
    /// The program sent nothing for too long.
    #[error("{}", reason::program_silent(.what, *.within))]
    Timeout {
        /// Message that was waited for.
        what: &'static str,
        /// Duration of the wait.
        within: Duration,
        /// Tail of the program's stderr.
        #[source]
        stderr: Option<StderrTail>,
    },
    /// A line of its output does not follow the contract.
    #[error("{}", reason::not_of_contract(.line))]
    Malformed {
        /// Beginning of the line.
        line: String,
        /// Error of the JSON parser.
        #[source]
        source: serde_json::Error,
    },
    /// A line of its output is too long.
    #[error("{}", reason::line_too_long(*.limit))]
    TooLong {
        /// Longest line that is read, in bytes.
        limit: u64,
    },
    /// The program sent a message at the wrong time.
    #[error("{}", reason::unexpected_message(.message, .when.clone()))]
    UnexpectedMessage {
        /// Type of the message.
        message: &'static str,
        /// The time: `before it was ready`.
        when: Phrase,
    },
    /// The program sent an impossible value.
    #[error("{0}")]
    Invalid(Phrase),
    /// The program does not read its input.
    #[error("{}", reason::stdin_closed())]
    StdinClosed(#[source] io::Error),
}

impl ProgramError {
    /// Returns the causes, outermost first.
    fn reasons(&self) -> Vec<Text> {
        let what = match self {
            Self::Start(_) => reason::program_not_started(),
            Self::Ended { how, .. } => reason::program_ended_early(how.clone()),
            Self::Timeout { what, within, .. } => reason::program_silent(what, *within),
            Self::Malformed { line, .. } => reason::not_of_contract(line),
            Self::TooLong { limit } => reason::line_too_long(*limit),
            Self::UnexpectedMessage { message, when } => {
                reason::unexpected_message(message, when.clone())
            }
            Self::Invalid(what) => what.clone(),
            Self::StdinClosed(_) => reason::stdin_closed(),
        };
        let cause = match self {
            Self::Ended { stderr, .. } | Self::Timeout { stderr, .. } => {
                stderr.as_ref().map(|stderr| stderr.phrase().into())
            }
            _ => self.source().map(|source| source.to_string().into()),
        };
        [what.into()].into_iter().chain(cause).collect()
    }
}

/// Last lines that a program wrote to standard error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.phrase())]
pub(crate) struct StderrTail {
    pub lines: String,
    /// File with all that it wrote there.
    pub file: Option<PathBuf>,
}

impl StderrTail {
    /// Returns the lines with what they are.
    pub(crate) fn phrase(&self) -> Phrase {
        match &self.file {
            Some(file) => reason::last_stderr_of(&self.lines, &file.display().to_string()),
            None => reason::last_stderr(&self.lines),
        }
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
    pub(crate) fn invalid(what: Phrase) -> Self {
        ProgramError::Invalid(what).into()
    }

    /// Converts to the error of a driver, with the program's name.
    pub(crate) fn explain(self, program: &Path) -> TransportError {
        match self {
            Self::Transport(error) => error,
            Self::Program(error) => {
                let program = program.display();
                let problem = Problem::new(ProblemKind::Failed, error.reasons(), "");
                TransportError::stack(reason::program_failed(&program.to_string()))(problem)
            }
        }
    }
}
