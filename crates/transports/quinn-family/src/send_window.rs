//! Send window that follows the congestion window.

use regatta_transport_quic_common::path::Sizes;

use crate::stack::{self, quic::Connection};

/// Number of written bytes after which the window is updated.
const UPDATE_AFTER_BYTES: usize = 64 << 10;

/// Send window of a connection that follows the congestion window ([`Sizes::held_bytes`]).
pub(crate) struct SendWindow {
    connection: Connection,
    sizes: Sizes,
    since_update_bytes: usize,
}

impl SendWindow {
    /// Creates the send window of a connection.
    pub(crate) fn new(connection: Connection, sizes: Sizes) -> Self {
        Self {
            connection,
            sizes,
            since_update_bytes: 0,
        }
    }

    /// Sets the window before a write of this many bytes.
    pub(crate) fn before(&mut self, bytes: usize) {
        self.since_update_bytes += bytes;
        if self.since_update_bytes < UPDATE_AFTER_BYTES {
            return;
        }
        self.since_update_bytes = 0;
        let congestion_window = stack::stats(&self.connection).1.cwnd;
        self.connection
            .set_send_window(self.sizes.held_bytes(congestion_window));
    }
}
