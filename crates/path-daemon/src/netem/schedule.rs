//! Thread that takes the steps of a schedule at their times.

use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use regatta_forwarder::clock;

use crate::{error::DaemonError, spawn};

/// Running schedule. Dropping it ends it: no further steps are taken.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Channel without messages: dropping it ends the thread.
    _stop: Sender<()>,
    failed: Receiver<DaemonError>,
}

impl Schedule {
    /// Starts taking steps: `take` is called with each when its time since `begun` has come, until a call fails.
    pub(super) fn start<T: Send + 'static>(
        begun: Instant,
        steps: Vec<(Duration, T)>,
        mut take: impl FnMut(T) -> Result<(), DaemonError> + Send + 'static,
    ) -> Result<Self, DaemonError> {
        let (stop, dropped) = mpsc::channel::<()>();
        let (report, failed) = mpsc::channel();
        spawn("schedule", move || {
            clock::wake_on_time();
            for (at, step) in steps {
                let remaining = at.saturating_sub(begun.elapsed());
                if dropped.recv_timeout(remaining) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                if let Err(error) = take(step) {
                    // Nobody reads it once the schedule has been dropped.
                    let _ = report.send(error);
                    return;
                }
            }
        })?;
        Ok(Self {
            _stop: stop,
            failed,
        })
    }

    /// Returns the error that kept the schedule from taking a step, once; `Ok` afterwards.
    pub(super) fn outcome(&self) -> Result<(), DaemonError> {
        self.failed.try_recv().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use regatta_forwarder::ForwarderError;

    use super::*;

    #[test]
    fn steps_are_taken_in_order_until_the_schedule_is_dropped() {
        let (sender, receiver) = mpsc::channel();
        let times = [Duration::ZERO, Duration::from_millis(5), Duration::MAX];
        let steps = times.into_iter().zip(0..).collect();
        let take = move |number| {
            sender.send(number).map_err(|_| ForwarderError::Ended)?;
            Ok(())
        };
        let schedule = Schedule::start(Instant::now(), steps, take).expect("a thread");
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(0), Ok(1)));
        assert!(schedule.outcome().is_ok());
        drop(schedule);
        // The thread ends, and with it its sender.
        assert!(receiver.recv().is_err());
    }

    #[test]
    fn a_failed_step_is_reported_and_ends_the_schedule() {
        let (sender, receiver) = mpsc::channel::<()>();
        let steps = vec![(Duration::ZERO, ()); 2];
        let take = move |()| {
            let _held = &sender;
            Err(DaemonError::Mtu(0))
        };
        let schedule = Schedule::start(Instant::now(), steps, take).expect("a thread");
        assert!(receiver.recv().is_err());
        assert!(matches!(schedule.outcome(), Err(DaemonError::Mtu(0))));
        assert!(schedule.outcome().is_ok());
    }
}
