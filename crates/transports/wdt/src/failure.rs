//! Outcome of a transfer, the same types for both ends.

use crate::crypto::CryptoError;
use crate::status::Status;

/// Reason why a transfer failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}: {status}")]
pub struct Failure {
    /// The protocol's error code; also the exit status of the tool.
    pub status: Status,
    /// Description of the error, with the port or file concerned.
    pub detail: String,
}

impl Failure {
    /// Returns a failure with this code.
    pub fn new(status: Status, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
        }
    }
}

impl From<CryptoError> for Failure {
    fn from(error: CryptoError) -> Self {
        Self::new(Status::Encryption, error.to_string())
    }
}

/// Outcome of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortReport {
    /// The receiver's port.
    pub port: u16,
    /// Number of whole blocks counted on it.
    pub blocks: u64,
    /// Number of connections made to it.
    pub connections: u32,
    /// Reason why the port was given up, if it was.
    pub failure: Option<Failure>,
}

impl PortReport {
    /// Returns the report of a port without a connection.
    pub(crate) fn new(port: u16) -> Self {
        Self {
            port,
            ..Self::default()
        }
    }
}

/// Outcome of a successful transfer. Some of its ports may have failed; their blocks went over
/// others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Blocks of the transfer.
    pub blocks: u64,
    /// Bytes of the transfer's files.
    pub bytes: u64,
    /// Bytes of payload sent over connections, including those sent more than once.
    pub payload_bytes: u64,
    /// Outcomes of the ports, in the order of the connection URL.
    pub ports: Vec<PortReport>,
}
