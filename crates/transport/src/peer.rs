//! The other end of a trial, as its notes over control tell of it.

use std::collections::BTreeMap;

use regatta_control::Note;

use crate::{
    clock::MonotonicTime,
    stop::{Abort, Stop},
    sync::Watched,
    trial::watch::Delivered,
};

/// State of the other end. Moments are those of the notes' arrivals here.
#[derive(Debug, Clone, Default)]
pub struct PeerState {
    /// When it had sent everything, and the number of messages.
    pub sent: Option<(MonotonicTime, u64)>,
    /// When its deadline stopped the transfer, and the number of messages that it had sent.
    pub stopped: Option<(MonotonicTime, u64)>,
    /// When nothing more left a flow that the deadline stopped, and the number of messages that had
    /// left it; by the flow's index.
    pub left: BTreeMap<u16, (MonotonicTime, u64)>,
    /// When it first told what it had got from this end, and what it told last.
    pub received: Option<(MonotonicTime, Delivered)>,
    /// Number of messages from this end that had arrived there some time after the deadline.
    pub arrived: Option<u64>,
    /// When it had closed its connections.
    pub closed: Option<MonotonicTime>,
}

impl PeerState {
    fn take(&mut self, note: Note) {
        let now = MonotonicTime::now();
        match note {
            Note::Sent {
                messages,
                deadline_reached,
                ..
            } => {
                let told = match deadline_reached {
                    true => &mut self.stopped,
                    false => &mut self.sent,
                };
                told.get_or_insert((now, messages));
            }
            Note::Left { flow, messages } => {
                self.left.insert(flow, (now, messages));
            }
            Note::Received { messages, bytes } => {
                let first = self.received.map_or(now, |(at, _)| at);
                self.received = Some((first, Delivered { bytes, messages }));
            }
            Note::Arrived { messages } => self.arrived = Some(messages),
            Note::Closed => {
                self.closed.get_or_insert(now);
            }
        }
    }
}

/// Step of the other end, of which an end that listens must know when it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerEvent {
    /// It has sent everything.
    Sent,
    /// Its deadline has stopped the transfer, after so many messages.
    Stopped {
        /// Number of messages that it had sent.
        messages: u64,
    },
    /// It has closed its connections.
    Closed,
}

/// Steps of the other end that [`Peer::next_event`] has returned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    sent: bool,
    stopped: bool,
    closed: bool,
}

impl Seen {
    fn next(&mut self, state: &PeerState) -> Option<PeerEvent> {
        if state.sent.is_some() && !std::mem::replace(&mut self.sent, true) {
            return Some(PeerEvent::Sent);
        }
        if let Some((_, messages)) = state.stopped
            && !std::mem::replace(&mut self.stopped, true)
        {
            return Some(PeerEvent::Stopped { messages });
        }
        let closed = state.closed.is_some() && !std::mem::replace(&mut self.closed, true);
        closed.then_some(PeerEvent::Closed)
    }
}

/// The other end of a trial: the host writes its notes in, and whoever needs a part of its state waits for that.
#[derive(Debug, Default)]
pub struct Peer(Watched<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: PeerState,
    /// Whether nothing is waited for any more.
    is_over: bool,
    /// Raised by the next change.
    change: Option<Stop>,
}

impl Peer {
    /// Takes a note; called by the host.
    pub fn note(&self, note: Note) {
        self.change(|inner| inner.state.take(note));
    }

    /// Returns a part of the state.
    pub fn read<T>(&self, part: impl FnOnce(&PeerState) -> T) -> T {
        part(&self.0.lock().state)
    }

    /// Waits until `part` finds something in the state, the moment has come, or [`Peer::end_waits`] was called.
    pub fn wait_for<T>(
        &self,
        until: MonotonicTime,
        mut part: impl FnMut(&PeerState) -> Option<T>,
    ) -> Option<T> {
        let found = self.0.wait_for(until, |inner| {
            let found = part(&inner.state);
            (found.is_some() || inner.is_over).then_some(found)
        });
        found.flatten()
    }

    /// Waits for a step that is not among those `seen`, as [`Peer::wait_for`] does.
    pub fn next_event(&self, seen: &mut Seen, until: MonotonicTime) -> Option<PeerEvent> {
        self.wait_for(until, |state| seen.next(state))
    }

    /// Ends every wait, now and later.
    pub fn end_waits(&self) {
        self.change(|inner| inner.is_over = true);
    }

    /// Whether [`Peer::end_waits`] was called.
    pub(crate) fn is_over(&self) -> bool {
        self.0.lock().is_over
    }

    /// Returns a stop that the next change raises, for a task that takes turns with others.
    pub(crate) fn next_change(&self) -> Stop {
        self.0.lock().change.get_or_insert_default().clone()
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let changed = self.0.change(|inner| {
            change(inner);
            inner.change.take()
        });
        if let Some(changed) = changed {
            changed.stop();
        }
    }
}

impl Abort for Peer {
    fn abort(&self) {
        self.end_waits();
    }
}
