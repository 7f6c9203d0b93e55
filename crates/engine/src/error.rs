//! Why a run stopped before its end.

use regatta_bed::{BedError, Reported, guest::GuestError};

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
    /// No guest could be started.
    #[error("cannot start a guest")]
    NoGuest(#[from] GuestError),
    /// Outside and inside of a guest do not understand one another.
    #[error("cannot understand what was said between a guest and the controller")]
    Mission {
        /// What the parser said.
        source: serde_json::Error,
    },
    /// The guest could not be made, or what runs in it could not go on.
    #[error("the guest cannot run the study")]
    Guest {
        /// The causes.
        source: Reported,
        /// What to type next; may be empty.
        hint: String,
        /// Whether it is what this machine or kernel cannot do, rather than something that failed.
        unsupported: bool,
    },
    /// Somebody stopped the run before it had begun.
    #[error("stopped by the user before anything was measured")]
    Stopped,
    /// A listener could not take note of what was measured, so the run stopped.
    #[error("cannot keep what was measured")]
    Listener {
        /// What it said.
        source: ListenerError,
    },
}

impl EngineError {
    /// From what a guest told, outermost cause first.
    pub(crate) fn guest(reasons: &[String], hint: String, unsupported: bool) -> Self {
        let source =
            Reported::chain(reasons).unwrap_or_else(|| Reported::from("it did not say why"));
        Self::Guest {
            source,
            hint,
            unsupported,
        }
    }
}
