//! Errors that stop a run before its end.

use regatta_bed::{BedError, guest::GuestError};
use regatta_model::{Problem, Text, reason, reasons};

use crate::{event::ListenerError, plan::TooManyTrials};

/// Reasons why a run cannot start or go on. Trials that fail do not end a run; these errors do.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The study asks for too many trials.
    #[error(transparent)]
    Plan(#[from] TooManyTrials),
    /// The bed cannot be used.
    #[error("the bed failed")]
    Bed(#[from] BedError),
    /// An agent could not be started.
    #[error("{}", reason::cannot_start_agent(.host, .reason.clone()))]
    NoAgent {
        /// Name of the host: `a`, `b` or that of the hosts file.
        host: String,
        /// Error and its causes, one after another.
        reason: Text,
    },
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread {
        /// Error of the system.
        source: std::io::Error,
    },
    /// The random numbers of a guest could not be seeded.
    #[error("cannot seed the random numbers of the guest")]
    RandomNumbers {
        /// Error of the system.
        source: std::io::Error,
    },
    /// The certificate of the run could not be made.
    #[error("cannot make a certificate for the run")]
    Certificate(#[from] rcgen::Error),
    /// A guest could not be started.
    #[error("cannot start a guest")]
    NoGuest(#[from] GuestError),
    /// A message between the controller and a guest cannot be parsed.
    #[error("invalid message between a guest and the controller")]
    GuestMessage(#[from] serde_json::Error),
    /// The guest could not be started, or the run in it could not go on.
    #[error("the guest cannot run the study")]
    Guest(#[source] Problem),
    /// The run was stopped before it had begun.
    #[error("stopped by the user before anything was measured")]
    Stopped,
    /// A listener could not take note of a result, so the run stopped.
    #[error("cannot store the results")]
    Listener {
        /// Error of the listener.
        source: ListenerError,
    },
}

impl EngineError {
    /// Returns the causes, outermost first.
    pub(crate) fn reasons(&self) -> Vec<Text> {
        match self {
            Self::Bed(error) => error.reasons(),
            Self::Guest(problem) => problem.reasons(),
            Self::NoAgent { host, reason } => {
                vec![reason::cannot_start_agent(host, reason.clone()).into()]
            }
            _ => reasons(self),
        }
    }
}
