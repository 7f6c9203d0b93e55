//! The encryption layer below the commands, separate for each connection and direction.
//!
//! A side begins with a prologue in clear: `e`, the cipher, sixteen random bytes, and the tag
//! interval in bytes. Everything after it is one stream of AES-128 in counter mode. With GCM, tags
//! stand in clear inside of the stream; each covers all bytes since the IV was set, so a tag is
//! computed on a copy of the cipher's state while the stream goes on. The nonce is the first twelve
//! of the sixteen bytes.

mod cipher;
mod open;
mod seal;

use std::fmt;

pub use open::Open;
pub use seal::Seal;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// Bytes of an initialisation vector.
pub const IV_BYTES: usize = 16;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;
/// The first byte of a prologue.
pub const PROLOGUE: u8 = b'e';
/// Bytes of a prologue: the command, the cipher, the IV with its length, the tag interval.
pub const PROLOGUE_BYTES: usize = 2 + 1 + IV_BYTES + 4;
/// Default tag interval, in bytes.
pub const DEFAULT_TAG_INTERVAL_BYTES: u32 = 4 << 20;
/// Default number of bytes after which a new IV is sent.
pub const DEFAULT_IV_CHANGE_BYTES: u64 = 32 << 30;

/// Encryption algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-128 in counter mode, which does not detect changed bytes.
    Aes128Ctr = 1,
    /// AES-128 in Galois/counter mode, with a tag at every interval.
    Aes128Gcm = 2,
}

impl Cipher {
    /// Returns the protocol's number of the cipher.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the cipher of a number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        let all = [Cipher::Aes128Ctr, Cipher::Aes128Gcm];
        all.into_iter().find(|cipher| cipher.code() == code)
    }
}

/// A secret key; `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// Returns the key of these bytes.
    #[must_use]
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for the connection URL.
    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Encryption parameters that both ends of a connection share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// The cipher.
    pub cipher: Cipher,
    /// The key, from the connection URL.
    pub key: Key,
    /// Number of bytes under one IV after which a new one is sent; 0 for never.
    pub iv_change_bytes: u64,
}

impl Secret {
    /// Returns the parameters of a transfer with a key from the system's random number generator.
    ///
    /// # Errors
    /// [`CryptoError::Library`] if there are no random numbers.
    pub fn random(cipher: Cipher, iv_change_bytes: u64) -> Result<Self, CryptoError> {
        let key = Key(cipher::random()?);
        Ok(Self {
            cipher,
            key,
            iv_change_bytes,
        })
    }
}

/// Position of a direction between its tags and changes of the IV.
#[derive(Default)]
struct Position {
    /// Bytes between tags; 0 for none.
    interval: u64,
    /// Number of bytes under one IV after which a new one is sent; 0 for never.
    iv_change: u64,
    /// Number of plain bytes, without tags and IVs.
    bytes: u64,
    /// Bytes since the IV was set.
    under_iv: u64,
}

impl Position {
    /// Caps `most` at the number of bytes before the next tag.
    fn before_tag(&self, most: usize) -> usize {
        match self.interval {
            0 => most,
            interval => most.min((interval - self.bytes % interval) as usize),
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.under_iv += bytes as u64;
    }

    /// Whether a tag stands before the next byte.
    fn at_tag(&self) -> bool {
        self.bytes > 0 && self.bytes.is_multiple_of(self.interval)
    }

    /// Whether a new IV follows the tag that stands here.
    fn changes_iv(&self) -> bool {
        self.iv_change != 0 && self.under_iv + self.interval > self.iv_change
    }

    /// Whether a direction that ends here does so with a tag.
    fn ends_with_tag(&self, cipher: Cipher) -> bool {
        cipher == Cipher::Aes128Gcm && self.bytes > 0
    }
}

/// Error of the encryption layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// The peer did not begin with a prologue.
    #[error("the peer does not encrypt, which the connection URL asks for")]
    Plaintext,
    /// The prologue names another cipher, or is none of version 32.
    #[error("the peer encrypts otherwise than the connection URL asks for")]
    Prologue,
    /// The bytes are not those that the peer sent, or the keys differ.
    #[error("an authentication tag does not match")]
    Tag,
    /// More bytes under one IV than the cipher is safe for, or a fault of the library.
    #[error("the cipher failed")]
    Library,
}

#[cfg(test)]
mod tests;
