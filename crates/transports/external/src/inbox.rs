//! Queue of all events of a session: messages of its program, the program's end, steps of the other
//! end, the host's abort.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex, MutexGuard};
use regatta_model::{Phrase, reason};
use regatta_transport::{Abort, MonotonicTime, PeerEvent};

use crate::{contract::FromProgram, error::ProgramError};

/// Maximum number of queued events; a program that sends more has to wait.
const MAX_EVENTS: usize = 256;

/// Event of a session.
#[derive(Debug)]
pub(crate) enum Event {
    /// Message of the program.
    Message(FromProgram),
    /// Line of the program that does not follow the contract.
    Malformed(ProgramError),
    /// End of the program, with this exit code or by this signal.
    Ended(ExitStatus),
    /// Step of the other end of the trial.
    Peer(PeerEvent),
    /// Stop of the trial, raised by the host.
    Aborted,
}

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// Exit code.
    Code(i32),
    /// Signal that ended the process.
    Signal(i32),
}

impl ExitStatus {
    /// Returns what the process did: `ended with exit code 1`.
    pub(crate) fn phrase(self) -> Phrase {
        match self {
            Self::Code(code) => reason::exit_code(&code.to_string()),
            Self::Signal(signal) => reason::exit_signal(&signal.to_string()),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    ended: Option<ExitStatus>,
    /// Whether events are discarded.
    closed: bool,
    aborted: bool,
}

/// Queue of events.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

impl Inbox {
    /// Appends an event, waiting for room; returns false if the queue is closed.
    pub(crate) fn put(&self, event: Event) -> bool {
        let mut state = self.state.lock();
        let is_full = |state: &mut State| state.events.len() >= MAX_EVENTS && !state.closed;
        self.changed.wait_while(&mut state, is_full);
        if state.closed {
            return false;
        }
        if let Event::Ended(ending) = event {
            state.ended = Some(ending);
        }
        state.events.push_back(event);
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Takes the next event, the host's abort before all others; `None` once `moment` has come.
    pub(crate) fn take_until(&self, moment: MonotonicTime) -> Option<Event> {
        let mut state = self.wait_while(moment, |state| !state.aborted && state.events.is_empty());
        if state.aborted {
            return Some(Event::Aborted);
        }
        let event = state.events.pop_front()?;
        drop(state);
        self.changed.notify_all();
        Some(event)
    }

    /// Waits until the program has ended, `moment` has come or the host aborts; returns the exit
    /// status if there is one. Events that arrive meanwhile are discarded.
    pub(crate) fn wait_for_exit(&self, moment: MonotonicTime) -> Option<ExitStatus> {
        let state = self.wait_while(moment, |state| {
            if state.ended.is_some() || state.aborted {
                return false;
            }
            // A full queue would block a program that still sends.
            state.events.clear();
            self.changed.notify_all();
            true
        });
        state.ended
    }

    /// Waits until `waits` is false, or `moment` has come.
    fn wait_while(
        &self,
        moment: MonotonicTime,
        waits: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let limit = moment.remaining();
        self.changed.wait_while_for(&mut state, waits, limit);
        state
    }

    /// Discards all events, queued and future ones.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.events.clear();
        drop(state);
        self.changed.notify_all();
    }
}

impl Abort for Inbox {
    fn abort(&self) {
        self.state.lock().aborted = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    #[test]
    fn a_full_queue_blocks_and_an_abort_comes_first() {
        let inbox = Arc::new(Inbox::default());
        let flooded = Arc::clone(&inbox);
        let flood = std::thread::spawn(move || {
            let progress = |bytes| Event::Message(FromProgram::Progress { bytes });
            (0..)
                .take_while(|&bytes| flooded.put(progress(bytes)))
                .count()
        });
        let soon = || MonotonicTime::now() + Duration::from_secs(10);
        for expected in 0..1000 {
            let Some(Event::Message(FromProgram::Progress { bytes })) = inbox.take_until(soon())
            else {
                panic!("no event");
            };
            assert_eq!(bytes, expected);
        }
        inbox.abort();
        assert!(matches!(inbox.take_until(soon()), Some(Event::Aborted)));
        inbox.close();
        let put = flood.join().unwrap();
        assert!((1000..=1000 + MAX_EVENTS).contains(&put), "{put}");
    }
}
