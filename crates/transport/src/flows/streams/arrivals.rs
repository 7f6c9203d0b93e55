//! Arrivals of messages that leave on a schedule.

use super::receiving::Sink;
use crate::{
    clock::MonotonicTime,
    content::{plan::Plan, stream_check::StreamCheck},
    flows::{Tally, schedule::Schedule},
};

/// Length of the schedule's beginning, a moment that is the first data of each flow, in bytes.
const START_BYTES: usize = 8;

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

    /// Consumes `piece`, which arrived at `now`; returns how many of its bytes belong to the flow.
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
    use regatta_control::Role;
    use regatta_model::{Spread, metric::DelayMetrics};

    use super::*;
    use crate::{
        content::stream_check::encode_header, testing::order_for, trial::findings::Findings,
    };

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
