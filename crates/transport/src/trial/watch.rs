//! What watches a transfer from outside: the deadline, notes from the other end, samples.
//!
//! Each end has one such thread. It sleeps nearly always; the transfer's own threads never look
//! at a clock for the deadline, they are woken through a [`Stop`].

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

/// What the receiver got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub bytes: u64,
    pub messages: u64,
}

impl Delivered {
    /// What an end has handed over so far.
    pub(crate) fn sent(live: &LiveCounters) -> Self {
        Self {
            bytes: live.bytes_sent.load(Ordering::Relaxed),
            messages: live.messages_sent.load(Ordering::Relaxed),
        }
    }

    /// What has come to an end so far.
    pub(crate) fn here(live: &LiveCounters) -> Self {
        Self {
            bytes: live.bytes_delivered.load(Ordering::Acquire),
            messages: live.messages_delivered.load(Ordering::Acquire),
        }
    }
}

/// How a transfer ended for its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SenderEnd {
    /// The receiver's acknowledgement arrived.
    Acknowledged {
        at: MonotonicTime,
        delivered: Delivered,
    },
    /// The deadline came first; so much was handed over, and the receiver was told so. So much had
    /// come to this end, where the other one sends as well.
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
    /// When the transfer could carry data.
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
    /// Longest from the first connect call until the transfer can carry data.
    connect_deadline: Duration,
    /// Longest from then on.
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

    /// Begins the deadline: the transfer can carry data since `at`, unless another of its connections
    /// could before. Returns since when.
    pub(crate) fn connected(&self, at: MonotonicTime) -> MonotonicTime {
        self.shared.connected(at)
    }

    /// Does what [`SenderWatch::connected`] does, for what outlives a borrow of the watch.
    pub(crate) fn on_connected(&self) -> impl Fn() + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            shared.connected(MonotonicTime::now());
        }
    }

    /// From when the transfer's time counts.
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

    /// What was handed over when the deadline stopped the transfer; `None` before that, and for one
    /// that ended otherwise.
    pub(crate) fn stopped_with(&self) -> Option<Delivered> {
        match self.shared.lock().end {
            Some(SenderEnd::Deadline { sent, .. }) => Some(sent),
            _ => None,
        }
    }

    /// How the transfer ended, if it did, and what the samples come to.
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

/// How long the word that a deadline was reached may come after the end of the flow.
const BREAK_PATIENCE: Duration = Duration::from_secs(3);

/// Time that the packets with which the connecting end closed may take, beside the path's longest delay.
const CLOSE_SLACK: Duration = Duration::from_millis(500);

/// How a transfer ended for its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiverEnd {
    /// All that will be counted is counted.
    Complete {
        at: MonotonicTime,
        delivered: Delivered,
    },
    /// The sender's deadline came first; so much was here, and so many messages were sent.
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
    /// When the sender said that it has sent everything, and how many messages.
    sent: Option<(MonotonicTime, u64)>,
    /// When a sender that the deadline stopped said that nothing more leaves it, and how many
    /// messages have.
    left: Option<(MonotonicTime, u64)>,
    /// What the connecting end had got of this one's at its deadline.
    theirs: Option<Delivered>,
    /// The thread has ended: nothing will be heard any more.
    deaf: bool,
    /// Stops the transfer's flow, once it is there.
    transfer: Option<Stop>,
    /// What ends when the sender has sent everything.
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

    /// Waits for a note. `closed_by` is when the packets with which the other end closed must have come:
    /// a session whose transfer has ended is stopped then, as what it waits for was lost.
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

/// Ends a transfer from elsewhere; see [`ReceiverWatch::completion`].
pub(crate) struct Completion(Arc<ReceiverShared>);

impl Completion {
    /// All is here, unless the transfer had ended otherwise.
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

    /// From now on it is this that the sender's deadline stops, and not the whole session.
    pub(crate) fn transfer(&self, stop: &Stop) {
        let mut state = self.shared.lock();
        state.transfer = Some(stop.clone());
        let late = state.end.is_some();
        drop(state);
        if late {
            stop.stop();
        }
    }

    /// Has this raised when the sender says that it has sent everything: for a workload whose
    /// receiver cannot know by itself what was the last.
    pub(crate) fn stop_when_sent(&self, stop: &Stop) {
        let mut state = self.shared.lock();
        state.until_sent = Some(stop.clone());
        let late = state.sent.is_some();
        drop(state);
        if late {
            stop.stop();
        }
    }

    /// Until when this end waits for the other.
    pub(crate) fn limit(&self) -> MonotonicTime {
        self.shared.limit
    }

    /// Ends the transfer: all that will be counted is counted. False if it had ended otherwise.
    pub(crate) fn complete(&self, delivered: Delivered) -> bool {
        self.shared.complete(delivered)
    }

    /// What ends the transfer, and its window, where the last byte arrives.
    pub(crate) fn completion(&self) -> Completion {
        Completion(Arc::clone(&self.shared))
    }

    /// When the sender's note came that it has sent everything, and how many messages it sent.
    pub(crate) fn sent(&self) -> Option<(MonotonicTime, u64)> {
        self.shared.lock().sent
    }

    /// When the note came that nothing more leaves a sender that the deadline stopped, and how many
    /// messages have left it.
    pub(crate) fn left(&self) -> Option<(MonotonicTime, u64)> {
        self.shared.lock().left
    }

    /// How the transfer ended, when its flow has ended before all was there: a sender that its
    /// deadline stopped says so over control, and that can come later than the end of the flow.
    pub(crate) fn end_after_break(&self) -> Option<ReceiverEnd> {
        self.heard(|state| state.end)
    }

    /// What [`Self::left`] says, when the flow has ended: the note can come later than that.
    pub(crate) fn left_after_break(&self) -> Option<(MonotonicTime, u64)> {
        self.heard(|state| state.left)
    }

    /// What the connecting end, stopped at its deadline, says that it had got of this one's.
    pub(crate) fn theirs_after_break(&self) -> Option<Delivered> {
        self.heard(|state| state.theirs)
    }

    /// Waits a while for what control is to say.
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

    /// How the transfer ended, if it did.
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
