//! Queueing disciplines for a link of a condition, and the settings that netem cannot emulate.

use std::time::Duration;

use regatta_emulation::netem_table;
use regatta_model::{
    Condition, GilbertElliott, Impairment, Link, LossBy, Offloads, PathSetup, Placement,
    QueueDiscipline, RateOf, Ratio, RedThresholds, units::nanoseconds,
};

use super::qdisc::{Algorithm, Aqm, Bucket, Loss, Netem, Pace, Qdisc, Waiting};
use crate::error::Refusal;

/// Bytes of an Ethernet header: the kernel warns of a bucket that holds fewer than these and a full
/// packet.
const ETHERNET_HEADER_BYTES: u32 = 14;

/// Largest packet that a host with offloads hands over.
const SUPER_PACKET_BYTES: u32 = 65_535;

/// Longest time at the link rate that the bucket before active queue management may let through at once: a timer that
/// is late by less than this costs no rate. It is short, as the discipline cannot see packets that have
/// passed the bucket.
const AQM_LENIENCE: Duration = Duration::from_micros(500);

/// Smallest IP packet, by which a limit in bytes is converted into a number of packets that must
/// all fit.
const SMALLEST_PACKET_BYTES: u64 = 28;

/// Minimum number of packets that a netem which must not overflow can hold.
const MIN_LIMIT: u64 = 10_000;

/// Maximum number of packets under way on a link without a rate.
const UNLIMITED_RATE_LIMIT: u32 = 1 << 20;

/// Longest delay and jitter: netem computes the even jitter in 32 bits of nanoseconds.
const LONGEST_JITTER: Duration = Duration::from_millis(2147);

/// Disciplines of one direction, in the order in which a packet meets them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stages {
    /// Bottleneck's queue, at the first router.
    pub(super) queue: Option<Qdisc>,
    /// Bottleneck's rate, at the second router.
    pub(super) rate: Option<Qdisc>,
    /// Loss and delay, at the third router. At the ends it is the only stage.
    pub(super) wire: Qdisc,
    /// Loss probability of the iptables rule before the wire; 0 for no rule.
    pub(super) dropped_by_rule: f64,
    /// Whether all loss on the wire is in bursts.
    pub(super) only_bursts: bool,
    /// Bytes that fill the queue, if it is a drop-tail queue limited in bytes.
    pub(super) full_queue_bytes: Option<u64>,
}

/// Returns the reason why netem cannot emulate the condition, if there is one.
pub fn refusal(condition: &Condition, setup: PathSetup) -> Option<Refusal> {
    // Where the choice is free, it does not depend on the modules that a kernel happens to have.
    let is_free = setup.needs_netem().is_none();
    let is_everywhere = |link: &Link| {
        !link.ecn
            && matches!(
                link.discipline,
                QueueDiscipline::DropTail | QueueDiscipline::Codel { .. }
            )
    };
    condition.links().find_map(|link| {
        if is_free && !is_everywhere(link) {
            return Some(Refusal::NotEverywhere(link.discipline.name()));
        }
        Stages::new(condition, link, setup, 0).err()
    })
}

