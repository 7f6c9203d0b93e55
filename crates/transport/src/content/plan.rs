//! Messages of a transfer: their number, sizes and content.

use std::sync::Arc;

use bytes::Bytes;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use regatta_control::TrialOrder;
use regatta_model::{Bytes as Size, Pattern, WorkloadKind, reason};

use crate::error::{Result, TransportError};

/// Length of the header that a message opens with, in bytes. A shorter message has none.
pub(crate) const HEADER_BYTES: usize = 16;

/// Largest message, in bytes: one is held in memory whole.
const LONGEST_MESSAGE: u64 = 256 << 20;

/// The messages of one transfer. Both ends make the same from their orders.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Bytes of all messages.
    pub size: u64,
    /// Size of every message but the last, which may be shorter; where each has its own, at least the largest.
    pub message: usize,
    /// Lengths of the messages, where they differ.
    lengths: Option<Arc<[u32]>>,
    /// Number of messages.
    pub count: u64,
    /// A whole message, as it is apart from its header.
    pub content: Bytes,
    /// Salt of the headers' checks, which differs between trials.
    pub salt: u32,
    /// Whether what arrives can be compared with [`Plan::content`]: both ends have it in memory.
    pub compared: bool,
}

impl Plan {
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        let WorkloadKind::Bulk {
            amount,
            message,
            pattern,
            ..
        } = order.workload.kind
        else {
            let name = order.workload.kind.name();
            let what = reason::not_bulk(name);
            return Err(TransportError::order(what));
        };
        Self::of(order, "", amount.bytes(), message, pattern)
    }

    /// Makes the messages of one part of a trial; the headers depend on its name `part`.
    pub(crate) fn of(
        order: &TrialOrder,
        part: &str,
        size: Size,
        message: Size,
        pattern: Pattern,
    ) -> Result<Self> {
        if message.0 == 0 {
            let what = reason::empty_message();
            return Err(TransportError::order(what));
        }
        // A message is never longer than all of it.
        let longest = message.0.min(size.0.max(1));
        if longest > LONGEST_MESSAGE {
            let what = reason::message_too_long(message);
            return Err(TransportError::order(what));
        }
        let message = longest as usize;
        let mut salt = crc32fast::Hasher::new();
        salt.update(order.token.as_bytes());
        salt.update(part.as_bytes());
        Ok(Self {
            size: size.0,
            message,
            lengths: None,
            count: size.0.div_ceil(longest),
            content: message_content(pattern, message, order.seed),
            salt: salt.finalize(),
            compared: pattern != Pattern::File,
        })
    }

    /// Returns messages of these lengths, none of which is longer than those of this plan. The headers depend on the part's
    /// `number`.
    pub(crate) fn of_lengths(&self, lengths: Arc<[u32]>, number: u32) -> Self {
        Self {
            size: lengths.iter().map(|length| u64::from(*length)).sum(),
            count: lengths.len() as u64,
            salt: self.salt.wrapping_add(number),
            lengths: Some(lengths),
            ..self.clone()
        }
    }

    /// Returns messages of the same length with `size` bytes in all. The headers depend on
    /// the part's `number`.
    pub(crate) fn part(&self, size: u64, number: u32) -> Self {
        Self {
            size,
            count: size.div_ceil(self.message as u64),
            salt: self.salt.wrapping_add(number),
            ..self.clone()
        }
    }

    /// Returns messages of the same length without an end, as part `number`.
    pub(crate) fn endless(&self, number: u32) -> Self {
        let most = u64::MAX / self.message as u64;
        self.part(most * self.message as u64, number)
    }

    /// Returns the payload of a message of `length` bytes, uncopied.
    pub(crate) fn payload(&self, length: usize) -> Bytes {
        self.content.slice(Self::header(length)..length)
    }

    /// Returns the number of the message in which the byte at `offset` lies, and the byte's
    /// position in it.
    pub(crate) fn locate(&self, offset: u64) -> (u64, usize) {
        let message = self.message as u64;
        (offset / message, (offset % message) as usize)
    }

    /// Returns the length of message `sequence`, in bytes.
    pub(crate) fn length(&self, sequence: u64) -> usize {
        if let Some(lengths) = &self.lengths {
            return lengths[sequence as usize] as usize;
        }
        match sequence + 1 < self.count {
            true => self.message,
            false => (self.size - (self.count - 1) * self.message as u64) as usize,
        }
    }

    /// Returns the length of the header of a message of `length` bytes: none where it does not fit.
    pub(crate) const fn header(length: usize) -> usize {
        if length >= HEADER_BYTES {
            HEADER_BYTES
        } else {
            0
        }
    }
}

/// Alignment of memory that the kernel copies from and to, in bytes, a page: a copy whose two ends
/// lie differently in their cache lines is slower.
pub(crate) const ALIGNMENT: usize = 4096;

/// Makes the content of a whole message of `length` bytes, aligned to a page: the same for the same
/// `seed`.
#[must_use]
pub fn message_content(pattern: Pattern, length: usize, seed: u64) -> Bytes {
    let mut content: Vec<u8> = Vec::with_capacity(length + ALIGNMENT);
    // The vector does not grow beyond its capacity, so it stays where it is.
    let start = content.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    content.resize(start, 0);
    match pattern {
        Pattern::Data => content.extend(b"DATA".iter().cycle().take(length)),
        Pattern::Zeros => content.resize(start + length, 0),
        Pattern::Random | Pattern::File => {
            content.resize(start + length, 0);
            ChaCha8Rng::seed_from_u64(seed).fill(&mut content[start..]);
        }
    }
    Bytes::from(content).slice(start..)
}

/// Bytes that are compared at the beginning and at the end of each piece of a message.
const SAMPLE: usize = 32;

/// Whether the first and last bytes of a piece of a message are those of the plan.
///
/// `expected` has the same length. Comparing all of it would cost more CPU than moving it.
pub(crate) fn matches_samples(piece: &[u8], expected: &[u8]) -> bool {
    if piece.len() <= 2 * SAMPLE {
        return piece == expected;
    }
    let end = piece.len() - SAMPLE;
    piece[..SAMPLE] == expected[..SAMPLE] && piece[end..] == expected[end..]
}
