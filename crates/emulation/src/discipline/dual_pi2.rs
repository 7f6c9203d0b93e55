//! Two coupled queues: one for senders that slow down in proportion to marks (L4S), one for all others, with the same share for
//! each flow of either.
//!
//! Source: RFC 9332, Appendix A; defaults of Linux, and its protection of the classic queue by credit.

use std::time::Duration;

use regatta_model::PacketCounter;

use super::{Fates, nanoseconds};
use crate::{
    packet::{Ecn, Packet},
    queue::{Queue, Waiting},
};

/// Time between two updates of the probability, `T_UPDATE`, in nanoseconds.
const UPDATE: u64 = 16_000_000;

/// Integral gain: weight of the deviation of the delay from the target, per second.
const ALPHA: f64 = 0.16;

/// Proportional gain: weight of the change of the delay, per second.
const BETA: f64 = 3.2;

/// Coupling factor `k`.
const COUPLING: f64 = 2.0;

/// Delay of the L4S queue above which each packet is marked, in nanoseconds.
const STEP: u64 = 1_000_000;

/// Weight of the classic queue where both have packets: it gets at least a tenth of the link.
const CLASSIC_WEIGHT: i64 = 10;

/// Weight of the L4S queue where both have packets.
const L4S_WEIGHT: i64 = 90;

/// State of the discipline. Names are those of the RFC.
#[derive(Debug, Clone)]
pub(crate) struct DualPi2<P> {
    max_packet: u64,
    target: u64,
    /// Whether packets with ECT(0) are in the L4S queue, too: `any_ect` of Linux.
    any_ect: bool,
    classic: Queue<P>,
    l4s: Queue<P>,
    /// Time of the next update, in nanoseconds; `None` before the first packet.
    next_update: Option<u64>,
    /// Base probability `p'`.
    p: f64,
    prevq: u64,
    /// Sums of the probabilities of both queues since the last drop or mark.
    classic_count: f64,
    l4s_count: f64,
    /// Bytes by which the classic queue is ahead, weighted.
    credit: i64,
}

impl<P: Packet> DualPi2<P> {
    pub(crate) fn new(max_packet: u64, target: Duration, any_ect: bool) -> Self {
        Self {
            max_packet,
            target: nanoseconds(target),
            any_ect,
            classic: Queue::new(),
            l4s: Queue::new(),
            next_update: None,
            p: 0.0,
            prevq: 0,
            classic_count: 0.0,
            l4s_count: 0.0,
            credit: 0,
        }
    }

    /// Changes the settings for the packets from now on.
    pub(crate) fn set(&mut self, target: Duration, any_ect: bool) {
        self.target = nanoseconds(target);
        self.any_ect = any_ect;
    }

    pub(crate) fn push(&mut self, waiting: Waiting<P>) {
        self.catch_up(waiting.arrived);
        match waiting.ecn {
            Ecn::Ect1 | Ecn::Ce => self.l4s.push(waiting),
            Ecn::Ect0 if self.any_ect => self.l4s.push(waiting),
            Ecn::NotEct | Ecn::Ect0 => self.classic.push(waiting),
        }
    }

    pub(crate) fn take(&mut self, now: u64, fates: &mut Fates<'_, P>) -> Option<Waiting<P>> {
        self.catch_up(now);
        loop {
            let of_l4s = match (self.l4s.is_empty(), self.classic.is_empty()) {
                (true, true) => return None,
                (false, false) => self.credit <= 0,
                (is_empty, _) => {
                    self.credit = 0;
                    !is_empty
                }
            };
            let queue = if of_l4s {
                &mut self.l4s
            } else {
                &mut self.classic
            };
            let mut waiting = queue.pop()?;
            let weight = if of_l4s { CLASSIC_WEIGHT } else { -L4S_WEIGHT };
            if !(self.l4s.is_empty() || self.classic.is_empty()) {
                self.credit += weight * waiting.size as i64;
            }
            let left = self.bytes();
            let is_dropped = match of_l4s {
                true => self.strikes_l4s(now, &mut waiting, fates),
                // Two packets are no queue.
                false if left < 2 * self.max_packet => false,
                false => {
                    recurs(&mut self.classic_count, self.p * self.p)
                        && (self.is_overloaded() || !fates.mark(&mut waiting))
                }
            };
            if !is_dropped {
                return Some(waiting);
            }
            fates.discard(now, waiting, PacketCounter::Discipline);
        }
    }

    /// Marks a packet of the L4S queue if it is its turn; returns whether it is dropped, which only an overload does.
    fn strikes_l4s(
        &mut self,
        now: u64,
        waiting: &mut Waiting<P>,
        fates: &mut Fates<'_, P>,
    ) -> bool {
        let waited = now - waiting.arrived;
        // A queue of one packet is no standing one.
        let is_long = waited >= STEP && !self.l4s.is_empty();
        let coupled = (COUPLING * self.p).min(1.0);
        let likelihood = if is_long { 1.0 } else { coupled };
        let is_marked = recurs(&mut self.l4s_count, likelihood);
        if self.is_overloaded() && recurs(&mut self.classic_count, self.p * self.p) {
            return true;
        }
        if is_marked {
            fates.mark(waiting);
        }
        false
    }

    /// Whether the L4S queue is saturated: the coupled probability `k·p'` has reached 1, so that every packet is marked
    /// and packets have to be dropped in addition.
    fn is_overloaded(&self) -> bool {
        COUPLING * self.p >= 1.0
    }

