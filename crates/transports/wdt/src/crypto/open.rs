//! The incoming direction of a connection.

use std::ops::Range;

use super::cipher::Stream;
use super::{Cipher, CryptoError, IV_BYTES, PROLOGUE, PROLOGUE_BYTES, Secret, TAG_BYTES};

/// Decryptor of the bytes that one side of a connection receives; removes prologue, tags and IVs.
pub struct Open(Option<Opening>);

struct Opening {
    secret: Secret,
    /// Cipher state; `None` until the prologue has arrived.
    stream: Option<Stream>,
    /// Bytes between tags; 0 for none.
    interval: u64,
    /// Plain bytes decrypted so far, tags and IVs not counted.
    position: u64,
    /// Bytes since the IV was set.
    under_iv: u64,
    /// Position of the last tag that verified, in plain bytes.
    verified: u64,
    /// Whether the tag at this position has been read and an IV must follow.
    iv_follows: bool,
    /// Part of a prologue, tag or IV that has arrived so far.
    held: [u8; PROLOGUE_BYTES],
    held_bytes: usize,
}

/// Result of [`Open::open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Number of bytes consumed from the front of the input.
    pub consumed: usize,
    /// Range of the decrypted bytes within the consumed ones; may be empty.
    pub plain: Range<usize>,
}

impl Open {
    /// Returns a decryptor for a connection with `secret`, or a pass-through for `None`.
    #[must_use]
    pub fn new(secret: Option<&Secret>) -> Self {
        Self(secret.map(|secret| Opening {
            secret: secret.clone(),
            stream: None,
            interval: 0,
            position: 0,
            under_iv: 0,
            verified: 0,
            iv_follows: false,
            held: [0; PROLOGUE_BYTES],
            held_bytes: 0,
        }))
    }

    /// Whether the stream carries tags, so that only bytes before a verified tag are to be trusted.
    #[must_use]
    pub fn has_tags(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|opening| opening.secret.cipher == Cipher::Aes128Gcm)
    }

    /// Returns the number of plain bytes decrypted.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0.as_ref().map_or(0, |opening| opening.position)
    }

    /// Returns the number of plain bytes before the last tag that verified.
    #[must_use]
    pub fn verified(&self) -> u64 {
        self.0.as_ref().map_or(0, |opening| opening.verified)
    }

    /// Decrypts at most `want` plain bytes at the front of `wire`, in place. A call consumes all of
    /// `wire` or stops at the end of a run of plain bytes: call it again with the rest while more
    /// bytes are wanted.
    ///
    /// # Errors
    /// [`CryptoError`]; the connection is of no use then.
    pub fn open(&mut self, wire: &mut [u8], want: usize) -> Result<Opened, CryptoError> {
        let Some(opening) = &mut self.0 else {
            let length = want.min(wire.len());
            return Ok(Opened {
                consumed: length,
                plain: 0..length,
            });
        };
        let start = match opening.before_byte(wire, want)? {
            Before::Ready(start) => start,
            Before::Needs => {
                return Ok(Opened {
                    consumed: wire.len(),
                    plain: 0..0,
                });
            }
            Before::Nothing => {
                return Ok(Opened {
                    consumed: 0,
                    plain: 0..0,
                });
            }
        };
        let mut length = want.min(wire.len() - start);
        if opening.interval > 0 {
            let room = opening.interval - opening.position % opening.interval;
            length = usize::try_from(room).map_or(length, |room| room.min(length));
        }
        let plain = start..start + length;
        let stream = opening.stream.as_mut().ok_or(CryptoError::Prologue)?;
        stream.in_place(&mut wire[plain.clone()])?;
        opening.position += length as u64;
        opening.under_iv += length as u64;
        Ok(Opened {
            consumed: plain.end,
            plain,
        })
    }

    /// Takes the tag that ends the direction from the front of `wire`. Returns the number of bytes
    /// consumed, and whether the direction is complete, as it always is without tags.
    ///
    /// # Errors
    /// [`CryptoError::Tag`].
    pub fn finish(&mut self, wire: &[u8]) -> Result<(usize, bool), CryptoError> {
        match &mut self.0 {
            Some(opening) if opening.secret.cipher == Cipher::Aes128Gcm && opening.position > 0 => {
                let mut at = 0;
                let Some(tag) = opening.hold::<TAG_BYTES>(wire, &mut at) else {
                    return Ok((at, false));
                };
                opening.verify(tag)?;
                Ok((at, true))
            }
            _ => Ok((0, true)),
        }
    }
}

