//! Incoming bytes of a connection, decrypted and decoded as far as they have arrived.

use crate::codec::{Decoded, Malformed};
use crate::crypto::{CryptoError, Open, Secret};
use crate::status::Status;

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

impl WireError {
    /// Returns the protocol's code of the error.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            WireError::Crypto(_) => Status::Encryption,
            WireError::Malformed(_) => Status::Protocol,
        }
    }
}

/// Decoder of one connection's bytes into commands and payload.
pub(crate) struct Inbox {
    open: Open,
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

    pub(crate) fn open(&self) -> &Open {
        &self.open
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
                    let opened = self.open.open(&mut wire[*at..], more)?;
                    let plain = *at + opened.plain.start..*at + opened.plain.end;
                    *at += opened.consumed;
                    if plain.is_empty() {
                        return Ok(None);
                    }
                    self.command.extend_from_slice(&wire[plain]);
                }
            }
        }
    }

    /// Decrypts at most `want` bytes of payload from `wire[*at..]` in place.
    pub(crate) fn payload<'a>(
        &mut self,
        wire: &'a mut [u8],
        at: &mut usize,
        want: usize,
    ) -> Result<&'a [u8], CryptoError> {
        let opened = self.open.open(&mut wire[*at..], want)?;
        let plain = *at + opened.plain.start..*at + opened.plain.end;
        *at += opened.consumed;
        Ok(&wire[plain])
    }

    /// Takes the tag that ends the stream; returns whether the stream is complete.
    pub(crate) fn end(&mut self, wire: &[u8], at: &mut usize) -> Result<bool, CryptoError> {
        let (consumed, ended) = self.open.finish(&wire[*at..])?;
        *at += consumed;
        Ok(ended)
    }
}
