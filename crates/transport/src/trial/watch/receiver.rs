//! The receiver's watch: notes of the sender, and the end of the transfer.

use std::{collections::BTreeMap, mem, ops::Deref, sync::Arc, time::Duration};

use regatta_control::Note;

use super::{Delivered, WatchThread};
use crate::{
    clock::MonotonicTime,
    context::{TrialContext, WindowEdge},
    driver::Result,
    stop::Stop,
    sync::Watched,
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
    /// No note of the sender came for too long.
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
    /// Whether the thread has ended: no further note is taken.
    thread_ended: bool,
    /// Stop of the transfer's flow, once that is there.
    transfer: Option<Stop>,
    /// Stop that is raised when the sender has sent everything.
    until_sent: Option<Stop>,
    /// Stop that is raised when this state has changed.
    change: Stop,
}

/// State of a transfer at its receiver, by which it can be ended from elsewhere.
pub(crate) struct ReceiverEnding {
    state: Watched<ReceiverState>,
    context: TrialContext,
    session: Stop,
    /// Moment until which this end waits for the other.
    pub limit: MonotonicTime,
    /// Longest time that a packet which closes a connection is waited for.
    close_within: Duration,
}

impl ReceiverEnding {
    fn watch(&self) {
        let mut closed_by = None;
        while let Some(note) = self.next_note(&mut closed_by) {
            self.on_note(note, &mut closed_by);
            self.announce();
        }
        if self.limit.has_passed() {
            let mut state = self.state.lock();
            state.end.get_or_insert(ReceiverEnd::TimedOut);
            drop(state);
            self.session.stop();
        }
        self.state.lock().thread_ended = true;
        self.announce();
    }

    /// Ends the waits for a change of the state.
    fn announce(&self) {
        let change = self.state.change(|state| mem::take(&mut state.change));
        change.stop();
    }

