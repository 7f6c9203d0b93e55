//! Delays of a train's packets on a link with jitter: those of packets at the link's rate, beside
//! the sparse round trips.

use regatta_emulation::delay_moments;
use regatta_model::{AskedAchieved, Condition, DelayDistribution, Link, units::nanoseconds};

use super::{
    DIRECTIONS, LossPosition, MEAN_TOLERANCE, NORMAL_QUANTILE, SPREAD_TOLERANCE,
    expected::lost_before_rate,
    plan::{self, Train},
    quantity,
};
use crate::messages::TrainResult;

/// Minimum number of packets whose delays are judged.
const FEWEST: usize = 50;

/// Share of a train's packets that may arrive behind a later one where the path keeps their order:
/// a kernel thread that moves to another processor may reorder them.
const REORDERED: f64 = 0.001;

/// Propagation delays of one direction's train.
struct Delays {
    /// Delays in the order of sending, in nanoseconds; they compare two clocks if the ends have
    /// clocks of their own.
    values_ns: Vec<f64>,
    reordered: u64,
}

impl Delays {
    /// Computes the delays: each packet's time under way less the time at the bottleneck, which
    /// sends one packet after the other at the link's rate.
    fn of(link: &Link, train: Train, losses: LossPosition, result: &TrainResult) -> Self {
        let transmission_ns = nanoseconds(plan::transmission(link, train.packet_bytes));
        let skipped = lost_before_rate(link, losses) > 0.5;
        let mut arrived = vec![None; result.departures.len()];
        let (mut reordered, mut latest) = (0, 0);
        for &(position, at) in &result.arrivals {
            if let Some(slot) = arrived.get_mut(position as usize) {
                *slot = Some(at);
            }
            reordered += u64::from(position < latest);
            latest = latest.max(position);
        }
        let mut values_ns = Vec::with_capacity(result.arrivals.len());
        let mut sent_at = 0;
        for (&departed, at) in result.departures.iter().zip(arrived) {
            if at.is_none() && skipped {
                continue;
            }
            sent_at = departed.max(sent_at) + transmission_ns;
            values_ns.extend(at.map(|at| at.wrapping_sub(sent_at).cast_signed() as f64));
        }
        Self {
            values_ns,
            reordered,
        }
    }

    fn moments(&self) -> (f64, f64) {
        let n = self.values_ns.len() as f64;
        let mean = self.values_ns.iter().sum::<f64>() / n;
        let squares = self.values_ns.iter().map(|delay| (delay - mean).powi(2));
        (mean, (squares.sum::<f64>() / n).sqrt())
    }
}

/// Whether the delays of a train can be distinguished from those of the bottleneck's queue.
fn is_separable(link: &Link, train: Train) -> bool {
    (link.rate.is_none() || train.measures_rate)
        && link.trace.is_none()
        && link.burst_bytes.is_none()
}

/// Whether the condition itself asks for jitter that holds packets of dense flows back: drawn for each
/// packet, or changing faster than a delay can fall without packets overtaking one another.
fn holds_back(link: &Link) -> bool {
    let range = 2 * link.jitter * link.jitter_distribution.reach();
    !link.jitter_reorders && link.jitter_span().unwrap_or_default() < range
}

/// Returns the number of independent delays in a train.
fn independent(link: &Link, train: Train, n: usize) -> f64 {
    let lasts = train.interval.as_secs_f64() * train.packets as f64;
    match link.jitter_span() {
        Some(span) => (lasts / span.as_secs_f64() / plan::SPANS_PER_DELAY).clamp(1.0, n as f64),
        None => n as f64,
    }
}

/// Returns the relative standard error of the standard deviation of one independent delay: √((κ −
/// 1) / 4), with the kurtosis κ of the distribution.
fn deviation_error(distribution: DelayDistribution) -> f64 {
    match distribution {
        DelayDistribution::Uniform => 0.45,
        DelayDistribution::Normal => 0.71,
        DelayDistribution::Pareto => 1.3,
    }
}

