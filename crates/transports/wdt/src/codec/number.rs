//! Numbers and strings of variable length.

use super::{Malformed, Stop};

/// Maximum length of a number in bytes: the ninth byte carries eight bits.
const MAX_UVAR_BYTES: usize = 9;

/// Appends an unsigned number: seven bits to a byte, lowest first, the high bit for "more"; a ninth
/// byte carries eight.
pub(super) fn put_uvar(out: &mut Vec<u8>, mut value: u64) {
    for _ in 1..MAX_UVAR_BYTES {
        if value < 0x80 {
            break;
        }
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number, zigzag.
pub(super) fn put_zvar(out: &mut Vec<u8>, value: i64) {
    put_uvar(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a length and the bytes.
pub(super) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_uvar(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reader of the fields of a message that may be incomplete.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of bytes read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let taken = rest
            .get(..count)
            .ok_or_else(|| Stop::Needs(count - rest.len()))?;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Stop> {
        Ok(self.bytes(1)?[0])
    }

    pub(super) fn i16(&mut self) -> Result<i16, Stop> {
        let bytes = self.bytes(2)?;
        Ok(i16::from_le_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn i32(&mut self) -> Result<i32, Stop> {
        let bytes = self.bytes(4)?;
        Ok(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub(super) fn i64(&mut self) -> Result<i64, Stop> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.bytes(8)?);
        Ok(i64::from_le_bytes(bytes))
    }

    pub(super) fn uvar(&mut self) -> Result<u64, Stop> {
        let mut value = 0;
        for index in 0..MAX_UVAR_BYTES {
            let byte = u64::from(self.u8()?);
            if index == MAX_UVAR_BYTES - 1 {
                return Ok(value | byte << (7 * index));
            }
            value |= (byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    /// Reads an unsigned number of at most 63 bits; `what` names the field in the error.
    pub(super) fn cvar(&mut self, what: &'static str) -> Result<u64, Stop> {
        let value = self.uvar()?;
        i64::try_from(value).map_err(|_| Malformed::OutOfRange(what))?;
        Ok(value)
    }

    /// Reads an unsigned number of at most 31 bits; `what` names the field in the error.
    pub(super) fn cvar31(&mut self, what: &'static str) -> Result<u32, Stop> {
        let value = self.uvar()?;
        let value = i32::try_from(value).map_err(|_| Malformed::OutOfRange(what))?;
        Ok(value as u32)
    }

    pub(super) fn zvar(&mut self) -> Result<i64, Stop> {
        let value = self.uvar()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a string of at most `limit` bytes; a longer one is refused by its length alone. `what`
    /// names the field in the error.
    pub(super) fn string(&mut self, limit: usize, what: &'static str) -> Result<&'a [u8], Stop> {
        let length = self.uvar()?;
        match usize::try_from(length) {
            Ok(length) if length <= limit => self.bytes(length),
            _ => Err(Malformed::TooLong(what).into()),
        }
    }
}
