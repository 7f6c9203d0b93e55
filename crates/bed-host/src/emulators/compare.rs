//! Comparison of both emulators: one flow over each, under each condition.

use regatta_bed::LinkCounters;
use regatta_emulation::delay_moments;
use regatta_model::{Link, PacketCounter, QueueDiscipline};
use regatta_stats::{binomial_interval, describe, mean_interval, quantile};

use super::{
    Found, Outcome, Selection,
    conditions::{Case, cases},
    hosts::{EMULATORS, Flow, Hosts},
    table::Table,
};

/// Packets at the beginning that are left out: queues fill, and CoDel finds its pace.
const WARM_UP: usize = 1000;

/// Standard deviations of the delay by which the time between a first and a last arrival may differ from
/// the time between their departures.
const EDGE_DEVIATIONS: f64 = 4.0;

/// Number of batches whose means give the error of a mean, however packets are correlated.
const BATCHES: usize = 50;

/// Confidence of the intervals by which a difference is judged.
const CONFIDENCE: f64 = 0.9999;

/// Upper bound of the time that the hosts take to send a packet, and of the difference between two
/// emulators for that: the kernel counts in ticks of 64 ns and CoDel in 1.024 µs.
const HOSTS_NS: f64 = 20_000.0;

/// A mean with half the width of its interval.
#[derive(Debug, Clone, Copy)]
struct Mean {
    value: f64,
    half_width: f64,
}

impl Mean {
    /// Computes the mean of values of which neighbours may be correlated.
    fn of(values: &[f64]) -> Option<Self> {
        let size = (values.len() / BATCHES).max(1);
        let batches = values.chunks_exact(size);
        let means: Vec<f64> = batches
            .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
            .collect();
        let description = describe(&means)?;
        let half_width = mean_interval(&description, CONFIDENCE)
            .map_or(f64::INFINITY, |[low, high]| (high - low) / 2.0);
        Some(Self {
            value: description.mean,
            half_width,
        })
    }

    /// Whether this mean and `other` differ by no more than chance and `allowed` explain.
    fn agrees(self, other: Self, allowed: f64) -> bool {
        let apart = (self.value - other.value).abs();
        apart <= self.half_width.hypot(other.half_width) + allowed
    }
}

/// Measured effect of one emulator on a flow.
struct Measured {
    delay: Mean,
    deviation_ns: f64,
    p99_ns: f64,
    loss: Mean,
    loss_interval: [f64; 2],
    rate_bps: f64,
    /// Part of the rate by which delays that differ shift its first and last arrival.
    rate_edges: f64,
    copies: u64,
    reordered: u64,
    link: LinkCounters,
}

impl Measured {
    fn new(flow: &Flow) -> Outcome<Self> {
        let first = flow.first_arrivals();
        let judged = first.get(WARM_UP..).unwrap_or_default();
        let delays: Vec<f64> = judged
            .iter()
            .flatten()
            .map(|arrival| arrival.delay_ns as f64)
            .collect();
        let lost: Vec<f64> = judged
            .iter()
            .map(|arrival| f64::from(u8::from(arrival.is_none())))
            .collect();
        let times = || judged.iter().flatten().map(|arrival| arrival.at_ns);
        let (Some(from), Some(to), Some(delay), Some(loss), Some(spread)) = (
            times().min(),
            times().max(),
            Mean::of(&delays),
            Mean::of(&lost),
            describe(&delays),
        ) else {
            return Err("nothing arrived".into());
        };
        let lasted_ns = (to - from).max(1) as f64;
        let deviation_ns = spread.sd.unwrap_or(0.0);
        let bits = 8.0 * flow.sending.packet_bytes as f64 * (delays.len() - 1) as f64;
        let count = judged.len() - delays.len();
        Ok(Self {
            delay,
            deviation_ns,
            p99_ns: quantile(&delays, 0.99).unwrap_or(f64::NAN),
            loss,
            loss_interval: binomial_interval(count as u64, judged.len() as u64, 0.95),
            rate_bps: bits * 1e9 / lasted_ns,
            rate_edges: EDGE_DEVIATIONS * deviation_ns / lasted_ns,
            copies: flow.copies(),
            reordered: flow.reordered(),
            link: flow.counters.forward,
        })
    }
}

pub(super) fn run(selection: &Selection) -> Outcome<Found> {
    let mut delays = Table::new(
        "One-way delay, in milliseconds",
        &[
            "condition",
            "asked: mean",
            "netem",
            "user space",
            "difference",
            "asked: deviation",
            "netem",
            "user space",
            "99th percentile: netem",
            "user space",
        ],
    );
    let mut losses = Table::new(
        "Packets that never arrived, and the rate of those that did",
        &[
            "condition",
            "asked: loss",
            "netem [95 %]",
            "user space [95 %]",
            "Mbit/s: netem",
            "user space",
            "difference",
        ],
    );
    let mut causes = Table::new(
        "Of 10 000 packets: netem / user space",
        &[
            "condition",
            "lost on the wire",
            "dropped by the full queue",
            "by CoDel",
            "copies that arrived",
            "arrived after a later one",
        ],
    );
    let mut differences = Vec::new();
    for case in cases() {
        if !selection.has(&case.condition.name) {
            continue;
        }
        let mut measured = Vec::new();
        for path in EMULATORS {
            // New hosts: a case leaves nothing behind for the next.
            let flow = Hosts::over(path)?.flow(&case.condition, 1, case.sending)?;
            measured.push(Measured::new(&flow)?);
        }
        let [netem, userspace] = &measured[..] else {
            return Err("two emulators".into());
        };
        judge(&case, netem, userspace, &mut differences);
        delays.row(delay_row(&case, netem, userspace));
        losses.row(loss_row(&case, netem, userspace));
        let both = |of: fn(&Measured) -> u64| format!("{} / {}", of(netem), of(userspace));
        causes.row(vec![
            case.condition.name.clone(),
            both(|measured| measured.link.lost()),
            both(|measured| measured.link.packets[PacketCounter::Queue]),
            both(|measured| measured.link.packets[PacketCounter::Discipline]),
            both(|measured| measured.copies),
            both(|measured| measured.reordered),
        ]);
    }
    Ok(Found {
        tables: vec![delays, losses, causes],
        differences,
    })
}

