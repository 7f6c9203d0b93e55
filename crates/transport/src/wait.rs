//! Waits for sockets, for drivers that block.

use std::{
    cell::RefCell,
    io,
    marker::PhantomData,
    os::fd::{AsFd as _, AsRawFd, RawFd},
    ptr,
    sync::Arc,
};

use regatta_model::{Phrase, reason};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::{
    clock::MonotonicTime,
    error::{Result, TransportError},
    stop::{Abort, Stop},
};

/// Event that ends waits of a thread: a descriptor of eventfd(2), readable once a stop was raised.
#[derive(Debug)]
struct StopEvent(EventFd);

impl StopEvent {
    fn new(stop: &Stop) -> io::Result<Arc<Self>> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = Arc::new(Self(EventFd::from_value_and_flags(0, flags)?));
        stop.on_stop(&event);
        Ok(event)
    }
}

impl Abort for StopEvent {
    fn abort(&self) {
        // It can fail only if the event is there already.
        let _ = self.0.write(1);
    }
}

thread_local! {
    /// Event that ends the waits of this thread.
    static STOP_EVENT: RefCell<Option<Arc<StopEvent>>> = const { RefCell::new(None) };
}

/// Has a stop end the waits of a blocking driver on this thread, until this is dropped: once it is raised, each wait ends
/// as if its moment had come.
#[derive(Debug)]
pub struct EndsWaits {
    before: Option<Arc<StopEvent>>,
    /// The event is that of one thread.
    _thread: PhantomData<*const ()>,
}

impl EndsWaits {
    pub(crate) fn new(stop: &Stop) -> Self {
        // Without a descriptor the waits end at their moments.
        let event = StopEvent::new(stop).ok();
        Self {
            before: STOP_EVENT.replace(event),
            _thread: PhantomData,
        }
    }
}

impl Drop for EndsWaits {
    fn drop(&mut self) {
        STOP_EVENT.set(self.before.take());
    }
}

/// Waits until the descriptor is ready for `events` of poll(2) (`POLLIN`, `POLLOUT`), has failed, or
/// the moment has come; false for the latter.
///
/// # Errors
/// The error of the system, other than that a signal came.
pub fn ready(descriptor: &impl AsRawFd, events: i16, until: MonotonicTime) -> io::Result<bool> {
    ready_or_stopped(descriptor, events, until, None)
}

/// As [`ready`]; the wait ends also with `event`.
fn ready_or_stopped(
    descriptor: &impl AsRawFd,
    events: i16,
    until: MonotonicTime,
    event: Option<&StopEvent>,
) -> io::Result<bool> {
    // Such an entry is ignored.
    const NONE: RawFd = -1;
    let polled = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let stopped = |event: Option<&StopEvent>| {
        let descriptor = event.map_or(NONE, |event| event.0.as_fd().as_raw_fd());
        polled(descriptor, libc::POLLIN)
    };
    let mut all = [
        polled(descriptor.as_raw_fd(), events),
        STOP_EVENT.with_borrow(|event| stopped(event.as_deref())),
        stopped(event),
    ];
    loop {
        match poll(&mut all, until) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(all[0].revents != 0),
        }
    }
}

/// Calls ppoll(2); returns the number of descriptors that are ready.
fn poll(polled: &mut [libc::pollfd], until: MonotonicTime) -> io::Result<usize> {
    let left = until.remaining();
    let timeout = libc::timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    };
    let count = polled.len() as libc::nfds_t;
    // SAFETY: that many valid `pollfd`, a valid timespec, and no signal mask.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const timeout, ptr::null()) };
    usize::try_from(ready).map_err(|_| io::Error::last_os_error())
}

/// Waits at a listening socket for the next peer, as [`StreamEndpoint::accept`] requires. `take` is called whenever a
/// peer may have arrived; it must not block, and returns `None` if there is none. `what` names the peer in errors.
///
/// # Errors
/// Errors of `take`; [`TransportError::Cancelled`] once the stop is raised; [`TransportError::TimedOut`] at `until`.
///
/// [`StreamEndpoint::accept`]: crate::StreamEndpoint::accept
pub fn for_next<T>(
    listener: &impl AsRawFd,
    what: Phrase,
    until: MonotonicTime,
    stop: &Stop,
    take: &mut impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begun = MonotonicTime::now();
    let failed = || TransportError::io(reason::cannot_wait_for(what.clone()));
    // The listening socket cannot be woken by the stop, which belongs to one flow.
    let event = StopEvent::new(stop).map_err(failed())?;
    while !stop.is_stopped() {
        // Before the wait too: a peer may have been read already, for which the socket is not ready any more.
        if let Some(taken) = take()? {
            return Ok(taken);
        }
        let ready =
            ready_or_stopped(listener, libc::POLLIN, until, Some(&event)).map_err(failed())?;
        // The moment has come, or the wait has ended as if it had.
        if !ready && !stop.is_stopped() {
            return Err(TransportError::timed_out_since(what, begun));
        }
    }
    Err(TransportError::Cancelled)
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, net::TcpListener, os::unix::net::UnixStream, thread};

    use super::*;
    use crate::executor::{Blocking, Executor as _};

    #[test]
    fn stop_ends_waits_of_its_thread_without_losing_readiness() {
        let (mut here, there) = UnixStream::pair().expect("sockets");
        let stop = Stop::new();
        let wait = || {
            let waiting = async { ready(&there, libc::POLLIN, MonotonicTime::NEVER) };
            let waited = Blocking.block_on(Blocking.wait_unless_stopped(&stop, waiting));
            waited.expect("not dropped").expect("no error")
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(wait);
            stop.stop();
            assert!(!waiting.join().expect("no panic"));
        });
        here.write_all(b"x").expect("room");
        assert!(wait(), "what is there comes first");
        assert!(ready(&there, libc::POLLIN, MonotonicTime::NEVER).expect("no error"));
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let stop = Stop::new();
        let accepted: Result<(), _> = thread::scope(|scope| {
            let accepting = scope.spawn(|| {
                let until = MonotonicTime::NEVER;
                for_next(&listener, reason::connection(), until, &stop, &mut || {
                    Ok(None)
                })
            });
            stop.stop();
            accepting.join().expect("no panic")
        });
        assert!(matches!(accepted, Err(TransportError::Cancelled)));
    }

    #[test]
    fn a_wait_for_a_peer_ends_with_the_waits_of_its_thread() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let over = Stop::new();
        let accepted: Result<(), _> = thread::scope(|scope| {
            let accepting = scope.spawn(|| {
                let (until, stop) = (MonotonicTime::NEVER, Stop::new());
                let mut take = || Ok(None);
                let waiting =
                    async { for_next(&listener, reason::connection(), until, &stop, &mut take) };
                Blocking.block_on(Blocking.wait_unless_stopped(&over, waiting))
            });
            over.stop();
            accepting.join().expect("no panic").expect("not dropped")
        });
        assert!(matches!(accepted, Err(TransportError::TimedOut { .. })));
    }
}
