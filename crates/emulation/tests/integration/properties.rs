//! Properties that hold for every link, seed and sequence of packets.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use proptest::prelude::*;
use regatta_emulation::{Direction, Discarded, Ecn, EmulatedLink, Offer, Packet};
use regatta_model::{
    BitRate, Bytes, Condition, DelayDistribution, DeliveryTrace, Fate, GilbertElliott, Link,
    PacketCounter, QueueDiscipline, Ratio, Step,
};

/// Packet of a given size with its position in the sequence.
#[derive(Debug, Clone, PartialEq)]
struct Numbered {
    number: usize,
    size: usize,
}

impl Packet for Numbered {
    fn size(&self) -> usize {
        self.size
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn flip_bit(&mut self, _: u64) {}

    fn flow(&self) -> u32 {
        (self.number % FLOWS) as u32
    }

    fn ecn(&self) -> Ecn {
        [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][self.number % FLOWS]
    }
}

/// Number of flows: one that cannot be marked, and one for each codepoint with which a packet can.
const FLOWS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Dropped(PacketCounter),
    Delivered { due: u64, order: usize },
}

/// Arrivals: time since the one before, in nanoseconds, and size in bytes.
type Arrivals = Vec<(u64, usize)>;

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

fn emulated(condition: &Condition, seed: u64) -> EmulatedLink<Numbered> {
    let mut emulated = EmulatedLink::new(condition, Direction::Forward, seed)
        .expect("a path that can be emulated");
    emulated.begin(0);
    emulated
}

/// Delivery times, outcomes by packet number, and the number of copies beside the originals.
type Run = (Vec<u64>, BTreeMap<usize, Outcome>, u64);

/// Offers every packet, polling at each arrival and then until nothing is under way; checks on the
/// way that counters and packets agree.
fn run_path(condition: &Condition, seed: u64, arrivals: &Arrivals) -> Run {
    let mut emulated = emulated(condition, seed);
    let mut outcomes = BTreeMap::new();
    let mut times = Vec::new();
    let (mut now, mut order, mut copies) = (0, 0, 0);
    let mut take = |emulated: &mut EmulatedLink<Numbered>,
                    outcomes: &mut BTreeMap<usize, Outcome>,
                    now: u64| {
        while let Some(due) = emulated.poll(now) {
            assert!(due.at <= now, "a packet due at {} left at {now}", due.at);
            let outcome = Outcome::Delivered { due: due.at, order };
            order += 1;
            match outcomes.entry(due.packet.number) {
                Entry::Vacant(entry) => _ = entry.insert(outcome),
                Entry::Occupied(entry) => {
                    assert!(
                        matches!(entry.get(), Outcome::Delivered { .. }),
                        "after it was dropped"
                    );
                    copies += 1;
                }
            }
        }
        while let Some(Discarded { at, packet, cause }) = emulated.discarded() {
            assert!(at <= now);
            let outcome = Outcome::Dropped(cause);
            assert_eq!(outcomes.insert(packet.number, outcome), None);
        }
        assert!(emulated.next().is_none_or(|next| next > now), "left behind");
        let [came, accounted] = emulated.accounts();
        assert_eq!(came, accounted);
    };
    for (number, (gap, size)) in arrivals.iter().enumerate() {
        now += gap;
        times.push(now);
        take(&mut emulated, &mut outcomes, now);
        let packet = Numbered {
            number,
            size: *size,
        };
        if let Offer::Dropped { packet, cause } = emulated.offer(now, packet) {
            assert_eq!(
                outcomes.insert(packet.number, Outcome::Dropped(cause)),
                None
            );
        }
    }
    while let Some(next) = emulated.next() {
        take(&mut emulated, &mut outcomes, next);
    }
    let counters = emulated.counters();
    let dropped = |cause| {
        outcomes
            .values()
            .filter(|f| **f == Outcome::Dropped(cause))
            .count() as u64
    };
    assert_eq!(counters.offered, arrivals.len() as u64);
    for &cause in PacketCounter::ALL {
        if cause.fate() != Fate::Carried {
            assert_eq!(dropped(cause), counters.packets[cause], "{cause:?}");
        }
    }
    assert_eq!(copies, counters.packets[PacketCounter::Duplicated]);
    assert_eq!(emulated.in_flight(), 0);
    assert_eq!(outcomes.len(), arrivals.len(), "a packet vanished");
    (times, outcomes, copies)
}

