//! Records in the order of a capture at the connecting host, made from the forwarder's events.
//!
//! Packets of the connecting host stand at the time at which they entered the path, packets for it
//! at the time at which they left the path, and those that never left it at the time at which they
//! were lost. The outcome of a packet is known after it entered, so its record waits for the
//! outcome, and so do the records after it.

use std::collections::VecDeque;

use regatta_model::PacketCounter;

use super::PASSED;

/// Packets of the connecting host.
pub(super) const FORWARD: u8 = 0;

/// Outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The packet left the path.
    Delivered,
    /// The packet left the path, and the receiving host's device did not accept it.
    Refused,
    /// The path dropped the packet.
    Dropped(PacketCounter),
}

/// Marks of a packet: effects of the path beside its outcome.
pub(crate) const CORRUPTED: u16 = 1;
pub(crate) const AHEAD: u16 = 2;
/// Mark of a packet that the queue's discipline has marked: congestion experienced.
pub(crate) const MARKED: u16 = 16;
/// Marks of a packet whose ECN field the path has cleared, or changed to ECT(1).
pub(crate) const BLEACHED: u16 = 32;
pub(crate) const REMARKED: u16 = 64;
/// Mark of a copy that the path made of another packet.
pub(crate) const COPY: u16 = 4;
/// Mark of a packet that is captured.
pub(crate) const CAPTURED: u16 = 8;

/// Captured packet: its time, in nanoseconds of the monotonic clock, its size, and the number of bytes that were
/// captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapturedPacket {
    pub direction: u8,
    pub at: u64,
    pub size: u32,
    pub captured_bytes: u32,
}

/// Event of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The packet entered the path. Such events are numbered.
    Entered(CapturedPacket),
    /// Outcome of the packet with this number, at `at`.
    Ended {
        number: u32,
        at: u64,
        verdict: Verdict,
        marks: u16,
    },
    /// A copy that the path made has left it.
    Copied(CapturedPacket),
}

/// Record of a packet in the capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The packet, at the time at the connecting host: until its outcome is known, that of entering the path.
    pub packet: CapturedPacket,
    pub bytes: Vec<u8>,
    /// Description of the packet's outcome; empty until it is known.
    pub comment: String,
}

#[derive(Debug)]
enum Slot {
    /// The packet of this number, whose record waits for its outcome.
    Of(u32),
    Ready(Record),
}

/// Queue that puts records into order.
#[derive(Debug)]
pub(super) struct Sequence {
    /// Number of the first of `pending`.
    base: u32,
    pending: VecDeque<Option<Record>>,
    slots: VecDeque<Slot>,
}

impl Sequence {
    /// Creates a sequence whose first packet will have the number `base`.
    pub(super) fn new(base: u32) -> Self {
        Self {
            base,
            pending: VecDeque::new(),
            slots: VecDeque::new(),
        }
    }

    /// Takes an event; `bytes` are those that were captured.
    pub(super) fn take(&mut self, event: Event, bytes: &[u8]) {
        let record = |packet: CapturedPacket, comment: &str| Record {
            packet,
            bytes: bytes.to_vec(),
            comment: comment.to_owned(),
        };
        match event {
            Event::Entered(packet) => {
                if packet.direction == FORWARD {
                    let number = self.base.wrapping_add(self.pending.len() as u32);
                    self.slots.push_back(Slot::Of(number));
                }
                self.pending.push_back(Some(record(packet, "")));
            }
            Event::Ended {
                number,
                at,
                verdict,
                marks,
            } => {
                let index = number.wrapping_sub(self.base) as usize;
                let comment = |entered| comment_text(verdict, at.saturating_sub(entered), marks);
                self.end(index, at, comment);
                self.forget();
            }
            Event::Copied(packet) => {
                let record = record(packet, "a copy that the path made");
                self.slots.push_back(Slot::Ready(record));
            }
        }
    }

    /// Completes the record of the packet at this index of `pending`, if there is one. A packet of the connecting host keeps
    /// its slot, any other gets one at the time `at`. `comment` describes the outcome, given the time at which the packet
    /// entered the path.
    fn end(&mut self, index: usize, at: u64, comment: impl FnOnce(u64) -> String) {
        let Some(Some(record)) = self.pending.get_mut(index) else {
            return;
        };
        record.comment = comment(record.packet.at);
        if record.packet.direction != FORWARD {
            record.packet.at = at;
            let record = self.pending[index].take();
            self.slots.extend(record.map(Slot::Ready));
        }
    }

    /// Returns the next record, if it is complete.
    pub(super) fn next(&mut self) -> Option<Record> {
        let &Slot::Of(number) = self.slots.front()? else {
            return match self.slots.pop_front()? {
                Slot::Ready(record) => Some(record),
                Slot::Of(_) => None,
            };
        };
        let index = number.wrapping_sub(self.base) as usize;
        let is_complete = |record: &mut Record| !record.comment.is_empty();
        let record = self.pending.get_mut(index)?.take_if(is_complete)?;
        self.slots.pop_front();
        self.forget();
        Some(record)
    }

    /// Ends the capture at `now`: packets that are still under way get no other outcome.
    pub(super) fn close(&mut self, now: u64) {
        for index in 0..self.pending.len() {
            let record = self.pending[index].as_ref();
            if record.is_some_and(|record| record.comment.is_empty()) {
                let comment = |_| "still under way when the capture ended".to_owned();
                self.end(index, now, comment);
            }
        }
    }

