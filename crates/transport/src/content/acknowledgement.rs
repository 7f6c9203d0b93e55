//! Acknowledgement that the receiving end sends at the end of its part of a transfer: totals in a frame, over
//! streams that of an [`Acknowledgement`], over messages that of a control message.

use regatta_model::reason;

use crate::{
    clock::MonotonicTime,
    content::number_at,
    delivered::Delivered,
    error::{Result, TransportError},
    stream::{ByteStream, read_exact, send_now},
};

/// Length of the totals and of the check in a frame, in bytes.
pub(crate) const TOTALS_BYTES: usize = 8 + 8 + 4;

/// Encodes totals in a frame: `head`, the bytes, the messages, `tail`, and the CRC-32 of all of these.
pub(crate) fn encode_totals<const N: usize>(
    head: &[u8],
    totals: Delivered,
    tail: &[u8],
) -> [u8; N] {
    let (bytes, messages) = (totals.bytes.to_le_bytes(), totals.messages.to_le_bytes());
    let content = [head, &bytes, &messages, tail].concat();
    let mut frame = [0; N];
    let (target, check) = frame.split_at_mut(content.len());
    target.copy_from_slice(&content);
    check.copy_from_slice(&crc32fast::hash(&content).to_le_bytes());
    frame
}

/// Reads the totals of a frame, whose head has `head_bytes` bytes; `None` if it is damaged.
pub(crate) fn decode_totals(frame: &[u8], head_bytes: usize) -> Option<Delivered> {
    let (content, check) = frame.split_last_chunk::<4>()?;
    let is_sound = crc32fast::hash(content).to_le_bytes() == *check;
    is_sound.then(|| Delivered {
        bytes: number_at(content, head_bytes),
        messages: number_at(content, head_bytes + 8),
    })
}

/// Beginning of the frame on a stream.
const HEAD: &[u8] = b"ACK:";

/// Length of the frame on a stream in bytes: head, totals, digest, check.
const BYTES: usize = HEAD.len() + TOTALS_BYTES + 8;

/// Bytes and messages that have arrived over a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub delivered: Delivered,
    /// CRC-32 of all data, where the order has digests; else zero.
    pub digest: u64,
}

impl Acknowledgement {
    fn encode(self) -> [u8; BYTES] {
        encode_totals(HEAD, self.delivered, &self.digest.to_le_bytes())
    }

    fn decode(bytes: &[u8; BYTES]) -> Result<Self> {
        let delivered = decode_totals(bytes, HEAD.len()).filter(|_| bytes.starts_with(HEAD));
        let wrong = || TransportError::protocol(reason::acknowledgement_damaged());
        Ok(Self {
            delivered: delivered.ok_or_else(wrong)?,
            digest: number_at(bytes, HEAD.len() + 16),
        })
    }

    /// Waits for an acknowledgement. `rest` may already have its first bytes.
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
        let wrong = reason::wrong_acknowledgement(got, bytes);
        Err(TransportError::protocol(wrong))
    }

    /// Checks that the receiver's data have the digest of what was sent.
    pub(crate) fn check_digest(self, digest: u64) -> Result<()> {
        if self.digest == digest {
            return Ok(());
        }
        Err(TransportError::protocol(reason::other_digest(
            &format!("{:08x}", self.digest),
            &format!("{digest:08x}"),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgement_round_trips_and_rejects_bit_flips() {
        let acknowledgement = Acknowledgement {
            delivered: Delivered {
                bytes: 1 << 40,
                messages: 77,
            },
            digest: 0xdead_beef,
        };
        let bytes = acknowledgement.encode();
        assert_eq!(
            Acknowledgement::decode(&bytes).expect("sound"),
            acknowledgement
        );
        for bit in 0..BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Acknowledgement::decode(&changed).is_err(), "bit {bit}");
        }
    }
}
