//! First bytes of every data flow: the trial's token and the purpose of the flow.

use crate::error::{Result, TransportError};
use regatta_model::{Phrase, is_same_secret, reason};

/// Purpose of a flow between the two ends of a trial, as its opening states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Measures the round-trip delay before the transfer.
    IdleProbe = 1,
    /// Measures the round-trip delay during the transfer.
    LoadProbe = 2,
    /// Carries the transfer itself.
    Transfer = 3,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::IdleProbe, Self::LoadProbe, Self::Transfer];

    /// Returns the purpose for errors.
    #[must_use]
    pub fn phrase(self) -> Phrase {
        match self {
            Self::IdleProbe => reason::idle_probe(),
            Self::LoadProbe => reason::load_probe(),
            Self::Transfer => reason::transfer(),
        }
    }
}

/// The token of a trial: 16 random bytes, which both ends get over control.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token(pub [u8; 16]);

impl std::fmt::Debug for Token {
    /// Hides the token, which is a secret of the trial.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Reads 32 hexadecimal digits.
    ///
    /// # Errors
    /// [`TransportError::Order`] for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let is_right = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let token = u128::from_str_radix(text, 16).ok().filter(|_| is_right);
        let token = token.ok_or_else(|| TransportError::order(reason::wrong_token()))?;
        Ok(Self(token.to_be_bytes()))
    }
}

/// Length of an opening, in bytes.
pub const OPENING_BYTES: usize = 24;

const MAGIC: [u8; 7] = *b"regatta";

/// Returns the first [`OPENING_BYTES`] of a flow: `regatta`, the purpose, the token.
#[must_use]
pub fn encode(token: Token, purpose: Purpose) -> [u8; OPENING_BYTES] {
    let mut bytes = [0; OPENING_BYTES];
    bytes[..7].copy_from_slice(&MAGIC);
    bytes[7] = purpose as u8;
    bytes[8..].copy_from_slice(&token.0);
    bytes
}

/// Reads an opening; `None` if it is not one of this trial.
#[must_use]
pub fn decode(bytes: &[u8; OPENING_BYTES], token: Token) -> Option<Purpose> {
    if bytes[..7] != MAGIC || !is_same_secret(&bytes[8..], &token.0) {
        return None;
    }
    let mut all = Purpose::ALL.into_iter();
    all.find(|purpose| *purpose as u8 == bytes[7])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "000102030405060708090a0b0c0d0eFF";

    #[test]
    fn opening_round_trips_and_rejects_bit_flips() {
        let token = Token::parse(TOKEN).expect("a token");
        for purpose in [Purpose::IdleProbe, Purpose::LoadProbe, Purpose::Transfer] {
            let bytes = encode(token, purpose);
            assert_eq!(decode(&bytes, token), Some(purpose));
            for bit in 0..OPENING_BYTES * 8 {
                let mut changed = bytes;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(decode(&changed, token), Some(purpose));
            }
        }
    }

    #[test]
    fn a_token_is_32_hexadecimal_digits() {
        for wrong in ["", "00", &"0".repeat(31), &"g".repeat(32), &"é".repeat(16)] {
            assert!(Token::parse(wrong).is_err(), "{wrong}");
        }
    }
}
