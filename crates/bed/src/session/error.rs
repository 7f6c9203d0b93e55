//! Errors of a session.

use std::{io, time::Duration};

/// Maximum number of bytes that may come before the server's greeting: output of login scripts.
pub(super) const MAX_BEFORE_GREETING: usize = 1 << 20;

/// Errors of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The carrier could not be started.
    #[error("cannot start `{what}`")]
    Spawn {
        /// Name of the program.
        what: String,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The carrier ended before the greeting of the server.
    #[error("{reason}")]
    Ended {
        /// Tail of the carrier's stderr, or its exit status.
        reason: String,
        /// Exit code of a carrier that wrote no line about its end.
        silent_code: Option<i32>,
    },
    /// No greeting came.
    #[error("the host sent no greeting within {} s", within.as_secs())]
    Silent {
        /// Longest time without a line.
        within: Duration,
    },
    /// Too much came before the greeting.
    #[error("the host's login scripts wrote more than {} KiB", MAX_BEFORE_GREETING >> 10)]
    Noise,
    /// The server has another version of the frames.
    #[error(
        "Regatta {theirs} on the host has another version of the session's protocol than Regatta {}",
        env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// Version of Regatta on the host.
        theirs: String,
    },
    /// The carrier ended during a dialogue before the greeting.
    #[error("{reason}")]
    Interrupted {
        /// Tail of the carrier's stderr.
        reason: String,
        /// Error of the dialogue.
        during: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A dialogue before the greeting failed.
    #[error(transparent)]
    Bootstrap(Box<dyn std::error::Error + Send + Sync>),
}
