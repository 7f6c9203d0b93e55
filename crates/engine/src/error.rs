//! Why a run stopped before its end.

use regatta_bed::BedError;

use crate::{event::ListenerError, plan::TooManyTrials};

/// Why a run could not start or go on. Trials that fail do not end a run; these do.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The study asks for too many trials.
    #[error(transparent)]
    Plan(#[from] TooManyTrials),
    /// The bed cannot be used.
    #[error("the bed failed")]
    Bed(#[from] BedError),
    /// No agent could be started.
    #[error("cannot start an agent on host `{host}`: {reason}")]
    NoAgent {
        /// `a` or `b`.
        host: &'static str,
        /// What happened, causes after one another.
        reason: String,
    },
    /// No thread could be started.
    #[error("cannot start a thread")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
    /// No certificate could be made for the run.
    #[error("cannot make a certificate for the run")]
    Certificate {
        /// What the library said.
        source: rcgen::Error,
    },
    /// A listener could not take note of what was measured, so the run stopped.
    #[error("cannot keep what was measured")]
    Listener {
        /// What it said.
        source: ListenerError,
    },
}
