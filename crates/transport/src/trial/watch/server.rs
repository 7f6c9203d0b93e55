//! Thread of the server that follows the other end's notes and ends the transfer by them.

use std::{ops::Deref, sync::Arc, time::Duration};

use regatta_control::Note;

use super::WatchThread;
use crate::{
    clock::MonotonicTime,
    context::{TrialContext, WindowEdge},
    delivered::Delivered,
    error::Result,
    peer::{PeerEvent, PeerState, Seen},
    stop::Stop,
    sync::Watched,
    trial::Trial,
};

/// Maximum delay, after the end of a flow, of the note that the deadline was reached.
const BREAK_PATIENCE: Duration = Duration::from_secs(3);

/// Time added to the path's longest delay when waiting for the packets with which the client closes its connections.
const CLOSE_SLACK: Duration = Duration::from_millis(500);

/// Outcome of a transfer at its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerEnd {
    /// The transfer is complete at `at`, and `delivered` is final.
    Complete {
        at: MonotonicTime,
        delivered: Delivered,
    },
    /// The client's deadline came first, at `at`: `delivered` had arrived by then, of `sent` messages that were sent.
    Deadline {
        at: MonotonicTime,
        delivered: Delivered,
        sent: u64,
    },
    /// No note of the client came for too long.
    TimedOut,
}

#[derive(Default)]
struct ServerState {
    end: Option<ServerEnd>,
    /// Whether the thread has ended: nothing that the other end does is noticed any more.
    thread_ended: bool,
    /// Stop of the transfer's flow, once it has been opened.
    transfer: Option<Stop>,
    /// Stop that is raised when the client has sent everything.
    until_sent: Option<Stop>,
}

/// State of a transfer at its server, by which it can be ended from elsewhere.
pub(crate) struct ServerEnding {
    state: Watched<ServerState>,
    context: TrialContext,
    session: Stop,
    /// Moment until which this end waits for the other.
    pub limit: MonotonicTime,
    /// Maximum wait for the packets that close a connection.
    close_within: Duration,
}

impl ServerEnding {
    fn watch(&self) {
        let (peer, mut seen) = (&self.context.peer, Seen::default());
        // Moment by which the packets with which the other end closed must have come.
        let mut closed_by = None;
        loop {
            let until = closed_by.map_or(self.limit, |moment| self.limit.min(moment));
            match peer.next_event(&mut seen, until) {
                Some(PeerEvent::Stopped { messages }) => self.stop_at_deadline(messages),
                Some(PeerEvent::Sent) => {
                    let until_sent = self.state.lock().until_sent.clone();
                    if let Some(until_sent) = until_sent {
                        until_sent.stop();
                    }
                }
                Some(PeerEvent::Closed) => {
                    if !self.stop_if_closed() {
                        closed_by = Some(MonotonicTime::now() + self.close_within);
                    }
                }
                None if closed_by.take().is_some() && until.has_passed() => {
                    // What a session waits for whose transfer the deadline has ended was lost.
                    if self.state.lock().end.is_some() {
                        self.session.stop();
                    }
                }
                None => break,
            }
        }
        if self.limit.has_passed() {
            self.state
                .change(|state| *state.end.get_or_insert(ServerEnd::TimedOut));
            self.session.stop();
        }
        self.state.change(|state| state.thread_ended = true);
    }

