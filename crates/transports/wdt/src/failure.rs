//! Why a transfer failed, as both ends say it.

use crate::status::Status;

/// A transfer's end other than success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}: {status}")]
pub struct Failure {
    /// The protocol's code; the exit status of the tool.
    pub status: Status,
    /// What happened, at which port or file.
    pub detail: String,
}

impl Failure {
    /// A failure with this code.
    pub fn new(status: Status, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
        }
    }
}

/// How one port fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReport {
    /// The receiver's port.
    pub port: u16,
    /// Whole blocks that were counted on it.
    pub blocks: u64,
    /// How often its connection was made.
    pub connections: u32,
    /// Why the port was given up, if it was.
    pub failure: Option<Failure>,
}

/// What a transfer came to. There may be failed ports in it; blocks of theirs went over others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Blocks of the transfer.
    pub blocks: u64,
    /// Bytes of the transfer's files.
    pub bytes: u64,
    /// Bytes of payload that went over connections, with those that went more than once.
    pub payload_bytes: u64,
    /// In the order of the ports in the connection URL.
    pub ports: Vec<PortReport>,
}
