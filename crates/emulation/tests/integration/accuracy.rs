//! Loss, rate and delay in simulated time, against what was asked.

use std::time::Duration;

use regatta_emulation::{Direction, EmulatedLink, LinkError, Offer};
use regatta_model::{BitRate, Bytes, Condition, DeliveryTrace, Link, PacketCounter, Ratio};

const SEED: u64 = 20_261_121;

fn emulated(
    link: Link,
    direction: Direction,
    seed: u64,
) -> Result<EmulatedLink<Vec<u8>>, LinkError> {
    let condition = Condition {
        name: "c".into(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: 1500,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    };
    EmulatedLink::new(&condition, direction, seed)
}

/// Returns for each of `count` packets whether it is lost.
fn losses(loss: f64, direction: Direction, seed: u64, count: usize) -> Vec<bool> {
    let link = Link {
        loss: Ratio(loss),
        ..Link::default()
    };
    let mut emulated = emulated(link, direction, seed).expect("a link");
    let mut lost = Vec::with_capacity(count);
    for now in 0..count as u64 {
        lost.push(matches!(
            emulated.offer(now, vec![0; 100]),
            Offer::Dropped { .. }
        ));
        while emulated.poll(now).is_some() {}
    }
    lost
}

/// Returns half the width of the 99 % interval of a binomial count: normal approximation, which is
/// good to a packet at the thousands of losses expected here.
fn half_width(n: f64, p: f64) -> f64 {
    2.576 * (n * p * (1.0 - p)).sqrt()
}

#[test]
fn loss_is_within_its_99_percent_interval_and_independent() {
    let n = 200_000;
    for p in [0.01, 0.05, 0.5] {
        let lost = losses(p, Direction::Forward, SEED, n);
        let count = lost.iter().filter(|lost| **lost).count() as f64;
        let expected = n as f64 * p;
        assert!(
            (count - expected).abs() <= half_width(n as f64, p),
            "{p}: {count}"
        );
        // A loss right after a loss is as likely as any other pair.
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
        let expected = (n - 1) as f64 * p * p;
        // Neighbouring pairs share a packet: variance n·p²·(1 + 2p − 3p²).
        let width = 2.576 * (n as f64 * p * p * (1.0 + 2.0 * p - 3.0 * p * p)).sqrt();
        assert!(
            (pairs - expected).abs() <= width,
            "{p}: {pairs} pairs of {expected}"
        );
    }
}

#[test]
fn loss_ratios_of_0_and_1_are_exact() {
    assert!(
        losses(0.0, Direction::Forward, SEED, 10_000)
            .iter()
            .all(|lost| !lost)
    );
    assert!(
        losses(1.0, Direction::Forward, SEED, 10_000)
            .iter()
            .all(|lost| *lost)
    );
}

#[test]
fn seeds_and_directions_draw_differently() {
    let of = |direction, seed| losses(0.5, direction, seed, 1000);
    let same = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| a == b).count();
    let forward = of(Direction::Forward, SEED);
    assert_eq!(forward, of(Direction::Forward, SEED));
    // About half agree by chance; 4 standard deviations are 63.
    for other in [
        of(Direction::Reverse, SEED),
        of(Direction::Forward, SEED + 1),
    ] {
        let agreeing = same(&forward, &other);
        assert!((437..=563).contains(&agreeing), "{agreeing}");
    }
}

/// The draws of a seed make a run reproducible, so they do not change with a library's version.
#[test]
fn draws_of_a_seed_are_stable_across_versions() {
    let lost: Vec<_> = losses(0.1, Direction::Forward, 1, 100)
        .iter()
        .enumerate()
        .filter_map(|(number, lost)| lost.then_some(number))
        .collect();
    assert_eq!(lost, [51, 52, 53, 54, 66, 69, 77]);
}

#[test]
fn rate_is_exact_over_many_packets() {
    // A rate at which no packet takes a whole number of nanoseconds.
    for rate in [64_000, 99_999_999, 100_000_000, 7_000_000_001] {
        let link = Link {
            rate: Some(BitRate(rate)),
            queue: Some(Bytes(1 << 40)),
            ..Link::default()
        };
        let mut emulated = emulated(link, Direction::Forward, SEED).expect("a link");
        let (packets, size) = (20_000u64, 1499u64);
        for _ in 0..packets {
            emulated.offer(0, vec![0; size as usize]);
        }
        let mut last = 0;
        while let Some(due) = emulated.poll(u64::MAX) {
            last = due.at;
        }
        let exact = u128::from(packets * size) * 8_000_000_000 / u128::from(rate);
        assert_eq!(u128::from(last), exact, "{rate}");
    }
}