/// Returns the mean of both directions together, in which a difference between two clocks cancels, and
/// the deviation and order of each; nothing for conditions without jitter in both directions.
pub(super) fn judge(
    condition: &Condition,
    losses: LossPosition,
    results: &[TrainResult; 2],
) -> Vec<AskedAchieved> {
    let links = [&condition.forward, &condition.reverse];
    let trains = links.map(|link| Train::new(condition, link, losses));
    let jitters = links.iter().any(|link| !link.jitter.is_zero());
    let mut pairs = links.iter().zip(trains);
    let separable = pairs.all(|(link, train)| is_separable(link, train));
    if !jitters || !separable {
        return Vec::new();
    }
    let delays: [Delays; 2] = std::array::from_fn(|which| {
        Delays::of(links[which], trains[which], losses, &results[which])
    });
    if delays.iter().any(|delays| delays.values_ns.len() < FEWEST) {
        return Vec::new();
    }
    let expected = condition.round_trip_delay().as_nanos() as f64;
    let (mut mean, mut achieved, mut variance, mut held) = (0.0_f64, 0.0, 0.0_f64, 0.0);
    let mut quantities = Vec::new();
    for (which, name) in DIRECTIONS.into_iter().enumerate() {
        let (link, delays) = (links[which], &delays[which]);
        let n = delays.values_ns.len();
        let moments = delay_moments(link);
        let independent = independent(link, trains[which], n);
        let found = delays.moments();
        mean += moments.mean_ns;
        achieved += found.0;
        variance += moments.deviation_ns.powi(2) / independent;
        let holds_back = holds_back(link);
        if holds_back {
            let longest = link.longest_propagation();
            held += longest.saturating_sub(link.delay).as_nanos() as f64;
        }
        if link.jitter.is_zero() {
            continue;
        }
        let error = deviation_error(link.jitter_distribution) / independent.sqrt();
        let chance = NORMAL_QUANTILE * error * moments.deviation_ns;
        let least = match holds_back {
            true => 0.0,
            false => (moments.deviation_ns - chance - MEAN_TOLERANCE.of(expected)).max(0.0),
        };
        let most = moments.deviation_ns + chance + SPREAD_TOLERANCE.of(expected);
        let mut add = |what, expected, found, range| {
            let name = format!("{name}_train_{what}");
            quantities.push(quantity(&name, expected, found, range, n as u64));
        };
        let range = (least, most);
        add("delay_deviation_ns", moments.deviation_ns, found.1, range);
        if link.keeps_order() {
            let reordered = delays.reordered as f64 / n as f64;
            add("reordered_ratio", 0.0, reordered, (0.0, REORDERED));
        }
    }
    let tolerance = MEAN_TOLERANCE.of(expected) + NORMAL_QUANTILE * variance.sqrt();
    let n = delays.map(|delays| delays.values_ns.len() as u64);
    let range = (mean - tolerance, mean + tolerance + held);
    let name = "train_round_trip_delay_mean_ns";
    quantities.insert(0, quantity(name, mean, achieved, range, n.iter().sum()));
    quantities
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_emulation::{Direction, EmulatedLink};
    use regatta_model::BitRate;

    use super::*;

    const EACH: Option<Duration> = Some(Duration::ZERO);

    fn condition(rate_bps: u64, change: impl Fn(&mut Link)) -> Condition {
        let mut link = Link {
            delay: Duration::from_millis(75),
            jitter: Duration::from_millis(10),
            rate: Some(BitRate(rate_bps)),
            ..Link::default()
        };
        change(&mut link);
        Condition {
            name: "c".into(),
            forward: link.clone(),
            reverse: link,
            mtu_bytes: 1500,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        }
    }

    /// Runs a train over the path that the emulator makes of a condition; the receiver's clock is a
    /// minute ahead of the sender's in one direction, and as much behind it in the other.
    fn run(path: &Condition, direction: Direction, train: Train, seed: u64) -> TrainResult {
        const MINUTE_NS: u64 = 60_000_000_000;
        let mut link = EmulatedLink::new(path, direction, seed).expect("a link");
        let begun = 10 * MINUTE_NS;
        let mut result = TrainResult::default();
        for position in 0..=train.packets {
            let paced = (position + 1).saturating_sub(train.head_start);
            let now = begun + paced * nanoseconds(train.interval);
            if position < train.packets {
                let mut packet = vec![0; train.packet_bytes as usize];
                packet[..8].copy_from_slice(&position.to_le_bytes());
                link.offer(now, packet);
                result.departures.push(now);
            }
            while let Some(due) = link.poll(if position < train.packets {
                now
            } else {
                u64::MAX
            }) {
                let position = u64::from_le_bytes(due.packet[..8].try_into().expect("eight bytes"));
                let at = match direction {
                    Direction::Forward => due.at + MINUTE_NS,
                    Direction::Reverse => due.at - MINUTE_NS,
                };
                result.arrivals.push((position, at));
            }
        }
        result
    }

    /// Compares trains over `path` with what `requested` asks for.
    fn judged(requested: &Condition, path: &Condition, seed: u64) -> Vec<AskedAchieved> {
        let train = Train::new(requested, &requested.forward, LossPosition::AfterRate);
        let results = [Direction::Forward, Direction::Reverse]
            .map(|direction| run(path, direction, train, seed));
        judge(requested, LossPosition::AfterRate, &results)
    }

    fn outside(quantities: &[AskedAchieved]) -> Vec<&str> {
        let outside = quantities.iter().filter(|quantity| !quantity.within);
        outside.map(|quantity| quantity.name.as_str()).collect()
    }

    /// One in 10 000 quantities of a sound path is outside: of 5 for 30 seeds and 3 rates one with a
    /// probability of 4 %, and the seeds are fixed.
    fn sound_paths_pass(distribution: DelayDistribution) {
        for rate_bps in [1_000_000, 10_000_000, 100_000_000] {
            let requested = condition(rate_bps, |link| {
                link.jitter_distribution = distribution;
                link.jitter /= distribution.reach();
            });
            for seed in 0..30 {
                let quantities = judged(&requested, &requested, seed);
                assert_eq!(quantities.len(), 5);
                assert!(
                    outside(&quantities).is_empty(),
                    "{rate_bps} {seed} {quantities:#?}"
                );
            }
        }
    }

    #[test]
    fn sound_paths_with_uniform_jitter_pass() {
        sound_paths_pass(DelayDistribution::Uniform);
    }

    #[test]
    fn sound_paths_with_normal_jitter_pass() {
        sound_paths_pass(DelayDistribution::Normal);
    }

    #[test]
    fn sound_paths_with_pareto_jitter_pass() {
        sound_paths_pass(DelayDistribution::Pareto);
    }

    #[test]
    fn jitter_that_delays_a_dense_flow_is_out_of_tolerance() {
        for rate_bps in [100_000_000, 1_000_000_000] {
            let requested = condition(rate_bps, |_| {});
            let path = condition(rate_bps, |link| link.jitter_correlation = EACH);
            let quantities = judged(&requested, &path, 1);
            let names = [
                "train_round_trip_delay_mean_ns",
                "forward_train_delay_deviation_ns",
            ];
            let outside = outside(&quantities);
            assert!(
                names.iter().all(|name| outside.contains(name)),
                "{quantities:#?}"
            );
            // Where the condition asks for just that, it is what was asked.
            assert!(self::outside(&judged(&path, &path, 1)).is_empty());
        }
    }

    #[test]
    fn reordered_packets_are_out_of_tolerance() {
        let requested = condition(100_000_000, |_| {});
        let path = condition(100_000_000, |link| link.jitter_reorders = true);
        let quantities = judged(&requested, &path, 1);
        let expected = [
            "forward_train_reordered_ratio",
            "reverse_train_reordered_ratio",
        ];
        assert_eq!(outside(&quantities), expected, "{quantities:#?}");
        let quantities = judged(&path, &path, 1);
        assert_eq!(quantities.len(), 3);
        assert!(outside(&quantities).is_empty(), "{quantities:#?}");
    }

    #[test]
    fn paths_without_jitter_or_with_a_bucket_are_not_judged() {
        let plain = condition(100_000_000, |link| link.jitter = Duration::ZERO);
        assert!(judged(&plain, &plain, 1).is_empty());
        let bucket = condition(100_000_000, |link| {
            link.burst_bytes = Some(regatta_model::Bytes(60_000));
        });
        assert!(judged(&bucket, &bucket, 1).is_empty());
    }
}
