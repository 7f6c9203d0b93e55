//! Failure detection: the stack has none, neither for an association that only receives nor for one whose data is
//! never acknowledged.
//!
//! Source: RFC 9260 §8.1, §8.3.

use std::time::{Duration, Instant};

/// Silence of the other end after which it is sent a HEARTBEAT, and interval of the next ones.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);

/// Maximum number of HEARTBEATs without an answer. With these, an association is lost after 30 s of silence, as a
/// connection of the QUIC drivers is.
const MAX_UNANSWERED: u32 = 9;

/// Maximum silence of the other end of an association that is not lost.
pub(super) const MAX_SILENCE: Duration = HEARTBEAT_INTERVAL.saturating_mul(MAX_UNANSWERED + 1);

/// Consequence of the other end's silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// A HEARTBEAT is to be sent.
    Heartbeat,
    /// The association is lost.
    Lost,
}

/// Silence of the other end of an association.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// Time of the next HEARTBEAT, or of the loss of the association; `None` before the first packet.
    next: Option<Instant>,
    /// Number of HEARTBEATs that were sent after the last packet of the other end.
    unanswered: u32,
}

impl Liveness {
    /// Records that a packet of the other end has arrived.
    pub(super) fn heard(&mut self, now: Instant) {
        self.next = Some(now + HEARTBEAT_INTERVAL);
        self.unanswered = 0;
    }

    /// Returns the time of the next call of [`Liveness::on_time`].
    pub(super) const fn next_time(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the consequence of a silence that has lasted until `now`.
    pub(super) fn on_time(&mut self, now: Instant) -> Option<Silence> {
        self.next.filter(|at| *at <= now)?;
        if self.unanswered == MAX_UNANSWERED {
            return Some(Silence::Lost);
        }
        // Counted from now: a process that was stopped gives the other end its time to answer.
        self.next = Some(now + HEARTBEAT_INTERVAL);
        self.unanswered += 1;
        Some(Silence::Heartbeat)
    }
}
