//! The receiver's watch: notes of the sender, and the end of the transfer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use regatta_control::Note;

use super::Delivered;
use crate::{
    clock::MonotonicTime,
    context::{TrialContext, WindowEdge},
    driver::TransportError,
    stop::Stop,
    trial::Trial,
};

/// Longest time after the end of the flow in which the note may come that the deadline was reached.
const BREAK_PATIENCE: Duration = Duration::from_secs(3);

/// Time that the packets with which the connecting end closed may take, beside the path's longest delay.
const CLOSE_SLACK: Duration = Duration::from_millis(500);

/// Outcome of a transfer at its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiverEnd {
    /// All that will be counted is counted.
    Complete {
        at: MonotonicTime,
        delivered: Delivered,
    },
    /// The sender's deadline came first: `delivered` was here by then, and `sent` messages were
    /// sent.
    Deadline {
        at: MonotonicTime,
        delivered: Delivered,
        sent: u64,
    },
    /// Nothing was heard of the sender for too long.
    TimedOut,
}

#[derive(Default)]
struct ReceiverState {
    end: Option<ReceiverEnd>,
    /// Arrival of the sender's note that it has sent everything, and the number of messages.
    sent: Option<(MonotonicTime, u64)>,
    /// Arrival of the notes of a sender stopped by the deadline that nothing more leaves a flow, by its
    /// index, and the number of messages that have left.
    left: BTreeMap<u16, (MonotonicTime, u64)>,
    /// Arrival of the connecting end's account of what it got from this one, and the account.
    theirs: Option<(MonotonicTime, Delivered)>,
    /// Whether the connecting end has closed its connections.
    closed: bool,
    /// Whether the thread has ended: no further note will be heard.
    deaf: bool,
    /// Stop of the transfer's flow, once that is there.
    transfer: Option<Stop>,
    /// Stop that is raised when the sender has sent everything.
    until_sent: Option<Stop>,
    /// Stop that is raised when this state has changed.
    change: Stop,
}

struct ReceiverShared {
    state: Mutex<ReceiverState>,
    changed: Condvar,
    context: TrialContext,
    session: Stop,
    limit: MonotonicTime,
    /// Longest time that a packet which closes a connection is waited for.
    close_within: Duration,
}

