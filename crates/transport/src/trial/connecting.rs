//! What every workload does at its connecting end: it begins the transfer, and learns how that ended.

use super::{
    Trial,
    watch::{Delivered, SenderEnd, SenderWatch},
};
use crate::{clock::MonotonicTime, context::Phase, driver::TransportError, stop::Stop};

/// A transfer that has begun.
pub(crate) struct Begun {
    /// Stops it, and is raised at the deadline.
    pub transfer: Stop,
    pub watch: SenderWatch,
    /// From when its time counts.
    pub started: MonotonicTime,
}

impl Trial {
    /// Begins the transfer: its time runs. It has until `connect_deadline` to be connected, and from
    /// then on until `deadline`.
    pub(crate) fn begin(&self) -> Result<Begun, TransportError> {
        let transfer = self.stop.child();
        let watch = SenderWatch::new(
            &self.context,
            &transfer,
            (self.order.connect_deadline, self.order.deadline),
            self.order.sample_interval,
        )?;
        self.context.live.set_phase(Phase::Transfer);
        let started = watch.arm();
        Ok(Begun {
            transfer,
            watch,
            started,
        })
    }

    /// How a transfer ended and what was delivered by then, of what its watch says and of what came
    /// of sending it. `connected`: whether it ever had a connection.
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
