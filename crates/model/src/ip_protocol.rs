//! Protocols over IP that have ports.

use serde::{Deserialize, Serialize};

/// Protocol over IP by whose packets a transport sends. The ports of each are its own: a TCP and a UDP flow may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IpProtocol {
    /// Transmission Control Protocol.
    Tcp,
    /// User Datagram Protocol.
    Udp,
    /// Stream Control Transmission Protocol.
    Sctp,
}

impl IpProtocol {
    /// Returns the number in the header of IP.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}
