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

    /// Notes that the bottleneck found the queue empty.
    pub(crate) fn idle(&mut self) {
        self.first_above_time = None;
        self.dropping = false;
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
