//! Bytes and messages that an end has sent or got.

use std::ops::{Add, Sub};

use regatta_control::Note;

/// Bytes and messages of a transfer: those that were sent, or those that arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Bytes.
    pub bytes: u64,
    /// Whole messages.
    pub messages: u64,
}

impl Delivered {
    /// Returns the larger count of each.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            messages: self.messages.max(other.messages),
        }
    }

    /// Returns the note that all of this was sent, or what was sent by the deadline.
    #[must_use]
    pub const fn sent_note(self, deadline_reached: bool) -> Note {
        Note::Sent {
            messages: self.messages,
            bytes: self.bytes,
            deadline_reached,
        }
    }

    /// Returns the note that this was received.
    #[must_use]
    pub const fn received_note(self) -> Note {
        Note::Received {
            messages: self.messages,
            bytes: self.bytes,
        }
    }
}

impl Add for Delivered {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            messages: self.messages + other.messages,
        }
    }
}

impl Sub for Delivered {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            bytes: self.bytes - other.bytes,
            messages: self.messages - other.messages,
        }
    }
}
