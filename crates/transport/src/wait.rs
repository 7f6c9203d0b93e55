//! Waits for sockets, for drivers that block.

use std::{io, os::fd::AsRawFd, ptr, time::Duration};

use crate::{clock::MonotonicTime, driver::TransportError, stop::Stop};

/// Interval at which a listening end looks whether it is stopped. The listening socket itself
/// cannot be woken by a stop, which belongs to one flow.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until the descriptor is ready for `events` of poll(2) (`POLLIN`, `POLLOUT`), has failed, or
/// the moment has come; false for the latter.
///
/// # Errors
/// The error of the system, other than that a signal came.
pub fn ready(descriptor: &impl AsRawFd, events: i16, until: MonotonicTime) -> io::Result<bool> {
    let mut polled = [libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events,
        revents: 0,
    }];
    loop {
        match poll(&mut polled, until) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            ready => return ready.map(|ready| ready > 0),
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

/// Waits at a listening socket for the next peer, as [`StreamEndpoint::accept`] promises it. `take`
/// is called whenever a peer may have come, and returns `None` if none has; it must not block for
/// that. `what` names the peer in errors.
///
/// # Errors
/// Those of `take`; [`TransportError::Cancelled`] within some tens of milliseconds after the stop
/// is raised; [`TransportError::TimedOut`] at `until`.
///
/// [`StreamEndpoint::accept`]: crate::StreamEndpoint::accept
pub fn for_next<T>(
    listener: &impl AsRawFd,
    what: &str,
    until: MonotonicTime,
    stop: &Stop,
    take: &mut impl FnMut() -> Result<Option<T>, TransportError>,
) -> Result<T, TransportError> {
    let begun = MonotonicTime::now();
    while !stop.is_stopped() {
        // Before the wait too: somebody may be known whom the socket does not tell of any more.
        if let Some(taken) = take()? {
            return Ok(taken);
        }
        let look = until.min(MonotonicTime::now() + LOOK);
        let came = ready(listener, libc::POLLIN, look)
            .map_err(TransportError::io(format!("cannot wait for a {what}")))?;
        if !came && until.has_passed() {
            return Err(TransportError::TimedOut {
                what: what.to_owned(),
                seconds: MonotonicTime::now().since(begun).as_secs_f64(),
            });
        }
    }
    Err(TransportError::Cancelled)
}
