//! Messages that leave on a schedule, over the streams of one connection or over as many
//! connections.
//!
//! Message `i` is due `i` intervals after the beginning and uses flow `i` modulo their number. Each
//! flow has its own sending task, so that one that must wait blocks only its own messages. The
//! measurement therefore shows how the transport's streams block one another. A message's delay
//! counts from the time when it is due to the arrival of its last byte. Where the ends do not share a
//! clock, the receiver subtracts the known offset of its clock from the difference.
//!
//! The schedule begins when the receiver has all flows, so that delays do not include setting them
//! up.

use std::time::Duration;

use regatta_model::{Spread, metric::DelayMetrics, reason};

use super::script::spread_name;
use crate::{
    clock::MonotonicTime,
    error::{Result, TransportError},
    trial::{distribution::Distribution, findings::Findings},
};

/// Schedule of the messages of all flows.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(super) per_second: f64,
    pub(super) flows: u64,
    pub(super) spread: Spread,
    /// This end's clock less the other's, in nanoseconds; `None` if it is not known.
    pub(super) clock_offset_ns: Option<i64>,
}

/// Moments of a schedule at its sending end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub start: MonotonicTime,
    /// Deadline of the transfer, after which nothing is sent.
    pub deadline: MonotonicTime,
}

impl Schedule {
    /// Checks that the schedule makes sense and that its delays can be measured.
    ///
    /// # Errors
    /// [`TransportError::Order`] and [`TransportError::Unsupported`], respectively.
    pub(super) fn check(&self, messages: u64) -> Result<()> {
        let wrong = |what| Err(TransportError::order(what));
        if messages == 0 || self.flows == 0 {
            return wrong(reason::no_messages_or_streams());
        }
        if !(self.per_second > 0.0 && self.per_second.is_finite()) {
            return wrong(reason::no_rate(&self.per_second.to_string()));
        }
        if self.clock_offset_ns.is_none() {
            return Err(TransportError::unsupported(
                reason::clocks_apart(),
                reason::run_in_namespaces(),
            ));
        }
        Ok(())
    }

    /// Whether all flows are streams of one connection.
    pub(super) fn shares_connection(&self) -> bool {
        self.spread == Spread::Streams
    }

    /// Returns the number of messages of a flow, of `messages` in all.
    pub(super) const fn of_flow(&self, index: u64, messages: u64) -> u64 {
        messages.saturating_sub(index).div_ceil(self.flows)
    }

    /// Returns the moment at which message `sequence` of a flow is due, if the first one of all is
    /// due at `start`.
    pub(super) fn due(&self, start: MonotonicTime, flow: u16, sequence: u64) -> MonotonicTime {
        let number = u64::from(flow) + sequence * self.flows;
        start + Duration::from_secs_f64(number as f64 / self.per_second)
    }

    /// Returns the moment at which message `sequence` of a flow is sent: what is due after the deadline
    /// never is, however late the end of the trial comes.
    pub(super) fn sends_at(&self, begun: Begun, flow: u16, sequence: u64) -> MonotonicTime {
        let due = self.due(begun.start, flow, sequence);
        match due > begun.deadline {
            true => MonotonicTime::NEVER,
            false => due,
        }
    }

    /// Returns the rate of `sent` messages, the last of which had left at `left`, over the configured rate;
    /// `None` for a single one.
    pub(super) fn rate_ratio(&self, begun: Begun, sent: u64, left: MonotonicTime) -> Option<f64> {
        let span_ns = left - begun.start;
        let ratio = || (sent - 1) as f64 * 1e9 / self.per_second / span_ns as f64;
        (sent > 1 && span_ns > 0).then(ratio)
    }

    /// Adds the set-up times of the connections and how the messages were spread.
    pub(super) fn report_set_up(&self, times: &[Duration], findings: &mut Findings) {
        let mut set_up = Distribution::default();
        for time in times {
            set_up.add_duration(*time);
        }
        set_up.report(DelayMetrics::SET_UP, "sender", findings);
        findings.fact("streams", self.flows.to_string());
        findings.fact("spread", spread_name(self.spread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(flows: u64) -> Schedule {
        Schedule {
            per_second: 100.0,
            flows,
            spread: Spread::Streams,
            clock_offset_ns: Some(0),
        }
    }

    #[test]
    fn each_message_has_one_flow_and_one_due_time() {
        let schedule = schedule(3);
        let counts = [0, 1, 2].map(|flow| schedule.of_flow(flow, 10));
        assert_eq!(counts, [4, 3, 3]);
        assert_eq!(schedule.of_flow(2, 1), 0);
        let start = MonotonicTime(7);
        // The second message of the second flow is the fifth of all.
        assert_eq!(schedule.due(start, 1, 1), MonotonicTime(40_000_007));
    }

    #[test]
    fn rate_spans_first_to_last_message() {
        let schedule = schedule(3);
        let (start, deadline) = (MonotonicTime(7), MonotonicTime::NEVER);
        let begun = Begun { start, deadline };
        let left = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(schedule.rate_ratio(begun, 11, left(100)), Some(1.0));
        assert_eq!(schedule.rate_ratio(begun, 11, left(200)), Some(0.5));
        assert_eq!(schedule.rate_ratio(begun, 1, left(100)), None);
        assert_eq!(schedule.rate_ratio(begun, 0, MonotonicTime(0)), None);
    }
}
