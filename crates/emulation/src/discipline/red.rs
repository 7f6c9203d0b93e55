//! Random Early Detection: packets are dropped or marked at random when they arrive, with a probability that follows the average
//! length of the queue.
//!
//! Source: Floyd and Jacobson, *Random Early Detection Gateways for Congestion Avoidance*, IEEE/ACM Transactions on Networking 1
//! (1993), figure 17; Floyd, Gummadi and Shenker, *Adaptive RED* (2001), §4; as the discipline `red adaptive` of Linux, which
//! marks above the upper threshold what can be marked, and begins there at once (no `gentle`).

use regatta_model::{PacketCounter, RedThresholds};

use super::Fates;
use crate::{
    packet::Packet,
    queue::{Queue, Waiting},
    rng::LinkRng,
};

/// Time between two adaptations of the probability, in nanoseconds.
const UPDATE: u64 = 500_000_000;

/// Minimum of the adaptive probability.
const LEAST: f64 = 0.01;

/// Maximum of the adaptive probability.
const MOST: f64 = 0.5;

/// Largest increase of the probability in one adaptation.
const STEP: f64 = 0.01;

/// Factor of a decrease of the probability.
const FACTOR: f64 = 0.9;

/// State of the discipline.
#[derive(Debug, Clone)]
pub(crate) struct Red {
    thresholds: RedThresholds,
    /// Time that a full packet takes to send, in nanoseconds.
    transmission_ns: f64,
    /// Average number of bytes that wait.
    average: f64,
    /// Time since which the queue has been empty, in nanoseconds; `None` while it is not.
    idle_since: Option<u64>,
    /// Probability at the upper threshold.
    max_p: f64,
    /// Packets since the last drop; `None` while the average is outside of the thresholds.
    count: Option<u64>,
    /// Random number from which the packets until the next drop are computed: their number times the excess of the
    /// average over the lower threshold.
    until_next: f64,
    /// Time of the next adaptation, in nanoseconds; `None` before the first packet.
    next_update: Option<u64>,
    rng: LinkRng,
}

impl Red {
    /// Creates the state of a queue with these full packets, in bytes, and this rate.
    pub(crate) fn new(served: (u64, u64), thresholds: RedThresholds, rng: LinkRng) -> Self {
        Self {
            thresholds,
            transmission_ns: transmission_ns(served),
            average: 0.0,
            idle_since: Some(0),
            max_p: RedThresholds::INITIAL_PROBABILITY,
            count: None,
            until_next: 0.0,
            next_update: None,
            rng,
        }
    }

    /// Changes the settings for the packets from now on.
    pub(crate) fn set(&mut self, served: (u64, u64), thresholds: RedThresholds) {
        self.thresholds = thresholds;
        self.transmission_ns = transmission_ns(served);
    }

    /// Decides about a packet that arrives.
    pub(crate) fn admit<P: Packet>(
        &mut self,
        now: u64,
        queue: &Queue<P>,
        waiting: &mut Waiting<P>,
        fates: &mut Fates<'_, P>,
    ) -> Option<PacketCounter> {
        self.catch_up(now);
        self.average = match self.idle_since.take() {
            Some(since) => self.after_idle(now - since),
            None => self.average + self.weight() * (queue.bytes() as f64 - self.average),
        };
        if !self.strikes() || fates.mark(waiting) {
            return None;
        }
        // It may have been the only one.
        self.taken(now, queue);
        Some(PacketCounter::Discipline)
    }

    /// Records that a packet has left, or none has come.
    pub(crate) fn taken<P>(&mut self, now: u64, queue: &Queue<P>) {
        if queue.is_empty() {
            self.idle_since.get_or_insert(now);
        }
    }

    fn strikes(&mut self) -> bool {
        let above = self.average - self.thresholds.min_bytes as f64;
        if above < 0.0 {
            self.count = None;
            return false;
        }
        if self.average >= self.thresholds.max_bytes as f64 {
            self.count = None;
            return true;
        }
        let Some(count) = self.count else {
            self.count = Some(0);
            self.draw();
            return false;
        };
        let strikes = above * (count + 1) as f64 >= self.until_next;
        if strikes {
            self.count = Some(0);
            self.draw();
        } else {
            self.count = Some(count + 1);
        }
        strikes
    }

    fn draw(&mut self) {
        let uniform = self.rng.next() as f64 / 2f64.powi(64);
        self.until_next = uniform * self.range() / self.max_p;
    }

    fn range(&self) -> f64 {
        (self.thresholds.max_bytes - self.thresholds.min_bytes) as f64
    }

    fn weight(&self) -> f64 {
        2f64.powi(-self.thresholds.weight_log.cast_signed())
    }

    /// Returns the average after a time without packets: that of as many packets as could have been sent.
    fn after_idle(&self, idle_ns: u64) -> f64 {
        self.average * (1.0 - self.weight()).powf(idle_ns as f64 / self.transmission_ns)
    }

    /// Makes the adaptations that were due until `now`: nothing has arrived since.
    fn catch_up(&mut self, now: u64) {
        let mut at = *self.next_update.get_or_insert(now + UPDATE);
        while at <= now {
            let average = match self.idle_since {
                Some(since) => self.after_idle(at.saturating_sub(since)),
                None => self.average,
            };
            let part = (average - self.thresholds.min_bytes as f64) / self.range();
            if part > 0.6 && self.max_p <= MOST {
                self.max_p += STEP.min(self.max_p / 4.0);
            } else if part < 0.4 && self.max_p >= LEAST {
                self.max_p *= FACTOR;
            }
            at += UPDATE;
            if self.idle_since.is_some() && self.max_p < LEAST && at <= now {
                // Nothing changes any more.
                at += (now - at) / UPDATE * UPDATE;
            }
        }
        self.next_update = Some(at);
    }
}

