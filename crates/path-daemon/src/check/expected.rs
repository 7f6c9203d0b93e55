//! Expected results of a path check on a sound path: delays and losses.

use std::time::Duration;

use regatta_emulation::{DelayMoments, delay_moments};
use regatta_model::{Condition, Emulator, Link, LossBy, Placement};
use regatta_stats::plausible_counts;

use super::{FALSE_ALARMS, NORMAL_QUANTILE};
use crate::messages::PathForm;

/// Minimum share of the packets with a flipped bit that is lost: where netem flips a bit of the
/// sender's Ethernet address, no checksum finds it.
const CORRUPTION_FOUND: f64 = 0.9;

/// Minimum expected number of loss bursts at which their number is treated as normally distributed.
const BURSTS: f64 = 20.0;

/// Factor on the tolerance for the skew of that distribution.
const SKEW: f64 = 1.3;

/// Position of a link's random loss relative to its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossPosition {
    /// Before the rate, as one netem has it: lost packets use none of the rate.
    BeforeRate,
    /// After the rate, on the wire.
    AfterRate,
}

impl LossPosition {
    /// Returns the position in a path as it was set up.
    #[must_use]
    pub fn of(path: &PathForm) -> Self {
        let setup = path.setup;
        match (setup.emulator, setup.placement, setup.loss_by) {
            // One netem does all.
            (Emulator::Netem, Placement::Ends, LossBy::Emulator) => Self::BeforeRate,
            _ => Self::AfterRate,
        }
    }
}

/// Returns the share of the missing packets that were lost before the rate; the others, damaged,
/// have used it.
pub(super) fn lost_before_rate(link: &Link, losses: LossPosition) -> f64 {
    let (lost, corrupt) = (link.mean_loss().0, link.corrupt_ratio.0);
    match losses {
        LossPosition::BeforeRate if lost > 0.0 => lost / (lost + (1.0 - lost) * corrupt),
        _ => 0.0,
    }
}

/// Returns the mean and deviation of the delays that both links together give single packets.
pub(super) fn round_trip(condition: &Condition) -> DelayMoments {
    let [forward, reverse] = [&condition.forward, &condition.reverse].map(delay_moments);
    DelayMoments {
        mean_ns: forward.mean_ns + reverse.mean_ns,
        deviation_ns: forward.deviation_ns.hypot(reverse.deviation_ns),
    }
}

/// Returns the largest deviations of a round trip below and above the expected delay, queues aside.
pub(super) fn reach(condition: &Condition) -> (Duration, Duration) {
    let links = [&condition.forward, &condition.reverse];
    let below = links.map(|link| {
        if link.reorder_ratio.0 > 0.0 {
            // It may skip the delay.
            link.delay
        } else {
            link.jitter * link.jitter_distribution.reach()
        }
    });
    let above = links.map(|link| link.longest_propagation() - link.delay + longest_wait(link));
    (below[0] + below[1], above[0] + above[1])
}

/// Returns the longest time for which a trace makes a packet wait for an opportunity.
pub(super) fn longest_wait(link: &Link) -> Duration {
    let trace = link.trace.as_ref();
    trace.map_or(Duration::ZERO, |trace| trace.longest_time_of(1))
}

/// Returns the longest queueing delay at which the link's discipline does not begin to drop
/// packets: the time by which a sender may be ahead of the rate.
pub(super) fn longest_standing(link: &Link) -> Duration {
    let target = link.discipline.target();
    target.map_or(Duration::MAX, |target| target / 2)
}

/// Returns the expected share of `n` packets that do not arrive, and the bounds between which the
/// number of missing packets is on a sound link, but for [`FALSE_ALARMS`]. `before` packets have
/// passed the link already.
pub(super) fn losses(link: &Link, n: u64, before: u64) -> (f64, (u64, u64)) {
    let listed = link
        .loss_list
        .iter()
        .filter(|number| (before + 1..=before + n).contains(number))
        .count() as u64;
    let others = n - listed;
    let with = |corrupted: f64| 1.0 - (1.0 - link.mean_loss().0) * (1.0 - corrupted);
    let corrupt = link.corrupt_ratio.0;
    let (low, high) = (with(CORRUPTION_FOUND * corrupt), with(corrupt));
    let (low, high) = match bursts(link, others) {
        None => (
            plausible_counts(others, low, FALSE_ALARMS).0,
            plausible_counts(others, high, FALSE_ALARMS).1,
        ),
        Some(deviation) => {
            let n = others as f64;
            let reach = SKEW * NORMAL_QUANTILE * deviation + 1.0;
            let bound = |value: f64| value.clamp(0.0, n) as u64;
            (
                bound((n * low - reach).floor()),
                bound((n * high + reach).ceil()),
            )
        }
    };
    let expected = (with(corrupt) * others as f64 + listed as f64) / n.max(1) as f64;
    (expected, (low + listed, high + listed))
}