    /// Makes the updates that were due until `now`: the queues have not changed since.
    fn catch_up(&mut self, now: u64) {
        let mut at = *self.next_update.get_or_insert(now + UPDATE);
        while at <= now {
            let waits = |queue: &Queue<P>| {
                let arrived = queue.waits_since();
                arrived.map_or(0, |arrived| at.saturating_sub(arrived))
            };
            let curq = waits(&self.classic).max(waits(&self.l4s));
            let seconds = |ns: u64| ns as f64 / 1e9;
            let deviation = ALPHA * (seconds(curq) - seconds(self.target));
            let change = BETA * (seconds(curq) - seconds(self.prevq));
            self.p = (self.p + deviation + change).clamp(0.0, 1.0);
            at += UPDATE;
            if curq == 0 && self.prevq == 0 && self.p == 0.0 && at <= now {
                // Nothing changes any more.
                at += (now - at) / UPDATE * UPDATE;
            }
            self.prevq = curq;
        }
        self.next_update = Some(at);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<P>> {
        self.l4s.pop().or_else(|| self.classic.pop())
    }

    /// Returns the size of a packet that waits at the head of its queue.
    pub(crate) fn head(&self) -> Option<u64> {
        self.l4s.head().or_else(|| self.classic.head())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.l4s.bytes() + self.classic.bytes()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.l4s.packets() + self.classic.packets()
    }

    pub(crate) fn present(&self) -> u64 {
        self.l4s.present() + self.classic.present()
    }
}

/// Whether something of this likelihood happens now, at equal distances.
fn recurs(count: &mut f64, likelihood: f64) -> bool {
    *count += likelihood;
    let recurs = *count >= 1.0;
    if recurs {
        *count -= 1.0;
    }
    recurs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discipline::testing::{Counted, MS, waiting};

    fn dual() -> DualPi2<Vec<u8>> {
        DualPi2::new(1500, Duration::from_millis(15), false)
    }

    /// Source: RFC 9332, Appendix A.1: 0.16 · (0.03 − 0.015) + 3.2 · 0.03 = 0.0984, then 0.0024 more.
    #[test]
    fn base_probability_follows_delay_and_its_change() {
        let mut dual = dual();
        dual.catch_up(0);
        for _ in 0..2 {
            dual.classic.push(waiting(0, 1500, 0, Ecn::NotEct));
        }
        dual.next_update = Some(30 * MS);
        dual.catch_up(30 * MS);
        assert!((dual.p - 0.0984).abs() < 1e-12, "{}", dual.p);
        // The delay is the same after the next 16 ms if the head has come 16 ms later.
        dual.classic.pop();
        dual.classic.pop();
        dual.classic.push(waiting(16 * MS, 1500, 0, Ecn::NotEct));
        dual.catch_up(46 * MS);
        assert!((dual.p - 0.1008).abs() < 1e-12, "{}", dual.p);
    }

    /// Source: RFC 9332 §2.1: p_L = k · p' and p_C = p'².
    #[test]
    fn coupling_marks_l4s_packets_more_often_than_the_square_drops_others() {
        let shares = [Ecn::Ect1, Ecn::NotEct].map(|ecn| {
            let (mut dual, mut counted) = (dual(), Counted::default());
            dual.next_update = Some(u64::MAX);
            dual.p = 0.2;
            for _ in 0..10_000 {
                dual.push(waiting(0, 1500, 0, ecn));
            }
            while dual.take(0, &mut counted.fates(true)).is_some() {}
            (counted.marked() + counted.dropped()) as f64 / 10_000.0
        });
        assert!((shares[0] - 0.4).abs() < 0.001, "{shares:?}");
        assert!((shares[1] - 0.04).abs() < 0.001, "{shares:?}");
    }

    /// Source: RFC 9332 §4.2.2: the L4S queue goes first, and leaves a tenth to the other one.
    #[test]
    fn the_classic_queue_does_not_starve() {
        let (mut dual, mut counted) = (dual(), Counted::default());
        dual.next_update = Some(u64::MAX);
        for _ in 0..1000 {
            dual.push(waiting(0, 1500, 0, Ecn::Ect1));
            dual.push(waiting(0, 1500, 0, Ecn::NotEct));
        }
        let mut take = || dual.take(0, &mut counted.fates(true)).map(|it| it.ecn);
        let taken: Vec<_> = (0..1000).filter_map(|_| take()).collect();
        let classic = taken.iter().filter(|ecn| **ecn == Ecn::NotEct).count();
        assert!((99..=101).contains(&classic), "{classic}");
    }

    /// Source: RFC 9332 §2.5.1.1: ECT(1) and CE; of Linux's `any_ect` also ECT(0).
    #[test]
    fn packets_with_ect0_are_l4s_packets_if_that_is_asked_for() {
        for any_ect in [false, true] {
            let mut dual = dual();
            dual.set(Duration::from_millis(15), any_ect);
            for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
                dual.push(waiting(0, 1500, 0, ecn));
            }
            let l4s = 2 + u64::from(any_ect);
            let found = (dual.classic.packets(), dual.l4s.packets());
            assert_eq!(found, (4 - l4s, l4s));
        }
    }

    /// Linux marks each packet that has waited for 1 ms, unless it is the only one.
    #[test]
    fn l4s_packets_that_wait_for_a_millisecond_are_marked() {
        let (mut dual, mut counted) = (dual(), Counted::default());
        for _ in 0..3 {
            dual.push(waiting(0, 1500, 0, Ecn::Ect1));
        }
        while dual.take(MS, &mut counted.fates(true)).is_some() {}
        assert_eq!((counted.marked(), counted.dropped()), (2, 0));
    }
}
