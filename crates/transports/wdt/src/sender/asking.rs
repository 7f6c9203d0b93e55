//! How long a sender waits for what the receiver says to DONE.

use std::time::Duration;

/// What a wait is prolonged by when everything was delivered and only the answer is missing.
const ANSWER_GRACE: Duration = Duration::from_millis(500);

/// DONE is out, or about to be; the receiver says what follows.
pub(super) struct Asking {
    pub(super) until: Duration,
    /// Bytes that the peer had not acknowledged at the last time-out.
    undelivered: u64,
    /// Everything was delivered, and the wait was prolonged once.
    prolonged: bool,
}

impl Asking {
    /// From when DONE went out, or the receiver last said something.
    pub(super) fn new(timeout: Duration, now: Duration) -> Self {
        Self {
            until: now + timeout,
            undelivered: u64::MAX,
            prolonged: false,
        }
    }

    /// Whether the wait goes on over a time-out: as long as bytes still arrive, and once more after
    /// the last one did.
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
