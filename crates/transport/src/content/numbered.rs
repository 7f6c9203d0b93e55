//! Numbered messages of any size over a transport that may lose them.
//!
//! A message of at least [`HEADER_BYTES`] has the header of a message in a stream. A shorter one
//! begins with the low bytes of its number, at most four, and its pattern follows them.

use super::{
    message_check::{Counts, MessageSink},
    number_at,
    plan::{HEADER_BYTES, Plan, matches_samples},
    stream_check::encode_header,
};
use crate::clock::MonotonicTime;

/// Longest distance from the number that is due at which a number without a check is believed: more
/// messages are never lost in one go, and each number that is believed costs memory up to it.
const MAX_DISTANCE: u64 = 1 << 20;

/// Length of the number that a message must have room for where more than the one before can be mistaken for it.
pub(crate) const NUMBER_BYTES: usize = 4;

/// Returns the number of bytes of its own number that a short message of `length` bytes carries.
pub(crate) fn number_bytes(length: usize) -> usize {
    length.min(NUMBER_BYTES)
}

/// Writes the beginning of message `number` to `buffer`, which is as long as the message and holds
/// its content already, but for the beginning of an earlier one.
pub(crate) fn write(plan: &Plan, number: u64, buffer: &mut [u8]) {
    let length = buffer.len();
    if length >= HEADER_BYTES {
        buffer[..HEADER_BYTES].copy_from_slice(&encode_header(plan, number, length));
    } else {
        // What was the header of a longer one before is content in this.
        buffer.copy_from_slice(&plan.content[..length]);
        let bytes = number_bytes(length);
        buffer[..bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
    }
}

/// Returns the number of a message, or `None` if it is not one of this plan. A short one can only
/// be distinguished from others near to the number `near`: from 255 others if it has one byte.
pub(crate) fn read(plan: &Plan, message: &[u8], near: u64) -> Option<u64> {
    let length = message.len();
    let (number, begun) = if let Some(header) = message.first_chunk::<HEADER_BYTES>() {
        let number = number_at(header, 0);
        if *header != encode_header(plan, number, length) {
            return None;
        }
        (number, HEADER_BYTES)
    } else {
        let bytes = number_bytes(length);
        let mut low = [0; 8];
        low[..bytes].copy_from_slice(&message[..bytes]);
        (nearest(u64::from_le_bytes(low), bytes, near)?, bytes)
    };
    let right = number < plan.count
        && length == plan.length(number)
        && matches_samples(&message[begun..], &plan.content[begun..length]);
    right.then_some(number)
}

/// Returns the number nearest to `near` whose lowest `bytes` bytes are `low`; `None` if it is
/// further than [`MAX_DISTANCE`].
fn nearest(low: u64, bytes: usize, near: u64) -> Option<u64> {
    if bytes == 0 {
        return None;
    }
    let step = 1_u64 << (8 * bytes);
    let here = near - near % step + low;
    [here.checked_sub(step), Some(here), here.checked_add(step)]
        .into_iter()
        .flatten()
        .min_by_key(|candidate| candidate.abs_diff(near))
        .filter(|candidate| candidate.abs_diff(near) <= MAX_DISTANCE)
}

/// Check and counts of numbered messages.
#[derive(Debug)]
pub(crate) struct NumberedCheck {
    plan: Plan,
    counts: Counts,
}

impl NumberedCheck {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            counts: Counts::default(),
        }
    }

    /// Takes one message; returns its number if it is one of the plan and new.
    pub(crate) fn take(&mut self, message: &[u8]) -> Option<u64> {
        let number = read(&self.plan, message, self.counts.next_expected);
        if number.is_none() {
            self.counts.corrupted += 1;
        }
        number.filter(|number| self.counts.note(*number, message.len()))
    }
}

impl MessageSink for NumberedCheck {
    fn consume(&mut self, message: &[u8], _: MonotonicTime) -> Option<MonotonicTime> {
        self.take(message);
        None
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn is_complete(&self) -> bool {
        self.counts.delivered.messages == self.plan.count
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

    fn message(plan: &Plan, number: u64) -> Vec<u8> {
        let mut bytes = vec![0xaa; plan.length(number)];
        let header = Plan::header(bytes.len());
        bytes[header..].copy_from_slice(&plan.content[header..plan.length(number)]);
        write(plan, number, &mut bytes);
        bytes
    }

    #[test]
    fn messages_of_every_length_carry_their_number() {
        for length in [1, 2, 3, 4, 5, 15, 16, 17, 100] {
            // The last message is shorter, where it can be.
            let plan = plan(length * 700 - length / 2, length);
            for number in 0..plan.count {
                let bytes = message(&plan, number);
                assert_eq!(
                    read(&plan, &bytes, number.saturating_sub(100)),
                    Some(number),
                    "{length} {number}"
                );
            }
        }
    }

    #[test]
    fn truncated_number_decodes_to_the_nearest_due() {
        assert_eq!(nearest(0, 1, 250), Some(256));
        assert_eq!(nearest(255, 1, 256), Some(255));
        assert_eq!(nearest(255, 1, 3), Some(255));
        assert_eq!(nearest(44, 1, 300), Some(300));
        assert_eq!(nearest(1, 4, 1 << 40), Some((1 << 40) + 1));
        assert_eq!(nearest(0, 0, 5), None);
        assert_eq!(nearest(1 << 30, 4, 5), None, "not believed");
    }

    #[test]
    fn damaged_truncated_and_foreign_messages_are_rejected() {
        let plan = plan(1000, 100);
        let bytes = message(&plan, 3);
        for position in [0, 15, 16, 99] {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert_eq!(read(&plan, &damaged, 3), None, "{position}");
        }
        assert_eq!(read(&plan, &bytes[..99], 3), None);
        assert_eq!(read(&plan, b"", 3), None);
        assert_eq!(read(&plan, &[3; 9], 3), None);
        let mut other = order_for(Role::Sender, "udp", 1000, 100);
        other.token = "00".repeat(16);
        let other = Plan::new(&other).expect("a plan");
        assert_eq!(read(&other, &bytes, 3), None);
    }
}
