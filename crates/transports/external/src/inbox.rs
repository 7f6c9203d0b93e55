//! Everything that a session waits for, in one place: what its program says, the program's end,
//! notes of the other end, the host's abort.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use regatta_control::Note;
use regatta_transport::{Abort, MonotonicTime};

use crate::{contract::FromProgram, error::ProgramError};

/// A program that says more than is read has to wait.
const MOST_EVENTS: usize = 256;

/// Something happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// The program said this.
    Said(FromProgram),
    /// The program said what is not of the contract.
    Rubbish(ProgramError),
    /// The program ended, with this exit code or by this signal.
    Ended(Ending),
    /// The other end of the trial said this.
    Note(Note),
    /// The host raised the trial's stop.
    Aborted,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    ended: Option<Ending>,
    /// Nobody takes events any more.
    closed: bool,
    aborted: bool,
}

/// Where events wait.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an event in, waiting for room; false if nobody takes it any more.
    pub(crate) fn put(&self, event: Event) -> bool {
        let mut state = self.lock();
        while state.events.len() >= MOST_EVENTS && !state.closed {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
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

    /// The next event, the host's abort before all others; `None` once the moment has come.
    pub(crate) fn take_until(&self, moment: MonotonicTime) -> Option<Event> {
        let mut state = self.lock();
        loop {
            if state.aborted {
                return Some(Event::Aborted);
            }
            if let Some(event) = state.events.pop_front() {
                drop(state);
                self.changed.notify_all();
                return Some(event);
            }
            let left = moment.remaining();
            if left.is_zero() {
                return None;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits until the program has ended; returns whether it has by the moment.
    pub(crate) fn ended_by(&self, moment: MonotonicTime) -> Option<Ending> {
        let mut state = self.lock();
        loop {
            if state.ended.is_some() || state.aborted {
                return state.ended;
            }
            // A program that still speaks is not to be kept waiting by it.
            state.events.clear();
            self.changed.notify_all();
            let left = moment.remaining();
            if left.is_zero() {
                return None;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Drops what waits and what comes.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.events.clear();
        drop(state);
        self.changed.notify_all();
    }
}

impl Abort for Inbox {
    fn abort(&self) {
        self.lock().aborted = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    #[test]
    fn a_flood_waits_and_an_abort_goes_first() {
        let inbox = Arc::new(Inbox::default());
        let flooded = Arc::clone(&inbox);
        let flood = std::thread::spawn(move || {
            let said = |bytes| Event::Said(FromProgram::Progress { bytes });
            (0..).take_while(|&bytes| flooded.put(said(bytes))).count()
        });
        let soon = || MonotonicTime::now() + Duration::from_secs(10);
        for expected in 0..1000 {
            let Some(Event::Said(FromProgram::Progress { bytes })) = inbox.take_until(soon())
            else {
                panic!("nothing came");
            };
            assert_eq!(bytes, expected);
        }
        inbox.abort();
        assert!(matches!(inbox.take_until(soon()), Some(Event::Aborted)));
        inbox.close();
        let put = flood.join().unwrap();
        assert!((1000..=1000 + MOST_EVENTS).contains(&put), "{put}");
    }
}
