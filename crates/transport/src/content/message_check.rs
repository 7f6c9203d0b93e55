//! Header of a message that may be lost, and the receiver's counts.

use std::fmt;

use super::{
    BitSet,
    plan::{HEADER_BYTES, Plan, matches_samples},
    stream_check::check,
};
use crate::{clock::MonotonicTime, delivered::Delivered};

/// Maximum number of messages of one transfer, so that a sequence number fits its place.
pub(crate) const MAX_MESSAGES: u64 = u32::MAX as u64;

/// Writes a header: sequence number (4 bytes), time of sending (8), check of both and of the trial
/// (4); little-endian. The length is the message's own.
pub(crate) fn write_header(plan: &Plan, sequence: u64, sent: MonotonicTime, buffer: &mut [u8]) {
    buffer[..4].copy_from_slice(&(sequence as u32).to_le_bytes());
    buffer[4..12].copy_from_slice(&sent.0.to_le_bytes());
    let check = check(plan.salt, &buffer[..12]);
    buffer[12..HEADER_BYTES].copy_from_slice(&check.to_le_bytes());
}

/// Reads a header: sequence number and time of sending; `None` if its check fails.
fn read_header(plan: &Plan, message: &[u8]) -> Option<(u64, MonotonicTime)> {
    let sequence = u32::from_le_bytes(message.get(..4)?.try_into().ok()?);
    let sent = i64::from_le_bytes(message.get(4..12)?.try_into().ok()?);
    let stored = u32::from_le_bytes(message.get(12..HEADER_BYTES)?.try_into().ok()?);
    (stored == check(plan.salt, &message[..12])).then_some((sequence.into(), MonotonicTime(sent)))
}

/// Counts of the messages of a flow that may lose, duplicate and reorder them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    seen: BitSet,
    /// One more than the highest number so far.
    pub next_expected: u64,
    /// Distinct messages that came whole.
    pub delivered: Delivered,
    /// Copies of messages that had come already.
    pub duplicated: u64,
    /// Messages that came after one with a higher number (RFC 4737, 3.3).
    pub reordered: u64,
    /// Messages whose check failed.
    pub corrupted: u64,
}

impl Counts {
    /// Counts message `number`, which is whole; returns whether it is new.
    pub(crate) fn note(&mut self, number: u64, length: usize) -> bool {
        if !self.seen.mark(number) {
            self.duplicated += 1;
            return false;
        }
        if number < self.next_expected {
            self.reordered += 1;
        } else {
            self.next_expected = number + 1;
        }
        self.add(length);
        true
    }

    /// Whether message `number` is here.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.seen.contains(number)
    }

    fn add(&mut self, length: usize) {
        self.delivered.messages += 1;
        self.delivered.bytes += length as u64;
    }
}

/// What the receiver of messages is to send, if the workload has it send any.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer<'a> {
    /// A message, now.
    Message(&'a [u8]),
    /// Nothing before this moment, or the next arrival.
    NotBefore(MonotonicTime),
}

/// The receiver's part of a workload over messages.
pub(crate) trait MessageSink: Send + fmt::Debug {
    /// Takes one message; returns its time of sending if it carries one and is intact and new.
    fn consume(&mut self, message: &[u8], now: MonotonicTime) -> Option<MonotonicTime>;

    /// Returns the counts of the messages that have come.
    fn counts(&self) -> &Counts;

    /// Whether every message of the workload has arrived.
    fn is_complete(&self) -> bool;

    /// Whether messages have numbers: without them they are counted and nothing else is known.
    fn has_numbers(&self) -> bool {
        true
    }

    /// Returns how many of the first `sent` messages have arrived. Messages without numbers all count, up to `sent`.
    fn arrived_of(&self, sent: u64) -> u64 {
        match self.has_numbers() {
            true => self.counts().seen.count_below(sent),
            false => self.counts().delivered.messages.min(sent),
        }
    }

    /// Returns the smoothed interarrival jitter in nanoseconds; `None` before the second message, and where
    /// messages do not carry the time of sending.
    fn interarrival_jitter(&self) -> Option<f64> {
        None
    }

    /// Returns what to send next, to be called again after each message that is sent.
    fn next_answer(&mut self) -> Answer<'_> {
        Answer::NotBefore(MonotonicTime::NEVER)
    }
}

/// Check and counts of the messages of a transfer that may lose, duplicate and reorder them.
#[derive(Debug)]
pub(crate) struct MessageCheck {
    plan: Plan,
    jitter: InterarrivalJitter,
    counts: Counts,
}

impl MessageCheck {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            jitter: InterarrivalJitter::default(),
            counts: Counts::default(),
            plan: plan.clone(),
        }
    }

    /// Takes a message that is too short for a header: any message of a transfer without headers,
    /// or the last one of a transfer with them.
    fn consume_bare(&mut self, message: &[u8]) {
        let (plan, length) = (&self.plan, message.len());
        let right = message == &plan.content[..length.min(plan.content.len())] && plan.count > 0;
        let last = plan.count.saturating_sub(1);
        if !right {
            self.counts.corrupted += 1;
        } else if self.has_numbers() && length == plan.length(last) {
            self.counts.note(last, length);
        } else if !self.has_numbers() && self.counts.delivered.messages <= last {
            self.counts.add(length);
        } else {
            self.counts.corrupted += 1;
        }
    }
}

