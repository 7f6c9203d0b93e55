//! Timer of the sender's wait for the receiver's answer to DONE.

use std::time::Duration;

/// Time added to the wait when everything was delivered and only the answer is missing.
const ANSWER_GRACE: Duration = Duration::from_millis(500);

/// Wait for the receiver's answer, once DONE was sent or is about to be.
pub(super) struct AnswerTimer {
    pub(super) until: Duration,
    /// Bytes that the peer's system had not acknowledged at the last time-out.
    undelivered: u64,
    /// Whether everything was delivered and the wait was prolonged once.
    prolonged: bool,
}

impl AnswerTimer {
    /// Starts a wait, when DONE was sent or the receiver last sent something.
    pub(super) fn new(until: Duration) -> Self {
        Self {
            until,
            undelivered: u64::MAX,
            prolonged: false,
        }
    }

    /// Whether the wait goes on after a time-out: as long as bytes still arrive, and once more
    /// after the last one did.
    pub(super) fn may_go_on(&mut self, undelivered: u64, timeout: Duration, now: Duration) -> bool {
        if undelivered == 0 && !self.prolonged {
            self.prolonged = true;
            self.until = now + timeout + ANSWER_GRACE;
            return true;
        }
        if undelivered > 0 && undelivered < self.undelivered {
            self.undelivered = undelivered;
            self.until = now + timeout;
            return true;
        }
        false
    }
}
