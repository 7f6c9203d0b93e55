//! The sender's watch: deadlines, and the edges of the transfer window.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use regatta_control::Note;

use super::Delivered;
use crate::{
    clock::MonotonicTime,
    context::{StatisticsSource, TrialContext, WindowEdge},
    driver::TransportError,
    opening::Purpose,
    stop::Stop,
};

/// Outcome of a transfer at its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderEnd {
    /// The receiver's acknowledgement arrived.
    Acknowledged {
        /// Moment of its arrival.
        at: MonotonicTime,
        /// Bytes and messages that it acknowledges, or had come to this end.
        delivered: Delivered,
    },
    /// The deadline came first, and the receiver was told so: `sent` was handed over by then, and
    /// `delivered` had come to this end, where the other one sends as well.
    Deadline {
        /// Moment of the deadline.
        at: MonotonicTime,
        /// Bytes and messages that were handed over.
        sent: Delivered,
        /// Bytes and messages that had come to this end.
        delivered: Delivered,
    },
}

impl SenderEnd {
    /// Returns the moment of the end.
    #[must_use]
    pub const fn at(&self) -> MonotonicTime {
        match self {
            Self::Acknowledged { at, .. } | Self::Deadline { at, .. } => *at,
        }
    }
}

#[derive(Default)]
struct SenderState {
    started: Option<MonotonicTime>,
    /// Moment from which the transfer could carry data.
    connected: Option<MonotonicTime>,
    end: Option<SenderEnd>,
    finished: bool,
}

struct SenderShared {
    state: Mutex<SenderState>,
    changed: Condvar,
    context: TrialContext,
    transfer: Stop,
    /// Longest time from the first connect call until the transfer can carry data.
    connect_deadline: Duration,
    /// Longest time from then on until the end of the transfer.
    deadline: Duration,
}

impl SenderShared {
    fn lock(&self) -> MutexGuard<'_, SenderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connected(&self, at: MonotonicTime) -> MonotonicTime {
        let mut state = self.lock();
        let at = *state.connected.get_or_insert(at);
        drop(state);
        self.changed.notify_all();
        at
    }

    fn watch(&self) {
        let mut state = self.lock();
        while !state.finished && state.end.is_none() {
            let Some(started) = state.started else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let deadline = match state.connected {
                Some(connected) => connected + self.deadline,
                None => started + self.connect_deadline,
            };
            let now = MonotonicTime::now();
            if now >= deadline {
                let live = &self.context.live;
                let sent = Delivered::sent(live);
                state.end = Some(SenderEnd::Deadline {
                    at: deadline,
                    sent,
                    delivered: Delivered::here(live),
                });
                drop(state);
                self.stop_at_deadline(sent);
                return;
            }
            state = self
                .changed
                .wait_timeout(state, deadline.since(now))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn stop_at_deadline(&self, sent: Delivered) {
        // The note goes first: what the receiver has when it comes is what counts.
        self.context.observer.send_note(Note::Sent {
            messages: sent.messages,
            bytes: sent.bytes,
            deadline_reached: true,
        });
        self.context.observer.on_window(WindowEdge::End);
        self.transfer.stop();
    }
}

/// Handle that ends a transfer from elsewhere; see [`SenderWatch::ending`].
pub(crate) struct SenderEnding(Arc<SenderShared>);

impl SenderEnding {
    /// Ends the transfer with the receiver's acknowledgement, unless the deadline came first.
    pub(crate) fn acknowledged(&self, at: MonotonicTime, delivered: Delivered) {
        let mut state = self.0.lock();
        if state.end.is_some() {
            return;
        }
        state.end = Some(SenderEnd::Acknowledged { at, delivered });
        drop(state);
        self.0.context.observer.on_window(WindowEdge::End);
        self.0.changed.notify_all();
    }

    /// Whether the deadline has stopped the transfer.
    pub(crate) fn is_by_deadline(&self) -> bool {
        matches!(self.0.lock().end, Some(SenderEnd::Deadline { .. }))
    }
}

/// The sender's watch. Dropping it ends its thread.
pub(crate) struct SenderWatch {
    shared: Arc<SenderShared>,
    thread: Option<JoinHandle<()>>,
}

impl SenderWatch {
    /// Starts the thread; the time to connect runs from [`SenderWatch::arm`], the deadline from
    /// [`SenderWatch::connected`].
    pub(crate) fn new(
        context: &TrialContext,
        transfer: &Stop,
        (connect_deadline, deadline): (Duration, Duration),
    ) -> Result<Self, TransportError> {
        let shared = Arc::new(SenderShared {
            state: Mutex::default(),
            changed: Condvar::new(),
            context: context.clone(),
            transfer: transfer.clone(),
            connect_deadline,
            deadline,
        });
        let watched = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("sender-watch".to_owned())
            .spawn(move || watched.watch())
            .map_err(TransportError::thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Opens the transfer window; returns the moment from which the transfer time counts.
    pub(crate) fn arm(&self) -> MonotonicTime {
        self.shared.context.observer.on_window(WindowEdge::Start);
        let started = MonotonicTime::now();
        self.shared.lock().started = Some(started);
        self.shared.changed.notify_all();
        started
    }

    /// Starts the deadline: the transfer can carry data since `at`, unless another of its
    /// connections could before. Returns the moment since which it can.
    pub(crate) fn connected(&self, at: MonotonicTime) -> MonotonicTime {
        self.shared.connected(at)
    }

    /// Returns a function that does what [`SenderWatch::connected`] does, for callers that outlive
    /// a borrow of the watch.
    pub(crate) fn on_connected(&self) -> impl Fn() + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            shared.connected(MonotonicTime::now());
        }
    }

    /// Returns the moment from which the transfer's time counts.
    pub(crate) fn started(&self) -> MonotonicTime {
        let started = self.shared.lock().started;
        started.unwrap_or_else(MonotonicTime::now)
    }

    /// Since when the transfer could carry data; since it began, before that.
    pub(crate) fn loaded_since(&self) -> MonotonicTime {
        let connected = self.shared.lock().connected;
        connected.unwrap_or_else(|| self.started())
    }

    /// Lets the observer sample this connection.
    pub(crate) fn connection(&self, source: &Arc<dyn StatisticsSource>) {
        let observer = &self.shared.context.observer;
        observer.on_connection(Purpose::Transfer, Arc::downgrade(source));
    }

    /// Ends the transfer with the receiver's acknowledgement, unless the deadline came first.
    pub(crate) fn acknowledged(&self, at: MonotonicTime, delivered: Delivered) {
        self.ending().acknowledged(at, delivered);
    }

    /// Returns a handle that ends a transfer from elsewhere.
    pub(crate) fn ending(&self) -> SenderEnding {
        SenderEnding(Arc::clone(&self.shared))
    }

    /// Ends the thread; returns the outcome of the transfer, if it has ended.
    pub(crate) fn finish(mut self) -> Option<SenderEnd> {
        self.end_thread();
        self.shared.lock().end
    }

    fn end_thread(&mut self) {
        self.shared.lock().finished = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened; the transfer's own end stands.
            let _ = thread.join();
        }
    }
}

impl Drop for SenderWatch {
    fn drop(&mut self) {
        self.end_thread();
    }
}
