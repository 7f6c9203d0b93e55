//! Threads that watch a transfer: its deadline, and notes from the other end.
//!
//! Each end has one such thread, which sleeps nearly all the time. The transfer's own threads do
//! not check a clock for the deadline; a [`Stop`](crate::stop::Stop) wakes them.

mod client;
mod server;
#[cfg(test)]
mod tests;

use std::thread::{self, JoinHandle};

pub use client::ClientEnd;
pub(crate) use client::{ClientEnding, ClientWatch};
pub(crate) use server::{ServerEnd, ServerEnding, ServerWatch};

use crate::error::{Result, TransportError};

/// Thread of a watch.
struct WatchThread(Option<JoinHandle<()>>);

impl WatchThread {
    fn start(name: &str, watch: impl FnOnce() + Send + 'static) -> Result<Self> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(watch);
        Ok(Self(Some(thread.map_err(TransportError::thread)?)))
    }

    /// Waits for the end of the thread. A panic there was reported when it happened; the transfer's own end
    /// stands.
    fn join(&mut self) {
        let _ = self.0.take().map(JoinHandle::join);
    }
}
