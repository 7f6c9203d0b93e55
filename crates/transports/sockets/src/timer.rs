//! A timer that is as exact as the kernel's, for a runtime whose own rounds to milliseconds.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd, RawFd},
    time::Instant,
};

use nix::sys::{
    time::TimeSpec,
    timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
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
    let slept = async {
        let mut timer = Timer::new()?;
        let ns = moment.0;
        let at = TimeSpec::new(ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
        timer.arm(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        timer.expired().await
    };
    if slept.await.is_err() {
        // Without a descriptor there is still the runtime's own timer, which is late by up to a
        // millisecond or two.
        tokio::time::sleep(moment.remaining()).await;
    }
}

/// A timer that the runtime can watch.
#[derive(Debug)]
struct Descriptor(TimerFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A timer of the kernel's that a task sets again and again.
#[derive(Debug)]
pub struct Timer {
    descriptor: AsyncFd<Descriptor>,
    /// Moment that it is set to; `None` once that has come.
    set: Option<Instant>,
}

impl Timer {
    /// Makes a timer that is not set; to be made inside the runtime that waits for it.
    ///
    /// # Errors
    /// The error of the system if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = Descriptor(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        Ok(Self {
            // SAFETY: a `TimerFd` gives the same open descriptor until it is dropped, and it is
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
                    self.arm(wait.into(), TimerSetTimeFlags::empty())?;
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

    fn arm(&self, time: TimeSpec, flags: TimerSetTimeFlags) -> io::Result<()> {
        let timer = &self.descriptor.get_ref().0;
        Ok(timer.set(Expiration::OneShot(time), flags)?)
    }

    /// Waits for the expiry of the last setting, and takes it.
    async fn expired(&mut self) -> io::Result<()> {
        // The runtime may have seen the expiry of an earlier setting, of which nothing can be read any
        // more: the call waits again then.
        let take = |timer: &Descriptor| Ok(timer.0.wait()?);
        let taken = self.descriptor.async_io(Interest::READABLE, take).await;
        self.set = None;
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn sleep_never_returns_early() {
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
    fn timer_is_reusable_after_cancelled_sleeps() {
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