fn run(link: &Link, seed: u64, arrivals: &Arrivals) -> (Vec<u64>, BTreeMap<usize, Outcome>) {
    let (times, outcomes, _) = run_path(&condition(link), seed, arrivals);
    (times, outcomes)
}

fn simple_links() -> impl Strategy<Value = Link> {
    (
        0..50_000_000u64,
        prop_oneof![Just(0), 0..60_000_000u64],
        any::<bool>(),
        prop_oneof![Just(0.0), Just(1.0), 0.0..1.0],
        proptest::option::of(1_000..10_000_000_000u64),
        proptest::option::of(0..200_000u64),
    )
        .prop_map(|(delay, jitter, jitter_reorders, loss, rate, queue)| Link {
            delay: Duration::from_nanos(delay),
            jitter: Duration::from_nanos(jitter),
            jitter_reorders,
            loss: Ratio(loss),
            rate: rate.map(BitRate),
            queue: queue.map(Bytes),
            ..Link::default()
        })
}

fn ratio() -> impl Strategy<Value = Ratio> {
    prop_oneof![3 => Just(0.0), 1 => Just(1.0), 3 => 0.0..0.5].prop_map(Ratio)
}

/// Returns a discipline with a target in nanoseconds; one of two has none.
fn discipline(kind: usize, target: u64) -> QueueDiscipline {
    let [target, interval] = [target, 10 * target].map(Duration::from_nanos);
    match kind {
        0 => QueueDiscipline::Codel { target, interval },
        1 => QueueDiscipline::Pie { target },
        2 => QueueDiscipline::FqCodel { target, interval },
        3 => QueueDiscipline::DualPi2 {
            target,
            any_ect: false,
        },
        4 => QueueDiscipline::DualPi2 {
            target,
            any_ect: true,
        },
        5 => QueueDiscipline::Red { target },
        _ => QueueDiscipline::DropTail,
    }
}

/// Generates links with all settings.
fn links() -> impl Strategy<Value = Link> {
    let bursts = (ratio(), ratio(), ratio(), ratio()).prop_map(|(to_bad, to_good, bad, good)| {
        GilbertElliott {
            to_bad_ratio: to_bad,
            to_good_ratio: to_good,
            bad_loss_ratio: bad,
            good_loss_ratio: good,
        }
    });
    let lists = proptest::collection::btree_set(1..400u64, 0..20);
    let capacity = (
        proptest::option::of(1500..100_000u64),
        proptest::option::weighted(0.2, proptest::collection::vec(0..50u32, 1..20)),
    );
    let queue = (
        proptest::option::of(1..100u64),
        0..10usize,
        1..20_000_000u64,
        any::<bool>(),
    );
    (
        simple_links(),
        prop_oneof![
            Just(DelayDistribution::Uniform),
            Just(DelayDistribution::Normal),
            Just(DelayDistribution::Pareto)
        ],
        (proptest::option::of(bursts), lists),
        (ratio(), ratio(), ratio()),
        (ratio(), ratio(), ratio()),
        capacity,
        queue,
    )
        .prop_map(
            |(
                link,
                jitter_distribution,
                (loss_bursts, list),
                ratios,
                ecn_ratios,
                (burst, times),
                queue,
            )| {
                let (ecn_bleach_ratio, ecn_remark_ratio, ect_loss_ratio) = ecn_ratios;
                let (reorder_ratio, duplicate_ratio, corrupt_ratio) = ratios;
                let (queue_packets, kind, target, ecn) = queue;
                let trace = times.map(|mut times| {
                    times.sort_unstable();
                    times.push(50);
                    DeliveryTrace {
                        name: "t".into(),
                        opportunities_ms: times,
                    }
                });
                Link {
                    jitter_distribution,
                    loss_bursts,
                    loss_list: list.into_iter().collect(),
                    reorder_ratio,
                    duplicate_ratio,
                    corrupt_ratio,
                    burst_bytes: burst.map(Bytes),
                    queue_packets,
                    discipline: discipline(kind, target),
                    ecn,
                    ecn_bleach_ratio,
                    ecn_remark_ratio,
                    ect_loss_ratio,
                    trace,
                    ..link
                }
            },
        )
}