    fn on_note(&self, note: Note, closed_by: &mut Option<MonotonicTime>) {
        let now = MonotonicTime::now();
        match note {
            Note::Sent {
                messages,
                deadline_reached: true,
                ..
            } => self.stop_at_deadline(now, messages),
            Note::Sent { messages, .. } => {
                let mut state = self.state.lock();
                state.sent.get_or_insert((now, messages));
                let until_sent = state.until_sent.clone();
                drop(state);
                if let Some(until_sent) = until_sent {
                    until_sent.stop();
                }
            }
            Note::Left { flow, messages } => {
                self.state.lock().left.insert(flow, (now, messages));
            }
            Note::Received { messages, bytes } => {
                self.state.lock().theirs = Some((now, Delivered { bytes, messages }));
            }
            Note::Closed => {
                self.state.lock().closed = true;
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
        let notes = &self.context.notes;
        if let Some(moment) = *closed_by {
            let note = notes.take_until(moment.min(self.limit));
            if note.is_some() {
                return note;
            }
            *closed_by = None;
            if moment.has_passed() && self.state.lock().end.is_some() {
                self.session.stop();
            }
        }
        notes.take_until(self.limit)
    }

    /// Ends the transfer: all that will be counted is counted. Returns false if it had ended
    /// otherwise.
    pub(crate) fn complete(&self, delivered: Delivered) -> bool {
        let mut state = self.state.lock();
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
        let state = self.state.lock();
        let over = state.closed && matches!(state.end, Some(ReceiverEnd::Complete { .. }));
        drop(state);
        if over {
            self.session.stop();
        }
        over
    }

    fn stop_at_deadline(&self, now: MonotonicTime, sent: u64) {
        let here = Delivered::received(&self.context.live);
        let deadline = ReceiverEnd::Deadline {
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
            Some(ReceiverEnd::TimedOut) => return,
            None => {
                observer.on_window(WindowEdge::End);
                observer.send_note(here.received_note());
            }
            Some(
                ReceiverEnd::Complete { delivered, .. } | ReceiverEnd::Deadline { delivered, .. },
            ) => {
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

    /// Has the sender's deadline raise `stop` from now on, and not the stop of the whole session.
    pub(crate) fn transfer(&self, stop: &Stop) {
        let mut state = self.state.lock();
        state.transfer = Some(stop.clone());
        let late = state.end.is_some();
        drop(state);
        if late {
            stop.stop();
        }
    }

    /// Raises `stop` when the sender's note comes that it has sent everything: for a workload whose
    /// receiver cannot know by itself which message was the last.
    pub(crate) fn stop_when_sent(&self, stop: &Stop) {
        let mut state = self.state.lock();
        state.until_sent = Some(stop.clone());
        let late = state.sent.is_some();
        drop(state);
        if late {
            stop.stop();
        }
    }

    /// Returns a stop that is raised by the next note.
    pub(crate) fn change(&self) -> Stop {
        self.state.lock().change.clone()
    }

    /// Returns the arrival of the sender's note that it has sent everything, and the number of
    /// messages that it sent.
    pub(crate) fn sent(&self) -> Option<(MonotonicTime, u64)> {
        self.state.lock().sent
    }

    /// Returns the arrival of the note that nothing more leaves a flow of a sender that the deadline
    /// stopped, and the number of messages that have left it.
    pub(crate) fn left(&self, flow: u16) -> Option<(MonotonicTime, u64)> {
        self.state.lock().left.get(&flow).copied()
    }

    /// Returns the arrival of the connecting end's account of what it got from this one, and the
    /// account.
    pub(crate) fn theirs(&self) -> Option<(MonotonicTime, Delivered)> {
        self.state.lock().theirs
    }

    /// Waits for the outcome of a transfer whose flow has ended before all was there: the
    /// note of a sender that its deadline stopped can come later than the end of the flow.
    pub(crate) fn end_after_break(&self) -> Option<ReceiverEnd> {
        self.wait_for_note(|state| state.end)
    }

    /// Waits for [`Self::left`] when the flow has ended: the note can come later than that.
    pub(crate) fn left_after_break(&self, flow: u16) -> Option<(MonotonicTime, u64)> {
        self.wait_for_note(|state| state.left.get(&flow).copied())
    }

    /// Waits for the account of the connecting end, stopped at its deadline, of what it had got
    /// from this one.
    pub(crate) fn theirs_after_break(&self) -> Option<Delivered> {
        Some(self.wait_for_note(|state| state.theirs)?.1)
    }

    /// Waits for a part of the state that a note sets, at most [`BREAK_PATIENCE`].
    fn wait_for_note<T>(&self, part: impl Fn(&ReceiverState) -> Option<T>) -> Option<T> {
        let until = MonotonicTime::now() + BREAK_PATIENCE;
        let value = self.state.wait_for(until, |state| {
            let value = part(state);
            (value.is_some() || state.thread_ended).then_some(value)
        });
        value.flatten()
    }

    /// Returns the outcome of the transfer, if it has ended.
    pub(crate) fn end(&self) -> Option<ReceiverEnd> {
        self.state.lock().end
    }

    /// Whether the transfer has come to its end before its sender's deadline.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.end(), Some(ReceiverEnd::Complete { .. }))
    }
}

/// The receiver's watch. Dropping it closes the queue of notes and ends its thread.
pub(crate) struct ReceiverWatch {
    ending: Arc<ReceiverEnding>,
    thread: WatchThread,
}

impl Deref for ReceiverWatch {
    type Target = Arc<ReceiverEnding>;

    fn deref(&self) -> &Arc<ReceiverEnding> {
        &self.ending
    }
}

impl ReceiverWatch {
    /// Starts the thread. The session is stopped when no note comes until the trial's limit, at the
    /// sender's deadline if that comes before the transfer's flow, and when the connecting end has
    /// closed its connections and this one does not notice.
    pub(crate) fn new(trial: &Trial) -> Result<Self> {
        let context = &trial.context;
        context.stop.on_stop(&context.notes);
        let ending = Arc::new(ReceiverEnding {
            state: Watched::default(),
            context: context.clone(),
            session: trial.stop.clone(),
            limit: MonotonicTime::now() + trial.limit(),
            close_within: trial.order.path.longest_one_way + CLOSE_SLACK,
        });
        let watched = Arc::clone(&ending);
        let thread = WatchThread::start("receiver-watch", move || watched.watch())?;
        Ok(Self { ending, thread })
    }
}

impl Drop for ReceiverWatch {
    fn drop(&mut self) {
        self.ending.context.notes.close();
        self.thread.join();
    }
}
