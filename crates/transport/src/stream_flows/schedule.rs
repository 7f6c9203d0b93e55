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

use super::{Tally, receiving::Sink};
use crate::{
    clock::MonotonicTime,
    content::{plan::Plan, stream_check::StreamCheck},
    error::{Result, TransportError},
    script::spread_name,
    trial::{distribution::Distribution, findings::Findings},
};

/// Length of the schedule's beginning, a moment that is the first data of each flow, in bytes.
const START_BYTES: usize = 8;

/// Schedule of the messages of all flows.
#[derive(Debug)]
pub(super) struct Schedule {
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

/// Receiving end of one flow: its messages, each with the moment at which it was whole.
#[derive(Debug)]
pub(super) struct Arrivals<'a> {
    schedule: &'a Schedule,
    flow: u16,
    start: Vec<u8>,
    check: StreamCheck,
    /// Numbers of the messages that came as they were sent, with the moments of their last bytes.
    arrived: Vec<(u64, MonotonicTime)>,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(schedule: &'a Schedule, flow: u16, plan: &Plan) -> Self {
        Self {
            schedule,
            flow,
            start: Vec::with_capacity(START_BYTES),
            check: StreamCheck::new(plan),
            arrived: Vec::with_capacity(plan.count as usize),
        }
    }

    /// Takes the next bytes, which are here at `now`; returns how many belong to the flow.
    fn take(&mut self, piece: &[u8], now: MonotonicTime) -> usize {
        let mut taken = piece.len().min(START_BYTES - self.start.len());
        self.start.extend_from_slice(&piece[..taken]);
        while taken < piece.len() && !self.check.is_complete() {
            let rest = &piece[taken..];
            let (number, sound) = (
                self.check.complete_messages(),
                self.check.delivered.messages,
            );
            let part = &rest[..rest.len().min(self.check.missing())];
            taken += self.check.consume(part);
            if self.check.delivered.messages > sound {
                self.arrived.push((number, now));
            }
        }
        taken
    }
}

impl Sink for Arrivals<'_> {
    fn consume(&mut self, piece: &[u8]) -> usize {
        self.take(piece, MonotonicTime::now())
    }

    fn is_complete(&self) -> bool {
        self.start.len() == START_BYTES && self.check.is_complete()
    }

    fn check(&self) -> &StreamCheck {
        &self.check
    }

    fn add_to(&self, tally: &mut Tally) {
        tally.corrupted += self.check.corrupted;
        let Some(start) = self.start.first_chunk() else {
            return;
        };
        // The moment by this end's clock.
        let offset_ns = self.schedule.clock_offset_ns.unwrap_or_default();
        let start = MonotonicTime(i64::from_le_bytes(*start).saturating_add(offset_ns));
        for (sequence, moment) in &self.arrived {
            let due = self.schedule.due(start, self.flow, *sequence);
            let delays = tally.delays.get_or_insert_default();
            delays.add(due, *moment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{content::stream_check::encode_header, testing::order_for};
    use regatta_control::Role;

    fn schedule(flows: u64) -> Schedule {
        Schedule {
            per_second: 100.0,
            flows,
            spread: Spread::Streams,
            clock_offset_ns: Some(0),
        }
    }

    fn plan(messages: u64, length: u64) -> Plan {
        let order = order_for(Role::Sender, "tcp", messages * length, length);
        Plan::new(&order).expect("a plan")
    }

    fn bytes_of(plan: &Plan, start: MonotonicTime) -> Vec<u8> {
        let mut bytes = start.0.to_le_bytes().to_vec();
        for sequence in 0..plan.count {
            let header = Plan::header(plan.message);
            let head = encode_header(plan, sequence, plan.message);
            bytes.extend_from_slice(&head[..header]);
            bytes.extend_from_slice(&plan.payload(plan.message));
        }
        bytes
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

    #[test]
    fn messages_are_parsed_from_any_pieces() {
        let schedule = schedule(1);
        for length in [1, 15, 16, 17, 30] {
            let plan = plan(5, length);
            let bytes = bytes_of(&plan, MonotonicTime(0));
            for piece in 1..=bytes.len() {
                let mut arrivals = Arrivals::new(&schedule, 0, &plan);
                for piece in bytes.chunks(piece) {
                    assert_eq!(arrivals.take(piece, MonotonicTime(0)), piece.len());
                }
                assert!(arrivals.is_complete());
                assert_eq!(arrivals.arrived.len(), 5);
            }
        }
    }

    #[test]
    fn message_delay_counts_from_schedule_to_last_byte() {
        let (schedule, plan) = (schedule(1), plan(3, 20));
        let ms = |ms: i64| MonotonicTime(ms * 1_000_000);
        let mut bytes = bytes_of(&plan, ms(1));
        // The second one is damaged, and has no delay.
        bytes[START_BYTES + 39] ^= 1;
        let mut arrivals = Arrivals::new(&schedule, 0, &plan);
        arrivals.take(&bytes[..START_BYTES + 19], ms(5));
        arrivals.take(&bytes[START_BYTES + 19..START_BYTES + 50], ms(8));
        arrivals.take(&bytes[START_BYTES + 50..], ms(50));
        assert_eq!(arrivals.arrived, [(0, ms(8)), (2, ms(50))]);
        let mut tally = Tally::default();
        arrivals.add_to(&mut tally);
        assert_eq!(tally.corrupted, 1);
        let mut findings = Findings::default();
        let delays = tally.delays.expect("two messages have a delay");
        delays.report(DelayMetrics::MESSAGE, "receiver", &mut findings);
        // 7 ms, and 29 ms as the third is due 20 ms after the first.
        assert_eq!(
            findings.0.measurements.metrics["message_delay_mean_ns"],
            18e6
        );
        assert_eq!(
            findings.0.measurements.metrics["message_delay_max_ns"],
            29e6
        );
    }

    #[test]
    fn clock_offset_is_subtracted_from_delays() {
        let ahead = Schedule {
            clock_offset_ns: Some(3_600_000_000_000),
            ..schedule(1)
        };
        let plan = plan(1, 20);
        let bytes = bytes_of(&plan, MonotonicTime(1_000_000));
        let mut arrivals = Arrivals::new(&ahead, 0, &plan);
        arrivals.take(&bytes, MonotonicTime(3_600_008_000_000));
        let mut tally = Tally::default();
        arrivals.add_to(&mut tally);
        let mut findings = Findings::default();
        let delays = tally.delays.expect("a message has a delay");
        delays.report(DelayMetrics::MESSAGE, "receiver", &mut findings);
        assert_eq!(
            findings.0.measurements.metrics["message_delay_mean_ns"],
            7e6
        );
    }
}
