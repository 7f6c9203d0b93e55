//! Content of a transfer, one message again and again with the last one cut short, and its
//! checksum.

use bytes::Bytes;
use crc32fast::Hasher;
use regatta_model::{Pattern, reason};
use regatta_transport::message_content;

use crate::error::ProgramFailure;

/// The content of a transfer. Both ends generate the same from their orders.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    /// One full-length message.
    pub message: Bytes,
    /// Bytes of all messages.
    pub size: u64,
}

impl Content {
    /// Makes the content of a bulk transfer.
    pub(crate) fn new(pattern: Pattern, message: usize, size: u64, seed: u64) -> Self {
        let message = message_content(pattern, message, seed);
        Self { message, size }
    }

    /// Returns the number of messages that are complete in the first `bytes`; the last one may be
    /// shorter.
    pub(crate) fn messages(&self, bytes: u64) -> u64 {
        let message = (self.message.len() as u64).max(1);
        match bytes >= self.size {
            true => self.size.div_ceil(message),
            false => bytes / message,
        }
    }

    /// Returns the CRC-32 of the first `bytes`.
    ///
    /// The sum is combined from that of one message, in as many steps as the number of messages has
    /// binary digits.
    pub(crate) fn crc32(&self, bytes: u64) -> u32 {
        let message = (self.message.len() as u64).max(1);
        let mut all = Hasher::new();
        let mut power = Hasher::new();
        power.update(&self.message);
        let mut repetitions = bytes / message;
        while repetitions > 0 {
            if repetitions & 1 == 1 {
                // All powers are repetitions of one message, so their order does not matter.
                all.combine(&power);
            }
            let twice = power.clone();
            power.combine(&twice);
            repetitions >>= 1;
        }
        let rest = usize::try_from(bytes % message).unwrap_or_default();
        all.update(&self.message[..rest]);
        all.finalize()
    }

    /// Checks the CRC-32 of the first `bytes` that a program states.
    pub(crate) fn check(&self, bytes: u64, crc32: Option<u32>) -> Result<(), ProgramFailure> {
        let expected = self.crc32(bytes);
        let got = crc32.ok_or_else(|| ProgramFailure::invalid(reason::no_checksum()))?;
        if got == expected {
            return Ok(());
        }
        Err(ProgramFailure::invalid(reason::other_checksum(
            bytes,
            &format!("{got:08x}"),
            &format!("{expected:08x}"),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_crc32_of_the_content() {
        for (message, size) in [(1, 1), (4, 10), (10, 1000), (7, 1001), (1000, 3), (9, 0)] {
            let content = Content::new(Pattern::Random, message, size, 3);
            for bytes in [0, 1, size / 3, size] {
                let bytes = bytes.min(size);
                let sent: Vec<u8> = content
                    .message
                    .iter()
                    .copied()
                    .cycle()
                    .take(bytes as usize)
                    .collect();
                assert_eq!(
                    content.crc32(bytes),
                    crc32fast::hash(&sent),
                    "{bytes} of {size} in messages of {message}"
                );
            }
        }
        // The check value of this CRC.
        let nine = Content {
            message: bytes::Bytes::from_static(b"123456789"),
            size: 9,
        };
        assert_eq!(nine.crc32(9), 0xcbf4_3926);
    }

    #[test]
    fn a_shorter_last_message_counts_once_complete() {
        let content = Content::new(Pattern::Data, 10, 25, 0);
        let counts = [0, 9, 10, 24, 25].map(|bytes| content.messages(bytes));
        assert_eq!(counts, [0, 0, 1, 2, 3]);
        assert_eq!(Content::new(Pattern::Zeros, 10, 0, 0).messages(0), 0);
    }
}
