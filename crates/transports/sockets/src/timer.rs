//! A timer that is as exact as the kernel's, for a runtime whose own rounds to milliseconds.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use regatta_transport::MonotonicTime;
use tokio::io::{Interest, unix::AsyncFd};

/// Waits until the moment has come, on the runtime that polls it.
pub async fn sleep_until(moment: MonotonicTime) {
    if !moment.has_passed() && by_descriptor(moment).await.is_err() {
        // Without a descriptor there is still the runtime's own timer, which is late by up to a
        // millisecond or two.
        tokio::time::sleep(moment.remaining()).await;
    }
}

/// # Errors
/// When the process has no descriptors left.
async fn by_descriptor(moment: MonotonicTime) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    let raw = unsafe {
        libc::timerfd_create(
            libc::CLOCK_MONOTONIC,
            libc::TFD_NONBLOCK | libc::TFD_CLOEXEC,
        )
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made just now and nobody else owns it.
    let timer = unsafe { OwnedFd::from_raw_fd(raw) };
    let setting = libc::itimerspec {
        it_interval: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: libc::timespec {
            tv_sec: moment.0.div_euclid(1_000_000_000),
            tv_nsec: moment.0.rem_euclid(1_000_000_000),
        },
    };
    // SAFETY: `setting` is a valid itimerspec; no old value is asked for.
    let result = unsafe {
        libc::timerfd_settime(
            timer.as_raw_fd(),
            libc::TFD_TIMER_ABSTIME,
            &raw const setting,
            std::ptr::null_mut(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an `OwnedFd` gives the same open descriptor until it is dropped, and it is dropped
    // by the registration alone.
    let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE)? };
    // Readable means expired: it fires once, and is closed with this future.
    timer.readable().await?.retain_ready();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_never_returns_early() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            for us in [0, 50, 300, 1700] {
                let moment = MonotonicTime::now() + Duration::from_micros(us);
                sleep_until(moment).await;
                assert!(moment.has_passed());
            }
        });
    }
}
