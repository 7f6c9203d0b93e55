//! Thread that watches a transfer: its deadline, notes from the other end, samples.
//!
//! Each end has one such thread, which sleeps nearly all the time. The transfer's own threads do
//! not check a clock for the deadline; a [`Stop`] wakes them.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

use regatta_control::Note;

use super::Trial;
use crate::{
    clock::MonotonicTime,
    context::{LiveCounters, ProtocolSample, StatisticsSource, TrialContext, WindowEdge},
    driver::TransportError,
    opening::Purpose,
    stop::Stop,
};

/// Bytes and messages of a transfer: those that were sent, or those that arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub bytes: u64,
    pub messages: u64,
}

impl Delivered {
    /// Returns the bytes and messages that an end has handed over so far.
    pub(crate) fn sent(live: &LiveCounters) -> Self {
        Self {
            bytes: live.bytes_sent.load(Ordering::Relaxed),
            messages: live.messages_sent.load(Ordering::Relaxed),
        }
    }

    /// Returns the bytes and messages that have arrived at an end so far.
    pub(crate) fn here(live: &LiveCounters) -> Self {
        Self {
            bytes: live.bytes_delivered.load(Ordering::Acquire),
            messages: live.messages_delivered.load(Ordering::Acquire),
        }
    }
}

/// Outcome of a transfer at its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SenderEnd {
    /// The receiver's acknowledgement arrived.
    Acknowledged {
        at: MonotonicTime,
        delivered: Delivered,
    },
    /// The deadline came first, and the receiver was told so: `sent` was handed over by then, and
    /// `delivered` had come to this end, where the other one sends as well.
    Deadline {
        at: MonotonicTime,
        sent: Delivered,
        delivered: Delivered,
    },
}

impl SenderEnd {
    pub(crate) const fn at(&self) -> MonotonicTime {
        match self {
            Self::Acknowledged { at, .. } | Self::Deadline { at, .. } => *at,
        }
    }
}

/// Counters at the end of a transfer, and what a warning about it needs. Means and maxima of levels are
/// the observer's, who has the series.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Samples {
    pub in_flight_max: Option<u64>,
    pub last: ProtocolSample,
}

impl Samples {
    fn add(&mut self, sample: ProtocolSample) {
        self.in_flight_max = self.in_flight_max.max(sample.bytes_in_flight);
        self.last = sample;
    }
}

#[derive(Default)]
struct SenderState {
    started: Option<MonotonicTime>,
    /// Moment from which the transfer could carry data.
    connected: Option<MonotonicTime>,
    end: Option<SenderEnd>,
    finished: bool,
    source: Option<Weak<dyn StatisticsSource>>,
    samples: Samples,
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
    interval: Duration,
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

    fn sample(state: &mut SenderState) {
        let source = state.source.as_ref().and_then(Weak::upgrade);
        if let Some(sample) = source.and_then(|source| source.sample()) {
            state.samples.add(sample);
        }
    }

