//! Threads that watch a transfer: its deadline, and notes from the other end.
//!
//! Each end has one such thread, which sleeps nearly all the time. The transfer's own threads do
//! not check a clock for the deadline; a [`Stop`](crate::stop::Stop) wakes them.

mod client;
mod server;
#[cfg(test)]
mod tests;

use std::{
    ops::{Add, Sub},
    sync::atomic::Ordering,
    thread::{self, JoinHandle},
};

use regatta_control::Note;

pub use client::ClientEnd;
pub(crate) use client::{ClientEnding, ClientWatch};
pub(crate) use server::{ServerEnd, ServerEnding, ServerWatch};

use crate::{
    context::LiveCounters,
    error::{Result, TransportError},
};

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
    pub(crate) fn received(live: &LiveCounters) -> Self {
        Self {
            bytes: live.bytes_delivered.load(Ordering::Acquire),
            messages: live.messages_delivered.load(Ordering::Acquire),
        }
    }

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

/// Thread of a watch.
struct WatchThread(Option<JoinHandle<()>>);

impl WatchThread {
    fn start(name: &str, watch: impl FnOnce() + Send + 'static) -> Result<Self> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(watch);
        Ok(Self(Some(thread.map_err(TransportError::thread)?)))
    }

    /// Waits for the end of the thread. A panic there was reported when it happened; the transfer's own end
    /// stands.
    fn join(&mut self) {
        let _ = self.0.take().map(JoinHandle::join);
    }
}
