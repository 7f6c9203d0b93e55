//! A thread that advances connections while no call does: it answers a repeated CONN and data whose
//! acknowledgement was lost, and sends retransmissions that are due. It sleeps until a datagram comes
//! or a timer is due, so that it takes no CPU time from a transfer whose calls do all that.

use std::{
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::sys::eventfd::{EfdFlags, EventFd};
use regatta_transport::{MonotonicTime, TransportError, wait};

use super::connection::Link;

/// Time after which a connection is looked at again in which a call was in progress.
const IN_CALL: Duration = Duration::from_millis(50);

/// Work of a connection that the thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// None: it is over.
    Nothing,
    /// A call advances it at the moment.
    Call,
    /// A datagram at this socket, or the timer, if one is set.
    Event(RawFd, Option<MonotonicTime>),
}

/// Way to wake the thread.
pub(crate) struct Wake {
    event: EventFd,
    /// Moment until which the thread sleeps at most, in nanoseconds.
    sleeps_until: AtomicI64,
}

impl Wake {
    /// Has the thread look at all connections again.
    pub(crate) fn now(&self) {
        // A counter that is full wakes as well.
        let _ = self.event.write(1);
    }

    /// Wakes the thread if it would sleep beyond this moment.
    pub(crate) fn by(&self, moment: Option<MonotonicTime>) {
        if let Some(moment) = moment
            && self.sleeps_until.fetch_min(moment.0, Ordering::AcqRel) > moment.0
        {
            self.now();
        }
    }
}

struct Shared {
    over: AtomicBool,
    links: Mutex<Vec<Weak<Link>>>,
    wake: Arc<Wake>,
}

/// The thread, which ends when this is dropped.
pub(crate) struct TimerThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl TimerThread {
    pub(crate) fn new() -> Result<Self, TransportError> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|error| TransportError::io("cannot make an eventfd")(error.into()))?;
        let shared = Arc::new(Shared {
            over: AtomicBool::new(false),
            links: Mutex::default(),
            wake: Arc::new(Wake {
                event,
                sleeps_until: AtomicI64::new(MonotonicTime::NEVER.0),
            }),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("timer_thread".to_owned())
            .spawn(move || theirs.run())
            .map_err(TransportError::thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns what connections wake the thread with.
    pub(crate) fn wake(&self) -> &Arc<Wake> {
        &self.shared.wake
    }

    /// Advances this connection from now on, until that is dropped.
    pub(crate) fn take(&self, link: &Arc<Link>) {
        self.shared.lock().push(Arc::downgrade(link));
        self.shared.wake.now();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut sockets = Vec::new();
        while !self.over.load(Ordering::Acquire) {
            // Before the connections are looked at: what changes from now on wakes this thread.
            let sleeps_until = &self.wake.sleeps_until;
            sleeps_until.store(MonotonicTime::NEVER.0, Ordering::Release);
            let until = self.advance_all(&mut sockets);
            let until = sleeps_until
                .fetch_min(until.0, Ordering::AcqRel)
                .min(until.0);
            sockets.push(self.wake.event.as_raw_fd());
            // Woken, late or interrupted: everything is looked at again.
            let _ = wait::any_readable(&sockets, MonotonicTime(until));
            let _ = self.wake.event.read();
        }
    }

    /// Advances the connections that no call advances, puts their sockets into `sockets`, and returns
    /// the moment at which the first timer is due.
    fn advance_all(&self, sockets: &mut Vec<RawFd>) -> MonotonicTime {
        sockets.clear();
        let mut until = MonotonicTime::NEVER;
        self.lock().retain(|link| {
            let Some(link) = link.upgrade() else {
                return false;
            };
            match link.advance() {
                Pending::Nothing => {}
                Pending::Call => until = until.min(MonotonicTime::now() + IN_CALL),
                Pending::Event(socket, timer) => {
                    sockets.push(socket);
                    until = until.min(timer.unwrap_or(MonotonicTime::NEVER));
                }
            }
            true
        });
        until
    }
}

impl Drop for TimerThread {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        self.shared.wake.now();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
    }
}
