//! The protocol's error codes, which are exit codes of its programs too.

use std::fmt;

/// Outcome of a transfer, in the protocol's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is what its message below says")]
pub enum Status {
    Ok = 0,
    Error = 1,
    Abort = 2,
    Connection = 3,
    ConnectionRetryable = 4,
    SocketRead = 5,
    SocketWrite = 6,
    SourceRead = 7,
    FileWrite = 8,
    Memory = 9,
    Protocol = 10,
    VersionMismatch = 11,
    IdMismatch = 12,
    ChecksumMismatch = 13,
    VersionIncompatible = 16,
    InvalidCheckpoint = 23,
    NoProgress = 24,
    Timeout = 26,
    Encryption = 28,
}

/// Every code that has a name here, in the protocol's order, with its description.
const ALL: [(Status, &str); 19] = [
    (Status::Ok, "the transfer is complete"),
    (Status::Error, "the transfer failed"),
    (Status::Abort, "the transfer was aborted"),
    (Status::Connection, "a connection could not be made or kept"),
    (
        Status::ConnectionRetryable,
        "a connection could not be made yet",
    ),
    (Status::SocketRead, "reading from a connection failed"),
    (Status::SocketWrite, "writing to a connection failed"),
    (Status::SourceRead, "reading a file failed at the sender"),
    (Status::FileWrite, "writing a file failed at the receiver"),
    (Status::Memory, "memory ran out"),
    (Status::Protocol, "the peer broke the protocol"),
    (
        Status::VersionMismatch,
        "the peer speaks another version of the protocol",
    ),
    (Status::IdMismatch, "the peer belongs to another transfer"),
    (Status::ChecksumMismatch, "a checksum did not match"),
    (
        Status::VersionIncompatible,
        "there is no common version of the protocol",
    ),
    (
        Status::InvalidCheckpoint,
        "the peer's checkpoint contradicts what was sent",
    ),
    (
        Status::NoProgress,
        "connections were made again without any progress",
    ),
    (Status::Timeout, "the peer did not answer in time"),
    (Status::Encryption, "encryption failed or was not agreed on"),
];

impl Status {
    /// Returns the code on the wire, which is also the exit status of the tool.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the status of a code from the wire; a code without a name here is a general
    /// [`Status::Error`].
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        let mut known = ALL.into_iter().map(|(status, _)| status);
        known
            .find(|status| status.code() == code)
            .unwrap_or(Status::Error)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = ALL.iter().find(|(status, _)| status == self);
        let message = row.map_or("", |(_, message)| message);
        write!(f, "{message} (WDT error {})", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_protocols_and_come_back() {
        for (status, message) in ALL {
            assert_eq!(Status::from_code(status.code()), status);
            assert!(status.to_string().starts_with(message), "{status}");
        }
        assert_eq!(Status::IdMismatch.code(), 12);
        assert_eq!(Status::Encryption.code(), 28);
        assert_eq!(Status::from_code(200), Status::Error);
    }
}