    /// Ends the transfer: all that will be counted is counted. Returns false if it had ended
    /// otherwise.
    pub(crate) fn complete(&self, delivered: Delivered) -> bool {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return false;
        }
        state.end = Some(ServerEnd::Complete {
            at: MonotonicTime::now(),
            delivered,
        });
        drop(state);
        self.stop_if_closed();
        true
    }

    /// Stops the session of a complete transfer whose other end has closed: it has the acknowledgement, so
    /// nothing that is under way still is needed. The packets that close would come later than the note, or never.
    fn stop_if_closed(&self) -> bool {
        let over = self.is_complete() && self.context.peer.read(|peer| peer.closed.is_some());
        if over {
            self.session.stop();
        }
        over
    }

    fn stop_at_deadline(&self, sent: u64) {
        let now = MonotonicTime::now();
        let here = self.context.live.received();
        let deadline = ServerEnd::Deadline {
            at: now,
            delivered: here,
            // The count does not include the batch under way yet.
            sent: sent.max(here.messages),
        };
        let (before, transfer) = self.state.change(|state| {
            let before = state.end;
            state.end = before.or(Some(deadline));
            (before, state.transfer.clone())
        });
        let observer = &self.context.observer;
        match before {
            Some(ServerEnd::TimedOut) => return,
            None => {
                observer.on_window(WindowEdge::End);
                observer.send_note(here.received_note());
            }
            Some(ServerEnd::Complete { delivered, .. } | ServerEnd::Deadline { delivered, .. }) => {
                observer.send_note(delivered.received_note());
                // Everything had been counted before the deadline.
                observer.send_note(Note::Arrived {
                    messages: delivered.messages,
                });
            }
        }
        // The probe's last messages are answered still, if there is a transfer to stop alone.
        transfer.as_ref().unwrap_or(&self.session).stop();
    }

    /// Completes the transfer and its window, unless it had ended otherwise.
    pub(crate) fn complete_window(&self, delivered: Delivered) {
        if self.complete(delivered) {
            self.context.observer.on_window(WindowEdge::End);
        }
    }

    /// Has the client's deadline raise `stop` from now on, and not the stop of the whole session.
    pub(crate) fn transfer(&self, stop: &Stop) {
        let mut state = self.state.lock();
        state.transfer = Some(stop.clone());
        let late = state.end.is_some();
        drop(state);
        if late {
            stop.stop();
        }
    }

    /// Raises `stop` when the client's note comes that it has sent everything: for a workload whose
    /// server cannot know by itself which message was the last.
    pub(crate) fn stop_when_sent(&self, stop: &Stop) {
        let mut state = self.state.lock();
        state.until_sent = Some(stop.clone());
        drop(state);
        if self.context.peer.read(|peer| peer.sent.is_some()) {
            stop.stop();
        }
    }

    /// Waits up to [`BREAK_PATIENCE`] for the outcome of a transfer whose flow ended before all of it had arrived: the
    /// note of a client that was stopped by its deadline can arrive after the end of the flow. `None` if no outcome
    /// came.
    pub(crate) fn end_after_break(&self) -> Option<ServerEnd> {
        let until = MonotonicTime::now() + BREAK_PATIENCE;
        let end = self.state.wait_for(until, |state| {
            (state.end.is_some() || state.thread_ended).then_some(state.end)
        });
        end.flatten()
    }

    /// Waits up to [`BREAK_PATIENCE`] for `part` of the other end's state, after the flow was ended by the other end's
    /// deadline: its note can arrive after the end of the flow. `None` if the part has not come.
    pub(crate) fn told_after_break<T>(&self, part: impl Fn(&PeerState) -> Option<T>) -> Option<T> {
        (self.context.peer).wait_for(MonotonicTime::now() + BREAK_PATIENCE, part)
    }

    /// Returns the outcome of the transfer, if it has ended.
    pub(crate) fn end(&self) -> Option<ServerEnd> {
        self.state.lock().end
    }

    /// Whether the transfer has come to its end before its client's deadline.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.end(), Some(ServerEnd::Complete { .. }))
    }
}

/// Thread that follows the other end's notes during a trial at the server. Dropping this wakes everything that waits
/// for a note, and joins the thread.
pub(crate) struct ServerWatch {
    ending: Arc<ServerEnding>,
    thread: WatchThread,
}

impl Deref for ServerWatch {
    type Target = Arc<ServerEnding>;

    fn deref(&self) -> &Arc<ServerEnding> {
        &self.ending
    }
}

impl ServerWatch {
    /// Starts the thread. It stops the session
    /// - at the trial's limit,
    /// - at the client's deadline, if the transfer's flow has not been opened by then,
    /// - when the client has closed its connections and this end has not noticed.
    ///
    /// # Errors
    /// [`TransportError`](crate::error::TransportError) if the thread cannot be started.
    pub(crate) fn new(trial: &Trial) -> Result<Self> {
        let context = &trial.context;
        let ending = Arc::new(ServerEnding {
            state: Watched::default(),
            context: context.clone(),
            session: trial.stop.clone(),
            limit: MonotonicTime::now() + trial.limit(),
            close_within: trial.order.path.longest_one_way + CLOSE_SLACK,
        });
        let watched = Arc::clone(&ending);
        let thread = WatchThread::start("server-watch", move || watched.watch())?;
        Ok(Self { ending, thread })
    }
}

impl Drop for ServerWatch {
    fn drop(&mut self) {
        self.ending.context.peer.end_waits();
        self.thread.join();
    }
}