    /// Removes the numbers at the front whose records are complete.
    fn forget(&mut self) {
        while self.pending.pop_front_if(|it| it.is_none()).is_some() {
            self.base = self.base.wrapping_add(1);
        }
    }
}

fn comment_text(verdict: Verdict, after_ns: u64, marks: u16) -> String {
    let after = format!("{}.{:06} ms", after_ns / 1_000_000, after_ns % 1_000_000);
    let mut text = match verdict {
        Verdict::Delivered => format!("{PASSED} in {after}"),
        Verdict::Refused => PacketCounter::Refused.captured().to_owned(),
        Verdict::Dropped(cause @ PacketCounter::Discipline) => {
            format!("{} after {after} in the queue", cause.captured())
        }
        Verdict::Dropped(cause) => cause.captured().to_owned(),
    };
    let mut add = |impairment: PacketCounter| {
        text.push_str(", ");
        text.push_str(impairment.captured());
    };
    if marks & CORRUPTED != 0 {
        add(PacketCounter::Corrupted);
    }
    if marks & MARKED != 0 {
        add(PacketCounter::Marked);
    }
    if marks & BLEACHED != 0 {
        add(PacketCounter::Bleached);
    }
    if marks & REMARKED != 0 {
        add(PacketCounter::Remarked);
    }
    if marks & AHEAD != 0 {
        add(PacketCounter::Reordered);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVERSE: u8 = 1;

    fn enter(sequence: &mut Sequence, direction: u8, at: u64) {
        let packet = CapturedPacket {
            direction,
            at,
            size: 40,
            captured_bytes: 1,
        };
        sequence.take(Event::Entered(packet), &[at as u8]);
    }

    fn end(sequence: &mut Sequence, number: u32, at: u64, verdict: Verdict, marks: u16) {
        let event = Event::Ended {
            number,
            at,
            verdict,
            marks,
        };
        sequence.take(event, &[]);
    }

    fn drain(sequence: &mut Sequence) -> Vec<(u8, u64, String)> {
        let mut all = Vec::new();
        while let Some(record) = sequence.next() {
            all.push((record.packet.direction, record.packet.at, record.comment));
        }
        all
    }

    #[test]
    fn records_are_in_the_order_of_the_connecting_host() {
        // The numbers wrap around.
        let base = u32::MAX;
        let mut sequence = Sequence::new(base);
        enter(&mut sequence, FORWARD, 10);
        enter(&mut sequence, REVERSE, 20);
        enter(&mut sequence, FORWARD, 30);
        end(&mut sequence, base, 2_000_040, Verdict::Delivered, 0);
        assert_eq!(
            drain(&mut sequence),
            [(FORWARD, 10, "passed in 2.000030 ms".into())]
        );
        end(
            &mut sequence,
            base.wrapping_add(1),
            50,
            Verdict::Delivered,
            AHEAD,
        );
        assert_eq!(drain(&mut sequence), [], "one before it is under way");
        let lost = Verdict::Dropped(PacketCounter::Loss);
        end(&mut sequence, base.wrapping_add(2), 30, lost, 0);
        assert_eq!(
            drain(&mut sequence),
            [
                (FORWARD, 30, "lost at random".into()),
                (
                    REVERSE,
                    50,
                    "passed in 0.000030 ms, ahead of others: reordered by the path".into()
                )
            ]
        );
        // A number whose record was taken has no second record.
        end(&mut sequence, base, 60, Verdict::Delivered, 0);
        assert_eq!(drain(&mut sequence), []);
    }

    #[test]
    fn packets_under_way_at_the_end_are_marked_as_such() {
        let mut sequence = Sequence::new(0);
        enter(&mut sequence, REVERSE, 10);
        enter(&mut sequence, FORWARD, 20);
        sequence.close(30);
        let comments = drain(&mut sequence);
        assert_eq!(comments.len(), 2);
        assert!(comments.iter().all(|(.., text)| text.starts_with("still")));
    }

    proptest::proptest! {
        /// Every packet that entered becomes one record, whatever the order of the verdicts, and
        /// time never goes back.
        #[test]
        fn each_packet_is_one_record_in_order_of_time(
            directions in proptest::collection::vec(0u8..2, 1..60),
            order in proptest::collection::vec(proptest::num::u16::ANY, 60),
            ended in 0usize..60,
        ) {
            let mut sequence = Sequence::new(7);
            let mut records = Vec::new();
            let mut now = 0;
            let mut open = Vec::new();
            let mut done = 0;
            for (index, direction) in directions.iter().enumerate() {
                now += 1;
                enter(&mut sequence, *direction, now);
                open.push(7 + index as u32);
                if order[index] % 2 == 0 && done < ended {
                    now += 1;
                    done += 1;
                    let which = usize::from(order[index]) % open.len();
                    end(&mut sequence, open.swap_remove(which), now, Verdict::Delivered, 0);
                }
                while let Some(record) = sequence.next() {
                    records.push(record);
                }
            }
            sequence.close(now + 1);
            while let Some(record) = sequence.next() {
                records.push(record);
            }
            proptest::prop_assert_eq!(records.len(), directions.len());
            proptest::prop_assert!(records.is_sorted_by_key(|record| record.packet.at));
        }
    }
}
