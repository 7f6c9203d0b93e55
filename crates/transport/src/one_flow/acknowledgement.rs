//! The receiver's acknowledgement at the end of a stream.

use crate::{
    clock::MonotonicTime,
    content::stream_check::check,
    driver::TransportError,
    stream::{ByteStream, Received},
    trial::watch::Delivered,
};

/// Acknowledgement that the receiver sends at the end of the transfer: `ACK:`, bytes, messages,
/// check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledgement(pub Delivered);

const ACKNOWLEDGEMENT_BYTES: usize = 24;

impl Acknowledgement {
    pub(super) fn encode(self) -> [u8; ACKNOWLEDGEMENT_BYTES] {
        let mut bytes = [0; ACKNOWLEDGEMENT_BYTES];
        bytes[..4].copy_from_slice(b"ACK:");
        bytes[4..12].copy_from_slice(&self.0.bytes.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.0.messages.to_le_bytes());
        let check = check(0, &bytes[..20]);
        bytes[20..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransportError> {
        let wrong = || TransportError::Protocol {
            what: "the receiver's acknowledgement is damaged".to_owned(),
        };
        let bytes: &[u8; ACKNOWLEDGEMENT_BYTES] = bytes.try_into().map_err(|_| wrong())?;
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let read = Self(Delivered {
            bytes: number(4),
            messages: number(12),
        });
        (read.encode() == *bytes).then_some(read).ok_or_else(wrong)
    }
}

/// Waits for the acknowledgement, whose first bytes may be here already.
pub(crate) async fn await_acknowledgement<S: ByteStream>(
    stream: &mut S,
    mut bytes: Vec<u8>,
) -> Result<Delivered, TransportError> {
    let mut scratch = [0; ACKNOWLEDGEMENT_BYTES];
    while bytes.len() < ACKNOWLEDGEMENT_BYTES {
        let missing = ACKNOWLEDGEMENT_BYTES - bytes.len();
        let received = stream
            .receive(
                &mut scratch[..missing],
                MonotonicTime::NEVER,
                &mut |piece: &[u8]| bytes.extend_from_slice(piece),
            )
            .await?;
        if received == Received::Closed {
            return Err(TransportError::Closed { flow: "transfer" });
        }
    }
    Acknowledgement::decode(&bytes).map(|acknowledgement| acknowledgement.0)
}
