//! Path check: compares the condition with measurements by packets.
//!
//! First small packets make round trips, one at a time on an idle path; then a train of packets in
//! each direction keeps the bottleneck busy without filling its queue, which gives loss and rate,
//! and with jitter the delay of packets at the link's rate. Departures are read from the clock
//! right before the call that sends, arrivals are the kernel's time stamps, so that the time this
//! process takes to wake up is not charged to the path.
//!
//! [`run`] does so where one daemon has both ends; [`Part`] is one end's part where each end has a
//! daemon of its own, whose clocks need not agree: a delay is the time that a round trip took at
//! its own end, less the time for which the other end reports to have held it.

mod expected;
mod part;
mod pauses;
mod plan;
pub mod real;
mod socket;
mod train_delays;

use std::{
    io::{self, PipeReader},
    mem,
    net::Ipv4Addr,
    os::fd::AsFd,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use regatta_forwarder::{
    ForwarderError,
    clock::{self, unix_ns},
};
use regatta_model::{AskedAchieved, Condition, Link, PathCheck};

pub use self::{
    expected::LossPosition,
    plan::{NETWORK_ROUND_TRIPS, ROUND_TRIPS},
};
pub(crate) use self::{part::Part, pauses::PauseWatch};
use self::{
    plan::{RoundTrips, SMALL_PACKET_BYTES, Train},
    socket::Prober,
};
use super::{error::DaemonError, namespaces::Namespace};
use crate::messages::TrainResult;

/// Names of the two directions in those of quantities.
const DIRECTIONS: [&str; 2] = ["forward", "reverse"];

/// Tolerance of a delay: a share of the expected one, and at least the time that an ordinary machine
/// takes to wake processes up, unless that is a large share of a short delay.
#[derive(Debug, Clone, Copy)]
struct DelayTolerance {
    part: f64,
    least_ns: f64,
    most_of_a_short_one: f64,
}

impl DelayTolerance {
    fn of(self, expected_ns: f64) -> f64 {
        if expected_ns <= 0.0 {
            // The condition has no delay, so this is the machine's own.
            return self.least_ns;
        }
        let least = self.least_ns.min(self.most_of_a_short_one * expected_ns);
        (self.part * expected_ns).max(least)
    }
}

/// Largest difference of the mean round-trip delay from the expected one.
const MEAN_TOLERANCE: DelayTolerance = DelayTolerance {
    part: 0.01,
    least_ns: 500_000.0,
    most_of_a_short_one: 0.3,
};

/// Largest distance of a round trip from the range that jitter explains, and the least share of
/// round trips within that distance.
const SPREAD_TOLERANCE: DelayTolerance = DelayTolerance {
    part: 0.05,
    least_ns: 2_000_000.0,
    most_of_a_short_one: 0.5,
};
const SPREAD_SHARE: f64 = 0.99;

/// Largest relative difference of the link rate.
const RATE_TOLERANCE: f64 = 0.02;

/// Probability with which a sound path shows a loss, or through jitter a mean, out of tolerance.
const FALSE_ALARMS: f64 = 1e-4;

/// Quantile of the normal distribution that leaves [`FALSE_ALARMS`] outside, half on each side.
const NORMAL_QUANTILE: f64 = 3.891;

/// Time that a packet may take beyond the longest that the path explains.
const GRACE: Duration = Duration::from_millis(100);

/// Sum of both rates up to which both directions are measured at the same time, in bits per second.
const BOTH_AT_ONCE_BPS: u64 = 400_000_000;

/// Packets of a check as they were found.
pub struct Measured {
    /// Time of the check, in nanoseconds since the Unix epoch.
    pub checked_unix_ns: i64,
    /// Delays of the round trips, in nanoseconds.
    pub round_trips: Vec<f64>,
    /// Trains of the forward and of the reverse direction.
    pub trains: [TrainResult; 2],
}

/// Returns the check under a condition with these quantities.
pub fn path_check(
    condition: &Condition,
    checked_unix_ns: i64,
    quantities: Vec<AskedAchieved>,
) -> PathCheck {
    PathCheck {
        condition: condition.name.clone(),
        step_at_ns: 0,
        checked_unix_ns,
        spoiled: None,
        within: quantities.iter().all(|quantity| quantity.within),
        quantities,
    }
}

/// Returns an upper bound of the time that a check under a condition takes on a sound path.
#[must_use]
pub fn longest(condition: &Condition) -> Duration {
    let trips = RoundTrips::new(condition);
    let count = u32::try_from(trips.count).unwrap_or(u32::MAX);
    let trips = trips.interval.saturating_mul(count) + trips.longest + GRACE;
    let train = |link: &Link| {
        let train = Train::new(condition, link, LossPosition::AfterRate);
        let packets = u32::try_from(train.packets).unwrap_or(u32::MAX);
        train.interval.saturating_mul(packets) + train.longest + GRACE
    };
    trips + train(&condition.forward) + train(&condition.reverse)
}

/// Measures the path that the caller has just set to `condition`. The calling thread changes its
/// namespace.
pub(super) fn run(
    condition: &Condition,
    losses: LossPosition,
    namespaces: [&Namespace; 2],
    addresses: [Ipv4Addr; 2],
) -> Result<PathCheck, DaemonError> {
    let checked_unix_ns = unix_ns().cast_signed();
    clock::wake_on_time();
    let [a, b] = &socket::pair(namespaces, addresses)?;
    let round_trips = make_round_trips(RoundTrips::new(condition), a, Some(b))?;

    let links = [&condition.forward, &condition.reverse];
    let train = |direction: usize| {
        let train = Train::new(condition, links[direction], losses);
        let (from, to) = [(a, b), (b, a)][direction];
        run_train(train, base(direction), from, to)
    };
    let trains = if both_at_once(condition, BOTH_AT_ONCE_BPS) {
        let (reverse, forward) = both(|| train(1), || train(0))?;
        [forward, reverse]
    } else {
        [train(0)?, train(1)?]
    };
    let measured = Measured {
        checked_unix_ns,
        round_trips,
        trains,
    };
    Ok(judge(condition, losses, &measured))
}

/// Whether both directions are measured at the same time, as the sum of their rates is at most this one. They are
/// measured one after the other where both would be more than a machine can do at once.
pub fn both_at_once(condition: &Condition, most_bps: u64) -> bool {
    let rates = [&condition.forward, &condition.reverse].map(|link| link.rate.map_or(0, |r| r.0));
    rates[0].saturating_add(rates[1]) <= most_bps
}

/// Compares the measured delays of the round trips and the results of each direction's train with
/// the condition.
pub fn judge(condition: &Condition, losses: LossPosition, measured: &Measured) -> PathCheck {
    // The trains come after the round trips, of which some may be lost.
    let before = RoundTrips::new(condition).count;
    let mut quantities = judge_round_trips(condition, &measured.round_trips);
    let links = [&condition.forward, &condition.reverse];
    for ((name, link), result) in DIRECTIONS.into_iter().zip(links).zip(&measured.trains) {
        let arrivals = &result.arrivals;
        let train = Train::new(condition, link, losses);
        quantities.push(judge_loss(name, link, train, arrivals.len() as u64, before));
        let before_rate = expected::lost_before_rate(link, losses);
        quantities.extend(judge_rate(name, link, before_rate, train, arrivals));
    }
    quantities.extend(train_delays::judge(condition, losses, &measured.trains));
    path_check(condition, measured.checked_unix_ns, quantities)
}

/// Returns the first packet number of a direction's train, so that a late packet of one train is
/// not taken for another's, nor for a round trip's.
fn base(direction: usize) -> u64 {
    (direction as u64 + 1) << 32
}

/// Runs `beside` on a thread of its own while `here` runs on this one.
fn both<A: Send, B>(
    beside: impl FnOnce() -> Result<A, DaemonError> + Send,
    here: impl FnOnce() -> Result<B, DaemonError>,
) -> Result<(A, B), DaemonError> {
    thread::scope(|scope| {
        let beside = thread::Builder::new()
            .spawn_scoped(scope, beside)
            .map_err(ForwarderError::Thread)?;
        let here = here();
        let beside = beside.join();
        let beside = beside.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((beside?, here?))
    })
}

/// Notes a packet by its number; returns whether it is the first with this number, which is one of those of `received`.
fn is_first(received: &mut [bool], number: u64) -> bool {
    let received = received.get_mut(usize::try_from(number).unwrap_or(usize::MAX));
    received.is_some_and(|received| !mem::replace(received, true))
}

/// Sends back the packets of round trips that have arrived, each once as noted in `is_back`, and returns their number.
fn send_back(prober: &Prober, is_back: &mut [bool]) -> Result<usize, DaemonError> {
    let mut back = 0;
    while let Some(arrival) = prober.receive()? {
        if is_first(is_back, arrival.number) {
            let held_ns = unix_ns().saturating_sub(arrival.at_unix_ns);
            prober.send_back(arrival.number, held_ns, SMALL_PACKET_BYTES)?;
            back += 1;
        }
    }
    Ok(back)
}

/// Makes round trips and returns the delays of the packets that came back, in nanoseconds, without
/// the time that the other host held them and without transmission times. `other_end` is the other end, if no other process
/// sends them back.
fn make_round_trips(
    plan: RoundTrips,
    near: &Prober,
    other_end: Option<&Prober>,
) -> Result<Vec<f64>, DaemonError> {
    let ends: Vec<_> = ([near].into_iter().chain(other_end))
        .map(|end| end as &dyn AsFd)
        .collect();
    let count = plan.count as usize;
    let mut departed = Vec::with_capacity(count);
    let mut is_back = vec![false; count];
    let mut received = vec![false; count];
    let mut delays = Vec::with_capacity(count);
    let longest = plan.longest + GRACE;
    let mut last_sent = Instant::now();
    while delays.len() < count && (departed.len() < count || last_sent.elapsed() < longest) {
        // After a pause of the machine nothing is caught up: packets close together would wait for
        // one another.
        let next = departed.len();
        if next == 0 || (next < count && last_sent.elapsed() >= plan.interval) {
            departed.push(unix_ns());
            near.send(next as u64, SMALL_PACKET_BYTES)?;
            last_sent = Instant::now();
        }
        if let Some(other_end) = other_end {
            send_back(other_end, &mut is_back)?;
        }
        while let Some(arrival) = near.receive()? {
            // A packet may arrive twice.
            if let Some(departed) = departed.get(arrival.number as usize)
                && is_first(&mut received, arrival.number)
            {
                let took = arrival.at_unix_ns.saturating_sub(*departed);
                let path = took.saturating_sub(arrival.held_ns) as f64;
                delays.push(path - plan.transmission.as_nanos() as f64);
            }
        }
        let all_sent = departed.len() == count;
        let pause = if all_sent { longest } else { plan.interval };
        let pause = pause.saturating_sub(last_sent.elapsed());
        if delays.len() < count && !pause.is_zero() {
            socket::wait(&ends, Some(pause))?;
        }
    }
    Ok(delays)
}

/// Sends a train and collects what arrives.
fn run_train(
    train: Train,
    base: u64,
    from: &Prober,
    to: &Prober,
) -> Result<TrainResult, DaemonError> {
    // When the last packet was sent. The pipe ends then, which wakes the receiver.
    let ended = OnceLock::<Instant>::new();
    let (sending, sends) = io::pipe().map_err(socket::failed("pipe"))?;
    let until = || ended.get().map(|ended| *ended + train.longest + GRACE);
    let (arrivals, departures) = both(
        || receive_train(train, base, to, Some(&sending), until),
        || {
            let sent = send_train(train, base, from);
            let _ = ended.set(Instant::now());
            drop(sends);
            sent
        },
    )?;
    Ok(TrainResult {
        departures,
        arrivals,
    })
}

/// Sends a train and returns when each packet was sent.
fn send_train(train: Train, base: u64, from: &Prober) -> Result<Vec<u64>, DaemonError> {
    let started = Instant::now();
    let mut departures = Vec::with_capacity(train.packets as usize);
    let mut sent = 0;
    while sent < train.packets {
        let elapsed = started.elapsed().as_nanos();
        let paced = elapsed / train.interval.as_nanos().max(1);
        let due = u64::try_from(paced)
            .unwrap_or(u64::MAX)
            .saturating_add(train.head_start)
            .min(train.packets);
        while sent < due {
            departures.push(unix_ns());
            from.send(base + sent, train.packet_bytes)?;
            sent += 1;
        }
        // The head start covers this pause; waking up for each packet would cost a core.
        thread::sleep(train.interval.max(Duration::from_micros(500)));
    }
    Ok(departures)
}

/// Collects the packets of a train that arrive until all have or `until` has come: position in it, and time by this end's
/// clock. `until` returns `None` as long as the pipe `sending` has not ended.
fn receive_train(
    train: Train,
    base: u64,
    to: &Prober,
    sending: Option<&PipeReader>,
    until: impl Fn() -> Option<Instant>,
) -> Result<Vec<(u64, u64)>, DaemonError> {
    let mut received = vec![false; train.packets as usize];
    let mut arrivals = Vec::with_capacity(received.len());
    loop {
        let remaining = until().map(|until| until.saturating_duration_since(Instant::now()));
        while let Some(arrival) = to.receive()? {
            let position = arrival.number.wrapping_sub(base);
            if is_first(&mut received, position) {
                arrivals.push((position, arrival.at_unix_ns));
            }
        }
        if remaining == Some(Duration::ZERO) || arrivals.len() == received.len() {
            return Ok(arrivals);
        }
        match sending {
            Some(sending) if remaining.is_none() => socket::wait(&[to, sending], None)?,
            _ => socket::wait(&[to], remaining)?,
        }
    }
}

/// Returns a quantity, which is within its tolerance if it is in the range from `lowest` to `highest`.
pub fn quantity(
    name: &str,
    expected: f64,
    achieved: f64,
    (lowest, highest): (f64, f64),
    n: u64,
) -> AskedAchieved {
    AskedAchieved {
        name: name.to_owned(),
        asked: expected,
        achieved,
        lowest,
        highest,
        n,
        within: (lowest..=highest).contains(&achieved),
    }
}

/// Returns the mean and spread of the round-trip delays, if any packet came back; the loss is judged
/// by itself.
fn judge_round_trips(condition: &Condition, delays: &[f64]) -> Vec<AskedAchieved> {
    if delays.is_empty() {
        return Vec::new();
    }
    let n = delays.len() as f64;
    let mean = delays.iter().sum::<f64>() / n;
    let moments = expected::round_trip(condition);
    let independent = RoundTrips::new(condition).independent;
    let expected = condition.round_trip_delay().as_nanos() as f64;
    let tolerance = MEAN_TOLERANCE.of(expected)
        + NORMAL_QUANTILE * moments.deviation_ns / n.min(independent).sqrt();
    // How long a trace has packets wait depends on when they come.
    let links = [&condition.forward, &condition.reverse];
    let waits: Duration = links.into_iter().map(expected::longest_wait).sum();
    let lowest = moments.mean_ns - tolerance;
    let highest = moments.mean_ns + tolerance + waits.as_nanos() as f64;
    let (name, count) = ("round_trip_delay_mean_ns", delays.len() as u64);
    let mean = quantity(name, expected, mean, (lowest, highest), count);
    let (below, above) = expected::reach(condition);
    let spread = SPREAD_TOLERANCE.of(expected);
    let nearest = expected - below.as_nanos() as f64 - spread;
    let furthest = expected + above.as_nanos() as f64 + spread;
    let near = delays
        .iter()
        .filter(|delay| (nearest..=furthest).contains(*delay));
    let (name, near) = ("round_trip_delay_near_ratio", near.count() as f64 / n);
    vec![mean, quantity(name, 1.0, near, (SPREAD_SHARE, 1.0), count)]
}

/// Returns the loss ratio of a train of which `arrived` packets arrived, after `before` others.
fn judge_loss(
    direction: &str,
    link: &Link,
    train: Train,
    arrived: u64,
    before: u64,
) -> AskedAchieved {
    let n = train.packets;
    let (expected, (lowest, highest)) = expected::losses(link, n, before);
    let ratio = |count: u64| count as f64 / n as f64;
    let name = format!("{direction}_loss_ratio");
    let range = (ratio(lowest), ratio(highest));
    quantity(&name, expected, ratio(n - arrived), range, n)
}

/// Returns the link rate, from the slope of arrival times over positions in the train, by least squares.
/// Packets that were lost after the rate have used their share of the link and do not disturb it;
/// `before_rate` is the share of the missing packets that were lost before it.
fn judge_rate(
    direction: &str,
    link: &Link,
    before_rate: f64,
    train: Train,
    arrivals: &[(u64, u64)],
) -> Option<AskedAchieved> {
    let rate = link.rate.filter(|_| train.measures_rate)?;
    // The burst that the bucket lets through is no evidence of the rate.
    let burst = link.burst_bytes.map_or(0, |bytes| bytes.0);
    let mut paced: Vec<_> = arrivals
        .iter()
        .filter(|(position, _)| position * train.packet_bytes >= burst)
        .copied()
        .collect();
    paced.sort_unstable();
    let positions: Vec<(f64, u64)> = (0u64..)
        .zip(&paced)
        .map(|(rank, &(position, at))| {
            let missing = (position - paced[0].0 - rank) as f64;
            (position as f64 - before_rate * missing, at)
        })
        .collect();
    let fit = slope_ns(&positions)?;
    let expected = rate.0 as f64;
    let bits = link.rate_of.bytes_of(train.packet_bytes) as f64 * 8.0;
    let deviation = regatta_emulation::delay_moments(link).deviation_ns;
    let error = deviation / fit.positions_deviation / fit.slope_ns;
    let tolerance = RATE_TOLERANCE + NORMAL_QUANTILE * error;
    let name = format!("{direction}_link_rate_bps");
    let range = (expected * (1.0 - tolerance), expected * (1.0 + tolerance));
    let achieved = bits * 1e9 / fit.slope_ns;
    let n = arrivals.len() as u64;
    Some(quantity(&name, expected, achieved, range, n))
}

struct Fit {
    /// Time from one packet to the next, in nanoseconds.
    slope_ns: f64,
    /// Square root of the sum of squares of the positions around their mean.
    positions_deviation: f64,
}

/// Fits arrival times over positions; `None` for fewer than three arrivals, and for arrivals all at
/// one time.
fn slope_ns(arrivals: &[(f64, u64)]) -> Option<Fit> {
    let first = arrivals.iter().map(|arrival| arrival.1).min()?;
    let n = arrivals.len() as f64;
    let mean_position = arrivals.iter().map(|a| a.0).sum::<f64>() / n;
    let mean_time = arrivals.iter().map(|a| (a.1 - first) as f64).sum::<f64>() / n;
    let (mut squares, mut products) = (0.0, 0.0);
    for &(position, time) in arrivals {
        let x = position - mean_position;
        squares += x * x;
        products += x * ((time - first) as f64 - mean_time);
    }
    let slope_ns = products / squares;
    (arrivals.len() >= 3 && slope_ns > 0.0).then(|| Fit {
        slope_ns,
        positions_deviation: squares.sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use regatta_model::{BitRate, Ratio};

    use super::*;

    #[test]
    fn the_slope_is_exact_with_missing_and_reordered_packets() {
        let mut arrivals: Vec<_> = (0..100u32)
            .filter(|position| position % 7 != 3)
            .map(|position| {
                (
                    f64::from(position),
                    5_000_000_000 + u64::from(position) * 120_000,
                )
            })
            .collect();
        arrivals.swap(3, 40);
        let fit = slope_ns(&arrivals).expect("a slope");
        assert!((fit.slope_ns - 120_000.0).abs() < 1e-6, "{}", fit.slope_ns);
        assert!(slope_ns(&arrivals[..2]).is_none());
        assert!(slope_ns(&[(0.0, 7), (1.0, 7), (2.0, 7)]).is_none());
    }

    fn condition(link: &Link) -> Condition {
        Condition {
            name: "c".into(),
            forward: link.clone(),
            reverse: link.clone(),
            mtu_bytes: 1500,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        }
    }

    /// A train over a link that is always busy and loses every twentieth packet before or after its
    /// rate: packets that did not use the rate are not counted as if they had.
    #[test]
    fn the_rate_is_that_of_the_packets_that_passed_it() {
        let link = Link {
            rate: Some(BitRate(100_000_000)),
            loss: Ratio(0.05),
            ..Link::default()
        };
        for losses in [LossPosition::BeforeRate, LossPosition::AfterRate] {
            let train = Train::new(&condition(&link), &link, losses);
            let mut passed = 0;
            let mut arrivals = Vec::new();
            for position in 0..train.packets {
                let lost = position % 20 == 7;
                passed += u64::from(!lost || losses == LossPosition::AfterRate);
                if !lost {
                    arrivals.push((position, passed * 120_000));
                }
            }
            let before = expected::lost_before_rate(&link, losses);
            let found = judge_rate("forward", &link, before, train, &arrivals);
            let rate = found.expect("a rate").achieved;
            assert!((rate / 1e8 - 1.0).abs() < 1e-3, "{losses:?}: {rate}");
        }
    }

    /// Whether a check accepts 100 round trips of `found_ns` each on a path with the round-trip delay
    /// `delay`.
    fn is_sound(delay: Duration, found_ns: f64) -> bool {
        let link = Link {
            delay: delay / 2,
            ..Link::default()
        };
        let quantities = judge_round_trips(&condition(&link), &[found_ns; 100]);
        quantities.iter().all(|quantity| quantity.within)
    }

    #[test]
    fn tolerances_scale_with_the_path() {
        // What an idle machine adds to a path without delay.
        assert!(is_sound(Duration::ZERO, 0.4e6));
        assert!(is_sound(Duration::from_micros(200), 250e3));
        assert!(!is_sound(Duration::from_micros(200), 400e3));
        assert!(is_sound(Duration::from_millis(1), 1.25e6));
        assert!(!is_sound(Duration::from_millis(1), 1.4e6));
        assert!(is_sound(Duration::from_millis(30), 30.4e6));
        assert!(!is_sound(Duration::from_millis(30), 30.6e6));
        assert!(is_sound(Duration::from_secs(2), 2000.54e6));
        assert!(!is_sound(Duration::from_secs(2), 2021e6));
    }
}