/// Result of reading the prologue, tag and IV that may stand before the next plain byte.
enum Before {
    /// All of them are read; the plain bytes begin at this index.
    Ready(usize),
    /// An incomplete prologue, tag or IV; all input was buffered.
    Needs,
    /// No byte is wanted, so no input was read.
    Nothing,
}

impl Opening {
    fn before_byte(&mut self, wire: &[u8], want: usize) -> Result<Before, CryptoError> {
        if want == 0 {
            return Ok(Before::Nothing);
        }
        let mut at = 0;
        if self.stream.is_none() {
            if self.held_bytes == 0 && wire.first().is_some_and(|byte| *byte != PROLOGUE) {
                return Err(CryptoError::Plaintext);
            }
            let Some(prologue) = self.hold::<PROLOGUE_BYTES>(wire, &mut at) else {
                return Ok(Before::Needs);
            };
            self.begin(&prologue)?;
        }
        let at_tag = self.interval > 0
            && self.position > 0
            && self.position.is_multiple_of(self.interval)
            && self.verified < self.position;
        if at_tag {
            let Some(tag) = self.hold::<TAG_BYTES>(wire, &mut at) else {
                return Ok(Before::Needs);
            };
            self.verify(tag)?;
            let change = self.secret.iv_change_bytes;
            self.iv_follows = change != 0 && self.under_iv + self.interval > change;
        }
        if self.iv_follows {
            let Some(iv) = self.hold::<IV_BYTES>(wire, &mut at) else {
                return Ok(Before::Needs);
            };
            self.iv_follows = false;
            self.under_iv = 0;
            self.stream
                .as_mut()
                .ok_or(CryptoError::Prologue)?
                .restart(&iv)?;
        }
        Ok(Before::Ready(at))
    }

    /// Collects `N` bytes of `wire` from `at` on, over several calls.
    fn hold<const N: usize>(&mut self, wire: &[u8], at: &mut usize) -> Option<[u8; N]> {
        let taken = (N - self.held_bytes).min(wire.len() - *at);
        self.held[self.held_bytes..self.held_bytes + taken]
            .copy_from_slice(&wire[*at..*at + taken]);
        self.held_bytes += taken;
        *at += taken;
        if self.held_bytes < N {
            return None;
        }
        self.held_bytes = 0;
        let mut whole = [0; N];
        whole.copy_from_slice(&self.held[..N]);
        Some(whole)
    }

    fn begin(&mut self, prologue: &[u8; PROLOGUE_BYTES]) -> Result<(), CryptoError> {
        let mut iv = [0; IV_BYTES];
        iv.copy_from_slice(&prologue[3..3 + IV_BYTES]);
        let mut interval = [0; 4];
        interval.copy_from_slice(&prologue[3 + IV_BYTES..]);
        let interval = i32::from_le_bytes(interval);
        let cipher = self.secret.cipher;
        if prologue[1] != cipher.code() || prologue[2] != IV_BYTES as u8 || interval < 0 {
            return Err(CryptoError::Prologue);
        }
        if cipher == Cipher::Aes128Gcm {
            self.interval = interval.unsigned_abs().into();
        }
        self.stream = Some(Stream::new(cipher, self.secret.key.clone(), &iv, false)?);
        Ok(())
    }

    fn verify(&mut self, tag: [u8; TAG_BYTES]) -> Result<(), CryptoError> {
        let stream = self.stream.as_ref().ok_or(CryptoError::Prologue)?;
        if !stream.verifies(tag)? {
            return Err(CryptoError::Tag);
        }
        self.verified = self.position;
        Ok(())
    }
}