/// Returns the deviation of the number of losses of `n` packets where they come in bursts; infinity
/// if there are too few bursts for an estimate, `None` without bursts.
fn bursts(link: &Link, n: u64) -> Option<f64> {
    let chain = link.loss_bursts?;
    let n = n as f64;
    let (to_bad, to_good) = (chain.to_bad_ratio.0, chain.to_good_ratio.0);
    let changes = to_bad + to_good;
    if changes <= 0.0 {
        // It stays good for ever.
        return Some((n * link.mean_loss().0).sqrt());
    }
    let (bad, good) = (to_bad / changes, to_good / changes);
    if n * good * to_bad < BURSTS {
        return Some(f64::INFINITY);
    }
    let apart = (1.0 - link.loss.0) * (chain.bad_loss_ratio.0 - chain.good_loss_ratio.0);
    let loss = link.mean_loss().0;
    // The states of neighbours go together: correlation 1 − P − R from one packet to the next.
    let together = 2.0 * bad * good * apart * apart * (1.0 - changes) / changes;
    Some((n * (loss * (1.0 - loss) + together)).max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use regatta_model::{DeliveryTrace, GilbertElliott, Ratio};

    use super::*;

    #[test]
    fn losses_of_every_kind_are_expected() {
        let plain = Link {
            loss: Ratio(0.05),
            ..Link::default()
        };
        let (expected, range) = losses(&plain, 2000, 0);
        assert!((expected - 0.05).abs() < 1e-12);
        assert_eq!(range, plausible_counts(2000, 0.05, FALSE_ALARMS));
        let listed = Link {
            loss_list: vec![3, 301, 302, 9000],
            ..Link::default()
        };
        // The first went before, the last is never sent.
        assert_eq!(losses(&listed, 2000, 300), (0.001, (2, 2)));
        let corrupt = Link {
            corrupt_ratio: Ratio(0.1),
            ..Link::default()
        };
        let (expected, (low, high)) = losses(&corrupt, 2000, 0);
        assert!((expected - 0.1).abs() < 1e-12 && low < 180 && high > 220);
    }

    #[test]
    fn bursts_widen_the_range_of_losses_and_few_bursts_are_not_judged() {
        let link = |to_bad, to_good| Link {
            loss_bursts: Some(GilbertElliott {
                to_bad_ratio: Ratio(to_bad),
                to_good_ratio: Ratio(to_good),
                bad_loss_ratio: Ratio(1.0),
                good_loss_ratio: Ratio(0.0),
            }),
            ..Link::default()
        };
        // A chain that forgets at once is independent loss: 20 %, ± 4 · √(2000 · 0.16) · 1.3.
        let (expected, (low, high)) = losses(&link(0.2, 0.8), 2000, 0);
        assert!((expected - 0.2).abs() < 1e-12);
        assert!(
            (305..=312).contains(&low) && (488..=495).contains(&high),
            "{low} {high}"
        );
        let (_, (low, high)) = losses(&link(0.05, 0.2), 2000, 0);
        assert!(low < 180 && high > 620, "{low} {high}");
        assert_eq!(losses(&link(0.0001, 0.1), 2000, 0).1, (0, 2000));
        assert_eq!(losses(&link(0.0, 0.0), 2000, 0).1, (0, 1));
    }

    #[test]
    fn a_trace_has_packets_wait_for_its_longest_gap() {
        let link = Link {
            trace: Some(DeliveryTrace {
                name: "t".into(),
                opportunities_ms: vec![7, 8, 30, 31],
            }),
            ..Link::default()
        };
        assert_eq!(longest_wait(&link), Duration::from_millis(22));
    }
}
