//! The protocol's error codes, which are exit codes of its programs too.

use std::fmt;

use strum::{EnumMessage, FromRepr};

/// Outcome of a transfer, in the protocol's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumMessage, FromRepr)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is what its message says")]
pub enum Status {
    #[strum(message = "the transfer is complete")]
    Ok = 0,
    #[strum(message = "the transfer failed")]
    Error = 1,
    #[strum(message = "the transfer was aborted")]
    Abort = 2,
    #[strum(message = "a connection could not be made or kept")]
    Connection = 3,
    #[strum(message = "a connection could not be made yet")]
    ConnectionRetryable = 4,
    #[strum(message = "reading from a connection failed")]
    SocketRead = 5,
    #[strum(message = "writing to a connection failed")]
    SocketWrite = 6,
    #[strum(message = "reading a file failed at the sender")]
    SourceRead = 7,
    #[strum(message = "writing a file failed at the receiver")]
    FileWrite = 8,
    #[strum(message = "memory ran out")]
    Memory = 9,
    #[strum(message = "the peer broke the protocol")]
    Protocol = 10,
    #[strum(message = "the peer speaks another version of the protocol")]
    VersionMismatch = 11,
    #[strum(message = "the peer belongs to another transfer")]
    IdMismatch = 12,
    #[strum(message = "a checksum did not match")]
    ChecksumMismatch = 13,
    #[strum(message = "there is no common version of the protocol")]
    VersionIncompatible = 16,
    #[strum(message = "the peer's checkpoint contradicts what was sent")]
    InvalidCheckpoint = 23,
    #[strum(message = "connections were made again without any progress")]
    NoProgress = 24,
    #[strum(message = "the peer did not answer in time")]
    Timeout = 26,
    #[strum(message = "encryption failed or was not agreed on")]
    Encryption = 28,
}

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
        Self::from_repr(code).unwrap_or(Status::Error)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.get_message().unwrap_or_default();
        write!(f, "{message} (WDT error {})", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_round_trip() {
        let mut named = 0;
        for code in 0..=u8::MAX {
            let Some(status) = Status::from_repr(code) else {
                continue;
            };
            named += 1;
            assert_eq!((status.code(), Status::from_code(code)), (code, status));
            let message = status.get_message().expect("every status has one");
            assert!(status.to_string().starts_with(message), "{status}");
        }
        assert_eq!(named, 19);
        assert_eq!(Status::IdMismatch.code(), 12);
        assert_eq!(Status::Encryption.code(), 28);
        assert_eq!(Status::from_code(200), Status::Error);
    }
}
