//! State that a wrapped congestion controller shares with its driver.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Congestion window of a connection that is closing, in bytes: the stacks send without pacing
/// above 4 GiB.
pub(crate) const OPEN_WINDOW_BYTES: u64 = 1 << 40;

/// State that one connection's controller shares with its driver.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    closing: AtomicBool,
    in_flight_bytes: AtomicU64,
    /// Whether a task waits for packets to be sent.
    is_awaited: AtomicBool,
    sent: Notify,
}

impl Watch {
    /// Opens the congestion window; to be called before a connection is closed with data under way.
    ///
    /// quinn 0.11 holds CONNECTION_CLOSE back while stream data waits for the congestion window,
    /// and a closed connection processes no acknowledgements, so that the window never opens again
    /// and the other end would learn nothing before its idle timeout.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Whether [`Watch::close`] was called.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes sent, not acknowledged and not declared lost (RFC 9002 §2).
    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes.load(Ordering::Relaxed)
    }

    /// Records that this many bytes were sent.
    pub(crate) fn on_sent(&self, bytes: u64) {
        self.set_in_flight(self.in_flight_bytes() + bytes);
        if self.is_awaited.load(Ordering::Relaxed) {
            self.sent.notify_waiters();
        }
    }

    /// Waits while a condition holds that changes with the packets that are sent.
    pub(crate) async fn wait_while(&self, holds: impl Fn() -> bool) {
        self.is_awaited.store(true, Ordering::Relaxed);
        loop {
            let mut sent = std::pin::pin!(self.sent.notified());
            // Before the condition is looked at, so that no packet is missed.
            sent.as_mut().enable();
            if !holds() {
                return;
            }
            sent.await;
        }
    }

    /// Records the number of bytes in flight. Only the connection's own task calls this, so that
    /// reading and writing need not be one step.
    pub(crate) fn set_in_flight(&self, bytes: u64) {
        self.in_flight_bytes.store(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, pin::pin};

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn wait_checks_its_condition_when_a_packet_is_sent() {
        let (watch, left, checks) = (Watch::default(), Cell::new(2), Cell::new(0));
        let waited = async {
            let mut waiting = pin!(watch.wait_while(|| {
                checks.set(checks.get() + 1);
                left.get() > 0
            }));
            for expected in [1, 2] {
                assert!(waiting.as_mut().now_or_never().is_none());
                assert!(waiting.as_mut().now_or_never().is_none());
                assert_eq!(checks.get(), expected);
                left.set(left.get() - 1);
                watch.on_sent(1000);
            }
            waiting.await;
        };
        waited.now_or_never().expect("nothing is waited for");
        assert_eq!(watch.in_flight_bytes(), 2000);
    }
}
