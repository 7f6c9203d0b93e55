//! Conditions under which the emulators are compared, and the load of each.

use std::time::Duration;

use regatta_model::{
    BitRate, Bytes, Condition, DelayDistribution, GilbertElliott, Link, QueueDiscipline, Ratio,
};

use super::{hosts::Sending, is_long};

/// A condition and its load.
pub(super) struct Case {
    pub(super) condition: Condition,
    pub(super) sending: Sending,
}

pub(super) const fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

fn us(value: u64) -> Duration {
    Duration::from_micros(value)
}

pub(super) fn mbps(value: u64) -> Option<BitRate> {
    Some(BitRate(value * 1_000_000))
}

/// Makes a path without impairments in reverse: only the forward direction is compared.
pub(super) fn forward(name: &str, link: Link) -> Condition {
    Condition {
        name: name.to_owned(),
        reverse: Link {
            delay: link.delay,
            rate: mbps(100),
            ..Link::default()
        },
        forward: link,
        mtu_bytes: Condition::DEFAULT_MTU_BYTES,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    }
}

/// Name, forward link and load of a case.
type Row = (&'static str, Link, Sending);

/// Returns a load of 10 000 packets of 1000 bytes; 3000 in the short form.
fn packets(interval: Duration) -> Sending {
    Sending {
        packets: if is_long() { 10_000 } else { 3000 },
        packet_bytes: 1000,
        interval,
    }
}

fn plain() -> Link {
    Link {
        delay: ms(15),
        rate: mbps(100),
        ..Link::default()
    }
}

/// Returns the cases.
pub(super) fn cases() -> Vec<Case> {
    let rows = impairments().into_iter().chain(queues());
    rows.map(|(name, link, sending)| Case {
        condition: forward(name, link),
        sending,
    })
    .collect()
}

/// Returns the cases of delays, losses, and changes of single packets.
fn impairments() -> Vec<Row> {
    // Far enough from one another that a draw moves no other packet.
    let jitter = |distribution| Link {
        delay: ms(50),
        jitter: ms(5),
        jitter_distribution: distribution,
        jitter_reorders: true,
        ..plain()
    };
    vec![
        ("15 ms, 100 Mbit/s at 80 %", plain(), packets(us(100))),
        (
            "15 ms ± 5 ms, order kept",
            Link {
                jitter: ms(5),
                // Drawn for each packet, as netem does.
                jitter_correlation: Some(Duration::ZERO),
                ..plain()
            },
            packets(ms(1)),
        ),
        (
            "50 ms ± 5 ms",
            jitter(DelayDistribution::Uniform),
            packets(ms(1)),
        ),
        (
            "50 ms, normal with 5 ms",
            jitter(DelayDistribution::Normal),
            packets(ms(1)),
        ),
        (
            "50 ms, Pareto with 5 ms",
            jitter(DelayDistribution::Pareto),
            packets(ms(1)),
        ),
        (
            "5 % loss",
            Link {
                loss: Ratio(0.05),
                ..plain()
            },
            packets(us(200)),
        ),
        (
            "3.2 % loss in bursts of 3",
            Link {
                loss_bursts: Some(GilbertElliott {
                    to_bad_ratio: Ratio(0.011),
                    to_good_ratio: Ratio(0.333),
                    bad_loss_ratio: Ratio(1.0),
                    good_loss_ratio: Ratio(0.0),
                }),
                ..plain()
            },
            packets(us(200)),
        ),
        (
            "10 % reordered",
            Link {
                reorder_ratio: Ratio(0.1),
                ..plain()
            },
            packets(us(200)),
        ),
        (
            "2 % twice, 1 % corrupted",
            Link {
                duplicate_ratio: Ratio(0.02),
                corrupt_ratio: Ratio(0.01),
                ..plain()
            },
            packets(us(200)),
        ),
    ]
}

/// Returns the cases of queues that fill.
fn queues() -> Vec<Row> {
    let slow = Link {
        delay: ms(10),
        rate: mbps(10),
        ..plain()
    };
    // A quarter more than 10 Mbit/s carry.
    let overload = packets(us(640));
    vec![
        (
            "queue of 50 kB, 125 % load",
            Link {
                queue: Some(Bytes(50_000)),
                ..slow.clone()
            },
            overload,
        ),
        (
            "queue of 50 packets, burst of 15 kB, 1 % loss, 125 % load",
            Link {
                queue_packets: Some(50),
                burst_bytes: Some(Bytes(15_000)),
                loss: Ratio(0.01),
                ..slow.clone()
            },
            overload,
        ),
        (
            "CoDel, 105 % load",
            Link {
                // The kernel's CoDel counts packets.
                queue_packets: Some(500),
                discipline: QueueDiscipline::Codel {
                    target: ms(5),
                    interval: ms(100),
                },
                ..slow
            },
            packets(us(762)),
        ),
    ]
}