impl Stages {
    /// Returns the disciplines of a link; netem draws from `seed`.
    pub(super) fn new(
        condition: &Condition,
        link: &Link,
        setup: PathSetup,
        seed: u64,
    ) -> Result<Self, Refusal> {
        let rate = link.rate.map(|rate| rate.0);
        let has_no_rate = rate.is_none();
        let has_aqm = link.discipline != QueueDiscipline::DropTail;
        let mut impairments = Impairment::ALL.into_iter();
        let changes_ecn = impairments.any(|it| !has_netem(it) && it.of(link).0 > 0.0);
        let refusals = [
            (!link.loss_list.is_empty(), Refusal::LossList),
            (link.trace.is_some(), Refusal::Trace),
            (link.rate_of != RateOf::Ip, Refusal::RateOf),
            (link.jitter_span().is_some(), Refusal::JitterInTime),
            (link.jitter > LONGEST_JITTER, Refusal::Jitter),
            (
                rate.is_some_and(|rate| rate < 8),
                Refusal::Rate(rate.unwrap_or_default()),
            ),
            (
                matches!(link.discipline, QueueDiscipline::DualPi2 { .. }),
                Refusal::Discipline(link.discipline.name()),
            ),
            (changes_ecn, Refusal::EcnField),
            (has_no_rate && has_aqm, Refusal::DisciplineWithoutRate),
            (
                has_no_rate && link.burst_bytes.is_some(),
                Refusal::BurstWithoutRate,
            ),
        ];
        if let Some((_, refusal)) = refusals.into_iter().find(|(is_so, _)| *is_so) {
            return Err(refusal);
        }
        let bytes_per_second = rate.map(|rate| rate / 8);
        let by_rule = setup.loss_by == LossBy::Iptables;
        let wire = Netem {
            delay_ns: nanoseconds(link.delay),
            jitter_ns: nanoseconds(link.jitter),
            distribution: netem_table(link.jitter_distribution).filter(|_| !link.jitter.is_zero()),
            limit: max_packets(link, bytes_per_second),
            loss: loss(if by_rule { 0.0 } else { link.loss.0 }, link.loss_bursts),
            reorder: link.reorder_ratio.0,
            duplicate: link.duplicate_ratio.0,
            corrupt: link.corrupt_ratio.0,
            pace: (!link.jitter_reorders).then_some(Pace::InOrder),
            seed,
        };
        let wire = match setup.placement {
            Placement::Between => wire,
            Placement::Ends => at_end(condition, link, bytes_per_second, wire)?,
        };
        let mut stages = Self {
            queue: None,
            rate: None,
            wire: Qdisc::Netem(wire),
            dropped_by_rule: if by_rule { link.loss.0 } else { 0.0 },
            only_bursts: link.loss_bursts.is_some() && (by_rule || link.loss.0 == 0.0),
            full_queue_bytes: None,
        };
        if let (Placement::Between, Some(rate)) = (setup.placement, bytes_per_second) {
            stages.add_bottleneck(condition, link, rate, setup.offloads)?;
        }
        Ok(stages)
    }

    /// Whether the wire has no loss of its own.
    pub(super) fn loses_nothing(&self) -> bool {
        matches!(&self.wire, Qdisc::Netem(netem) if netem.loss == Loss::Random(0.0))
    }

    /// Whether the wire also holds the bottleneck, whose queue can overflow.
    pub(super) fn wire_has_rate(&self) -> bool {
        matches!(&self.wire, Qdisc::Netem(netem) if matches!(netem.pace, Some(Pace::BytesPerSecond(_))))
    }

    /// Adds the bottleneck's queue and rate before the wire.
    fn add_bottleneck(
        &mut self,
        condition: &Condition,
        link: &Link,
        rate: u64,
        offloads: Offloads,
    ) -> Result<(), Refusal> {
        let serialiser = |limit| {
            Qdisc::Netem(Netem {
                limit,
                pace: Some(Pace::BytesPerSecond(rate)),
                ..Netem::default()
            })
        };
        let drop_tail = link.discipline == QueueDiscipline::DropTail;
        if let (Some(packets), true, None) = (link.queue_packets, drop_tail, link.burst_bytes) {
            // netem's own limit, and the packet under transmission.
            let limit = u32::try_from(packets.saturating_add(1)).map_err(|_| Refusal::Queue)?;
            self.rate = Some(serialiser(limit));
            return Ok(());
        }
        let queue = u32::try_from(condition.queue_limit(link).0).map_err(|_| Refusal::Queue)?;
        let full_packet = ETHERNET_HEADER_BYTES
            + match offloads {
                Offloads::Off => condition.mtu_bytes,
                Offloads::On => condition.mtu_bytes.max(SUPER_PACKET_BYTES),
            };
        // Drop-tail, the bucket is as deep as the queue. Its tokens are then what is free of the
        // queue, which waits at the serialising netem: a packet that finds too few is one that
        // finds the queue full. That is reckoned from the clock when a packet comes, so that no
        // timer, however late, moves a drop or costs rate.
        let burst_bytes = match (link.burst_bytes, drop_tail) {
            (Some(burst), _) => u32::try_from(burst.0).map_err(|_| Refusal::Queue)?,
            (None, true) => queue,
            (None, false) => (rate as f64 * AQM_LENIENCE.as_secs_f64()) as u32,
        }
        .max(full_packet);
        let waiting = match algorithm(link.discipline, rate, condition.mtu_bytes) {
            Some(algorithm) => Waiting::Managed(Aqm {
                algorithm,
                limit_packets: packets_of_queue(condition, link, queue),
                mtu_bytes: condition.mtu_bytes,
                ecn: link.ecn,
            }),
            None => match link.queue_packets {
                Some(packets) => {
                    Waiting::Packets(u32::try_from(packets).map_err(|_| Refusal::Queue)?)
                }
                // One packet waits here in the place of the one under transmission there.
                None if link.burst_bytes.is_none() => Waiting::Bytes(full_packet),
                None => Waiting::Bytes(queue),
            },
        };
        if matches!(waiting, Waiting::Bytes(_)) {
            self.full_queue_bytes = Some(queue.into());
        }
        self.queue = Some(Qdisc::Bucket(Bucket {
            bytes_per_second: rate,
            burst_bytes,
            waiting,
        }));
        if link.burst_bytes.is_none() {
            let packets = u64::from(burst_bytes) / SMALLEST_PACKET_BYTES + MIN_LIMIT;
            self.rate = Some(serialiser(at_most(packets)));
        }
        Ok(())
    }
}

