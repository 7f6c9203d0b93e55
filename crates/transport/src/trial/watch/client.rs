//! The client's watch: deadlines, and the edges of the transfer window.

use std::{ops::Deref, sync::Arc, time::Duration};

use super::WatchThread;
use crate::{
    clock::MonotonicTime,
    context::{StatisticsSource, TrialContext, WindowEdge},
    delivered::Delivered,
    error::Result,
    opening::Purpose,
    stop::Stop,
    sync::Watched,
};

/// Outcome of a transfer at its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEnd {
    /// The acknowledgement arrived, or everything that the server sent.
    Acknowledged {
        /// Moment of its arrival.
        at: MonotonicTime,
        /// Bytes and messages that it acknowledges, or had come to this end.
        delivered: Delivered,
    },
    /// The deadline came first, and a note to the server was sent: `sent` was handed over by then, and
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

impl ClientEnd {
    /// Returns the moment of the end.
    #[must_use]
    pub const fn at(&self) -> MonotonicTime {
        match self {
            Self::Acknowledged { at, .. } | Self::Deadline { at, .. } => *at,
        }
    }

    /// Returns the bytes and messages that were acknowledged, or had come to this end.
    pub(crate) const fn delivered(&self) -> Delivered {
        match self {
            Self::Acknowledged { delivered, .. } | Self::Deadline { delivered, .. } => *delivered,
        }
    }
}

#[derive(Default)]
struct ClientState {
    started: Option<MonotonicTime>,
    /// Moment from which the transfer could carry data.
    connected: Option<MonotonicTime>,
    end: Option<ClientEnd>,
    finished: bool,
}

/// State of a transfer at its client, by which it can be ended from elsewhere.
pub(crate) struct ClientEnding {
    state: Watched<ClientState>,
    context: TrialContext,
    transfer: Stop,
    /// Longest time from the first connect call until the transfer can carry data.
    connect_deadline: Duration,
    /// Longest time from then on until the end of the transfer.
    deadline: Duration,
}

impl ClientEnding {
    fn watch(&self) {
        let mut state = self.state.lock();
        while !state.finished && state.end.is_none() {
            let deadline = match (state.started, state.connected) {
                (None, _) => MonotonicTime::NEVER,
                (_, Some(connected)) => connected + self.deadline,
                (Some(started), None) => started + self.connect_deadline,
            };
            if deadline.has_passed() {
                let live = &self.context.live;
                let sent = live.sent();
                state.end = Some(ClientEnd::Deadline {
                    at: deadline,
                    sent,
                    delivered: live.received(),
                });
                drop(state);
                return self.stop_at_deadline(sent);
            }
            self.state.wait(&mut state, deadline);
        }
    }

    fn stop_at_deadline(&self, sent: Delivered) {
        // The note goes first: what the server has when it comes is what counts.
        self.context.observer.send_note(sent.sent_note(true));
        self.context.observer.on_window(WindowEdge::End);
        self.transfer.stop();
    }

    /// Opens the transfer window; returns the moment from which the transfer time counts.
    pub(crate) fn arm(&self) -> MonotonicTime {
        self.context.observer.on_window(WindowEdge::Start);
        let started = MonotonicTime::now();
        self.state.change(|state| state.started = Some(started));
        started
    }

    /// Starts the deadline: the transfer can carry data since `at`, unless another of its
    /// connections could before. Returns the moment since which it can.
    pub(crate) fn connected(&self, at: MonotonicTime) -> MonotonicTime {
        self.state
            .change(|state| *state.connected.get_or_insert(at))
    }

    /// Whether the transfer could carry data at any time.
    pub(crate) fn is_connected(&self) -> bool {
        self.state.lock().connected.is_some()
    }

    /// Since when the transfer could carry data; since it began, before that.
    pub(crate) fn loaded_since(&self) -> MonotonicTime {
        let state = self.state.lock();
        let loaded = state.connected.or(state.started);
        loaded.unwrap_or_else(MonotonicTime::now)
    }

    /// Lets the observer sample this connection.
    pub(crate) fn connection(&self, source: &Arc<dyn StatisticsSource>) {
        let observer = &self.context.observer;
        observer.on_connection(Purpose::Transfer, Arc::downgrade(source));
    }

    /// Ends the transfer with the receiver's acknowledgement, unless the deadline came first.
    pub(crate) fn acknowledged(&self, at: MonotonicTime, delivered: Delivered) {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return;
        }
        state.end = Some(ClientEnd::Acknowledged { at, delivered });
        drop(state);
        self.context.observer.on_window(WindowEdge::End);
        self.state.notify();
    }

    /// Whether the deadline has stopped the transfer.
    pub(crate) fn is_by_deadline(&self) -> bool {
        matches!(self.state.lock().end, Some(ClientEnd::Deadline { .. }))
    }
}

/// The client's watch. Dropping it ends its thread.
pub(crate) struct ClientWatch {
    ending: Arc<ClientEnding>,
    thread: WatchThread,
}

impl Deref for ClientWatch {
    type Target = Arc<ClientEnding>;

    fn deref(&self) -> &Arc<ClientEnding> {
        &self.ending
    }
}

impl ClientWatch {
    /// Starts the thread; the time to connect runs from [`ClientEnding::arm`], the deadline from
    /// [`ClientEnding::connected`].
    pub(crate) fn new(
        context: &TrialContext,
        transfer: &Stop,
        (connect_deadline, deadline): (Duration, Duration),
    ) -> Result<Self> {
        let ending = Arc::new(ClientEnding {
            state: Watched::default(),
            context: context.clone(),
            transfer: transfer.clone(),
            connect_deadline,
            deadline,
        });
        let watched = Arc::clone(&ending);
        let thread = WatchThread::start("client-watch", move || watched.watch())?;
        Ok(Self { ending, thread })
    }

    /// Ends the thread; returns the outcome of the transfer, if it has ended.
    pub(crate) fn finish(mut self) -> Option<ClientEnd> {
        self.end_thread();
        self.state.lock().end
    }

    fn end_thread(&mut self) {
        self.state.change(|state| state.finished = true);
        self.thread.join();
    }
}

impl Drop for ClientWatch {
    fn drop(&mut self) {
        self.end_thread();
    }
}
