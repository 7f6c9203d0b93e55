//! First bytes of every data flow: the trial's token and the purpose of the flow.

use crate::driver::TransportError;

/// Purpose of a flow between the two ends of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Round-trip delay before the transfer.
    IdleProbe,
    /// Round-trip delay during the transfer.
    LoadProbe,
    /// The transfer itself.
    Transfer,
}

impl Purpose {
    const fn code(self) -> u8 {
        match self {
            Self::IdleProbe => 1,
            Self::LoadProbe => 2,
            Self::Transfer => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::IdleProbe),
            2 => Some(Self::LoadProbe),
            3 => Some(Self::Transfer),
            _ => None,
        }
    }

    /// Returns the name of the purpose, for errors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IdleProbe => "idle probe",
            Self::LoadProbe => "probe under load",
            Self::Transfer => "transfer",
        }
    }
}

/// The token of a trial: 16 random bytes that both ends were told over control.
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
    pub fn parse(text: &str) -> Result<Self, TransportError> {
        let wrong = || TransportError::order("the trial's token is not 32 hexadecimal digits");
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return Err(wrong());
        }
        let mut token = [0; 16];
        for (byte, pair) in token.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16).ok_or_else(wrong)?;
            let low = char::from(pair[1]).to_digit(16).ok_or_else(wrong)?;
            *byte = (high << 4 | low) as u8;
        }
        Ok(Self(token))
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
    bytes[7] = purpose.code();
    bytes[8..].copy_from_slice(&token.0);
    bytes
}

/// Reads an opening; `None` if it is not one of this trial.
#[must_use]
pub fn decode(bytes: &[u8; OPENING_BYTES], token: Token) -> Option<Purpose> {
    // Every byte of the token is looked at, so that the time taken tells nothing about it.
    let differs = bytes[8..]
        .iter()
        .zip(token.0)
        .fold(0, |differs, (a, b)| differs | (a ^ b));
    if bytes[..7] != MAGIC || differs != 0 {
        return None;
    }
    Purpose::from_code(bytes[7])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "000102030405060708090a0b0c0d0eFF";

    #[test]
    fn an_opening_is_read_back_and_any_changed_bit_is_refused() {
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
