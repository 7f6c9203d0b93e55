//! The outgoing direction of a connection.

use super::cipher::{self, Stream};
use super::{Cipher, CryptoError, IV_BYTES, PROLOGUE, Secret};

/// Encryptor of the bytes that one side of a connection sends; inserts prologue, tags and IVs.
pub struct Seal(Option<Sealing>);

struct Sealing {
    stream: Stream,
    cipher: Cipher,
    /// Bytes between tags; 0 for none.
    interval: u64,
    iv_change: u64,
    /// IV of the prologue, until that has been sent in clear before the first byte.
    prologue: Option<[u8; IV_BYTES]>,
    /// Plain bytes encrypted so far, tags and IVs not counted.
    position: u64,
    /// Bytes since the IV was set.
    under_iv: u64,
}

impl Seal {
    /// Returns an encryptor for a connection with `secret` and a random IV, or a pass-through for
    /// `None`.
    ///
    /// # Errors
    /// [`CryptoError::Library`].
    pub fn new(secret: Option<&Secret>, tag_interval_bytes: u32) -> Result<Self, CryptoError> {
        match secret {
            None => Ok(Self(None)),
            Some(secret) => Self::with_iv(secret, tag_interval_bytes, cipher::random()?),
        }
    }

    /// Returns an encryptor with a known IV, as a recorded session needs it.
    pub(super) fn with_iv(
        secret: &Secret,
        tag_interval_bytes: u32,
        iv: [u8; IV_BYTES],
    ) -> Result<Self, CryptoError> {
        let interval = match secret.cipher {
            Cipher::Aes128Ctr => 0,
            Cipher::Aes128Gcm => tag_interval_bytes.min(i32::MAX as u32),
        };
        Ok(Self(Some(Sealing {
            stream: Stream::new(secret.cipher, secret.key.clone(), &iv, true)?,
            cipher: secret.cipher,
            interval: interval.into(),
            iv_change: secret.iv_change_bytes,
            prologue: Some(iv),
            position: 0,
            under_iv: 0,
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
            let room = match sealing.interval {
                0 => plain.len(),
                interval => {
                    let room = interval - sealing.position % interval;
                    usize::try_from(room).map_or(plain.len(), |room| room.min(plain.len()))
                }
            };
            let (now, later) = plain.split_at(room);
            sealing.stream.append(now, out)?;
            sealing.position += room as u64;
            sealing.under_iv += room as u64;
            plain = later;
        }
        Ok(())
    }

    /// Appends the end of the direction: the last tag, if anything was sent.
    ///
    /// # Errors
    /// [`CryptoError::Library`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), CryptoError> {
        match &self.0 {
            Some(sealing) if sealing.cipher == Cipher::Aes128Gcm && sealing.position > 0 => {
                out.extend_from_slice(&sealing.stream.tag()?);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Sealing {
    /// Appends the prologue, tag and IV that are due before the next byte.
    fn before_byte(&mut self, out: &mut Vec<u8>) -> Result<(), CryptoError> {
        if let Some(iv) = self.prologue.take() {
            out.extend_from_slice(&[PROLOGUE, self.cipher.code(), IV_BYTES as u8]);
            out.extend_from_slice(&iv);
            out.extend_from_slice(&(self.interval as i32).to_le_bytes());
        }
        if self.interval == 0 || self.position == 0 || !self.position.is_multiple_of(self.interval)
        {
            return Ok(());
        }
        out.extend_from_slice(&self.stream.tag()?);
        if self.iv_change != 0 && self.under_iv + self.interval > self.iv_change {
            let iv = cipher::random()?;
            out.extend_from_slice(&iv);
            self.stream.restart(&iv)?;
            self.under_iv = 0;
        }
        Ok(())
    }
}
