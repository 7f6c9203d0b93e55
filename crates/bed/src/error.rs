//! Errors of a bed.

use std::{fmt, io, process::ExitCode, time::Duration};

use regatta_model::{Text, causes};

use crate::session::SessionError;

/// Chain of causes that another process reported, outermost first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Reported {
    message: String,
    source: Option<Box<Reported>>,
}

impl Reported {
    /// Makes a chain of its messages; `None` if there are none.
    #[must_use]
    pub fn chain(reasons: &[String]) -> Option<Self> {
        let (last, others) = reasons.split_last()?;
        let chain = Self::from(&**last);
        let others = others.iter().rev().cloned();
        Some(others.fold(chain, Self::wrapped_in))
    }

    /// Returns a chain in which this is the cause of `message`.
    pub(crate) fn wrapped_in(self, message: String) -> Self {
        Self {
            message,
            source: Some(Box::new(self)),
        }
    }

    /// Names the host whose process reported this.
    pub(crate) fn of(self, host: &str) -> Self {
        Self {
            message: format!("{host}: {}", self.message),
            ..self
        }
    }
}

impl From<&str> for Reported {
    fn from(message: &str) -> Self {
        Self {
            message: message.to_owned(),
            source: None,
        }
    }
}

/// Returns an error and its causes in one line.
pub(crate) fn in_one_line(error: &dyn std::error::Error) -> String {
    causes(error).join(": ")
}

/// Returns the exit code of a process of this program, after printing an error with `doing` before it.
pub(crate) fn exit_code<E: fmt::Display>(result: Result<(), E>, doing: &str) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {doing}{error}");
            ExitCode::FAILURE
        }
    }
}

/// Errors of creating a bed, or of a request to it.
#[derive(Debug, thiserror::Error)]
pub enum BedError {
    /// The daemon or an agent could not be started.
    #[error("cannot start `{what}`")]
    Spawn {
        /// The command.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A namespace of the daemon's cannot be entered.
    #[error("cannot open the {what} of the bed")]
    Namespace {
        /// Kind of namespace.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The daemon ended, or its pipe broke.
    #[error("the path daemon ended{status}")]
    DaemonEnded {
        /// ` (exit status: 1)`, or nothing.
        status: String,
        /// Error of the pipe.
        source: io::Error,
    },
    /// The daemon gave no answer.
    #[error("the path daemon gave no answer within {0:?}")]
    TimedOut(Duration),
    /// A host does not answer.
    #[error("cannot reach {host}")]
    Host {
        /// Name of the host.
        host: String,
        /// Reason, or the error of the stream to it.
        source: io::Error,
    },
    /// No session with a host could be opened.
    #[error("cannot reach {host}")]
    Session {
        /// Name of the host.
        host: String,
        /// Reason.
        source: Box<SessionError>,
        /// Command or setting that helps; may be empty.
        hint: Text,
    },
    /// The daemon's answer is not in its protocol.
    #[error("the path daemon answered `{line}`, which this version does not understand")]
    Protocol {
        /// The answer, as it was received.
        line: String,
    },
    /// The daemon could not serve the request.
    #[error("the bed cannot {what}")]
    Refused {
        /// Request that failed.
        what: &'static str,
        /// The daemon's causes.
        source: Reported,
        /// Command or setting that helps; may be empty.
        hint: Text,
    },
}

impl BedError {
    /// Makes the error of a request that cannot be done.
    pub(crate) fn refused(
        what: &'static str,
        source: impl Into<Reported>,
        hint: impl Into<Text>,
    ) -> Self {
        Self::Refused {
            what,
            source: source.into(),
            hint: hint.into(),
        }
    }

    /// Returns a command or setting that helps; empty if none is known.
    #[must_use]
    pub fn hint(&self) -> Text {
        match self {
            Self::Refused { hint, .. } | Self::Session { hint, .. } => hint.clone(),
            _ => Text::default(),
        }
    }
}
