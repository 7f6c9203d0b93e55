//! What arrives on a connection, opened and decoded as far as it is there.

use crate::codec::{Decoded, Malformed};
use crate::crypto::{CryptoError, Open, Secret};
use crate::status::Status;

/// Why what arrived is no good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The encryption layer's reason.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// The codec's reason.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl WireError {
    /// The protocol's code for it.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            WireError::Crypto(_) => Status::Encryption,
            WireError::Malformed(_) => Status::Protocol,
        }
    }
}

/// Bytes of one connection on their way to commands and payload.
pub(crate) struct Inbox {
    open: Open,
    /// The command of which a part is there; never longer than one command may be.
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

    /// The next command from `wire[*at..]`, or nothing when more must arrive; no byte after it is
    /// touched.
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

    /// At most `want` bytes of payload from `wire[*at..]`, in their place.
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

    /// Takes the tag that ends the stream; whether it is there.
    pub(crate) fn end(&mut self, wire: &[u8], at: &mut usize) -> Result<bool, CryptoError> {
        let (consumed, ended) = self.open.finish(&wire[*at..])?;
        *at += consumed;
        Ok(ended)
    }
}