/// Whether netem has an impairment, which [`Stages::new`] then translates. It looks into no packet.
const fn has_netem(impairment: Impairment) -> bool {
    match impairment {
        Impairment::Loss
        | Impairment::Reordering
        | Impairment::Duplication
        | Impairment::Corruption => true,
        Impairment::EctLoss | Impairment::Bleaching | Impairment::Remarking => false,
    }
}

/// Returns one netem for everything: its limit bounds the queue and the packets under way
/// together.
fn at_end(
    condition: &Condition,
    link: &Link,
    bytes_per_second: Option<u64>,
    wire: Netem,
) -> Result<Netem, Refusal> {
    if link.discipline != QueueDiscipline::DropTail {
        return Err(Refusal::Ends("no active queue management"));
    }
    if link.burst_bytes.is_some() {
        return Err(Refusal::Ends("no token bucket"));
    }
    let Some(rate) = bytes_per_second else {
        return Ok(wire);
    };
    if link.jitter_reorders && !link.jitter.is_zero() {
        return Err(Refusal::Ends("no jitter that reorders beside a rate"));
    }
    let queue = u32::try_from(condition.queue_limit(link).0).map_err(|_| Refusal::Queue)?;
    let full = u64::from(condition.mtu_bytes.max(1));
    let in_flight = (rate as f64 * (link.delay + link.jitter).as_secs_f64()) as u64 / full;
    let queue = u64::from(packets_of_queue(condition, link, queue));
    Ok(Netem {
        limit: at_most(queue + in_flight + 1),
        pace: Some(Pace::BytesPerSecond(rate)),
        ..wire
    })
}

/// Returns the number of full packets that a queue holds.
fn packets_of_queue(condition: &Condition, link: &Link, queue_bytes: u32) -> u32 {
    let packets = link
        .queue_packets
        .unwrap_or_else(|| u64::from(queue_bytes.div_ceil(condition.mtu_bytes.max(1))));
    at_most(packets.max(1))
}

/// Returns the number of packets that a netem must hold so that none is dropped for lack of room:
/// those of the smallest size that the rate can put under way within the longest delay.
fn max_packets(link: &Link, bytes_per_second: Option<u64>) -> u32 {
    let Some(rate) = bytes_per_second else {
        return UNLIMITED_RATE_LIMIT;
    };
    // Tables of distributions reach to four times the jitter.
    let longest = link.delay + 4 * link.jitter;
    let bytes = rate as f64 * longest.as_secs_f64();
    at_most(bytes as u64 / SMALLEST_PACKET_BYTES + MIN_LIMIT)
}

/// Combines random loss and loss in bursts: a packet arrives if neither loses it.
fn loss(random: f64, bursts: Option<GilbertElliott>) -> Loss {
    let either = |other: Ratio| Ratio(1.0 - (1.0 - random) * (1.0 - other.0));
    match bursts {
        None => Loss::Random(random),
        Some(bursts) => Loss::Bursts(GilbertElliott {
            bad_loss_ratio: either(bursts.bad_loss_ratio),
            good_loss_ratio: either(bursts.good_loss_ratio),
            ..bursts
        }),
    }
}

