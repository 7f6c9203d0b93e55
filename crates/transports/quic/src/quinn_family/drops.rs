//! What the sockets of one end dropped, when it has had more than one.

use std::sync::{Mutex, PoisonError};

use crate::socket::Counters;

/// Counts the drops of the socket in use, and those of the ones before it.
#[derive(Debug)]
pub struct Drops(Mutex<State>);

#[derive(Debug)]
struct State {
    counters: Counters,
    before: u64,
}

impl Drops {
    /// Of an end whose first socket has these counters.
    #[must_use]
    pub fn new(counters: Counters) -> Self {
        Self(Mutex::new(State {
            counters,
            before: 0,
        }))
    }

    /// The end has another socket from now on.
    pub fn moved_to(&self, counters: Counters) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.before += state.counters.receive_buffer_drops().unwrap_or_default();
        state.counters = counters;
    }

    /// Packets that reached this end and did not fit the receive buffer; `None` where the kernel
    /// does not tell.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.counters.receive_buffer_drops()?;
        Some(state.before + now)
    }
}
