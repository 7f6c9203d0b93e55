//! The incoming direction of a connection.

use super::cipher::Stream;
use super::{Cipher, CryptoError, IV_BYTES, PROLOGUE, PROLOGUE_BYTES, Position, Secret, TAG_BYTES};

/// Decryptor of the bytes that one side of a connection receives; removes prologue, tags and IVs.
pub struct Open(Option<Opening>);

struct Opening {
    secret: Secret,
    /// Cipher state; `None` until the prologue has arrived.
    stream: Option<Stream>,
    position: Position,
    /// Position of the last tag that verified, in plain bytes.
    verified: u64,
    /// Whether the tag at this position has been read and an IV must follow.
    iv_follows: bool,
    /// Part of a prologue, tag or IV that has arrived.
    held: Vec<u8>,
}

impl Open {
    /// Returns a decryptor for a connection with `secret`, or a pass-through for `None`.
    #[must_use]
    pub fn new(secret: Option<&Secret>) -> Self {
        Self(secret.map(|secret| Opening {
            secret: secret.clone(),
            stream: None,
            position: Position {
                iv_change: secret.iv_change_bytes,
                ..Position::default()
            },
            verified: 0,
            iv_follows: false,
            held: Vec::new(),
        }))
    }

    /// Whether the stream carries tags, so that only bytes before a verified tag are to be trusted.
    #[must_use]
    pub fn has_tags(&self) -> bool {
        let opening = self.0.as_ref();
        opening.is_some_and(|opening| opening.secret.cipher == Cipher::Aes128Gcm)
    }

    /// Returns the number of plain bytes decrypted.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0.as_ref().map_or(0, |opening| opening.position.bytes)
    }

    /// Returns the number of plain bytes before the last tag that verified.
    #[must_use]
    pub fn verified(&self) -> u64 {
        self.0.as_ref().map_or(0, |opening| opening.verified)
    }

    /// Decrypts and returns at most `want` plain bytes of `wire[*at..]`, in place, and advances `at`
    /// past all bytes that were read for them. A call reads all of `wire` or stops at the end of a
    /// run of plain bytes: call it again while more bytes are wanted.
    ///
    /// # Errors
    /// [`CryptoError`]; the connection is of no use then.
    pub fn open<'a>(
        &mut self,
        wire: &'a mut [u8],
        at: &mut usize,
        want: usize,
    ) -> Result<&'a mut [u8], CryptoError> {
        let Some(opening) = &mut self.0 else {
            return Ok(take(wire, at, want));
        };
        if want == 0 || !opening.before_byte(wire, at)? {
            return Ok(&mut []);
        }
        let plain = take(wire, at, opening.position.before_tag(want));
        let stream = opening.stream.as_mut().ok_or(CryptoError::Prologue)?;
        stream.in_place(plain)?;
        opening.position.advance(plain.len());
        Ok(plain)
    }

    /// Reads the tag that ends the direction from `wire[*at..]` and advances `at` past it. Returns
    /// whether the direction is complete, as it always is without tags.
    ///
    /// # Errors
    /// [`CryptoError::Tag`].
    pub fn finish(&mut self, wire: &[u8], at: &mut usize) -> Result<bool, CryptoError> {
        match &mut self.0 {
            Some(opening) if opening.position.ends_with_tag(opening.secret.cipher) => {
                opening.read_tag(wire, at)
            }
            _ => Ok(true),
        }
    }
}

/// Takes at most `most` bytes of `wire[*at..]`.
fn take<'a>(wire: &'a mut [u8], at: &mut usize, most: usize) -> &'a mut [u8] {
    let start = *at;
    *at += most.min(wire.len() - start);
    &mut wire[start..*at]
}

impl Opening {
    /// Reads the prologue, tag and IV that may stand before the next plain byte; returns whether
    /// all of them have arrived.
    fn before_byte(&mut self, wire: &[u8], at: &mut usize) -> Result<bool, CryptoError> {
        if self.stream.is_none() {
            if self.held.is_empty() && wire.get(*at).is_some_and(|byte| *byte != PROLOGUE) {
                return Err(CryptoError::Plaintext);
            }
            let Some(prologue) = self.hold(wire, at) else {
                return Ok(false);
            };
            self.begin(&prologue)?;
        }
        if self.position.at_tag() && self.verified < self.position.bytes {
            if !self.read_tag(wire, at)? {
                return Ok(false);
            }
            self.iv_follows = self.position.changes_iv();
        }
        if self.iv_follows {
            let Some(iv) = self.hold(wire, at) else {
                return Ok(false);
            };
            self.iv_follows = false;
            self.position.under_iv = 0;
            let stream = self.stream.as_mut().ok_or(CryptoError::Prologue)?;
            stream.restart(&iv)?;
        }
        Ok(true)
    }

    /// Collects `N` bytes of `wire` from `at` on, over several calls.
    fn hold<const N: usize>(&mut self, wire: &[u8], at: &mut usize) -> Option<[u8; N]> {
        let end = wire.len().min(*at + N - self.held.len());
        self.held.extend_from_slice(&wire[*at..end]);
        *at = end;
        let complete = self.held[..].try_into().ok()?;
        self.held.clear();
        Some(complete)
    }

    fn begin(&mut self, prologue: &[u8; PROLOGUE_BYTES]) -> Result<(), CryptoError> {
        let cipher = self.secret.cipher;
        let [_, code, iv_bytes, rest @ ..] = prologue;
        let (Some(iv), Some(interval)) = (rest.first_chunk(), rest.last_chunk()) else {
            return Err(CryptoError::Prologue);
        };
        let interval = i32::from_le_bytes(*interval);
        if *code != cipher.code() || *iv_bytes != IV_BYTES as u8 || interval < 0 {
            return Err(CryptoError::Prologue);
        }
        if cipher == Cipher::Aes128Gcm {
            self.position.interval = interval.unsigned_abs().into();
        }
        self.stream = Some(Stream::new(cipher, self.secret.key.clone(), iv, false)?);
        Ok(())
    }

    /// Reads and verifies a tag; returns whether all of it has arrived.
    fn read_tag(&mut self, wire: &[u8], at: &mut usize) -> Result<bool, CryptoError> {
        let Some(tag) = self.hold::<TAG_BYTES>(wire, at) else {
            return Ok(false);
        };
        let stream = self.stream.as_ref().ok_or(CryptoError::Prologue)?;
        if !stream.verifies(tag)? {
            return Err(CryptoError::Tag);
        }
        self.verified = self.position.bytes;
        Ok(true)
    }
}
