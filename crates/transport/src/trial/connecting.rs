//! Connecting end of every workload: the beginning of the transfer, and its outcome.

use super::{
    Trial,
    watch::{Delivered, SenderEnd, SenderWatch},
};
use std::time::Duration;

use crate::{clock::MonotonicTime, context::Phase, driver::TransportError, stop::Stop};

/// Longest time that closing may take once both ends agree on what was delivered.
pub(crate) const CLOSING: Duration = Duration::from_secs(2);

/// A transfer that has begun.
pub(crate) struct Begun {
    /// Stop of the transfer, raised at the deadline.
    pub transfer: Stop,
    pub watch: SenderWatch,
    /// Moment from which the transfer's time counts.
    pub started: MonotonicTime,
}

impl Trial {
    /// Begins the transfer, and with it its time. The transfer has until `connect_deadline` to be
    /// connected, and from then on until `deadline`.
    pub(crate) fn begin(&self) -> Result<Begun, TransportError> {
        let transfer = self.stop.child();
        let watch = SenderWatch::new(
            &self.context,
            &transfer,
            (self.order.connect_deadline, self.order.deadline),
        )?;
        self.context.live.set_phase(Phase::Transfer);
        let started = watch.arm();
        Ok(Begun {
            transfer,
            watch,
            started,
        })
    }

    /// Returns the outcome of a transfer and what was delivered by then, from `end`, the outcome by
    /// its watch, and `result`, that of sending it. `connected` is whether it ever had a
    /// connection.
    pub(crate) fn outcome(
        &self,
        end: Option<SenderEnd>,
        result: Result<(), TransportError>,
        connected: bool,
    ) -> Result<(SenderEnd, Delivered), TransportError> {
        // When the deadline has stopped it, the stack's complaint about that is no news.
        match end {
            Some(end @ SenderEnd::Acknowledged { delivered, .. }) => Ok((end, delivered)),
            Some(SenderEnd::Deadline { .. }) if !connected => Err(self.no_connection()),
            Some(end @ SenderEnd::Deadline { .. }) => Ok((end, self.answer_over_control()?)),
            None => {
                let closed = TransportError::Closed { flow: "transfer" };
                Err(self.explain(result.err().unwrap_or(closed)))
            }
        }
    }
}
