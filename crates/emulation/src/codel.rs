//! Controlled Delay: packets are dropped from the head of the queue while all wait too long.
//!
//! Source: RFC 8289 §5.

use crate::queue::{Queue, Waiting};

/// State of the discipline. Names are those of the RFC.
#[derive(Debug, Clone, Default)]
pub(crate) struct Codel {
    target: u64,
    interval: u64,
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
    pub(crate) fn new(max_packet: u64) -> Self {
        Self {
            max_packet,
            ..Self::default()
        }
    }

    /// Sets the target and the interval; the state of the queue is kept.
    pub(crate) fn with(self, (target, interval): (u64, u64)) -> Self {
        Self {
            target,
            interval,
            ..self
        }
    }

    /// Returns the packet that the bottleneck takes at `now`; packets dropped before it are given
    /// to `dropped`.
    pub(crate) fn take<P>(
        &mut self,
        queue: &mut Queue<P>,
        now: u64,
        mut dropped: impl FnMut(Waiting<P>),
    ) -> Option<Waiting<P>> {
        let Some((mut head, mut may_drop)) = self.dequeue_head(queue, now) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                dropped(head);
                self.count += 1;
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
            dropped(head);
            self.dropping = true;
            // If the delay rose above the target shortly after it last fell below, the rate of
            // drops that mended it then is a good one to begin with.
            let delta = self.count - self.last_count;
            let recent = now.saturating_sub(self.drop_next) < 16 * self.interval;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
            return self.dequeue_head(queue, now).map(|(head, _)| head);
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
        if sojourn < self.target || queue.bytes() <= self.max_packet {
            self.first_above_time = None;
            return Some((head, false));
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + self.interval);
                Some((head, false))
            }
            Some(at) => Some((head, now >= at)),
        }
    }

    fn control_law(&self, from: u64) -> u64 {
        from + (self.interval as f64 / (self.count as f64).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairments::PacketImpairments;

    const MS: u64 = 1_000_000;
    const TIMES: (u64, u64) = (5 * MS, 100 * MS);

    /// Takes a packet at `now` from a queue of `behind` + 1 packets that have waited for `sojourn`. Returns the number of
    /// drops.
    fn take(codel: &mut Codel, now: u64, sojourn: u64, behind: usize, packet_bytes: u64) -> u64 {
        let mut queue = Queue::new();
        for _ in 0..=behind {
            queue.push(Waiting {
                packet: Some(()),
                size: packet_bytes,
                arrived: now - sojourn,
                ordinal: 0,
                impairments: PacketImpairments::default(),
            });
        }
        let mut drops = 0;
        codel.take(&mut queue, now, |_| drops += 1);
        drops
    }

    /// Takes a packet each millisecond from 1 s on from a queue of `behind` + 1 packets that have waited for `sojourn`.
    /// Returns the times of the drops, in milliseconds after 1 s.
    fn drops(sojourn: u64, behind: usize, packet_bytes: u64) -> Vec<u64> {
        let mut codel = Codel::new(1500).with(TIMES);
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
                ..Codel::new(1500).with(TIMES)
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
}
