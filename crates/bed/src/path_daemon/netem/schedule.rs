//! Thread that takes the steps of a schedule at their times.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::path_daemon::{clock, error::DaemonError, spawn};

/// Running schedule. Dropping it ends it: no further steps are taken.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Channel without messages: dropping it ends the thread.
    _alive: Sender<()>,
    failed: Arc<Mutex<Option<DaemonError>>>,
}

impl Schedule {
    /// Starts taking steps: `take` is called with the index of each when its time since `begun` has
    /// come, until a call fails.
    pub(super) fn start(
        begun: Instant,
        steps: Vec<Duration>,
        mut take: impl FnMut(usize) -> Result<(), DaemonError> + Send + 'static,
    ) -> Result<Self, DaemonError> {
        let (alive, dropped) = mpsc::channel::<()>();
        let failed = Arc::new(Mutex::new(None));
        let outcome = Arc::clone(&failed);
        spawn("schedule", move || {
            clock::wake_on_time();
            for (index, at) in steps.into_iter().enumerate() {
                let left = at.saturating_sub(begun.elapsed());
                if dropped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                if let Err(error) = take(index) {
                    *outcome.lock() = Some(error);
                    return;
                }
            }
        })?;
        Ok(Self {
            _alive: alive,
            failed,
        })
    }

    /// Returns the error that kept the schedule from taking a step, once; `Ok` afterwards.
    pub(super) fn outcome(&self) -> Result<(), DaemonError> {
        self.failed.lock().take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_in_order_until_it_is_dropped() {
        let (tell, told) = mpsc::channel();
        let steps = vec![Duration::ZERO, Duration::from_millis(5), Duration::MAX];
        let take = move |index| {
            tell.send(index).map_err(|_| DaemonError::ForwarderGone)?;
            Ok(())
        };
        let schedule = Schedule::start(Instant::now(), steps, take).expect("a thread");
        assert_eq!((told.recv(), told.recv()), (Ok(0), Ok(1)));
        assert!(schedule.outcome().is_ok());
        drop(schedule);
        // The thread ends, and with it what it told with.
        assert!(told.recv().is_err());
    }

    #[test]
    fn a_step_that_fails_is_told_and_the_rest_are_not_taken() {
        let (tell, told) = mpsc::channel::<()>();
        let steps = vec![Duration::ZERO; 2];
        let take = move |_| {
            let _held = &tell;
            Err(DaemonError::Mtu(0))
        };
        let schedule = Schedule::start(Instant::now(), steps, take).expect("a thread");
        assert!(told.recv().is_err());
        assert!(matches!(schedule.outcome(), Err(DaemonError::Mtu(0))));
        assert!(schedule.outcome().is_ok());
    }
}
