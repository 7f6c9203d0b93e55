//! The outgoing direction of a connection.

use super::cipher::{self, Stream};
use super::{Cipher, CryptoError, IV_BYTES, PROLOGUE, Position, Secret};

/// Encryptor of the bytes that one side of a connection sends; inserts prologue, tags and IVs.
/// By default it passes them through.
#[derive(Default)]
pub struct Seal(Option<Sealing>);

struct Sealing {
    stream: Stream,
    position: Position,
    /// IV of the prologue, until that has been sent in clear before the first byte.
    prologue: Option<[u8; IV_BYTES]>,
}

impl Seal {
    /// Returns an encryptor for a connection with `secret` and a random IV, or a pass-through for
    /// `None`.
    ///
    /// # Errors
    /// [`CryptoError::Library`].
    pub fn new(secret: Option<&Secret>, tag_interval_bytes: u32) -> Result<Self, CryptoError> {
        let Some(secret) = secret else {
            return Ok(Self::default());
        };
        let interval = match secret.cipher {
            Cipher::Aes128Ctr => 0,
            Cipher::Aes128Gcm => tag_interval_bytes.min(i32::MAX as u32),
        };
        let iv = cipher::random()?;
        Ok(Self(Some(Sealing {
            stream: Stream::new(secret.cipher, secret.key.clone(), &iv, true)?,
            position: Position {
                interval: interval.into(),
                iv_change: secret.iv_change_bytes,
                ..Position::default()
            },
            prologue: Some(iv),
        })))
    }

    /// Whether the bytes are encrypted.
    #[must_use]
    pub fn encrypts(&self) -> bool {
        self.0.is_some()
    }

    /// Appends the bytes to be sent for `plain`: encrypted, with prologue, tags and IVs.
    ///
    /// # Errors
    /// [`CryptoError::Library`].
    pub fn seal(&mut self, mut plain: &[u8], out: &mut Vec<u8>) -> Result<(), CryptoError> {
        let Some(sealing) = &mut self.0 else {
            out.extend_from_slice(plain);
            return Ok(());
        };
        while !plain.is_empty() {
            sealing.before_byte(out)?;
            let (now, later) = plain.split_at(sealing.position.before_tag(plain.len()));
            sealing.stream.append(now, out)?;
            sealing.position.advance(now.len());
            plain = later;
        }
        Ok(())
    }

    /// Appends the end of the direction: the last tag, if anything was sent.
    ///
    /// # Errors
    /// [`CryptoError::Library`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), CryptoError> {
        if let Some(sealing) = &self.0
            && sealing.position.ends_with_tag(sealing.stream.cipher)
        {
            out.extend_from_slice(&sealing.stream.tag()?);
        }
        Ok(())
    }
}

impl Sealing {
    /// Appends the prologue, tag and IV that are due before the next byte.
    fn before_byte(&mut self, out: &mut Vec<u8>) -> Result<(), CryptoError> {
        if let Some(iv) = self.prologue.take() {
            out.extend_from_slice(&[PROLOGUE, self.stream.cipher.code(), IV_BYTES as u8]);
            out.extend_from_slice(&iv);
            out.extend_from_slice(&(self.position.interval as i32).to_le_bytes());
        }
        if !self.position.at_tag() {
            return Ok(());
        }
        out.extend_from_slice(&self.stream.tag()?);
        if self.position.changes_iv() {
            let iv = cipher::random()?;
            out.extend_from_slice(&iv);
            self.stream.restart(&iv)?;
            self.position.under_iv = 0;
        }
        Ok(())
    }
}
