//! A thread that advances connections while no call does: it answers a repeated CONN and data whose
//! acknowledgement was lost, and sends retransmissions that are due.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use regatta_transport::TransportError;

use super::connection::Link;

/// Interval of the thread. An application that sends or receives does not wait for it.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    links: Mutex<Vec<Weak<Link>>>,
}

/// The thread, which ends when this is dropped.
pub(crate) struct TimerThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl TimerThread {
    pub(crate) fn new() -> Result<Self, TransportError> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("timer_thread".to_owned())
            .spawn(move || {
                while !theirs.over.load(Ordering::Acquire) {
                    thread::park_timeout(LOOK);
                    theirs.tend();
                }
            })
            .map_err(TransportError::thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Advances this connection from now on, until that is dropped.
    pub(crate) fn take(&self, link: &Arc<Link>) {
        self.shared
            .links
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::downgrade(link));
    }
}

impl Shared {
    fn tend(&self) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| match link.upgrade() {
            Some(link) => {
                link.tend();
                true
            }
            None => false,
        });
    }
}

impl Drop for TimerThread {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
    }
}
