//! Content of a transfer, and its check at the receiver.

pub(crate) mod acknowledgement;
mod bit_set;
pub(crate) mod message_check;
pub(crate) mod noise;
pub(crate) mod numbered;
pub(crate) mod part;
pub(crate) mod plan;
pub(crate) mod stream_check;

pub(crate) use bit_set::BitSet;

/// Reads the little-endian number at this place.
pub(crate) fn number_at(bytes: &[u8], position: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[position..position + 8]);
    u64::from_le_bytes(number)
}