#[test]
fn delay_is_exact_and_jitter_uniform() {
    let link = |jitter| Link {
        delay: Duration::from_millis(15),
        jitter,
        ..Link::default()
    };
    let delays = |jitter| -> Vec<u64> {
        let mut emulated = emulated(link(jitter), Direction::Forward, SEED).expect("a link");
        (0..20_000u64)
            .map(|index| {
                // Far enough apart that keeping their order delays none.
                let now = index * 100_000_000;
                emulated.offer(now, vec![0; 100]);
                emulated.poll(u64::MAX).expect("no loss").at - now
            })
            .collect()
    };
    assert!(
        delays(Duration::ZERO)
            .iter()
            .all(|delay| *delay == 15_000_000)
    );

    let jittered = delays(Duration::from_millis(5));
    let n = jittered.len() as f64;
    assert!(
        jittered
            .iter()
            .all(|delay| (10_000_000..=20_000_000).contains(delay))
    );
    let mean = jittered.iter().sum::<u64>() as f64 / n;
    // Of a uniform draw ± 5 ms: deviation 5/√3 ms.
    assert!(
        (mean - 15e6).abs() <= 2.576 * 5e6 / (3.0 * n).sqrt(),
        "{mean}"
    );
    let first_quarter = jittered.iter().filter(|delay| **delay < 12_500_000).count() as f64;
    assert!(
        (first_quarter - n / 4.0).abs() <= half_width(n, 0.25),
        "{first_quarter}"
    );
}

#[test]
fn jitter_reorders_only_if_allowed() {
    let order = |jitter_reorders| -> Vec<u64> {
        let link = Link {
            delay: Duration::from_millis(15),
            jitter: Duration::from_millis(5),
            jitter_reorders,
            ..Link::default()
        };
        let mut emulated = emulated(link, Direction::Forward, SEED).expect("a link");
        for index in 0..1000u64 {
            emulated.offer(index * 100_000, index.to_le_bytes().to_vec());
        }
        std::iter::from_fn(|| emulated.poll(u64::MAX))
            .map(|due| u64::from_le_bytes(due.packet.try_into().expect("eight bytes")))
            .collect()
    };
    assert!(order(false).is_sorted());
    assert!(!order(true).is_sorted());
}

#[test]
fn too_large_packets_are_counted_as_such() {
    let mut emulated = emulated(Link::default(), Direction::Forward, SEED).expect("a link");
    emulated.offer(0, vec![0; 1500]);
    emulated.offer(0, vec![0; 1501]);
    assert_eq!(
        (
            emulated.counters().packets[PacketCounter::Mtu],
            emulated.in_flight()
        ),
        (1, 1)
    );
}

#[test]
fn a_full_packet_is_sent_even_when_nothing_may_wait() {
    let link = Link {
        rate: Some(BitRate(12_000)),
        queue: Some(Bytes(0)),
        ..Link::default()
    };
    let mut emulated = emulated(link, Direction::Forward, SEED).expect("a link");
    // One second each.
    emulated.offer(0, vec![0; 1500]);
    emulated.offer(500_000_000, vec![0; 1500]);
    emulated.offer(1_000_000_000, vec![0; 1500]);
    let counters = emulated.counters();
    assert_eq!(
        (
            counters.packets[PacketCounter::Queue],
            counters.queue_max_bytes
        ),
        (1, 0)
    );
    assert_eq!(
        emulated.poll(1_000_000_000).map(|due| due.at),
        Some(1_000_000_000)
    );
    assert_eq!(emulated.next(), Some(2_000_000_000));
}

#[test]
fn invalid_links_are_refused() {
    let refused = |link| emulated(link, Direction::Forward, SEED).err();
    let rate = Link {
        rate: Some(BitRate(0)),
        ..Link::default()
    };
    assert_eq!(refused(rate), Some(LinkError::NoRate));
    for loss in [-0.1, 1.1, f64::NAN] {
        let link = Link {
            loss: Ratio(loss),
            ..Link::default()
        };
        assert!(matches!(
            refused(link),
            Some(LinkError::Ratio { what: "loss", .. })
        ));
    }
    for opportunities_ms in [vec![], vec![0], vec![3, 2]] {
        let link = Link {
            trace: Some(DeliveryTrace {
                name: "t".into(),
                opportunities_ms,
            }),
            ..Link::default()
        };
        assert_eq!(refused(link), Some(LinkError::Trace("t".into())));
    }
    let delay = Link {
        delay: Duration::MAX,
        ..Link::default()
    };
    assert_eq!(refused(delay), Some(LinkError::Delay(Duration::MAX)));
}
