//! Controlled Delay: packets are dropped or marked at the head of the queue while all wait too long.
//!
//! Source: RFC 8289 §5; marks instead of drops as in RFC 8290 §4.2.

use std::time::Duration;

use regatta_model::PacketCounter;

use super::Fates;
use crate::{
    packet::Packet,
    queue::{Queue, Waiting},
};

/// Target and interval, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) target: u64,
    pub(crate) interval: u64,
}

impl Times {
    /// Returns the times in nanoseconds. A condition has none that does not fit.
    pub(crate) fn of(target: Duration, interval: Duration) -> Self {
        let [target, interval] = [target, interval].map(super::nanoseconds);
        Self { target, interval }
    }
}

/// State of the discipline. Names are those of the RFC.
#[derive(Debug, Clone)]
pub(crate) struct Codel {
    pub(crate) times: Times,
    /// Bytes of a queue that is never too long: one full packet.
    max_packet: u64,
    /// Time at which the delay will have been above the target for an interval; `None` while it is
    /// below.
    first_above_time: Option<u64>,
    drop_next: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl Codel {
    /// Creates the state of a queue whose full packets have `max_packet` bytes.
    pub(crate) fn new(max_packet: u64, times: Times) -> Self {
        Self {
            times,
            max_packet,
            first_above_time: None,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// Returns the packet that the bottleneck takes at `now`.
    pub(crate) fn take<P: Packet>(
        &mut self,
        queue: &mut Queue<P>,
        now: u64,
        fates: &mut Fates<'_, P>,
    ) -> Option<Waiting<P>> {
        let Some((mut head, mut may_drop)) = self.dequeue_head(queue, now) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if fates.mark(&mut head) {
                    self.drop_next = self.control_law(self.drop_next);
                    return Some(head);
                }
                fates.discard(now, head, PacketCounter::Discipline);
                let Some(next) = self.dequeue_head(queue, now) else {
                    self.dropping = false;
                    return None;
                };
                (head, may_drop) = next;
                if may_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if may_drop {
            let kept = match fates.mark(&mut head) {
                true => Some(head),
                false => {
                    fates.discard(now, head, PacketCounter::Discipline);
                    None
                }
            };
            self.dropping = true;
            // If the delay rose above the target shortly after it last fell below, the rate of
            // drops that mended it then is a good one to begin with.
            let delta = self.count - self.last_count;
            let recent = now.saturating_sub(self.drop_next) < 16 * self.times.interval;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
            return kept.or_else(|| self.dequeue_head(queue, now).map(|(head, _)| head));
        }
        Some(head)
    }

    /// Dequeues the head; returns it and whether it may be dropped.
    fn dequeue_head<P>(&mut self, queue: &mut Queue<P>, now: u64) -> Option<(Waiting<P>, bool)> {
        let Some(head) = queue.pop() else {
            self.first_above_time = None;
            return None;
        };
        let sojourn = now - head.arrived;
        if sojourn < self.times.target || queue.bytes() <= self.max_packet {
            self.first_above_time = None;
            return Some((head, false));
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + self.times.interval);
                Some((head, false))
            }
            Some(at) => Some((head, now >= at)),
        }
    }

    fn control_law(&self, from: u64) -> u64 {
        from + (self.times.interval as f64 / (self.count as f64).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        discipline::testing::{Counted, MS, waiting},
        packet::Ecn,
    };

    const TIMES: Times = Times {
        target: 5 * MS,
        interval: 100 * MS,
    };

    /// Takes a packet at `now` from a queue of `behind` + 1 packets that have waited for `sojourn`. Returns the number of
    /// drops.
    fn take(codel: &mut Codel, now: u64, sojourn: u64, behind: usize, packet_bytes: u64) -> u64 {
        let mut queue = queue_of(now - sojourn, behind, packet_bytes, Ecn::NotEct);
        let mut counted = Counted::default();
        codel.take(&mut queue, now, &mut counted.fates(false));
        counted.dropped()
    }

    fn queue_of(arrived: u64, behind: usize, packet_bytes: u64, ecn: Ecn) -> Queue<Vec<u8>> {
        let mut queue = Queue::new();
        for _ in 0..=behind {
            queue.push(waiting(arrived, packet_bytes, 0, ecn));
        }
        queue
    }

    /// Takes a packet each millisecond from 1 s on from a queue of `behind` + 1 packets that have waited for `sojourn`.
    /// Returns the times of the drops, in milliseconds after 1 s.
    fn drops(sojourn: u64, behind: usize, packet_bytes: u64) -> Vec<u64> {
        let mut codel = Codel::new(1500, TIMES);
        let mut dropped = |ms| take(&mut codel, (1000 + ms) * MS, sojourn, behind, packet_bytes);
        (0..250).filter(|ms| dropped(*ms) > 0).collect()
    }

    /// Source: RFC 8289 §5.5: four drops in the last episode, of which three came after the first one, count if the queue
    /// is too long again less than 16 intervals after the next drop would have come. That is at 2 s.
    #[test]
    fn a_queue_that_is_soon_too_long_again_has_drops_at_the_rate_that_was_needed() {
        let count = |now| {
            let mut codel = Codel {
                first_above_time: Some(0),
                drop_next: 2000 * MS,
                count: 4,
                last_count: 1,
                ..Codel::new(1500, TIMES)
            };
            take(&mut codel, now, 50 * MS, 9, 1500);
            codel.count
        };
        assert_eq!(count(2100 * MS), 3);
        assert_eq!(count(3600 * MS - 1), 3);
        assert_eq!(count(3600 * MS), 1);
    }

    /// Source: RFC 8289 §5.4 to §5.6: the first drop when the sojourn time has been at the target or above for an
    /// interval, the next at 100 + 100/√1 ms.
    #[test]
    fn packets_that_wait_for_the_target_are_dropped_after_an_interval() {
        assert_eq!(drops(5 * MS, 9, 1500), [100, 200]);
    }

    /// Source: RFC 8289 §5.6: `sojourn_time < TARGET` stays below.
    #[test]
    fn packets_that_wait_for_less_than_the_target_are_kept() {
        assert_eq!(drops(5 * MS - 1, 9, 1500), [0; 0]);
    }

    /// Source: RFC 8289 §5.6: `bytes() <= MAXPACKET`, counted without the packet that is taken.
    #[test]
    fn a_queue_of_one_full_packet_is_never_too_long() {
        assert_eq!(drops(50 * MS, 1, 1500), [0; 0]);
        assert_eq!(drops(50 * MS, 2, 751).first(), Some(&100));
    }

    /// Source: RFC 8290 §4.2: with ECN the packet that would be dropped is marked and leaves. One that cannot be marked is
    /// dropped.
    #[test]
    fn packets_that_can_be_marked_are_not_dropped() {
        for (ecn, [marked, dropped]) in [(Ecn::Ect0, [2, 0]), (Ecn::NotEct, [0, 2])] {
            let (mut codel, mut counted) = (Codel::new(1500, TIMES), Counted::default());
            let mut left = 0;
            for ms in 0..=250 {
                let now = (1000 + ms) * MS;
                let mut queue = queue_of(now - 50 * MS, 9, 1500, ecn);
                left += u64::from(
                    codel
                        .take(&mut queue, now, &mut counted.fates(true))
                        .is_some(),
                );
            }
            assert_eq!(
                [counted.marked(), counted.dropped()],
                [marked, dropped],
                "{ecn:?}"
            );
            assert_eq!(left, 251);
        }
    }
}
