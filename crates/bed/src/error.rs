//! Errors of a bed.

use std::{error::Error, io, time::Duration};

use regatta_model::{Problem, ProblemKind, Text, reason, reasons};

use crate::exit::Exit;

/// Errors of creating a bed, or of a request to it.
#[derive(Debug, thiserror::Error)]
pub enum BedError {
    /// The daemon or an agent could not be started.
    #[error("{}", reason::cannot_start(.what))]
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
    #[error("{}", path_daemon_ended(.exit.as_ref()))]
    DaemonEnded {
        /// End of its process; `None` if that still runs.
        exit: Option<Exit>,
        /// Error of the pipe.
        source: io::Error,
    },
    /// The daemon gave no answer.
    #[error("{}", reason::path_daemon_silent(*.0))]
    TimedOut(Duration),
    /// A host does not answer.
    #[error("{}", reason::cannot_reach(.host))]
    Host {
        /// Name of the host.
        host: String,
        /// Reason, or the error of the stream to it.
        source: io::Error,
    },
    /// No session with a host could be opened.
    #[error("{}", reason::cannot_reach(.host))]
    Session {
        /// Name of the host.
        host: String,
        /// Reason, a [`SessionError`](crate::session::SessionError).
        source: Box<dyn Error + Send + Sync>,
        /// Command or setting that helps; may be empty.
        hint: Text,
    },
    /// The daemon's answer is not in its protocol.
    #[error("{}", reason::path_daemon_not_understood(.line))]
    Protocol {
        /// The answer, as it was received.
        line: String,
    },
    /// The daemon could not serve the request.
    #[error("the bed cannot {what}")]
    Refused {
        /// Request that failed.
        what: &'static str,
        /// Kind, causes and hint, as the daemon reported them.
        source: Problem,
    },
}

impl BedError {
    /// Makes the error of a request that this machine cannot do.
    pub(crate) fn refused(
        what: &'static str,
        reason: impl Into<Text>,
        hint: impl Into<Text>,
    ) -> Self {
        let source = Problem::new(ProblemKind::Unsupported, [reason], hint);
        Self::Refused { what, source }
    }

    /// Whether this machine cannot do what was asked for, rather than something having failed.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.kind == ProblemKind::Unsupported)
    }

    /// Returns a command or setting that helps; empty if none is known.
    #[must_use]
    pub fn hint(&self) -> Text {
        match self {
            Self::Refused { source, .. } => source.hint.clone(),
            Self::Session { hint, .. } => hint.clone(),
            _ => Text::default(),
        }
    }

    /// Returns the causes, outermost first; of a request that was refused only why.
    #[must_use]
    pub fn reasons(&self) -> Vec<Text> {
        let what = match self {
            Self::Refused { source, .. } => return source.reasons(),
            Self::Spawn { what, .. } => reason::cannot_start(what).into(),
            Self::DaemonEnded { exit, .. } => path_daemon_ended(exit.as_ref()),
            Self::TimedOut(within) => reason::path_daemon_silent(*within).into(),
            Self::Host { host, .. } | Self::Session { host, .. } => {
                reason::cannot_reach(host).into()
            }
            Self::Protocol { line } => reason::path_daemon_not_understood(line).into(),
            Self::Namespace { .. } => self.to_string().into(),
        };
        let causes = Error::source(self).map_or_else(Vec::new, reasons);
        [what].into_iter().chain(causes).collect()
    }
}

/// Returns the reason for a path daemon that has ended.
fn path_daemon_ended(exit: Option<&Exit>) -> Text {
    match exit {
        Some(exit) => reason::path_daemon_ended_with(exit.text()).into(),
        None => reason::path_daemon_ended().into(),
    }
}
