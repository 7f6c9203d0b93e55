//! Send window that follows the congestion window.

use crate::stack::{self, quic::Connection};

/// Smallest send window that follows the congestion window, in bytes.
pub(crate) const LEAST_SEND_WINDOW_BYTES: u64 = 1 << 20;

/// Send window, in congestion windows: what is in flight, as much to double it in slow start, and room for a write.
const CONGESTION_WINDOWS: u64 = 4;

/// Number of written bytes after which the congestion window is looked at again.
const LOOK_AFTER_BYTES: usize = 64 << 10;

/// Send window of a connection over a path whose rate is not known.
///
/// The flow-control window there is that of a fast path. With a send window of that size, what the application has
/// written when its time is up can be on its way for a minute over a slow one.
pub(crate) struct SendWindow {
    connection: Connection,
    most_bytes: u64,
    since_look_bytes: usize,
}

impl SendWindow {
    /// Creates the send window of a connection, of at most `most_bytes`.
    pub(crate) fn new(connection: Connection, most_bytes: u64) -> Self {
        Self {
            connection,
            most_bytes,
            since_look_bytes: 0,
        }
    }

    /// Sets the window before a write of this many bytes.
    pub(crate) fn before(&mut self, bytes: usize) {
        self.since_look_bytes += bytes;
        if self.since_look_bytes < LOOK_AFTER_BYTES {
            return;
        }
        self.since_look_bytes = 0;
        let congestion_window = stack::figures(&self.connection).window_bytes;
        self.connection
            .set_send_window(size(congestion_window, self.most_bytes));
    }
}

/// Returns the send window for a congestion window, in bytes.
fn size(congestion_window: u64, most: u64) -> u64 {
    congestion_window
        .saturating_mul(CONGESTION_WINDOWS)
        .max(LEAST_SEND_WINDOW_BYTES)
        .min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_some_congestion_windows() {
        assert_eq!(size(14_000, 32 << 20), 1 << 20);
        assert_eq!(size(1 << 20, 32 << 20), 4 << 20);
        assert_eq!(size(16 << 20, 32 << 20), 32 << 20);
        assert_eq!(size(u64::MAX, 2 << 20), 2 << 20);
    }
}
