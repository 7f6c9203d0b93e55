//! Numbers and strings of variable length.

use super::{Malformed, Stop};

/// Number of bytes of a number that carry seven bits each; one byte more carries eight.
const SEVEN_BIT_BYTES: usize = 8;

/// Appends an unsigned number: seven bits to a byte, lowest first, the high bit for "more"; a ninth
/// byte carries eight.
pub(super) fn put_uvar(out: &mut Vec<u8>, mut value: u64) {
    for _ in 0..SEVEN_BIT_BYTES {
        if value < 0x80 {
            break;
        }
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends several unsigned numbers.
pub(super) fn put_uvars<const N: usize>(out: &mut Vec<u8>, values: [u64; N]) {
    for value in values {
        put_uvar(out, value);
    }
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

    /// Reads a signed little-endian number of `N` bytes; a negative one is `refused`.
    pub(super) fn fixed<const N: usize>(&mut self, refused: Malformed) -> Result<u64, Stop> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(self.bytes(N)?);
        let value = u64::from_le_bytes(bytes);
        match value >> (8 * N - 1) {
            0 => Ok(value),
            _ => Err(refused.into()),
        }
    }

    pub(super) fn uvar(&mut self) -> Result<u64, Stop> {
        let mut value = 0;
        for index in 0..SEVEN_BIT_BYTES {
            let byte = u64::from(self.u8()?);
            value |= (byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Ok(value | u64::from(self.u8()?) << (7 * SEVEN_BIT_BYTES))
    }

    /// Reads an unsigned number up to `most`; `what` names the field in the error.
    pub(super) fn at_most(&mut self, most: u64, what: &'static str) -> Result<u64, Stop> {
        match self.uvar()? {
            value if value <= most => Ok(value),
            _ => Err(Malformed::OutOfRange(what).into()),
        }
    }

    /// Reads an unsigned number of at most 63 bits; `what` names the field in the error.
    pub(super) fn cvar(&mut self, what: &'static str) -> Result<u64, Stop> {
        self.at_most(i64::MAX as u64, what)
    }

    /// Reads an unsigned number of at most 31 bits; `what` names the field in the error.
    pub(super) fn cvar31(&mut self, what: &'static str) -> Result<u32, Stop> {
        Ok(self.at_most(i32::MAX as u64, what)? as u32)
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

    /// Reads a part of `length` bytes with `read`, which must take all of it; more bytes than the
    /// part has never come. `what` names the part in the error.
    pub(super) fn part<T>(
        &mut self,
        length: usize,
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let mut part = Self::new(self.bytes(length)?);
        match read(&mut part) {
            Ok(value) if part.at == length => Ok(value),
            Ok(_) | Err(Stop::Needs(_)) => Err(Malformed::WrongLength(what).into()),
            malformed => malformed,
        }
    }
}
