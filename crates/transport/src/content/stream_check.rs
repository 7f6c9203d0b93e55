//! Header of a message in a stream, and its check at the receiver.

use super::plan::{HEADER_BYTES, Plan, matches_samples};
use crate::delivered::Delivered;

/// Encodes a header: sequence number (8 bytes), length (4), check of both and of the trial (4);
/// little-endian.
pub(crate) fn encode_header(plan: &Plan, sequence: u64, length: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&sequence.to_le_bytes());
    header[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    let check = check(plan.salt, &header[..12]);
    header[12..].copy_from_slice(&check.to_le_bytes());
    header
}

/// Returns the CRC-32 of a header's first 12 bytes, begun with the trial's salt.
pub(crate) fn check(salt: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize()
}

/// Check and counts of the messages of a stream, which is read piece by piece. A reliable stream
/// can lose nothing, so all that differs from the plan is corrupt.
#[derive(Debug)]
pub(crate) struct StreamCheck {
    plan: Plan,
    sequence: u64,
    length: usize,
    offset: usize,
    header: [u8; HEADER_BYTES],
    sound: bool,
    /// Bytes of this transfer that have arrived, and whole messages whose check held.
    pub delivered: Delivered,
    /// Whole messages whose check failed.
    pub corrupted: u64,
}

impl StreamCheck {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            sequence: 0,
            length: if plan.count > 0 { plan.length(0) } else { 0 },
            offset: 0,
            header: [0; HEADER_BYTES],
            sound: true,
            delivered: Delivered::default(),
            corrupted: 0,
            plan: plan.clone(),
        }
    }

    /// Returns the number of messages that have arrived completely, including damaged ones.
    pub(crate) const fn complete_messages(&self) -> u64 {
        self.delivered.messages + self.corrupted
    }

    /// Whether the whole transfer has arrived.
    pub(crate) const fn is_complete(&self) -> bool {
        self.delivered.bytes == self.plan.size
    }

    /// Returns the length of the longest message.
    pub(crate) const fn largest(&self) -> usize {
        self.plan.message
    }

    /// Whether no message has arrived in part.
    pub(crate) const fn is_between_messages(&self) -> bool {
        self.offset == 0
    }

    /// Returns the number of bytes missing from the message that is arriving.
    pub(crate) const fn missing(&self) -> usize {
        self.length - self.offset
    }

    /// Takes the next bytes of the stream; returns how many belong to the transfer.
    pub(crate) fn consume(&mut self, mut piece: &[u8]) -> usize {
        let total = piece.len();
        while !piece.is_empty() && !self.is_complete() {
            let taken = self.part(piece);
            self.delivered.bytes += taken as u64;
            self.offset += taken;
            if self.offset == self.length {
                self.end_of_message();
            }
            piece = &piece[taken..];
        }
        total - piece.len()
    }

    /// Counts the next bytes of the transfer without a check of their content.
    pub(crate) const fn skip(&mut self, bytes: u64) {
        let left = self.plan.size - self.delivered.bytes;
        self.delivered.bytes += if bytes < left { bytes } else { left };
        let message = self.plan.message as u64;
        self.delivered.messages = match self.is_complete() {
            true => self.plan.count,
            false => self.delivered.bytes / message,
        };
        self.offset = match self.is_complete() {
            true => 0,
            false => (self.delivered.bytes % message) as usize,
        };
    }

    /// Returns the number of bytes that have not arrived.
    pub(crate) const fn left(&self) -> u64 {
        self.plan.size - self.delivered.bytes
    }

    /// Takes the beginning of `piece` up to the end of the header or of the message.
    fn part(&mut self, piece: &[u8]) -> usize {
        let header = Plan::header(self.length);
        if self.offset < header {
            let taken = piece.len().min(header - self.offset);
            self.header[self.offset..self.offset + taken].copy_from_slice(&piece[..taken]);
            if self.offset + taken == header
                && self.header != encode_header(&self.plan, self.sequence, self.length)
            {
                self.sound = false;
            }
            return taken;
        }
        let taken = piece.len().min(self.length - self.offset);
        let expected = &self.plan.content[self.offset..self.offset + taken];
        self.sound &= !self.plan.compared || matches_samples(&piece[..taken], expected);
        taken
    }

    fn end_of_message(&mut self) {
        if self.sound {
            self.delivered.messages += 1;
        } else {
            self.corrupted += 1;
        }
        self.sound = true;
        self.sequence += 1;
        self.offset = 0;
        if self.sequence < self.plan.count {
            self.length = self.plan.length(self.sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::order_for;
    use regatta_control::Role;

    fn plan(size: u64, message: u64) -> Plan {
        Plan::new(&order_for(Role::Sender, "tcp", size, message)).expect("a plan")
    }

    fn stream(plan: &Plan) -> Vec<u8> {
        let mut bytes = Vec::new();
        for sequence in 0..plan.count {
            let length = plan.length(sequence);
            let header = Plan::header(length);
            bytes.extend_from_slice(&encode_header(plan, sequence, length)[..header]);
            bytes.extend_from_slice(&plan.content[header..length]);
        }
        bytes
    }

    #[test]
    fn counts_do_not_depend_on_the_pieces() {
        for (size, message) in [
            (1, 1),
            (40, 1),
            (1000, 16),
            (1000, 17),
            (999, 100),
            (50, 5000),
        ] {
            let plan = plan(size, message);
            let bytes = stream(&plan);
            assert_eq!(bytes.len() as u64, size);
            for piece in [1, 2, 7, 16, 33, 1000] {
                let mut check = StreamCheck::new(&plan);
                for part in bytes.chunks(piece) {
                    assert_eq!(check.consume(part), part.len());
                }
                assert!(check.is_complete());
                assert_eq!((check.delivered.messages, check.corrupted), (plan.count, 0));
            }
        }
    }

    #[test]
    fn a_changed_byte_in_a_header_or_a_sample_is_found_in_its_message() {
        let plan = plan(3000, 1000);
        let bytes = stream(&plan);
        for position in [0, 15, 16, 47, 999, 1000, 1015, 2999] {
            let mut changed = bytes.clone();
            changed[position] ^= 0x10;
            let mut check = StreamCheck::new(&plan);
            check.consume(&changed);
            assert_eq!(
                (check.delivered.messages, check.corrupted),
                (2, 1),
                "{position}"
            );
        }
    }

    #[test]
    fn skipped_bytes_are_those_of_whole_messages_and_of_a_part() {
        let mut check = StreamCheck::new(&plan(2500, 1000));
        for (skipped, messages, is_between) in [
            (999, 0, false),
            (1, 1, true),
            (1001, 2, false),
            (499, 3, true),
        ] {
            check.skip(skipped);
            assert_eq!(check.delivered.messages, messages);
            assert_eq!(check.is_between_messages(), is_between);
        }
        assert!(check.is_complete());
        check.skip(1);
        assert_eq!(check.delivered.bytes, 2500);
    }

    #[test]
    fn bytes_after_the_transfer_are_not_consumed() {
        let plan = plan(10, 4);
        let mut bytes = stream(&plan);
        bytes.extend_from_slice(b"more");
        let mut check = StreamCheck::new(&plan);
        assert_eq!(check.consume(&bytes), 10);
        assert_eq!(check.consume(b"more"), 0);
    }
}