fn transmission_ns((max_packet, rate_bps): (u64, u64)) -> f64 {
    max_packet as f64 * 8e9 / rate_bps.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        discipline::testing::{Counted, MS, waiting},
        packet::Ecn,
        rng::Purpose,
    };

    const SERVED: (u64, u64) = (1500, 12_000_000);

    /// Thresholds of 10 and 30 packets, weight 1 / 512.
    fn red() -> Red {
        let thresholds = RedThresholds {
            min_bytes: 15_000,
            max_bytes: 45_000,
            weight_log: 9,
        };
        let rng = LinkRng::new((1, 0), Purpose::Discipline, 0);
        Red::new(SERVED, thresholds, rng)
    }

    fn queue(packets: usize) -> Queue<Vec<u8>> {
        let mut queue = Queue::new();
        for _ in 0..packets {
            queue.push(waiting(0, 1500, 0, Ecn::NotEct));
        }
        queue
    }

    /// Offers packets to a queue of this length at an average of the same length. Returns the numbers of those that are
    /// dropped, and the number of marks.
    fn admit(packets: usize, ecn: Ecn) -> (Vec<u64>, u64) {
        let mut red = Red {
            average: 1500.0 * packets as f64,
            idle_since: None,
            next_update: Some(u64::MAX),
            max_p: 0.1,
            ..red()
        };
        let (queue, mut counted) = (queue(packets), Counted::default());
        let arrives = || waiting(0, 1500, 0, ecn);
        let dropped = (0..20_000).filter(|_| {
            let mut waiting = arrives();
            red.admit(0, &queue, &mut waiting, &mut counted.fates(true))
                .is_some()
        });
        (dropped.collect(), counted.marked())
    }

    /// Floyd and Jacobson 1993, §7: with the probability 0.05 in the middle between the thresholds the number of packets between
    /// two drops is even from 1 to 1 / 0.05, 10.5 on average.
    #[test]
    fn drops_are_spread_evenly() {
        let (dropped, _) = admit(20, Ecn::NotEct);
        let gaps: Vec<u64> = dropped.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (1..=20).contains(gap)), "{gaps:?}");
        assert!((1800..2010).contains(&dropped.len()), "{}", dropped.len());
    }

    #[test]
    fn nothing_is_dropped_below_the_lower_threshold_and_all_from_the_upper_one() {
        assert_eq!(admit(9, Ecn::NotEct).0.len(), 0);
        assert_eq!(admit(30, Ecn::NotEct).0.len(), 20_000);
    }

    #[test]
    fn packets_that_can_be_marked_are_not_dropped() {
        let (dropped, marked) = admit(20, Ecn::Ect0);
        assert!(dropped.is_empty() && marked > 1800);
        assert_eq!(admit(30, Ecn::Ect1), (Vec::new(), 20_000));
    }

    /// By hand: 1 / 512 of the queue with each packet; after an idle 512 ms of 1 ms packets (1 − 1/512)^512 is left, 0.3675.
    #[test]
    fn the_average_follows_the_queue_and_decays_while_it_is_idle() {
        let mut red = red();
        let mut counted = Counted::default();
        let mut admit = |red: &mut Red, now, queue: &Queue<Vec<u8>>| {
            let mut arrives = waiting(now, 1500, 0, Ecn::NotEct);
            red.admit(now, queue, &mut arrives, &mut counted.fates(false));
        };
        admit(&mut red, 0, &queue(0));
        assert!(red.average == 0.0 && red.idle_since.is_none());
        admit(&mut red, 0, &queue(512));
        assert!((red.average - 1500.0).abs() < 1e-9, "{}", red.average);
        red.taken(MS, &queue(0));
        admit(&mut red, 513 * MS, &queue(0));
        assert!(
            (red.average / 1500.0 - 0.3675).abs() < 1e-4,
            "{}",
            red.average
        );
    }

    /// Adaptive RED §4: above 60 % of the range the probability rises by a quarter, at most 0.01; below 40 % it falls by a tenth.
    #[test]
    fn the_probability_adapts_each_half_second() {
        let after = |average, max_p: f64| {
            let mut red = Red {
                average,
                max_p,
                idle_since: None,
                next_update: Some(UPDATE),
                ..red()
            };
            red.catch_up(UPDATE - 1);
            assert!((red.max_p - max_p).abs() < 1e-12);
            red.catch_up(UPDATE);
            red.max_p
        };
        for (average, max_p, expected) in [
            (33_001.0, 0.02, 0.025),
            (33_001.0, 0.2, 0.21),
            (33_001.0, 0.501, 0.501),
            (30_000.0, 0.2, 0.2),
            (26_999.0, 0.2, 0.18),
            (26_999.0, 0.009, 0.009),
        ] {
            let found = after(average, max_p);
            assert!(
                (found - expected).abs() < 1e-12,
                "{average} {max_p}: {found}"
            );
        }
    }

    #[test]
    fn an_idle_time_is_caught_up_with_at_once() {
        let mut red = red();
        red.catch_up(0);
        red.catch_up(1 << 60);
        assert!(red.max_p < LEAST);
        assert!(red.next_update.is_some_and(|at| at > 1 << 60));
    }
}
