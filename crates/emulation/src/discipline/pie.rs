//! Proportional Integral controller Enhanced: packets are dropped or marked at random when they arrive, with a probability that
//! follows the queueing delay.
//!
//! Source: RFC 8033 §4 and §5, with delays from time stamps (§5.2).

use std::time::Duration;

use regatta_model::PacketCounter;

use super::{Fates, nanoseconds};
use crate::{
    packet::Packet,
    queue::{Queue, Waiting},
    rng::LinkRng,
};

/// `T_UPDATE`.
const UPDATE: u64 = 15_000_000;

/// `MAX_BURST`.
const MAX_BURST: u64 = 150_000_000;

/// Delay above which the probability rises faster, in nanoseconds.
const VERY_LONG: u64 = 250_000_000;

/// Weight of the deviation of the delay from the target, per second.
const ALPHA: f64 = 0.125;

/// Weight of the change of the delay, per second.
const BETA: f64 = 1.25;

/// Probability above which packets are dropped that could be marked.
const MARK_BELOW: f64 = 0.1;

/// Probability below which nothing is left of it.
const NONE: f64 = 1e-12;

/// State of the discipline. Names are those of the RFC.
#[derive(Debug, Clone)]
pub(crate) struct Pie {
    max_packet: u64,
    target: u64,
    /// Time of the next update, in nanoseconds; `None` before the first packet.
    next_update: Option<u64>,
    drop_prob: f64,
    burst_allowance: u64,
    qdelay_old: u64,
    accu_prob: f64,
    rng: LinkRng,
}

impl Pie {
    pub(crate) fn new(max_packet: u64, target: Duration, rng: LinkRng) -> Self {
        Self {
            max_packet,
            target: nanoseconds(target),
            next_update: None,
            drop_prob: 0.0,
            burst_allowance: MAX_BURST,
            qdelay_old: 0,
            accu_prob: 0.0,
            rng,
        }
    }

    pub(crate) fn set_target(&mut self, target: Duration) {
        self.target = nanoseconds(target);
    }

    /// Decides about a packet that arrives.
    pub(crate) fn admit<P: Packet>(
        &mut self,
        now: u64,
        queue: &Queue<P>,
        waiting: &mut Waiting<P>,
        fates: &mut Fates<'_, P>,
    ) -> Option<PacketCounter> {
        self.catch_up(now, queue);
        if self.burst_allowance > 0 || !self.drops_early(queue) {
            return None;
        }
        if self.drop_prob <= MARK_BELOW && fates.mark(waiting) {
            return None;
        }
        Some(PacketCounter::Discipline)
    }

    fn drops_early<P>(&mut self, queue: &Queue<P>) -> bool {
        if self.qdelay_old < self.target / 2 && self.drop_prob < 0.2
            || queue.bytes() <= 2 * self.max_packet
        {
            return false;
        }
        if self.drop_prob == 0.0 {
            self.accu_prob = 0.0;
        }
        self.accu_prob += self.drop_prob;
        // Neither two drops close together nor none for long.
        if self.accu_prob < 0.85 {
            return false;
        }
        let uniform = self.rng.next() as f64 / 2f64.powi(64);
        let drops = self.accu_prob >= 8.5 || uniform < self.drop_prob;
        if drops {
            self.accu_prob = 0.0;
        }
        drops
    }

    /// Makes the updates that were due until `now`: the queue has not changed since.
    pub(crate) fn catch_up<P>(&mut self, now: u64, queue: &Queue<P>) {
        let mut at = *self.next_update.get_or_insert(now + UPDATE);
        while at <= now {
            let delay = queue
                .waits_since()
                .map_or(0, |arrived| at.saturating_sub(arrived));
            self.update(delay);
            at += UPDATE;
            if delay == 0 && self.qdelay_old == 0 && self.drop_prob == 0.0 && at <= now {
                // Nothing changes any more.
                at += (now - at) / UPDATE * UPDATE;
            }
        }
        self.next_update = Some(at);
    }

