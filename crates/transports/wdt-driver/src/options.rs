//! Options of the driver `wdt`.

use regatta_transport::{OptionDefinition, OptionKind, OptionValues, options};
use regatta_transport_wdt::crypto::Cipher;

// The defaults are those of the reference.
pub(crate) const CONNECTIONS: OptionDefinition = options::number(
    "connections",
    (1, 64),
    "8",
    "number of TCP connections, each to its own port",
);

pub(crate) const BLOCK_SIZE: OptionDefinition = OptionDefinition {
    name: "block_size",
    kind: OptionKind::Size,
    default: "16MiB",
    help: "largest part of a file that is sent over one connection at a time",
};

pub(crate) const ENCRYPTION: OptionDefinition = OptionDefinition {
    name: "encryption",
    kind: OptionKind::OneOf(&["none", "aes128-ctr", "aes128-gcm"]),
    default: "none",
    help: "encryption of each connection",
};

pub(crate) const CHECKSUM: OptionDefinition =
    options::flag("checksum", false, "whether a CRC-32C follows each block");

pub(crate) const FILES: OptionDefinition = options::number(
    "files",
    (1, 100_000),
    "1",
    "number of files that the content is divided into; several make a directory tree",
);

/// Options of the driver, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub connections: u16,
    pub block_bytes: u64,
    pub cipher: Option<Cipher>,
    pub checksum: bool,
    pub files: u64,
}

impl Options {
    /// Parses options that were checked.
    pub(crate) fn new(options: &OptionValues) -> Self {
        Self {
            connections: CONNECTIONS.number(options).unwrap_or(1),
            block_bytes: BLOCK_SIZE.size(options).unwrap_or_default(),
            cipher: match ENCRYPTION.text(options) {
                Some("aes128-ctr") => Some(Cipher::Aes128Ctr),
                Some("aes128-gcm") => Some(Cipher::Aes128Gcm),
                _ => None,
            },
            checksum: CHECKSUM.flag(options),
            files: FILES.number(options).unwrap_or(1),
        }
    }
}
