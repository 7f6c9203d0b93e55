//! Attributes of netlink messages: a length, a type, a value, padded to four bytes.
//!
//! Source: `linux/netlink.h` (`struct nlattr`), `linux/rtnetlink.h` (`struct rtattr`); numbers are
//! in the byte order of the host.

/// Bytes before an attribute's value.
const HEADER_BYTES: usize = 4;

/// Sequence of attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Appends an attribute with the value `value`.
    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        // No value here comes near the 64 KiB that an attribute can hold.
        let length = (HEADER_BYTES + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn u32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(super) fn i32(self, kind: u16, value: i32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(super) fn u64(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// Appends a text, with a terminating zero.
    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Appends attributes as the value of one attribute.
    pub(super) fn nested(self, kind: u16, inside: &Self) -> Self {
        self.bytes(kind, &inside.0)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Parses the attributes in `bytes`, as far as they are whole.
pub(super) fn parse(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (header, _) = bytes.split_at_checked(HEADER_BYTES)?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        // The two highest bits are flags.
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = bytes.get(HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Returns the value of the first attribute of a kind.
pub(super) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    parse(bytes).find_map(|(found, value)| (found == kind).then_some(value))
}

/// Reads a 32-bit number at a position of `bytes`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    four.try_into().ok().map(u32::from_ne_bytes)
}

/// Reads a 64-bit number at a position of `bytes`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at + 8)?;
    eight.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn attributes_are_padded_and_their_length_is_not() {
        let attributes = Attributes::new().text(1, "tbf!").u32(2, 7);
        assert_eq!(
            attributes.as_bytes(),
            [
                9, 0, 1, 0, b't', b'b', b'f', b'!', 0, 0, 0, 0, 8, 0, 2, 0, 7, 0, 0, 0
            ]
        );
        let nested = Attributes::new().nested(3, &attributes);
        assert_eq!(nested.as_bytes()[..4], [24, 0, 3, 0]);
        let inside = find(nested.as_bytes(), 3).expect("the nested ones");
        assert_eq!(find(inside, 1), Some(&b"tbf!\0"[..]));
        assert_eq!(find(inside, 2).and_then(|value| u32_at(value, 0)), Some(7));
    }

    #[test]
    fn malformed_attributes_end_the_list() {
        for malformed in [&[3, 0, 1, 0][..], &[200, 0, 1, 0], &[8, 0, 1], &[]] {
            assert_eq!(parse(malformed).count(), 0, "{malformed:?}");
        }
    }
}
