//! What a transfer consists of: how many messages, of which size, filled with what.

use bytes::Bytes;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use regatta_control::TrialOrder;
use regatta_model::{Pattern, WorkloadKind};

use crate::driver::TransportError;

/// Length of the header that a message opens with, in bytes. A shorter message has none.
pub(crate) const HEADER_BYTES: usize = 16;

/// Largest message, in bytes: one is held in memory whole.
const LONGEST_MESSAGE: u64 = 256 << 20;

/// The messages of one transfer. Both ends make the same from their orders.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Bytes of all messages.
    pub size: u64,
    /// Size of every message but the last, which may be shorter.
    pub message: usize,
    /// Number of messages.
    pub count: u64,
    /// A whole message, as it is apart from its header.
    pub content: Bytes,
    /// Tells this trial's headers from those of any other.
    pub salt: u32,
}

impl Plan {
    pub(crate) fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let WorkloadKind::Bulk {
            size,
            message,
            pattern,
        } = order.workload.kind;
        if message.0 == 0 {
            return Err(TransportError::Order {
                what: "a message of zero bytes cannot be sent".to_owned(),
            });
        }
        // A message is never longer than all of it.
        let longest = message.0.min(size.0.max(1));
        if longest > LONGEST_MESSAGE {
            return Err(TransportError::Order {
                what: format!("a message of `{message}` is longer than 256 MiB"),
            });
        }
        let message = longest as usize;
        let mut salt = crc32fast::Hasher::new();
        salt.update(order.token.as_bytes());
        Ok(Self {
            size: size.0,
            message,
            count: size.0.div_ceil(longest),
            content: fill(pattern, message, order.seed),
            salt: salt.finalize(),
        })
    }

    /// Length of the message at this position, in bytes.
    pub(crate) fn length(&self, sequence: u64) -> usize {
        if sequence + 1 < self.count {
            self.message
        } else {
            (self.size - (self.count - 1) * self.message as u64) as usize
        }
    }

    /// Length of the header of a message of this length: none where it does not fit.
    pub(crate) const fn header(length: usize) -> usize {
        if length >= HEADER_BYTES {
            HEADER_BYTES
        } else {
            0
        }
    }
}

fn fill(pattern: Pattern, length: usize, seed: u64) -> Bytes {
    match pattern {
        Pattern::Data => b"DATA".iter().copied().cycle().take(length).collect(),
        Pattern::Zeros => vec![0; length].into(),
        Pattern::Random => {
            let mut content = vec![0; length];
            ChaCha8Rng::seed_from_u64(seed).fill(&mut content[..]);
            content.into()
        }
    }
}

/// How many bytes are compared at the beginning and at the end of each piece of a message.
const SAMPLE: usize = 32;

/// Whether a piece of a message is what the plan says, looking at its first and last bytes.
///
/// `expected` has the same length. Comparing all of it would cost more CPU than moving it.
pub(crate) fn looks_right(piece: &[u8], expected: &[u8]) -> bool {
    if piece.len() <= 2 * SAMPLE {
        return piece == expected;
    }
    let end = piece.len() - SAMPLE;
    piece[..SAMPLE] == expected[..SAMPLE] && piece[end..] == expected[end..]
}
