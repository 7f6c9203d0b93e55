//! Jitter for flows of different rates, in simulated time: mean, spread and order of the arriving
//! packets.

use std::time::Duration;

use regatta_emulation::{Direction, EmulatedLink, delay_moments};
use regatta_model::{BitRate, Condition, DelayDistribution, Link};

const SEED: u64 = 20_261_122;
const PACKET_BYTES: u64 = 1500;
const JITTER: Duration = Duration::from_millis(2);

/// Returns the delays that a flow of `rate_bps` finds, in milliseconds, beside its own transmission
/// time, and whether its packets arrive in order.
fn flow(link: &Link, rate_bps: u64, seconds: u64) -> (Vec<f64>, bool) {
    let condition = Condition {
        name: "c".into(),
        forward: link.clone(),
        reverse: link.clone(),
        mtu_bytes: 1500,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    };
    let mut emulated = EmulatedLink::new(&condition, Direction::Forward, SEED).expect("a link");
    let gap = PACKET_BYTES * 8_000_000_000 / rate_bps;
    let transmission = link
        .rate
        .map_or(0, |rate| PACKET_BYTES * 8_000_000_000 / rate.0);
    let mut delays = Vec::new();
    let (mut in_order, mut last) = (true, 0);
    let packets = seconds * 1_000_000_000 / gap;
    for number in 0..=packets {
        let now = number * gap;
        if number < packets {
            let mut packet = vec![0; PACKET_BYTES as usize];
            packet[..8].copy_from_slice(&number.to_le_bytes());
            emulated.offer(now, packet);
        }
        while let Some(due) = emulated.poll(if number < packets { now } else { u64::MAX }) {
            let number = u64::from_le_bytes(due.packet[..8].try_into().expect("eight bytes"));
            in_order &= last <= number;
            last = number;
            delays.push((due.at - number * gap - transmission) as f64 / 1e6);
        }
    }
    assert_eq!(delays.len() as u64, packets);
    (delays, in_order)
}

fn moments(delays: &[f64]) -> (f64, f64) {
    let n = delays.len() as f64;
    let mean = delays.iter().sum::<f64>() / n;
    let variance = delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

fn link(distribution: DelayDistribution) -> Link {
    Link {
        delay: Duration::from_millis(20),
        jitter: JITTER,
        jitter_distribution: distribution,
        ..Link::default()
    }
}

/// Mean and deviation are those of the distribution, and no packet overtakes another, whatever the
/// flow's rate. `within` is the part of the deviation by which both may be off: four standard errors of
/// as many independent delays as the time has spans, once in 16 000 seeds, and the seed is fixed.
fn check_moments_and_order(distribution: DelayDistribution, rate_bps: u64, seconds: u64) {
    let link = link(distribution);
    let expected = delay_moments(&link);
    let (delays, in_order) = flow(&link, rate_bps, seconds);
    let (mean, deviation) = moments(&delays);
    let span = link.jitter_span().expect("it changes in time");
    let independent = (seconds as f64 / span.as_secs_f64()).min(delays.len() as f64);
    let within = 4.0 / independent.sqrt();
    let (mean_ms, spread) = (expected.mean_ns / 1e6, expected.deviation_ns / 1e6);
    println!("{distribution:?} at {rate_bps} bit/s: {mean:.3} ± {deviation:.3} ms");
    assert!(
        (mean - mean_ms).abs() < within * spread,
        "{mean} of {mean_ms}"
    );
    // The fourth moment of the tails widens the spread's error.
    let tail = if distribution == DelayDistribution::Uniform {
        1.0
    } else {
        2.0
    };
    assert!(
        (deviation / spread - 1.0).abs() < within * tail,
        "{deviation} of {spread}"
    );
    assert!(in_order);
}

macro_rules! flows {
    ($($name:ident: $distribution:ident, $rate:expr, $seconds:expr;)+) => {
        $(
            #[test]
            fn $name() {
                check_moments_and_order(DelayDistribution::$distribution, $rate, $seconds);
            }
        )+
    };
}

flows! {
    uniform_at_1_mbit: Uniform, 1_000_000, 60;
    uniform_at_100_mbit: Uniform, 100_000_000, 20;
    uniform_at_1000_mbit: Uniform, 1_000_000_000, 5;
    normal_at_1_mbit: Normal, 1_000_000, 120;
    normal_at_100_mbit: Normal, 100_000_000, 60;
    normal_at_1000_mbit: Normal, 1_000_000_000, 10;
    pareto_at_1_mbit: Pareto, 1_000_000, 120;
    pareto_at_100_mbit: Pareto, 100_000_000, 60;
    pareto_at_1000_mbit: Pareto, 1_000_000_000, 10;
}

#[test]
fn jitter_is_unchanged_behind_a_saturated_bottleneck() {
    let link = Link {
        rate: Some(BitRate(100_000_000)),
        ..link(DelayDistribution::Uniform)
    };
    let (delays, in_order) = flow(&link, 100_000_000, 20);
    let (mean, deviation) = moments(&delays);
    assert!((mean - 20.0).abs() < 0.1, "{mean}");
    assert!(
        (deviation / 2.0 * 3f64.sqrt() - 1.0).abs() < 0.08,
        "{deviation}"
    );
    assert!(in_order);
}

#[test]
fn ordered_draws_per_packet_delay_a_dense_flow_by_the_maximum() {
    let each = Link {
        jitter_correlation: Some(Duration::ZERO),
        ..link(DelayDistribution::Uniform)
    };
    let (delays, in_order) = flow(&each, 1_000_000_000, 1);
    let (mean, deviation) = moments(&delays);
    assert!(
        in_order && mean > 21.5 && deviation < 0.5,
        "{mean} {deviation}"
    );
    let overtaking = Link {
        jitter_reorders: true,
        ..link(DelayDistribution::Uniform)
    };
    let (delays, in_order) = flow(&overtaking, 1_000_000_000, 1);
    let (mean, deviation) = moments(&delays);
    assert!(!in_order);
    assert!((mean - 20.0).abs() < 0.05, "{mean}");
    assert!((deviation - 2.0 / 3f64.sqrt()).abs() < 0.05, "{deviation}");
}

#[test]
fn a_step_of_the_jitter_takes_new_draws() {
    let small = link(DelayDistribution::Uniform);
    let large = Link {
        jitter: 4 * JITTER,
        ..small.clone()
    };
    let step = |seconds, link: &Link| regatta_model::Step {
        at: Duration::from_secs(seconds),
        forward: link.clone(),
        reverse: link.clone(),
    };
    let condition = Condition {
        name: "c".into(),
        forward: small.clone(),
        reverse: small.clone(),
        mtu_bytes: 1500,
        schedule: vec![step(10, &large), step(20, &small)],
        tuning: regatta_model::HostTuning::default(),
    };
    let mut emulated = EmulatedLink::new(&condition, Direction::Forward, SEED).expect("a link");
    emulated.begin(0);
    let mut parts = [const { Vec::new() }; 3];
    for number in 0..30_000u64 {
        let now = number * 1_000_000;
        emulated.offer(now, number.to_le_bytes().to_vec());
        while let Some(due) = emulated.poll(now) {
            let sent = u64::from_le_bytes(due.packet.try_into().expect("eight bytes")) * 1_000_000;
            parts[(sent / 10_000_000_000) as usize].push((due.at - sent) as f64 / 1e6);
        }
    }
    let [first, second, third] = parts.map(|part| moments(&part).1);
    assert!((second / first - 4.0).abs() < 0.6, "{first} {second}");
    assert!((third / first - 1.0).abs() < 0.15, "{first} {third}");
}
