//! Errors of the forwarder and of captures.

use std::{io, path::PathBuf};

use regatta_model::reason;

use regatta_emulation::LinkError;

/// Failed start of the forwarder, or request to it that failed.
#[derive(Debug, thiserror::Error)]
pub enum ForwarderError {
    /// No thread could be started.
    #[error("cannot start a thread of the path's")]
    Thread(#[source] io::Error),
    /// The forwarder's thread is not there any more.
    #[error("the forwarding thread ended")]
    Ended,
    /// No link can have these settings.
    #[error("the {direction} link of condition `{condition}` cannot be emulated")]
    Link {
        /// Name of the condition.
        condition: String,
        /// `forward` or `reverse`.
        direction: &'static str,
        /// The setting that is impossible.
        source: LinkError,
    },
    /// The emulation has forgotten a packet or counted one twice.
    #[error(
        "the {direction} link has taken {came} packets and accounts for {accounted}: its counters are wrong"
    )]
    Unaccounted {
        /// `forward` or `reverse`.
        direction: &'static str,
        /// Packets that came in, copies included.
        came: u64,
        /// Packets that left, were dropped or are under way.
        accounted: u64,
    },
    /// The file of a capture cannot be created or written.
    #[error("{}", reason::cannot_write_capture(&path.display().to_string()))]
    Capture {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}
