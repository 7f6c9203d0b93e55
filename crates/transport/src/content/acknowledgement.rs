//! Acknowledgement that the receiving end sends at the end of its part of a transfer.

use crate::{
    clock::MonotonicTime,
    content::{number_at, stream_check::check},
    driver::{Result, TransportError},
    stream::{ByteStream, read_exact, send_now},
    trial::watch::Delivered,
};

/// Length of the encoding in bytes: `ACK:`, bytes, messages, digest, check.
const BYTES: usize = 4 + 8 + 8 + 8 + 4;

/// Bytes and messages that have arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub delivered: Delivered,
    /// CRC-32 of all data, where it was asked for; else zero.
    pub digest: u64,
}

impl Acknowledgement {
    fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(b"ACK:");
        bytes[4..12].copy_from_slice(&self.delivered.bytes.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.delivered.messages.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.digest.to_le_bytes());
        let check = check(0, &bytes[..28]);
        bytes[28..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES]) -> Result<Self> {
        let read = Self {
            delivered: Delivered {
                bytes: number_at(bytes, 4),
                messages: number_at(bytes, 12),
            },
            digest: number_at(bytes, 20),
        };
        let wrong = || TransportError::protocol("the receiver's acknowledgement is damaged");
        (read.encode() == *bytes).then_some(read).ok_or_else(wrong)
    }

    /// Waits for an acknowledgement, of which the first bytes may be in `rest` already.
    pub(crate) async fn of<S: ByteStream>(stream: &mut S, mut rest: Vec<u8>) -> Result<Self> {
        let bytes = read_exact(stream, &mut rest, MonotonicTime::NEVER).await?;
        Self::decode(&bytes)
    }

    /// Sends the acknowledgement.
    pub(crate) async fn send<S: ByteStream>(self, stream: &mut S) -> Result<()> {
        send_now(stream, &self.encode()).await
    }

    /// Checks that the receiver got the `bytes` that were sent.
    pub(crate) fn check_bytes(self, bytes: u64) -> Result<()> {
        let got = self.delivered.bytes;
        if got == bytes {
            return Ok(());
        }
        let wrong = format!("the receiver acknowledged {got} of {bytes} bytes");
        Err(TransportError::protocol(wrong))
    }

    /// Checks that the receiver's data have the digest of what was sent.
    pub(crate) fn check_digest(self, digest: u64) -> Result<()> {
        if self.digest == digest {
            return Ok(());
        }
        Err(TransportError::protocol(format!(
            "what arrived is not what was sent: its digest is {:08x}, not {digest:08x}",
            self.digest
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_and_a_changed_bit_is_found() {
        let said = Acknowledgement {
            delivered: Delivered {
                bytes: 1 << 40,
                messages: 77,
            },
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