impl MessageSink for MessageCheck {
    fn consume(&mut self, message: &[u8], now: MonotonicTime) -> Option<MonotonicTime> {
        if message.len() < HEADER_BYTES {
            self.consume_bare(message);
            return None;
        }
        let plan = &self.plan;
        let read = read_header(plan, message).filter(|(sequence, _)| {
            *sequence < plan.count
                && message.len() == plan.length(*sequence)
                && matches_samples(
                    &message[HEADER_BYTES..],
                    &plan.content[HEADER_BYTES..message.len()],
                )
        });
        let Some((sequence, sent)) = read else {
            self.counts.corrupted += 1;
            return None;
        };
        let is_new = self.counts.note(sequence, message.len());
        is_new.then(|| {
            self.jitter.add(sent, now);
            sent
        })
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn is_complete(&self) -> bool {
        self.counts.delivered.messages == self.plan.count
    }

    fn has_numbers(&self) -> bool {
        self.plan.message >= HEADER_BYTES
    }

    fn interarrival_jitter(&self) -> Option<f64> {
        self.jitter.jitter
    }
}

/// Smoothed interarrival jitter of one flow, in nanoseconds.
///
/// J += (|D| − J) / 16, in arrival order. Lost messages are skipped; a constant clock offset
/// cancels, clock skew does not.
///
/// Source: RFC 3550 §6.4.1, A.8.
#[derive(Debug, Default)]
struct InterarrivalJitter {
    transit: Option<i64>,
    jitter: Option<f64>,
}

impl InterarrivalJitter {
    fn add(&mut self, sent: MonotonicTime, arrived: MonotonicTime) {
        let transit = arrived - sent;
        if let Some(before) = self.transit.replace(transit) {
            let difference = transit.abs_diff(before) as f64;
            let jitter = self.jitter.unwrap_or(0.0);
            self.jitter = Some(jitter + (difference - jitter) / 16.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::order_for;
    use regatta_control::Role;

    fn plan(size: u64, message: u64) -> Plan {
        Plan::new(&order_for(Role::Sender, "udp", size, message)).expect("a plan")
    }

    fn message(plan: &Plan, sequence: u64, sent: i64) -> Vec<u8> {
        let mut bytes = plan.content[..plan.length(sequence)].to_vec();
        if bytes.len() >= HEADER_BYTES {
            write_header(plan, sequence, MonotonicTime(sent), &mut bytes);
        }
        bytes
    }

    #[test]
    fn loss_duplication_reordering_and_corruption_are_distinguished() {
        let plan = plan(1005, 100);
        assert_eq!(plan.count, 11);
        let mut check = MessageCheck::new(&plan);
        // 2 is lost, 4 comes after 5, 5 comes twice, 7 is damaged; the last has no header.
        for sequence in [0, 1, 3, 5, 4, 5, 6, 8, 9, 10, 10] {
            check.consume(&message(&plan, sequence, 0), MonotonicTime(0));
        }
        let mut damaged = message(&plan, 7, 0);
        damaged[99] ^= 1;
        check.consume(&damaged, MonotonicTime(0));
        check.consume(&message(&plan, 7, 0)[..99], MonotonicTime(0));
        check.consume(b"", MonotonicTime(0));
        let counts = check.counts();
        assert_eq!(counts.delivered.messages, 9);
        for (sent, arrived) in [(0, 0), (2, 2), (3, 2), (4, 3), (11, 9), (64, 9), (1000, 9)] {
            assert_eq!(check.arrived_of(sent), arrived, "of {sent}");
        }
        assert_eq!(counts.delivered.bytes, 805);
        assert_eq!(counts.duplicated, 2);
        assert_eq!(counts.reordered, 1);
        assert_eq!(counts.corrupted, 3);
        assert!(!check.is_complete());
    }

    #[test]
    fn messages_without_header_are_counted() {
        let plan = plan(5, 1);
        let mut check = MessageCheck::new(&plan);
        for _ in 0..5 {
            check.consume(b"D", MonotonicTime(0));
        }
        assert!(check.is_complete());
        check.consume(b"X", MonotonicTime(0));
        check.consume(b"D", MonotonicTime(0));
        let counts = check.counts();
        assert_eq!((counts.delivered.messages, counts.corrupted), (5, 2));
    }

    #[test]
    fn jitter_follows_rfc_3550() {
        // Transit times 10, 26, 26, 10: |D| = 16, 0, 16.
        let mut jitter = InterarrivalJitter::default();
        for (sent, arrived) in [(0, 10), (100, 126), (200, 226), (300, 310)] {
            jitter.add(MonotonicTime(sent), MonotonicTime(arrived));
        }
        let first = 1.0;
        let second = first - first / 16.0;
        let third = second + (16.0 - second) / 16.0;
        assert_eq!(jitter.jitter, Some(third));
    }
}