impl ReceiverShared {
    fn lock(&self) -> MutexGuard<'_, ReceiverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let mut closed_by = None;
        while let Some(note) = self.next_note(&mut closed_by) {
            self.hear(note, &mut closed_by);
            self.announce();
        }
        if self.limit.has_passed() {
            self.lock().end.get_or_insert(ReceiverEnd::TimedOut);
            self.session.stop();
        }
        self.lock().deaf = true;
        self.announce();
    }

    /// Ends the waits for a change of the state.
    fn announce(&self) {
        let change = std::mem::take(&mut self.lock().change);
        self.changed.notify_all();
        change.stop();
    }

    fn hear(&self, note: Note, closed_by: &mut Option<MonotonicTime>) {
        let now = MonotonicTime::now();
        match note {
            Note::Sent {
                messages,
                deadline_reached: true,
                ..
            } => self.stop_at_deadline(now, messages),
            Note::Sent { messages, .. } => {
                let mut state = self.lock();
                state.sent.get_or_insert((now, messages));
                let until_sent = state.until_sent.clone();
                drop(state);
                if let Some(until_sent) = until_sent {
                    until_sent.stop();
                }
            }
            Note::Left { flow, messages } => {
                self.lock().left.insert(flow, (now, messages));
            }
            Note::Received { messages, bytes } => {
                self.lock().theirs = Some((now, Delivered { bytes, messages }));
            }
            Note::Closed => {
                self.lock().closed = true;
                if !self.stop_if_closed() {
                    *closed_by = Some(now + self.close_within);
                }
            }
            Note::Arrived { .. } => {}
        }
    }

    /// Waits for a note. `closed_by` is the moment by which the packets with which the other end
    /// closed must have come: a session whose transfer the deadline has ended is stopped then, as what it
    /// waits for was lost.
    fn next_note(&self, closed_by: &mut Option<MonotonicTime>) -> Option<Note> {
        let mailbox = &self.context.mailbox;
        if let Some(moment) = *closed_by {
            let note = mailbox.take_until(moment.min(self.limit));
            if note.is_some() {
                return note;
            }
            *closed_by = None;
            if moment.has_passed() && self.lock().end.is_some() {
                self.session.stop();
            }
        }
        mailbox.take_until(self.limit)
    }

    fn complete(&self, delivered: Delivered) -> bool {
        let mut state = self.lock();
        if state.end.is_some() {
            return false;
        }
        state.end = Some(ReceiverEnd::Complete {
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
        let state = self.lock();
        let over = state.closed && matches!(state.end, Some(ReceiverEnd::Complete { .. }));
        drop(state);
        if over {
            self.session.stop();
        }
        over
    }

    fn stop_at_deadline(&self, now: MonotonicTime, sent: u64) {
        let here = Delivered::here(&self.context.live);
        let (delivered, first, transfer) = {
            let mut state = self.lock();
            let transfer = state.transfer.clone();
            match state.end {
                Some(
                    ReceiverEnd::Complete { delivered, .. }
                    | ReceiverEnd::Deadline { delivered, .. },
                ) => (delivered, false, transfer),
                Some(ReceiverEnd::TimedOut) => return,
                None => {
                    state.end = Some(ReceiverEnd::Deadline {
                        at: now,
                        delivered: here,
                        // The count lags behind by the batch under way.
                        sent: sent.max(here.messages),
                    });
                    (here, true, transfer)
                }
            }
        };
        self.changed.notify_all();
        if first {
            self.context.observer.on_window(WindowEdge::End);
        }
        self.context.observer.send_note(Note::Received {
            messages: delivered.messages,
            bytes: delivered.bytes,
        });
        if !first {
            // Everything had been counted before the deadline.
            self.context.observer.send_note(Note::Arrived {
                messages: delivered.messages,
            });
        }
        // The probe's last messages are answered still, if there is a transfer to stop alone.
        transfer.as_ref().unwrap_or(&self.session).stop();
    }
}

/// Handle that ends a transfer from elsewhere; see [`ReceiverWatch::completion`].
pub(crate) struct Completion(Arc<ReceiverShared>);

impl Completion {
    /// Completes the transfer, unless it had ended otherwise.
    pub(crate) fn complete(&self, delivered: Delivered) {
        if self.0.complete(delivered) {
            self.0.context.observer.on_window(WindowEdge::End);
        }
    }
}

/// The receiver's watch. Dropping it closes the mailbox and ends its thread.
pub(crate) struct ReceiverWatch {
    shared: Arc<ReceiverShared>,
    thread: Option<JoinHandle<()>>,
}

impl ReceiverWatch {
    /// Starts the thread. The session is stopped when nothing is heard until the trial's limit, at the
    /// sender's deadline if that comes before the transfer's flow, and when the connecting end has
    /// closed its connections and this one does not notice.
    pub(crate) fn new(trial: &Trial) -> Result<Self, TransportError> {
        let context = &trial.context;
        context.stop.on_stop(&context.mailbox);
        let shared = Arc::new(ReceiverShared {
            state: Mutex::default(),
            changed: Condvar::new(),
            context: context.clone(),
            session: trial.stop.clone(),
            limit: MonotonicTime::now() + trial.limit(),
            close_within: trial.order.path.longest_one_way + CLOSE_SLACK,
        });
        let watched = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("receiver-watch".to_owned())
            .spawn(move || watched.watch())
            .map_err(TransportError::thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Has the sender's deadline raise `stop` from now on, and not the stop of the whole session.
    pub(crate) fn transfer(&self, stop: &Stop) {
        let mut state = self.shared.lock();
        state.transfer = Some(stop.clone());
        let late = state.end.is_some();
        drop(state);
        if late {
            stop.stop();
        }
    }

    /// Raises `stop` when the sender says that it has sent everything: for a workload whose
    /// receiver cannot know by itself which message was the last.
    pub(crate) fn stop_when_sent(&self, stop: &Stop) {
        let mut state = self.shared.lock();
        state.until_sent = Some(stop.clone());
        let late = state.sent.is_some();
        drop(state);
        if late {
            stop.stop();
        }
    }

    /// Returns the moment until which this end waits for the other.
    pub(crate) fn limit(&self) -> MonotonicTime {
        self.shared.limit
    }

    /// Ends the transfer: all that will be counted is counted. Returns false if it had ended
    /// otherwise.
    pub(crate) fn complete(&self, delivered: Delivered) -> bool {
        self.shared.complete(delivered)
    }

    /// Returns a handle that ends the transfer, and its window, where the last byte arrives.
    pub(crate) fn completion(&self) -> Completion {
        Completion(Arc::clone(&self.shared))
    }

    /// Returns a stop that is raised by the next note.
    pub(crate) fn change(&self) -> Stop {
        self.shared.lock().change.clone()
    }

    /// Returns the arrival of the sender's note that it has sent everything, and the number of
    /// messages that it sent.
    pub(crate) fn sent(&self) -> Option<(MonotonicTime, u64)> {
        self.shared.lock().sent
    }

    /// Returns the arrival of the note that nothing more leaves a flow of a sender that the deadline
    /// stopped, and the number of messages that have left it.
    pub(crate) fn left(&self, flow: u16) -> Option<(MonotonicTime, u64)> {
        self.shared.lock().left.get(&flow).copied()
    }

    /// Returns the arrival of the connecting end's account of what it got from this one, and the
    /// account.
    pub(crate) fn theirs(&self) -> Option<(MonotonicTime, Delivered)> {
        self.shared.lock().theirs
    }

    /// Waits for the outcome of a transfer whose flow has ended before all was there: a sender that
    /// its deadline stopped says so over control, and that can come later than the end of the flow.
    pub(crate) fn end_after_break(&self) -> Option<ReceiverEnd> {
        self.heard(|state| state.end)
    }

    /// Waits for [`Self::left`] when the flow has ended: the note can come later than that.
    pub(crate) fn left_after_break(&self, flow: u16) -> Option<(MonotonicTime, u64)> {
        self.heard(|state| state.left.get(&flow).copied())
    }

    /// Waits for the account of the connecting end, stopped at its deadline, of what it had got
    /// from this one.
    pub(crate) fn theirs_after_break(&self) -> Option<Delivered> {
        Some(self.heard(|state| state.theirs)?.1)
    }

    /// Waits for a part of the state that a note sets, at most [`BREAK_PATIENCE`].
    fn heard<T>(&self, what: impl Fn(&ReceiverState) -> Option<T>) -> Option<T> {
        let until = MonotonicTime::now() + BREAK_PATIENCE;
        let mut state = self.shared.lock();
        loop {
            let heard = what(&state);
            let time = until.remaining();
            if heard.is_some() || state.deaf || time.is_zero() {
                return heard;
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, time)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Returns the outcome of the transfer, if it has ended.
    pub(crate) fn end(&self) -> Option<ReceiverEnd> {
        self.shared.lock().end
    }

    fn end_thread(&mut self) {
        self.shared.context.mailbox.close();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened; the transfer's own end stands.
            let _ = thread.join();
        }
    }
}

impl Drop for ReceiverWatch {
    fn drop(&mut self) {
        self.end_thread();
    }
}
