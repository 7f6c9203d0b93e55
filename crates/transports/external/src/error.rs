//! What programs do wrong.

use std::{io, time::Duration};

use regatta_model::units::format_duration;
use regatta_transport::{TransportError, Unsupported};

/// What a program did wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// It could not be started.
    #[error("it cannot be started")]
    Start(#[source] io::Error),
    /// It ended before it was done.
    #[error("it {how} before it was done")]
    Ended {
        /// `ended with exit code 1`, `was ended by signal 9`.
        how: String,
        /// What it wrote last to standard error.
        #[source]
        words: Option<LastWords>,
    },
    /// It said nothing for too long.
    #[error("it did not say `{what}` within {}", format_duration(*within))]
    Silent {
        /// What was waited for.
        what: &'static str,
        /// How long.
        within: Duration,
        /// What it wrote last to standard error.
        #[source]
        words: Option<LastWords>,
    },
    /// A line of its output is not of the contract.
    #[error("it wrote a line that is not of the contract: `{line}`")]
    Rubbish {
        /// The line's beginning.
        line: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A line of its output is too long.
    #[error("it wrote a line of more than {limit} bytes")]
    TooLong {
        /// Longest line that is read.
        limit: u64,
    },
    /// It said something that does not belong there.
    #[error("it said `{said}` {when}")]
    OutOfTurn {
        /// What.
        said: &'static str,
        /// `before it was ready`.
        when: &'static str,
    },
    /// It says what cannot be.
    #[error("{0}")]
    Wrong(String),
    /// It does not read what it is told.
    #[error("it cannot be told anything")]
    Deaf(#[source] io::Error),
}

/// What a program wrote last to standard error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its last words: `{0}`")]
pub(crate) struct LastWords(pub String);

/// Why there is no more to be heard of a program.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The host raised the trial's stop.
    Cancelled,
    /// It cannot do here what it was asked for.
    Unsupported(Unsupported),
    /// It did something wrong.
    Program(ProgramError),
}

impl From<ProgramError> for Broken {
    fn from(error: ProgramError) -> Self {
        Self::Program(error)
    }
}

impl Broken {
    /// As a driver says it.
    pub(crate) fn explain(self, program: &str) -> TransportError {
        match self {
            Self::Cancelled => TransportError::Cancelled,
            Self::Unsupported(unsupported) => TransportError::Unsupported(unsupported),
            Self::Program(error) => {
                TransportError::stack(format!("the program `{program}` failed"))(error)
            }
        }
    }
}
