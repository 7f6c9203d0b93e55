//! Impairments of a path other than delay, rate and loss, in simulated time, against what was
//! asked. Statistical assertions have a fixed seed.

use std::time::Duration;

use regatta_emulation::{Direction, Ecn, EmulatedLink, Offer, Packet};
use regatta_model::{
    BitRate, Condition, DelayDistribution, GilbertElliott, Impairment, Link, PacketCounter, Ratio,
};

const SEED: u64 = 20_261_121;

fn emulated(link: Link) -> EmulatedLink<Vec<u8>> {
    let condition = Condition {
        name: "c".into(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: 1500,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    };
    EmulatedLink::new(&condition, Direction::Forward, SEED).expect("a link")
}

fn numbered(number: u64) -> Vec<u8> {
    let mut packet = vec![0; 100];
    packet[..8].copy_from_slice(&number.to_le_bytes());
    packet
}

fn number(packet: &[u8]) -> u64 {
    u64::from_le_bytes(packet[..8].try_into().expect("eight bytes"))
}

/// Returns half the width of the 99 % interval of a binomial count.
fn half_width(n: f64, p: f64) -> f64 {
    2.576 * (n * p * (1.0 - p)).sqrt()
}

/// Offers `packets` packets, `gap` nanoseconds apart, and returns the time and number of those that
/// come out.
fn pass(emulated: &mut EmulatedLink<Vec<u8>>, packets: u64, gap: u64) -> Vec<(u64, u64)> {
    for index in 0..packets {
        emulated.offer(index * gap, numbered(index));
    }
    std::iter::from_fn(|| emulated.poll(u64::MAX))
        .map(|due| (due.at, number(&due.packet)))
        .collect()
}

#[test]
fn losses_in_bursts_have_the_rate_and_the_length_of_the_chain() {
    let chain = GilbertElliott {
        to_bad_ratio: Ratio(0.01),
        to_good_ratio: Ratio(0.25),
        bad_loss_ratio: Ratio(1.0),
        good_loss_ratio: Ratio(0.0),
    };
    let mut emulated = emulated(Link {
        loss_bursts: Some(chain),
        ..Link::default()
    });
    let n = 400_000u64;
    let lost: Vec<bool> = (0..n)
        .map(|index| {
            matches!(
                emulated.offer(index, numbered(index)),
                Offer::Dropped {
                    cause: PacketCounter::Burst,
                    ..
                }
            )
        })
        .collect();
    while emulated.poll(n).is_some() {}
    let count = lost.iter().filter(|lost| **lost).count() as f64;
    let p = chain.mean_loss().0;
    // Neighbours correlate with 1 − 0.01 − 0.25 = 0.74, which widens the interval by √(1.74/0.26).
    let width = half_width(n as f64, p) * (1.74f64 / 0.26).sqrt();
    assert!(
        (count - n as f64 * p).abs() <= width,
        "{count} of {}",
        n as f64 * p
    );
    // A burst has 1/0.25 packets on average; its length has a geometric distribution.
    let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
    let mean = count / bursts;
    let deviation = (0.75f64).sqrt() / 0.25;
    assert!(
        (mean - 4.0).abs() <= 2.576 * deviation / bursts.sqrt(),
        "{mean}"
    );
    assert_eq!(
        emulated.counters().packets[PacketCounter::Burst] as f64,
        count
    );
    assert_eq!(emulated.counters().packets[PacketCounter::Loss], 0);
}

#[test]
fn exactly_the_packets_of_a_loss_list_are_lost() {
    let mut emulated = emulated(Link {
        loss_list: vec![1, 3, 1000],
        ..Link::default()
    });
    let arrived: Vec<u64> = pass(&mut emulated, 2000, 10)
        .into_iter()
        .map(|due| due.1)
        .collect();
    let expected: Vec<u64> = (0..2000).filter(|n| ![0, 2, 999].contains(n)).collect();
    assert_eq!(arrived, expected);
    assert_eq!(emulated.counters().packets[PacketCounter::List], 3);
}

#[test]
fn reordered_packets_skip_the_delay_and_others_stay_in_order() {
    let mut emulated = emulated(Link {
        delay: Duration::from_millis(10),
        reorder_ratio: Ratio(0.02),
        ..Link::default()
    });
    let n = 50_000u64;
    let arrived = pass(&mut emulated, n, 10_000);
    assert_eq!(arrived.len() as u64, n);
    let (skipped, rest): (Vec<_>, Vec<_>) = arrived
        .iter()
        .partition(|(at, number)| *at == number * 10_000);
    let count = skipped.len() as f64;
    assert!(
        (count - 0.02 * n as f64).abs() <= half_width(n as f64, 0.02),
        "{count}"
    );
    assert_eq!(
        emulated.counters().packets[PacketCounter::Reordered],
        skipped.len() as u64
    );
    assert!(
        rest.iter()
            .all(|(at, number)| *at == number * 10_000 + 10_000_000)
    );
    assert!(rest.is_sorted_by_key(|due| due.1));
    assert!(!arrived.is_sorted_by_key(|due| due.1));
}

#[test]
fn duplicates_follow_their_originals() {
    let mut emulated = emulated(Link {
        delay: Duration::from_millis(1),
        rate: Some(BitRate(1_000_000_000)),
        duplicate_ratio: Ratio(0.05),
        ..Link::default()
    });
    let n = 50_000u64;
    let arrived = pass(&mut emulated, n, 1000);
    let twice = arrived.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(
        emulated.counters().packets[PacketCounter::Duplicated],
        twice as u64
    );
    assert!(
        (twice as f64 - 0.05 * n as f64).abs() <= half_width(n as f64, 0.05),
        "{twice}"
    );
    assert!(arrived.is_sorted_by_key(|due| due.1));
    assert_eq!(emulated.counters().delivered, n + twice as u64);
}

#[test]
fn a_corrupted_packet_differs_in_exactly_one_bit_anywhere() {
    let mut emulated = emulated(Link {
        corrupt_ratio: Ratio(0.1),
        ..Link::default()
    });
    let n = 20_000u64;
    let mut flips_by_bit = vec![0u32; 800];
    for index in 0..n {
        emulated.offer(index, vec![0; 100]);
        let packet = emulated.poll(index).expect("no loss").packet;
        let ones: u32 = packet.iter().map(|byte| byte.count_ones()).sum();
        assert!(ones <= 1);
        if let Some(byte) = packet.iter().position(|byte| *byte != 0) {
            flips_by_bit[8 * byte + packet[byte].trailing_zeros() as usize] += 1;
        }
    }
    let corrupted: u32 = flips_by_bit.iter().sum();
    assert_eq!(
        emulated.counters().packets[PacketCounter::Corrupted],
        u64::from(corrupted)
    );
    assert!(
        (f64::from(corrupted) - 2000.0).abs() <= half_width(n as f64, 0.1),
        "{corrupted}"
    );
    // 2.5 on average: of 800 places a twelfth is empty, and none has more than a dozen.
    let empty = flips_by_bit.iter().filter(|count| **count == 0).count();
    assert!((40..=95).contains(&empty), "{empty}");
    assert!(flips_by_bit.iter().all(|count| *count <= 12));
}

#[test]
fn jitter_has_the_mean_and_the_spread_of_its_distribution() {
    for (distribution, lowest, highest) in [
        (DelayDistribution::Normal, 30.0, 70.0),
        (DelayDistribution::Pareto, 45.0, 70.0),
    ] {
        let mut emulated = emulated(Link {
            delay: Duration::from_millis(50),
            jitter: Duration::from_millis(5),
            jitter_distribution: distribution,
            ..Link::default()
        });
        let n = 20_000u64;
        // Far enough apart that keeping their order delays none.
        let gap = 100_000_000;
        let delays: Vec<f64> = (0..n)
            .map(|index| {
                emulated.offer(index * gap, numbered(index));
                (emulated.poll(u64::MAX).expect("no loss").at - index * gap) as f64 / 1e6
            })
            .collect();
        let mean = delays.iter().sum::<f64>() / n as f64;
        assert!(
            (mean - 50.0).abs() <= 2.576 * 5.0 / (n as f64).sqrt(),
            "{distribution:?} {mean}"
        );
        let variance = delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n as f64;
        // The variance of a sample variance: kurtosis 3 of the normal distribution, and below 8 of
        // the Pareto one with its tail cut off.
        let width = 2.576 * 25.0 * (7.0 / n as f64).sqrt();
        assert!(
            (variance - 25.0).abs() <= width,
            "{distribution:?} {variance}"
        );
        assert!(
            delays.iter().all(|d| (lowest..=highest).contains(d)),
            "{distribution:?}"
        );
    }
}

#[test]
fn every_distribution_reorders_only_if_allowed() {
    for distribution in [DelayDistribution::Normal, DelayDistribution::Pareto] {
        for jitter_reorders in [false, true] {
            let mut emulated = emulated(Link {
                delay: Duration::from_millis(20),
                jitter: Duration::from_millis(5),
                jitter_distribution: distribution,
                jitter_reorders,
                ..Link::default()
            });
            let arrived = pass(&mut emulated, 2000, 50_000);
            assert_eq!(arrived.is_sorted_by_key(|due| due.1), !jitter_reorders);
        }
    }
}

/// Packet with an ECN codepoint.
#[derive(Debug, Clone, PartialEq)]
struct Marked(Ecn);

impl Packet for Marked {
    fn size(&self) -> usize {
        100
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn flip_bit(&mut self, _: u64) {}

    fn ecn(&self) -> Ecn {
        self.0
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        self.0 = ecn;
    }
}

/// ECN codepoints.
const ALL: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];

/// Offers a thousand packets of each codepoint in turn to a link.
fn offered_each_codepoint(link: Link) -> EmulatedLink<Marked> {
    let condition = Condition {
        name: "c".into(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: 1500,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    };
    let mut emulated = EmulatedLink::new(&condition, Direction::Forward, SEED).expect("a link");
    for number in 0..4000_u64 {
        emulated.offer(number, Marked(ALL[(number % 4) as usize]));
    }
    emulated
}

/// Returns the number of packets that arrive with each codepoint, in the order Not-ECT, ECT(0), ECT(1), CE, and the counters of
/// lost, cleared and re-marked packets.
fn codepoints(change: fn(&mut Link)) -> ([usize; 4], [u64; 3]) {
    let mut link = Link::default();
    change(&mut link);
    let mut emulated = offered_each_codepoint(link);
    let arrived: Vec<Ecn> = std::iter::from_fn(|| emulated.poll(u64::MAX))
        .map(|due| due.packet.0)
        .collect();
    let counters = emulated.counters().packets;
    (
        ALL.map(|ecn| arrived.iter().filter(|it| **it == ecn).count()),
        [
            PacketCounter::EctLoss,
            PacketCounter::Bleached,
            PacketCounter::Remarked,
        ]
        .map(|it| counters[it]),
    )
}

#[test]
fn every_impairment_is_applied_and_counted() {
    for impairment in Impairment::ALL {
        let mut link = Link::default();
        *impairment.of_mut(&mut link) = Ratio(1.0);
        let mut emulated = offered_each_codepoint(link);
        while emulated.poll(u64::MAX).is_some() {}
        let counted = emulated.counters().packets[impairment.counter()];
        assert!(counted >= 1000, "{impairment:?}: {counted}");
    }
}

#[test]
fn ecn_fields_change_as_asked() {
    let none = codepoints(|_| {});
    assert_eq!(none, ([1000; 4], [0; 3]));
    let bleached = codepoints(|link| link.ecn_bleach_ratio = Ratio(1.0));
    assert_eq!(bleached, ([4000, 0, 0, 0], [0, 3000, 0]));
    let remarked = codepoints(|link| link.ecn_remark_ratio = Ratio(1.0));
    assert_eq!(remarked, ([1000, 0, 2000, 1000], [0, 0, 1000]));
    let lost = codepoints(|link| link.ect_loss_ratio = Ratio(1.0));
    assert_eq!(lost, ([1000, 0, 0, 0], [3000, 0, 0]));
}

/// Each is drawn by itself, and only for packets that it can hit.
#[test]
fn a_share_of_the_ecn_fields_changes() {
    let ([.., ce], [lost, bleached, remarked]) = codepoints(|link| {
        link.ect_loss_ratio = Ratio(0.2);
        link.ecn_bleach_ratio = Ratio(0.5);
        link.ecn_remark_ratio = Ratio(0.25);
    });
    for (count, n, p) in [
        (lost, 3000.0, 0.2),
        (bleached, 3000.0, 0.8 * 0.5),
        (remarked, 1000.0, 0.8 * 0.5 * 0.25),
        (ce as u64, 1000.0, 0.8 * 0.5),
    ] {
        let apart = (count as f64 - n * p).abs();
        assert!(apart <= half_width(n, p), "{count} of {n} at {p}");
    }
}
