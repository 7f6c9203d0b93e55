//! Packets dropped by the sockets of one end, which may have had more than one socket.

use parking_lot::Mutex;
use regatta_transport_sockets::socket::Counters;

/// Drop counter of one end: the counters of the socket in use, and the drops of the sockets before it.
#[derive(Debug)]
pub(crate) struct Drops(Mutex<(Counters, u64)>);

impl Drops {
    /// Creates the counter of an end whose first socket has these counters.
    pub(crate) fn new(counters: Counters) -> Self {
        Self(Mutex::new((counters, 0)))
    }

    /// Continues with the counters of a new socket of the end.
    pub(crate) fn moved_to(&self, counters: Counters) {
        let (used, before) = &mut *self.0.lock();
        *before += used.receive_buffer_drops().unwrap_or_default();
        *used = counters;
    }

    /// Returns the number of packets that reached this end and did not fit the receive buffer;
    /// `None` where the kernel does not count them.
    pub(crate) fn count(&self) -> Option<u64> {
        let (used, before) = &*self.0.lock();
        Some(before + used.receive_buffer_drops()?)
    }
}
