//! State that a wrapped congestion controller shares with its driver.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Congestion window of a connection that is closing, in bytes: the stacks send without pacing
/// above 4 GiB.
pub const OPEN_WINDOW_BYTES: u64 = 1 << 40;

/// State that one connection's controller shares with its driver.
#[derive(Debug, Default)]
pub struct Watch {
    closing: AtomicBool,
    in_flight_bytes: AtomicU64,
}

impl Watch {
    /// Opens the congestion window; to be called before a connection is closed with data under way.
    ///
    /// quinn 0.11 holds CONNECTION_CLOSE back while stream data waits for the congestion window,
    /// and a closed connection processes no acknowledgements, so that the window never opens again
    /// and the other end would learn nothing before its idle timeout.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Whether [`Watch::close`] was called.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes sent, not acknowledged and not declared lost (RFC 9002 §2).
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes.load(Ordering::Relaxed)
    }

    /// Records the number of bytes in flight. Only the connection's own task calls this, so that
    /// reading and writing need not be one step.
    pub fn set_in_flight(&self, bytes: u64) {
        self.in_flight_bytes.store(bytes, Ordering::Relaxed);
    }
}
