//! Splits a stream into its messages, each with the time at which it was complete.

use super::{Messages, NUMBER_BYTES};
use crate::{
    clock::MonotonicTime,
    trial::{distribution::Distribution, watch::Delivered},
};

/// The messages of one stream as they come.
#[derive(Debug)]
pub(super) struct Arrivals<'a> {
    messages: &'a Messages,
    /// Number of messages of this stream.
    count: u64,
    /// The number of the message that is coming.
    number: u64,
    offset: usize,
    sound: bool,
    /// The numbers of whole messages and the moments when they were whole.
    arrived: Vec<(u64, MonotonicTime)>,
    corrupted: u64,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(messages: &'a Messages, index: usize) -> Self {
        let count = messages.of_stream(index).count() as u64;
        Self {
            messages,
            count,
            number: index as u64,
            offset: 0,
            sound: true,
            arrived: Vec::with_capacity(count as usize),
            corrupted: 0,
        }
    }

    /// Whether every message of this stream is here.
    pub(super) fn is_complete(&self) -> bool {
        self.arrived.len() as u64 + self.corrupted == self.count
    }

    /// Takes the next bytes, which are here at `now`. Bytes after the last message belong to none.
    pub(super) fn take(&mut self, mut piece: &[u8], now: MonotonicTime) -> Delivered {
        let mut delivered = Delivered::default();
        while !piece.is_empty() && !self.is_complete() {
            let (head, head_length) = self.messages.head(self.number);
            let end = if self.offset < head_length {
                head_length
            } else {
                self.messages.length
            };
            let length = piece.len().min(end - self.offset);
            let expected = if self.offset < head_length {
                &head[self.offset..self.offset + length]
            } else {
                &self.messages.content[self.offset..self.offset + length]
            };
            self.sound &= piece[..length] == *expected;
            self.offset += length;
            piece = &piece[length..];
            if self.offset == self.messages.length {
                if self.sound {
                    self.arrived.push((self.number, now));
                    delivered.messages += 1;
                    delivered.bytes += self.messages.length as u64;
                } else {
                    self.corrupted += 1;
                }
                self.sound = true;
                self.offset = 0;
                self.number += self.messages.streams as u64;
            }
        }
        delivered
    }

    /// Returns the number of messages that did not come as they were sent.
    pub(super) const fn corrupted(&self) -> u64 {
        self.corrupted
    }

    /// Adds the delay of each message, from the moment when it was due.
    pub(super) fn delays(&self, start: MonotonicTime, delays: &mut Distribution) {
        for (number, moment) in &self.arrived {
            delays.add(self.messages.due(start, *number), *moment);
        }
    }
}

const _: () = assert!(NUMBER_BYTES == size_of::<u64>());

#[cfg(test)]
mod tests {
    use regatta_model::metric::DelayMetrics;

    use super::{super::example, *};

    fn bytes_of(messages: &Messages, index: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in messages.of_stream(index) {
            let (head, length) = messages.head(number);
            bytes.extend_from_slice(&head[..length]);
            bytes.extend_from_slice(&messages.content[length..]);
        }
        bytes
    }

    #[test]
    fn messages_of_any_length_are_cut_from_pieces_of_any_length() {
        for length in [1, 7, 8, 9, 30] {
            let messages = example(11, length, 4);
            for index in 0..4 {
                let bytes = bytes_of(&messages, index);
                for piece in 1..=bytes.len() {
                    let mut arrivals = Arrivals::new(&messages, index);
                    let mut delivered = 0;
                    for piece in bytes.chunks(piece) {
                        delivered += arrivals.take(piece, MonotonicTime(0)).messages;
                    }
                    assert!(arrivals.is_complete());
                    assert_eq!(delivered, messages.of_stream(index).count() as u64);
                    assert_eq!(arrivals.corrupted(), 0);
                }
            }
        }
    }

    #[test]
    fn a_changed_byte_is_seen_wherever_it_is() {
        let messages = example(2, 20, 1);
        let bytes = bytes_of(&messages, 0);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let mut arrivals = Arrivals::new(&messages, 0);
            arrivals.take(&changed, MonotonicTime(0));
            assert_eq!(arrivals.corrupted(), 1, "byte {at}");
            assert!(arrivals.is_complete());
        }
    }

    #[test]
    fn a_message_is_here_with_its_last_byte_and_its_delay_counts_from_the_schedule() {
        let messages = example(2, 20, 1);
        let bytes = bytes_of(&messages, 0);
        let mut arrivals = Arrivals::new(&messages, 0);
        let ms = |ms: i64| MonotonicTime(ms * 1_000_000);
        arrivals.take(&bytes[..19], ms(5));
        arrivals.take(&bytes[19..21], ms(8));
        arrivals.take(&bytes[21..], ms(40));
        assert_eq!(arrivals.arrived, [(0, ms(8)), (1, ms(40))]);
        let mut delays = Distribution::new();
        arrivals.delays(ms(1), &mut delays);
        let mut findings = crate::trial::findings::Findings::default();
        delays.report(DelayMetrics::MESSAGE, "receiver", &mut findings);
        // 7 ms, and 29 ms as the second is due 10 ms after the first.
        assert_eq!(findings.0.measurements.metrics["message_delay_ns"], 18e6);
        assert_eq!(
            findings.0.measurements.metrics["message_delay_max_ns"],
            29e6
        );
    }
}