fn judge(case: &Case, netem: &Measured, userspace: &Measured, differences: &mut Vec<String>) {
    let name = &case.condition.name;
    let (n, u) = (netem.delay.value, userspace.delay.value);
    if !netem.delay.agrees(userspace.delay, HOSTS_NS) {
        differences.push(format!("{name}: mean delays of {n:.0} and {u:.0} ns"));
    }
    let (n, u) = (netem.loss.value, userspace.loss.value);
    if !netem.loss.agrees(userspace.loss, 5e-4) {
        differences.push(format!("{name}: losses of {n:.5} and {u:.5}"));
    }
    let (n, u) = (netem.rate_bps, userspace.rate_bps);
    // The loss moves the rate of what arrives, and delays that differ its first and last arrival.
    let allowed = 0.002
        + netem.loss.half_width.hypot(userspace.loss.half_width)
        + netem.rate_edges.hypot(userspace.rate_edges);
    if (n / u - 1.0).abs() > allowed {
        differences.push(format!("{name}: rates of {n:.0} and {u:.0} bit/s"));
    }
}

fn milliseconds(ns: f64) -> String {
    format!("{:.3}", ns / 1e6)
}

/// Returns the mean and standard deviation of the delay where the condition itself implies them:
/// the propagation's, and the time that a packet takes to send.
fn expected_delay(case: &Case) -> Option<(f64, f64)> {
    let link = &case.condition.forward;
    let waits = !link.jitter.is_zero() && !link.jitter_reorders && link.jitter_span().is_none();
    if waits || overloaded(case, link) {
        return None;
    }
    let bits = 8e9 * case.sending.packet_bytes as f64;
    let sending = link.rate.map_or(0.0, |rate| bits / rate.0 as f64);
    let moments = delay_moments(link);
    Some((moments.mean_ns + sending, moments.deviation_ns))
}

fn overloaded(case: &Case, link: &Link) -> bool {
    let bits = 8.0 * case.sending.packet_bytes as f64;
    let offered = bits / case.sending.interval.as_secs_f64();
    link.rate.is_some_and(|rate| offered > rate.0 as f64)
}

fn delay_row(case: &Case, netem: &Measured, userspace: &Measured) -> Vec<String> {
    let expected = expected_delay(case);
    let or_dash = |value: Option<f64>| value.map_or("–".to_owned(), milliseconds);
    vec![
        case.condition.name.clone(),
        or_dash(expected.map(|(mean, _)| mean)),
        milliseconds(netem.delay.value),
        milliseconds(userspace.delay.value),
        milliseconds(netem.delay.value - userspace.delay.value),
        or_dash(expected.map(|(_, deviation)| deviation)),
        milliseconds(netem.deviation_ns),
        milliseconds(userspace.deviation_ns),
        milliseconds(netem.p99_ns),
        milliseconds(userspace.p99_ns),
    ]
}

fn loss_row(case: &Case, netem: &Measured, userspace: &Measured) -> Vec<String> {
    let link = &case.condition.forward;
    let percent = |ratio: f64| format!("{:.2} %", 100.0 * ratio);
    let expected = if overloaded(case, link) {
        // CoDel and a full queue drop what the rate does not carry, whatever the wire loses.
        let carried = link.rate.map_or(1.0, |rate| {
            let offered = 8.0 * case.sending.packet_bytes as f64;
            rate.0 as f64 * case.sending.interval.as_secs_f64() / offered
        });
        1.0 - carried * (1.0 - link.mean_loss().0)
    } else {
        // Checksums of the hosts find a flipped bit.
        1.0 - (1.0 - link.mean_loss().0) * (1.0 - link.corrupt_ratio.0)
    };
    let with_interval = |measured: &Measured| {
        let [low, high] = measured.loss_interval.map(|bound| 100.0 * bound);
        format!("{} [{low:.2}, {high:.2}]", percent(measured.loss.value))
    };
    let mbps = |bps: f64| format!("{:.3}", bps / 1e6);
    let drop_tail = link.discipline == QueueDiscipline::DropTail;
    let about = if overloaded(case, link) && !drop_tail {
        "≥ "
    } else {
        ""
    };
    vec![
        case.condition.name.clone(),
        format!("{about}{}", percent(expected)),
        with_interval(netem),
        with_interval(userspace),
        mbps(netem.rate_bps),
        mbps(userspace.rate_bps),
        format!(
            "{:+.3} %",
            100.0 * (netem.rate_bps / userspace.rate_bps - 1.0)
        ),
    ]
}
