//! What holds for every link, seed and sequence of packets.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use regatta_emulation::{Cause, Direction, Line, Offer, Packet};
use regatta_model::{BitRate, Bytes, Condition, Link, Ratio};

/// A packet of a given size that knows its place in the sequence.
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
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Dropped(Cause),
    Delivered { due: u64, order: usize },
}

/// An arrival: time since the one before, in nanoseconds, and size in bytes.
type Arrivals = Vec<(u64, usize)>;

fn condition(link: &Link) -> Condition {
    Condition {
        name: "c".into(),
        forward: link.clone(),
        reverse: link.clone(),
        mtu_bytes: 1500,
        schedule: Vec::new(),
    }
}

fn line(link: &Link, seed: u64) -> Line<Numbered> {
    Line::new(&condition(link), Direction::Forward, seed).expect("a link that can be emulated")
}

/// Offers every packet, polling at each arrival and then until nothing is under way; checks on the
/// way that counters and packets agree.
fn run(link: &Link, seed: u64, arrivals: &Arrivals) -> (Vec<u64>, BTreeMap<usize, Fate>) {
    let mut line = line(link, seed);
    let mut fates = BTreeMap::new();
    let mut times = Vec::new();
    let mut now = 0;
    let mut order = 0;
    let mut take = |line: &mut Line<Numbered>, fates: &mut BTreeMap<usize, Fate>, now: u64| {
        while let Some(due) = line.poll(now) {
            assert!(due.at <= now, "a packet due at {} left at {now}", due.at);
            let fate = Fate::Delivered { due: due.at, order };
            order += 1;
            assert_eq!(
                fates.insert(due.packet.number, fate),
                None,
                "delivered twice"
            );
        }
        assert!(line.next().is_none_or(|next| next > now), "left behind");
    };
    for (number, (gap, size)) in arrivals.iter().enumerate() {
        now += gap;
        times.push(now);
        take(&mut line, &mut fates, now);
        let packet = Numbered {
            number,
            size: *size,
        };
        if let Offer::Dropped { packet, cause } = line.offer(now, packet) {
            assert_eq!(fates.insert(packet.number, Fate::Dropped(cause)), None);
        }
        let counters = line.counters();
        assert_eq!(
            counters.offered,
            counters.delivered
                + counters.loss_drops
                + counters.queue_drops
                + counters.mtu_drops
                + line.in_flight()
        );
    }
    while let Some(next) = line.next() {
        take(&mut line, &mut fates, next);
    }
    let counters = line.counters();
    let dropped = |cause| {
        fates
            .values()
            .filter(|f| **f == Fate::Dropped(cause))
            .count() as u64
    };
    assert_eq!(counters.offered, arrivals.len() as u64);
    assert_eq!(counters.loss_drops, dropped(Cause::Loss));
    assert_eq!(counters.queue_drops, dropped(Cause::Queue));
    assert_eq!(counters.mtu_drops, dropped(Cause::Mtu));
    assert_eq!(line.in_flight(), 0);
    assert_eq!(fates.len(), arrivals.len(), "a packet vanished");
    (times, fates)
}

fn links() -> impl Strategy<Value = Link> {
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

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let gap = prop_oneof![Just(0), 0..200_000u64, 0..20_000_000u64];
    proptest::collection::vec((gap, 20..1600usize), 1..300)
}

fn transmission_ns(link: &Link, size: usize) -> u64 {
    link.rate
        .map_or(0, |rate| size as u64 * 8_000_000_000 / rate.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every packet is delivered once or dropped once, and the counters say so (checked in `run`).
    #[test]
    fn conserves_packets(link in links(), seed: u64, arrivals in arrivals()) {
        run(&link, seed, &arrivals);
    }

    #[test]
    fn nothing_arrives_early(link in links(), seed: u64, arrivals in arrivals()) {
        let (times, fates) = run(&link, seed, &arrivals);
        let shortest = link.delay.saturating_sub(link.jitter).as_nanos() as u64;
        for (number, fate) in fates {
            if let Fate::Delivered { due, .. } = fate {
                let earliest = times[number] + transmission_ns(&link, arrivals[number].1) + shortest;
                prop_assert!(due >= earliest, "{number}: {due} < {earliest}");
            }
        }
    }

    #[test]
    fn order_is_kept_unless_jitter_may_change_it(link in links(), seed: u64, arrivals in arrivals()) {
        let link = Link { jitter_reorders: false, ..link };
        let (_, fates) = run(&link, seed, &arrivals);
        let orders: Vec<_> = fates.values().filter_map(|fate| match fate {
            Fate::Delivered { order, .. } => Some(*order),
            Fate::Dropped(_) => None,
        }).collect();
        prop_assert!(orders.is_sorted(), "{orders:?}");
    }

    /// Between any two deliveries the link has carried no more than its rate allows.
    #[test]
    fn the_rate_is_never_exceeded(link in links(), rate in 1_000..10_000_000_000u64, seed: u64, arrivals in arrivals()) {
        let link = Link { jitter: Duration::ZERO, rate: Some(BitRate(rate)), ..link };
        let (_, fates) = run(&link, seed, &arrivals);
        let deliveries: Vec<_> = fates.iter().filter_map(|(number, fate)| match fate {
            Fate::Delivered { due, .. } => Some((*due, arrivals[*number].1 as u128)),
            Fate::Dropped(_) => None,
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
    fn the_queue_keeps_its_limit(link in links(), rate in 1_000..1_000_000_000u64, limit in 0..50_000u64, seed: u64, arrivals in arrivals()) {
        let link = Link { rate: Some(BitRate(rate)), queue: Some(Bytes(limit)), ..link };
        let mut line = line(&link, seed);
        let mut now = 0;
        for (number, (gap, size)) in arrivals.iter().enumerate() {
            now += gap;
            line.offer(now, Numbered { number, size: *size });
        }
        prop_assert!(line.counters().queue_max_bytes <= limit);
    }

    #[test]
    fn a_seed_gives_the_same_again(link in links(), seed: u64, arrivals in arrivals()) {
        prop_assert_eq!(run(&link, seed, &arrivals), run(&link, seed, &arrivals));
    }

    /// What the queue drops depends on timing; what is lost at random does not shift with it.
    #[test]
    fn a_drop_by_the_queue_shifts_no_loss(link in links(), seed: u64, arrivals in arrivals()) {
        let wide = Link { rate: Some(BitRate(1_000_000)), queue: Some(Bytes(1 << 40)), ..link };
        let narrow = Link { queue: Some(Bytes(2_000)), ..wide.clone() };
        let (_, wide) = run(&wide, seed, &arrivals);
        let (_, narrow) = run(&narrow, seed, &arrivals);
        for (number, fate) in narrow {
            if fate != Fate::Dropped(Cause::Queue) {
                let lost = |fate| fate == Fate::Dropped(Cause::Loss);
                prop_assert_eq!(lost(fate), lost(wide[&number]), "packet {}", number);
            }
        }
    }
}
