//! Acknowledgement that the receiving end sends at the end of its part of a transfer.

use crate::{
    clock::MonotonicTime,
    content::stream_check::check,
    driver::TransportError,
    stream::{ByteStream, Received},
};

/// Length of the encoding in bytes: `LANE`, bytes, messages, digest, check.
const BYTES: usize = 4 + 8 + 8 + 8 + 4;

/// Bytes and messages that have arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub bytes: u64,
    pub messages: u64,
    /// CRC-32 of all data, where it was asked for; else zero.
    pub digest: u64,
}

impl Acknowledgement {
    pub(crate) fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(b"LANE");
        bytes[4..12].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.messages.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.digest.to_le_bytes());
        let check = check(0, &bytes[..28]);
        bytes[28..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES]) -> Result<Self, TransportError> {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let read = Self {
            bytes: number(4),
            messages: number(12),
            digest: number(20),
        };
        (read.encode() == *bytes)
            .then_some(read)
            .ok_or_else(|| TransportError::Protocol {
                what: "the receiver's acknowledgement is damaged".to_owned(),
            })
    }

    /// Waits for an acknowledgement.
    pub(crate) async fn of<S: ByteStream>(stream: &mut S) -> Result<Self, TransportError> {
        let mut bytes = [0; BYTES];
        let mut here = 0;
        let mut scratch = [0; BYTES];
        while here < BYTES {
            let received = stream
                .receive(
                    &mut scratch[..BYTES - here],
                    MonotonicTime::NEVER,
                    &mut |piece: &[u8]| {
                        let taken = piece.len().min(BYTES - here);
                        bytes[here..here + taken].copy_from_slice(&piece[..taken]);
                        here += taken;
                    },
                )
                .await?;
            if received == Received::Closed {
                return Err(TransportError::Closed { flow: "transfer" });
            }
        }
        Self::decode(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_and_a_changed_bit_is_found() {
        let said = Acknowledgement {
            bytes: 1 << 40,
            messages: 77,
            digest: 0xdead_beef,
        };
        let bytes = said.encode();
        assert_eq!(Acknowledgement::decode(&bytes).expect("sound"), said);
        for bit in 0..BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Acknowledgement::decode(&changed).is_err(), "bit {bit}");
        }
    }
}
