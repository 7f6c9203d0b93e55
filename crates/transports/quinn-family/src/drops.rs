//! Packets dropped by the sockets of one end, which may have had more than one socket.

use parking_lot::Mutex;
use regatta_transport_sockets::socket::Counters;

/// Drop counter of one end: the socket in use, and the sockets before it.
#[derive(Debug)]
pub(crate) struct Drops(Mutex<State>);

#[derive(Debug)]
struct State {
    counters: Counters,
    before: u64,
}

impl Drops {
    /// Creates the counter of an end whose first socket has these counters.
    pub(crate) fn new(counters: Counters) -> Self {
        Self(Mutex::new(State {
            counters,
            before: 0,
        }))
    }

    /// Continues with the counters of a new socket of the end.
    pub(crate) fn moved_to(&self, counters: Counters) {
        let mut state = self.0.lock();
        state.before += state.counters.receive_buffer_drops().unwrap_or_default();
        state.counters = counters;
    }

    /// Returns the number of packets that reached this end and did not fit the receive buffer;
    /// `None` where the kernel does not count them.
    pub(crate) fn count(&self) -> Option<u64> {
        let state = self.0.lock();
        let now = state.counters.receive_buffer_drops()?;
        Some(state.before + now)
    }
}
