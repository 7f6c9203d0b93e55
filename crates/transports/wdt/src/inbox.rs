//! Incoming bytes of a connection, decrypted and decoded as they arrive.

use crate::codec::{Decoded, Malformed};
use crate::crypto::{CryptoError, Open, Secret};

/// Error in the bytes received on a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Error of the encryption layer.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// Error of the codec.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Decoder of one connection's bytes into commands and payload.
pub(crate) struct Inbox {
    pub(crate) open: Open,
    /// Incomplete command; never longer than a command may be.
    command: Vec<u8>,
}

impl Inbox {
    pub(crate) fn new(secret: Option<&Secret>) -> Self {
        Self {
            open: Open::new(secret),
            command: Vec::new(),
        }
    }

    /// Returns the next command from `wire[*at..]`, or `None` when more bytes must arrive; no byte
    /// after the command is consumed.
    pub(crate) fn command<T>(
        &mut self,
        wire: &mut [u8],
        at: &mut usize,
        decode: impl Fn(&[u8]) -> Result<Decoded<T>, Malformed>,
    ) -> Result<Option<T>, WireError> {
        loop {
            match decode(&self.command)? {
                Decoded::Whole { value, .. } => {
                    self.command.clear();
                    return Ok(Some(value));
                }
                Decoded::Needs(more) => {
                    let plain = self.open.open(wire, at, more)?;
                    if plain.is_empty() {
                        return Ok(None);
                    }
                    self.command.extend_from_slice(plain);
                }
            }
        }
    }
}