/// Returns the kernel's discipline for a queue that is served at this rate; `None` for drop-tail, and for DualPI2, which
/// is refused.
fn algorithm(
    discipline: QueueDiscipline,
    bytes_per_second: u64,
    mtu_bytes: u32,
) -> Option<Algorithm> {
    let us = microseconds;
    Some(match discipline {
        QueueDiscipline::DropTail | QueueDiscipline::DualPi2 { .. } => return None,
        QueueDiscipline::Codel { target, interval } => Algorithm::Codel {
            target_us: us(target),
            interval_us: us(interval),
        },
        QueueDiscipline::FqCodel { target, interval } => Algorithm::FqCodel {
            target_us: us(target),
            interval_us: us(interval),
        },
        QueueDiscipline::Pie { target } => Algorithm::Pie {
            target_us: us(target),
        },
        QueueDiscipline::FqPie { target } => Algorithm::FqPie {
            target_us: us(target),
        },
        QueueDiscipline::Cake { target, interval } => Algorithm::Cake {
            target_us: us(target),
            interval_us: us(interval),
        },
        QueueDiscipline::Red { target } => {
            let rate_bps = bytes_per_second.saturating_mul(8);
            Algorithm::Red {
                thresholds: RedThresholds::of(target, rate_bps, mtu_bytes.into()),
                transmission_us: f64::from(mtu_bytes) * 1e6 / bytes_per_second as f64,
            }
        }
    })
}

fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn at_most(packets: u64) -> u32 {
    u32::try_from(packets).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use regatta_model::{BitRate, Bytes, DeliveryTrace};

    use super::*;

    fn condition(link: Link) -> Condition {
        Condition {
            name: "c".into(),
            forward: link.clone(),
            reverse: link,
            mtu_bytes: 1500,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        }
    }

    fn s0() -> Link {
        Link {
            delay: Duration::from_millis(15),
            loss: Ratio(0.05),
            rate: Some(BitRate(100_000_000)),
            ..Link::default()
        }
    }

    fn stages(link: Link, setup: PathSetup) -> Result<Stages, Refusal> {
        let condition = condition(link);
        Stages::new(&condition, &condition.forward, setup, 7)
    }

    const BETWEEN: PathSetup = PathSetup {
        emulator: regatta_model::Emulator::Netem,
        placement: Placement::Between,
        loss_by: LossBy::Emulator,
        offloads: regatta_model::Offloads::Off,
    };

    #[test]
    fn queue_rate_and_wire_are_three_disciplines() {
        let found = stages(s0(), BETWEEN).expect("netem can");
        // The bandwidth-delay product waits behind the bucket.
        let bucket = Bucket {
            bytes_per_second: 12_500_000,
            burst_bytes: 375_000,
            waiting: Waiting::Bytes(1514),
        };
        assert_eq!(found.queue, Some(Qdisc::Bucket(bucket)));
        let Some(Qdisc::Netem(rate)) = found.rate else {
            panic!("no rate");
        };
        assert_eq!(rate.pace, Some(Pace::BytesPerSecond(12_500_000)));
        assert_eq!((rate.delay_ns, rate.loss), (0, Loss::Random(0.0)));
        let Qdisc::Netem(wire) = found.wire else {
            panic!("no wire");
        };
        assert_eq!(
            (wire.delay_ns, wire.pace),
            (15_000_000, Some(Pace::InOrder))
        );
        assert_eq!((wire.loss, wire.seed), (Loss::Random(0.05), 7));
        // All that 100 Mbit/s can put under way in 15 ms, in packets of 28 bytes.
        assert!(wire.limit > 12_500_000 / 1000 * 15 / 28, "{}", wire.limit);
        assert_eq!(found.full_queue_bytes, Some(375_000));
    }

    #[test]
    fn a_queue_in_packets_is_the_limit_of_netem() {
        let link = Link {
            queue_packets: Some(50),
            ..s0()
        };
        let found = stages(link, BETWEEN).expect("netem can");
        assert_eq!(found.queue, None);
        assert!(matches!(
            found.rate,
            Some(Qdisc::Netem(Netem { limit: 51, .. }))
        ));
    }

    #[test]
    fn a_discipline_manages_the_queue_in_the_bucket() {
        let target = Duration::from_millis(5);
        for (discipline, algorithm) in [
            (
                QueueDiscipline::Pie { target },
                Algorithm::Pie { target_us: 5000 },
            ),
            (
                QueueDiscipline::Red { target },
                Algorithm::Red {
                    thresholds: RedThresholds::of(target, 100_000_000, 1500),
                    transmission_us: 120.0,
                },
            ),
        ] {
            let link = Link {
                discipline,
                ecn: true,
                ..s0()
            };
            let found = stages(link, BETWEEN).expect("netem can");
            // Half a millisecond passes the bucket; the bandwidth-delay product waits in it.
            let bucket = Bucket {
                bytes_per_second: 12_500_000,
                burst_bytes: 6250,
                waiting: Waiting::Managed(Aqm {
                    algorithm,
                    limit_packets: 250,
                    mtu_bytes: 1500,
                    ecn: true,
                }),
            };
            assert_eq!(found.queue, Some(Qdisc::Bucket(bucket)));
            assert_eq!(found.full_queue_bytes, None);
        }
    }

    #[test]
    fn losses_of_both_kinds_are_one_chain() {
        let link = Link {
            loss_bursts: Some(GilbertElliott {
                to_bad_ratio: Ratio(0.1),
                to_good_ratio: Ratio(0.4),
                bad_loss_ratio: Ratio(0.5),
                good_loss_ratio: Ratio(0.0),
            }),
            ..s0()
        };
        let found = stages(link, BETWEEN).expect("netem can");
        let Qdisc::Netem(Netem {
            loss: Loss::Bursts(bursts),
            ..
        }) = found.wire
        else {
            panic!("no bursts");
        };
        let [bad_loss, good_loss] = [bursts.bad_loss_ratio.0, bursts.good_loss_ratio.0];
        assert!((bad_loss - 0.525).abs() < 1e-12 && (good_loss - 0.05).abs() < 1e-12);
    }

    #[test]
    fn the_ends_have_one_netem_whose_limit_holds_the_queue_and_the_wire() {
        let ends = PathSetup {
            placement: Placement::Ends,
            loss_by: LossBy::Iptables,
            ..BETWEEN
        };
        let found = stages(s0(), ends).expect("netem can");
        assert_eq!((&found.queue, &found.rate), (&None, &None));
        let Qdisc::Netem(wire) = found.wire else {
            panic!("no wire");
        };
        assert_eq!(wire.limit, 250 + 125 + 1);
        assert_eq!(wire.pace, Some(Pace::BytesPerSecond(12_500_000)));
        assert_eq!(
            (wire.loss, found.dropped_by_rule),
            (Loss::Random(0.0), 0.05)
        );
    }

    #[test]
    fn settings_that_netem_lacks_are_refused() {
        let refused = |change: fn(&mut Link), setup| {
            let mut link = s0();
            change(&mut link);
            stages(link, setup).expect_err("a refusal")
        };
        let ends = PathSetup {
            placement: Placement::Ends,
            ..BETWEEN
        };
        let codel = |link: &mut Link| {
            link.discipline = QueueDiscipline::Codel {
                target: Duration::from_millis(5),
                interval: Duration::from_millis(100),
            };
        };
        assert_eq!(
            refused(|l| l.loss_list = vec![1], BETWEEN),
            Refusal::LossList
        );
        assert_eq!(
            refused(|l| l.rate = Some(BitRate(7)), BETWEEN),
            Refusal::Rate(7)
        );
        let jitter = |l: &mut Link| {
            l.jitter = Duration::from_secs(3);
            l.jitter_reorders = true;
        };
        assert_eq!(refused(jitter, BETWEEN), Refusal::Jitter);
        assert_eq!(
            refused(|l| l.jitter = Duration::from_millis(3), BETWEEN),
            Refusal::JitterInTime
        );
        assert_eq!(
            refused(|l| l.rate_of = RateOf::Ethernet, BETWEEN),
            Refusal::RateOf
        );
        assert_eq!(
            refused(|l| l.queue = Some(Bytes(1 << 32)), BETWEEN),
            Refusal::Queue
        );
        let dualpi2 = |l: &mut Link| {
            l.discipline = QueueDiscipline::DualPi2 {
                target: Duration::from_millis(15),
                any_ect: false,
            };
        };
        assert_eq!(refused(dualpi2, BETWEEN), Refusal::Discipline("dualpi2"));
        assert_eq!(
            refused(|l| l.ecn_bleach_ratio = Ratio(0.5), BETWEEN),
            Refusal::EcnField
        );
        let trace = |l: &mut Link| {
            l.trace = Some(DeliveryTrace {
                name: "t".into(),
                opportunities_ms: vec![1],
            });
        };
        assert_eq!(refused(trace, BETWEEN), Refusal::Trace);
        assert_eq!(
            refused(codel, ends),
            Refusal::Ends("no active queue management")
        );
        let mut link = Link { rate: None, ..s0() };
        codel(&mut link);
        assert_eq!(stages(link, BETWEEN), Err(Refusal::DisciplineWithoutRate));
        let mut scheduled = condition(s0());
        scheduled.schedule = vec![regatta_model::Step {
            at: Duration::from_secs(1),
            forward: s0(),
            reverse: Link {
                loss_list: vec![4],
                ..s0()
            },
        }];
        assert_eq!(refusal(&scheduled, BETWEEN), Some(Refusal::LossList));
        assert_eq!(refusal(&condition(s0()), BETWEEN), None);
    }
}
