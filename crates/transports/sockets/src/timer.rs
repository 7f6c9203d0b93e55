//! A timer that is as exact as the kernel's, for a runtime whose own rounds to milliseconds.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::Instant,
};

use regatta_transport::MonotonicTime;
use tokio::io::{Interest, unix::AsyncFd};

/// Waits until the moment has come, on the runtime that polls it. A wait without limit needs no descriptor.
pub async fn sleep_until(moment: MonotonicTime) {
    if moment == MonotonicTime::NEVER {
        return std::future::pending().await;
    }
    if moment.has_passed() {
        return;
    }
    let slept = async { Timer::new()?.wait(libc::TFD_TIMER_ABSTIME, moment.0).await };
    if slept.await.is_err() {
        // Without a descriptor there is still the runtime's own timer, which is late by up to a
        // millisecond or two.
        tokio::time::sleep(moment.remaining()).await;
    }
}

/// A timer of the kernel's that a task sets again and again.
#[derive(Debug)]
pub struct Timer {
    descriptor: AsyncFd<OwnedFd>,
    /// Moment that it is set to; `None` once that has come.
    set: Option<Instant>,
}

impl Timer {
    /// Makes a timer that is not set; to be made inside the runtime that waits for it.
    ///
    /// # Errors
    /// The error of the system if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
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
        Ok(Self {
            // SAFETY: an `OwnedFd` gives the same open descriptor until it is dropped, and it is
            // dropped by the registration alone.
            descriptor: unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE)? },
            set: None,
        })
    }

    /// Waits until the moment has come. A wait that was dropped leaves its setting, which costs the
    /// next one no system call if it is for the same moment, or for a later one that is dropped too:
    /// time-outs mostly move on before they come.
    ///
    /// # Errors
    /// The error of the kernel if it refuses the setting.
    pub async fn sleep_until(&mut self, moment: Instant) -> io::Result<()> {
        loop {
            let set = match self.set {
                Some(set) if set <= moment => set,
                _ => {
                    let wait = moment.saturating_duration_since(Instant::now());
                    if wait.is_zero() {
                        return Ok(());
                    }
                    self.set = None;
                    self.arm(0, i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX))?;
                    self.set = Some(moment);
                    moment
                }
            };
            self.expired().await?;
            if set == moment {
                return Ok(());
            }
        }
    }

    async fn wait(mut self, flags: libc::c_int, nanoseconds: i64) -> io::Result<()> {
        self.arm(flags, nanoseconds)?;
        self.expired().await
    }

    fn arm(&self, flags: libc::c_int, nanoseconds: i64) -> io::Result<()> {
        let setting = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: nanoseconds.div_euclid(1_000_000_000),
                tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
            },
        };
        // SAFETY: `setting` is a valid itimerspec; no old value is asked for.
        let result = unsafe {
            libc::timerfd_settime(
                self.descriptor.as_raw_fd(),
                flags,
                &raw const setting,
                std::ptr::null_mut(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits for the expiry of the last setting, and takes it.
    async fn expired(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.descriptor.readable().await?;
            // The runtime may have seen the expiry of an earlier setting, of which nothing can be
            // read any more.
            let taken = ready.try_io(|timer| {
                let mut expirations = 0_u64;
                // SAFETY: a timer gives eight bytes, which is the size of `expirations`.
                let read = unsafe {
                    libc::read(
                        timer.as_raw_fd(),
                        (&raw mut expirations).cast(),
                        size_of::<u64>(),
                    )
                };
                if read < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
            if let Ok(taken) = taken {
                self.set = None;
                return taken;
            }
        }
    }
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

    #[test]
    fn one_timer_serves_moment_after_moment() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut timer = Timer::new().expect("a descriptor");
            let later = Instant::now() + Duration::from_secs(3600);
            for us in [300, 0, 1700] {
                // Waits for other moments were given up before, of which one may have come by now.
                for given_up in [later, Instant::now() + Duration::from_micros(us / 2)] {
                    let wait = timer.sleep_until(given_up);
                    let _ = tokio::time::timeout(Duration::ZERO, wait).await;
                }
                let moment = Instant::now() + Duration::from_micros(us);
                timer.sleep_until(moment).await.expect("set");
                assert!(Instant::now() >= moment);
            }
        });
    }
}
