//! State of the other end of a trial, from the notes that it sends over control.

use std::collections::BTreeMap;

use regatta_control::Note;

use crate::{
    clock::MonotonicTime,
    delivered::Delivered,
    stop::{Abort, Stop},
    sync::Watched,
};

/// State of the other end. All times are arrival times of its notes at this end.
#[derive(Debug, Clone, Default)]
pub struct PeerState {
    /// The other end has sent everything: arrival of that note, and its number of messages.
    pub sent: Option<(MonotonicTime, u64)>,
    /// The other end's deadline has stopped the transfer: arrival of that note, and the number of messages sent until
    /// then.
    pub stopped: Option<(MonotonicTime, u64)>,
    /// For each flow that the deadline stopped: arrival of the note that nothing more leaves it, and the number of
    /// messages that have left.
    pub left: BTreeMap<u16, (MonotonicTime, u64)>,
    /// What the other end has received from this one: arrival of its first note about that, and the counts of its last.
    pub received: Option<(MonotonicTime, Delivered)>,
    /// Number of messages from this end that had arrived there in the end, including those under way at the deadline.
    pub arrived: Option<u64>,
    /// The other end has closed its connections: arrival of that note.
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

/// Change of the other end's state that a listening end reacts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerEvent {
    /// The other end has sent everything.
    Sent,
    /// The other end's deadline has stopped the transfer.
    Stopped {
        /// Number of messages sent until then.
        messages: u64,
    },
    /// The other end has closed its connections.
    Closed,
}

/// Events that [`Peer::next_event`] has already returned.
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

/// State of the other end of a trial. The host writes it from that end's notes; threads and tasks wait for parts of it.
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