/// Generates paths of one link, with the steps of a schedule.
fn conditions() -> impl Strategy<Value = Condition> {
    let steps = proptest::collection::vec((1..300_000_000u64, links()), 0..4);
    (links(), steps).prop_map(|(link, mut steps)| {
        steps.sort_by_key(|step| step.0);
        steps.dedup_by_key(|step| step.0);
        Condition {
            schedule: steps
                .into_iter()
                .map(|(at, link)| Step {
                    at: Duration::from_nanos(at),
                    forward: link.clone(),
                    reverse: link,
                })
                .collect(),
            ..condition(&link)
        }
    })
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let gap = prop_oneof![Just(0), 0..200_000u64, 0..20_000_000u64];
    proptest::collection::vec((gap, 20..1600usize), 1..300)
}

fn transmission_ns(link: &Link, size: usize) -> u64 {
    link.rate
        .map_or(0, |rate| size as u64 * 8_000_000_000 / rate.0)
}

/// A packet of 20 bytes of another flow is next in front of a large one, for which a token bucket has not filled yet: it
/// begins when it comes, not when the bucket had tokens enough for it.
#[test]
fn nothing_leaves_a_bucket_before_it_came() {
    let link = Link {
        rate: Some(BitRate(134_441_445)),
        burst_bytes: Some(Bytes(1836)),
        discipline: discipline(2, 1),
        ..Link::default()
    };
    let arrivals = vec![(0, 1024), (0, 813), (99_331, 441), (0, 1280), (1, 20)];
    let (times, outcomes) = run(&link, 0, &arrivals);
    let last = Outcome::Delivered {
        due: times[4],
        order: 3,
    };
    assert_eq!(outcomes[&4], last);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every packet is delivered once or dropped once, and the counters say so (checked in `run`).
    #[test]
    fn conserves_packets(condition in conditions(), seed: u64, arrivals in arrivals()) {
        run_path(&condition, seed, &arrivals);
    }

    #[test]
    fn nothing_arrives_early(link in simple_links(), seed: u64, arrivals in arrivals()) {
        let (times, outcomes) = run(&link, seed, &arrivals);
        let shortest = link.delay.saturating_sub(link.jitter).as_nanos() as u64;
        for (number, outcome) in outcomes {
            if let Outcome::Delivered { due, .. } = outcome {
                let earliest = times[number] + transmission_ns(&link, arrivals[number].1) + shortest;
                prop_assert!(due >= earliest, "{number}: {due} < {earliest}");
            }
        }
    }

    #[test]
    fn packets_stay_in_order_unless_jitter_reorders(link in links(), seed: u64, arrivals in arrivals()) {
        let link = Link { jitter_reorders: false, reorder_ratio: Ratio(0.0), ..link };
        let (_, outcomes) = run(&link, seed, &arrivals);
        for flow in 0..FLOWS {
            let of_flow = outcomes.iter().filter(|(number, _)| *number % FLOWS == flow);
            let orders: Vec<_> = of_flow.filter_map(|(_, outcome)| match outcome {
                Outcome::Delivered { order, .. } => Some(*order),
                Outcome::Dropped(_) => None,
            }).collect();
            prop_assert!(orders.is_sorted(), "{orders:?}");
        }
    }

    /// Between any two deliveries the link has carried no more than its rate allows.
    #[test]
    fn the_rate_is_never_exceeded(link in simple_links(), rate in 1_000..10_000_000_000u64, seed: u64, arrivals in arrivals()) {
        let link = Link { jitter: Duration::ZERO, rate: Some(BitRate(rate)), ..link };
        let (_, outcomes) = run(&link, seed, &arrivals);
        let deliveries: Vec<_> = outcomes.iter().filter_map(|(number, outcome)| match outcome {
            Outcome::Delivered { due, .. } => Some((*due, arrivals[*number].1 as u128)),
            Outcome::Dropped(_) => None,
        }).collect();
        for (first, (from, _)) in deliveries.iter().enumerate() {
            let mut bytes = 0;
            for (to, size) in &deliveries[first + 1..] {
                bytes += size;
                // Times are whole nanoseconds, hence the one.
                let allowed = u128::from(to - from + 1) * u128::from(rate);
                prop_assert!(bytes * 8_000_000_000 <= allowed, "{bytes} bytes in {} ns", to - from);
            }
        }
    }

    #[test]
    fn the_queue_keeps_its_limit(link in simple_links(), rate in 1_000..1_000_000_000u64, limit in 0..50_000u64, seed: u64, arrivals in arrivals()) {
        let link = Link { rate: Some(BitRate(rate)), queue: Some(Bytes(limit)), ..link };
        let mut emulated = emulated(&condition(&link), seed);
        let mut now = 0;
        for (number, (gap, size)) in arrivals.iter().enumerate() {
            now += gap;
            emulated.offer(now, Numbered { number, size: *size });
        }
        prop_assert!(emulated.counters().queue_max_bytes <= limit);
    }

    #[test]
    fn a_seed_reproduces_the_run(condition in conditions(), seed: u64, arrivals in arrivals()) {
        let again = run_path(&condition, seed, &arrivals);
        prop_assert_eq!(run_path(&condition, seed, &arrivals), again);
    }

    /// The time of polling changes nothing: all packets that are polled for at the end come out the
    /// same.
    #[test]
    fn late_polling_changes_no_outcome(condition in conditions(), seed: u64, arrivals in arrivals()) {
        let often = run_path(&condition, seed, &arrivals);
        let mut emulated = emulated(&condition, seed);
        let mut now = 0;
        for (number, (gap, size)) in arrivals.iter().enumerate() {
            now += gap;
            emulated.offer(now, Numbered { number, size: *size });
        }
        let mut last = BTreeMap::new();
        while let Some(due) = emulated.poll(u64::MAX) {
            last.entry(due.packet.number).or_insert(due.at);
        }
        // Without a bottleneck the bytes under way are bounded, and those depend on the polls.
        prop_assume!(emulated.counters().packets[PacketCounter::Queue] == 0 || condition.links().all(Link::has_bottleneck));
        for (number, outcome) in &often.1 {
            let due = match outcome {
                Outcome::Delivered { due, .. } => Some(due),
                Outcome::Dropped(_) => None,
            };
            prop_assert_eq!(last.get(number), due, "packet {}", number);
        }
    }

    /// Drops by the queue depend on timing; losses at random do not shift with them.
    #[test]
    fn a_queue_drop_does_not_shift_random_loss(link in simple_links(), seed: u64, arrivals in arrivals()) {
        let wide = Link { rate: Some(BitRate(1_000_000)), queue: Some(Bytes(1 << 40)), ..link };
        let narrow = Link { queue: Some(Bytes(2_000)), ..wide.clone() };
        let (_, wide) = run(&wide, seed, &arrivals);
        let (_, narrow) = run(&narrow, seed, &arrivals);
        for (number, outcome) in narrow {
            if outcome != Outcome::Dropped(PacketCounter::Queue) {
                let lost = |outcome| outcome == Outcome::Dropped(PacketCounter::Loss);
                prop_assert_eq!(lost(outcome), lost(wide[&number]), "packet {}", number);
            }
        }
    }
}