    fn watch(&self) {
        let mut state = self.lock();
        let mut next_sample = MonotonicTime::NEVER;
        while !state.finished && state.end.is_none() {
            let Some(started) = state.started else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if next_sample == MonotonicTime::NEVER {
                next_sample = started + self.interval;
            }
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
                Self::sample(&mut state);
                drop(state);
                self.stop_at_deadline(sent);
                return;
            }
            if now >= next_sample {
                Self::sample(&mut state);
                next_sample = next_sample + self.interval;
            }
            let wait = deadline.min(next_sample).since(now);
            state = self
                .changed
                .wait_timeout(state, wait)
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
        interval: Duration,
    ) -> Result<Self, TransportError> {
        let shared = Arc::new(SenderShared {
            state: Mutex::default(),
            changed: Condvar::new(),
            context: context.clone(),
            transfer: transfer.clone(),
            connect_deadline,
            deadline,
            interval: interval.max(Duration::from_millis(1)),
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

    /// Samples this connection from now on.
    pub(crate) fn connection(&self, source: &Arc<dyn StatisticsSource>) {
        let weak = Arc::downgrade(source);
        self.shared
            .context
            .observer
            .on_connection(Purpose::Transfer, weak.clone());
        self.shared.lock().source = Some(weak);
    }

    /// Ends the transfer with the receiver's acknowledgement, unless the deadline came first.
    pub(crate) fn acknowledged(&self, at: MonotonicTime, delivered: Delivered) {
        let mut state = self.shared.lock();
        if state.end.is_some() {
            return;
        }
        state.end = Some(SenderEnd::Acknowledged { at, delivered });
        SenderShared::sample(&mut state);
        drop(state);
        self.shared.context.observer.on_window(WindowEdge::End);
        self.shared.changed.notify_all();
    }

    /// Returns the bytes and messages that were handed over when the deadline stopped the transfer;
    /// `None` before that, and for a transfer that ended otherwise.
    pub(crate) fn stopped_with(&self) -> Option<Delivered> {
        match self.shared.lock().end {
            Some(SenderEnd::Deadline { sent, .. }) => Some(sent),
            _ => None,
        }
    }

    /// Ends the thread; returns the outcome of the transfer, if it has ended, and its samples.
    pub(crate) fn finish(mut self) -> (Option<SenderEnd>, Samples) {
        self.end_thread();
        let state = self.shared.lock();
        (state.end, state.samples)
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
    /// Arrival of the note of a sender stopped by the deadline that nothing more leaves it, and the
    /// number of messages that have left.
    left: Option<(MonotonicTime, u64)>,
    /// Bytes and messages of this end that the connecting end had got at its deadline.
    theirs: Option<Delivered>,
    /// Whether the thread has ended: no further note will be heard.
    deaf: bool,
    /// Stop of the transfer's flow, once that is there.
    transfer: Option<Stop>,
    /// Stop that is raised when the sender has sent everything.
    until_sent: Option<Stop>,
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
            let now = MonotonicTime::now();
            let (messages, deadline_reached) = match note {
                Note::Sent {
                    messages,
                    deadline_reached,
                    ..
                } => (messages, deadline_reached),
                Note::Left { messages } => {
                    self.lock().left = Some((now, messages));
                    self.changed.notify_all();
                    continue;
                }
                Note::Received { messages, bytes } => {
                    self.lock().theirs = Some(Delivered { bytes, messages });
                    self.changed.notify_all();
                    continue;
                }
                Note::Closed => {
                    closed_by = Some(now + self.close_within);
                    continue;
                }
                Note::Arrived { .. } => continue,
            };
            if deadline_reached {
                self.stop_at_deadline(now, messages);
            } else {
                let mut state = self.lock();
                state.sent.get_or_insert((now, messages));
                let until_sent = state.until_sent.clone();
                drop(state);
                if let Some(until_sent) = until_sent {
                    until_sent.stop();
                }
            }
        }
        if self.limit.has_passed() {
            self.lock().end.get_or_insert(ReceiverEnd::TimedOut);
            self.session.stop();
        }
        self.lock().deaf = true;
        self.changed.notify_all();
    }

    /// Waits for a note. `closed_by` is the moment by which the packets with which the other end
    /// closed must have come: a session whose transfer has ended is stopped then, as what it waits
    /// for was lost.
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
        true
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

    /// Returns the arrival of the sender's note that it has sent everything, and the number of
    /// messages that it sent.
    pub(crate) fn sent(&self) -> Option<(MonotonicTime, u64)> {
        self.shared.lock().sent
    }

    /// Returns the arrival of the note that nothing more leaves a sender that the deadline stopped,
    /// and the number of messages that have left it.
    pub(crate) fn left(&self) -> Option<(MonotonicTime, u64)> {
        self.shared.lock().left
    }

    /// Waits for the outcome of a transfer whose flow has ended before all was there: a sender that
    /// its deadline stopped says so over control, and that can come later than the end of the flow.
    pub(crate) fn end_after_break(&self) -> Option<ReceiverEnd> {
        self.heard(|state| state.end)
    }

    /// Waits for [`Self::left`] when the flow has ended: the note can come later than that.
    pub(crate) fn left_after_break(&self) -> Option<(MonotonicTime, u64)> {
        self.heard(|state| state.left)
    }

    /// Waits for the account of the connecting end, stopped at its deadline, of what it had got
    /// from this one.
    pub(crate) fn theirs_after_break(&self) -> Option<Delivered> {
        self.heard(|state| state.theirs)
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
