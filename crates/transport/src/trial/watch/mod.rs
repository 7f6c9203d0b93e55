//! Threads that watch a transfer: its deadline, and notes from the other end.
//!
//! Each end has one such thread, which sleeps nearly all the time. The transfer's own threads do
//! not check a clock for the deadline; a [`Stop`](crate::stop::Stop) wakes them.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;

pub(crate) use receiver::{Completion, ReceiverEnd, ReceiverWatch};
pub use sender::SenderEnd;
pub(crate) use sender::{SenderEnding, SenderWatch};

use crate::context::LiveCounters;

/// Bytes and messages of a transfer: those that were sent, or those that arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Bytes.
    pub bytes: u64,
    /// Whole messages.
    pub messages: u64,
}

impl Delivered {
    /// Returns the bytes and messages that an end has handed over so far.
    #[must_use]
    pub fn sent(live: &LiveCounters) -> Self {
        Self {
            bytes: live.bytes_sent.load(Ordering::Relaxed),
            messages: live.messages_sent.load(Ordering::Relaxed),
        }
    }

    /// Returns the bytes and messages that have arrived at an end so far.
    pub(crate) fn here(live: &LiveCounters) -> Self {
        Self {
            bytes: live.bytes_delivered.load(Ordering::Acquire),
            messages: live.messages_delivered.load(Ordering::Acquire),
        }
    }
}