    fn update(&mut self, qdelay: u64) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut p = ALPHA * (seconds(qdelay) - seconds(self.target))
            + BETA * (seconds(qdelay) - seconds(self.qdelay_old));
        // The lower the probability is, the smaller are the steps.
        p /= match self.drop_prob {
            it if it < 0.000_001 => 2048.0,
            it if it < 0.000_01 => 512.0,
            it if it < 0.000_1 => 128.0,
            it if it < 0.001 => 32.0,
            it if it < 0.01 => 8.0,
            it if it < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.drop_prob >= 0.1 {
            p = p.min(0.02);
        }
        if qdelay > VERY_LONG {
            p += 0.02;
        }
        self.drop_prob += p;
        if qdelay == 0 && self.qdelay_old == 0 {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        if self.drop_prob < NONE {
            self.drop_prob = 0.0;
        }
        self.burst_allowance = self.burst_allowance.saturating_sub(UPDATE);
        let is_short = |delay: u64| delay < self.target / 2;
        if self.drop_prob == 0.0 && is_short(qdelay) && is_short(self.qdelay_old) {
            self.burst_allowance = MAX_BURST;
        }
        self.qdelay_old = qdelay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        discipline::testing::{Counted, MS, waiting},
        packet::Ecn,
        rng::Purpose,
    };

    fn pie() -> Pie {
        let rng = LinkRng::new((1, 0), Purpose::Discipline, 0);
        Pie::new(1500, Duration::from_millis(15), rng)
    }

    /// Source: RFC 8033 §4.2: 0.125 · (0.03 − 0.015) + 1.25 · 0.03 = 0.039375, over 2048 as the probability is 0; then
    /// 0.125 · 0.015 over 128, as it is 1.9e-5.
    #[test]
    fn probability_follows_delay_and_its_change() {
        let mut pie = pie();
        pie.update(30 * MS);
        let first = 0.039_375 / 2048.0;
        assert!((pie.drop_prob - first).abs() < 1e-12, "{}", pie.drop_prob);
        pie.update(30 * MS);
        let second = first + 0.125 * 0.015 / 128.0;
        assert!((pie.drop_prob - second).abs() < 1e-12, "{}", pie.drop_prob);
    }

    /// Source: RFC 8033 §4.4: ten updates of 15 ms.
    #[test]
    fn a_burst_of_150_ms_passes() {
        let mut pie = pie();
        for _ in 0..9 {
            pie.update(100 * MS);
        }
        assert_eq!(pie.burst_allowance, 15 * MS);
        pie.update(100 * MS);
        assert_eq!(pie.burst_allowance, 0);
    }

    #[test]
    fn an_idle_time_is_caught_up_with_at_once() {
        let (mut pie, queue) = (pie(), Queue::<Vec<u8>>::new());
        pie.catch_up(0, &queue);
        pie.drop_prob = 0.5;
        pie.catch_up(1 << 60, &queue);
        assert_eq!((pie.drop_prob, pie.burst_allowance), (0.0, MAX_BURST));
        assert!(
            pie.next_update
                .is_some_and(|at| at > 1 << 60 && at <= (1 << 60) + UPDATE)
        );
    }

    /// At a probability of 0.05 a packet in twenty is dropped, none of 16 after one: 0.85 / 0.05 = 17. With ECN it is marked,
    /// above 0.1 dropped all the same.
    #[test]
    fn drops_are_spread() {
        let admit = |drop_prob, ecn| {
            let mut pie = Pie {
                drop_prob,
                burst_allowance: 0,
                qdelay_old: 15 * MS,
                next_update: Some(u64::MAX),
                ..pie()
            };
            let (mut queue, mut counted) = (Queue::new(), Counted::default());
            for _ in 0..10 {
                queue.push(waiting(0, 1500, 0, ecn));
            }
            let mut dropped = Vec::new();
            for number in 0..20_000_u64 {
                let mut arrives = waiting(0, 1500, 0, ecn);
                if pie
                    .admit(0, &queue, &mut arrives, &mut counted.fates(true))
                    .is_some()
                {
                    dropped.push(number);
                }
            }
            (dropped, counted.marked())
        };
        let (dropped, marked) = admit(0.05, Ecn::NotEct);
        assert!(dropped.windows(2).all(|pair| pair[1] - pair[0] >= 17));
        // One in 17 + 19 or so: the wait of 17, and a geometric one of mean 20 after it.
        assert!((480..620).contains(&dropped.len()), "{}", dropped.len());
        assert_eq!(marked, 0);
        let (dropped, marked) = admit(0.05, Ecn::Ect0);
        assert!(dropped.is_empty() && marked > 480);
        let (dropped, marked) = admit(0.2, Ecn::Ect0);
        assert!(!dropped.is_empty() && marked == 0);
    }
}
