//! Options of the driver `wdt`.

use regatta_model::Bytes;
use regatta_transport::{driver_options, options::Choice};
use regatta_transport_tcp::parts::SocketOptions;
use strum::{EnumString, VariantNames};
use wdt_protocol::crypto::Cipher;

driver_options! {
    /// Options of `wdt`, whose defaults are those of the reference.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Options {
        ..SocketOptions::{cc};
        connections: u16 [1..=64] = 8, "number of TCP connections, each to its own port";
        block_size: Bytes = "16MiB", "largest part of a file that is sent over one connection at a time";
        encryption: Encryption = "none", "encryption of each connection";
        checksum: bool = false, "whether a CRC-32C follows each block";
        files: u64 [1..=100_000] = 1, "number of files that the content is divided into; several make a directory tree";
    }
}

/// Encryption of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Encryption {
    /// None.
    None,
    /// AES-128 in counter mode.
    Aes128Ctr,
    /// AES-128 in Galois/counter mode.
    Aes128Gcm,
}

impl Choice for Encryption {
    const NAMES: &'static [&'static str] = Self::VARIANTS;
}

impl Encryption {
    /// Returns the protocol's cipher.
    pub(crate) fn cipher(self) -> Option<Cipher> {
        match self {
            Self::None => None,
            Self::Aes128Ctr => Some(Cipher::Aes128Ctr),
            Self::Aes128Gcm => Some(Cipher::Aes128Gcm),
        }
    }
}
