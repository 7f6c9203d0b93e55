//! Outgoing against incoming content, in parts of any size and order, some of them interrupted and
//! sent again.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use regatta_control::{Note, Role, TrialOrder};
use regatta_model::{Pattern, Verify, WorkloadKind};

use super::{Content, Incoming, Outgoing};
use crate::{
    clock::MonotonicTime,
    context::{LiveCounters, Observer, StatisticsSource, WindowEdge},
    opening::Purpose,
    testing::order_for,
    trial::warm_up::WarmUp,
};

fn order(role: Role, size: u64, message: u64, seed: u64) -> TrialOrder {
    let mut order = order_for(role, "files", size, message);
    order.seed = seed;
    if let WorkloadKind::Bulk {
        pattern, options, ..
    } = &mut order.workload.kind
    {
        *pattern = Pattern::Random;
        options.verify = Verify::Digest;
    }
    order
}

struct Unobserved;

impl Observer for Unobserved {
    fn on_window(&self, _: WindowEdge) {}

    fn on_connection(&self, _: Purpose, _: Weak<dyn StatisticsSource>) {}

    fn send_note(&self, _: Note) {}
}

fn warm_up(length: Duration) -> Arc<WarmUp> {
    let observer: Arc<dyn Observer> = Arc::new(Unobserved);
    Arc::new(WarmUp::new(&observer, length))
}

fn ends(
    size: u64,
    message: u64,
) -> (
    Arc<Outgoing>,
    Arc<LiveCounters>,
    Arc<Incoming>,
    Arc<LiveCounters>,
) {
    let content = |role| Content::new(&order(role, size, message, 1)).expect("a content");
    let (sent, got) = (Arc::default(), Arc::default());
    let none = warm_up(Duration::ZERO);
    (
        Outgoing::new(content(Role::Sender), &sent, &none),
        sent,
        Incoming::new(content(Role::Receiver), &got, &none, None),
        got,
    )
}

fn read(outgoing: &Arc<Outgoing>, start: u64, length: u64, most: usize) -> Vec<u8> {
    let mut part = outgoing.part(start);
    let mut scratch = vec![0; most];
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        let left = (length - bytes.len() as u64) as usize;
        let offset = start + bytes.len() as u64;
        let more = part.read(offset, left, &mut scratch).expect("it is there");
        assert!(!more.is_empty() && more.len() <= left);
        bytes.extend_from_slice(more);
    }
    bytes
}

#[test]
fn unordered_truncated_and_repeated_parts_complete_the_transfer() {
    for seed in 0..200 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let size = random.random_range(1..400_000);
        let message = random.random_range(1..30_000_u64);
        let (outgoing, sent, incoming, got) = ends(size, message);
        let mut starts: Vec<u64> = (0..random.random_range(0..8))
            .map(|_| random.random_range(0..size))
            .chain([0, size])
            .collect();
        starts.sort_unstable();
        starts.dedup();
        let mut parts: Vec<_> = starts.windows(2).map(|w| (w[0], w[1] - w[0])).collect();
        parts.shuffle(&mut random);
        while let Some((start, length)) = parts.pop() {
            let most = random.random_range(1..20_000);
            let bytes = read(&outgoing, start, length, most);
            let cut = if random.random_ratio(1, 3) {
                random.random_range(0..=length)
            } else {
                length
            };
            let mut part = incoming.part(start);
            for piece in bytes[..cut as usize].chunks(random.random_range(1..20_000)) {
                part.take(piece).expect("within the content");
            }
            drop(part);
            if cut < length {
                // Sent again whole, or from where it was cut.
                parts.insert(
                    0,
                    if random.random() {
                        (start, length)
                    } else {
                        (start + cut, length - cut)
                    },
                );
            }
        }
        let digest = incoming.finish().expect("it is whole");
        assert_eq!(digest, outgoing.digest().expect("readable"), "seed {seed}");
        let delivered = incoming.delivered();
        let count = size.div_ceil(message);
        assert_eq!(
            (delivered.bytes, delivered.messages),
            (size, count),
            "seed {seed}"
        );
        assert_eq!(incoming.arrivals().0, 0, "seed {seed}");
        assert_eq!(got.bytes_delivered.load(Ordering::Relaxed), size);
        assert_eq!(sent.bytes_sent.load(Ordering::Relaxed), size);
        assert_eq!(sent.messages_sent.load(Ordering::Relaxed), count);
    }
}

#[test]
fn changed_byte_counts_as_one_corrupted_message_also_at_a_part_boundary() {
    let (outgoing, _, incoming, _) = ends(3000, 1000);
    let mut bytes = read(&outgoing, 0, 3000, 700);
    bytes[1016] ^= 1;
    for (start, end) in [(1500, 3000), (0, 1500)] {
        let mut part = incoming.part(start as u64);
        part.take(&bytes[start..end]).expect("within the content");
    }
    assert_eq!(incoming.arrivals().0, 1);
    assert_eq!(incoming.delivered().messages, 2);
    assert_ne!(
        incoming.finish().expect("whole"),
        outgoing.digest().expect("readable")
    );
    // The part comes again as it should be.
    bytes[1016] ^= 1;
    incoming.part(0).take(&bytes[..1500]).expect("within");
    assert_eq!(
        (incoming.arrivals().0, incoming.delivered().messages),
        (0, 3)
    );
}

#[test]
fn warm_up_bytes_are_separate_unless_received_again() {
    let live: Arc<LiveCounters> = Arc::default();
    let length = Duration::from_secs(3600);
    let warm_up = warm_up(length);
    let content = Content::new(&order(Role::Receiver, 3000, 1000, 1)).expect("a content");
    let incoming = Incoming::new(content, &live, &warm_up, None);
    let counted = || {
        (
            live.bytes_in_warm_up.load(Ordering::Relaxed),
            live.bytes_delivered.load(Ordering::Relaxed),
        )
    };
    incoming.part(0).take(&[0; 1000]).expect("within");
    incoming.part(1000).take(&[0; 500]).expect("within");
    assert_eq!(counted(), (1500, 1500));
    warm_up.begin(MonotonicTime(
        MonotonicTime::now().0 - length.as_nanos() as i64,
    ));
    let mut part = incoming.part(1500);
    part.take(&[0; 700]).expect("within");
    assert_eq!(counted(), (1500, 2200));
    // What was cut and comes again counts when it comes again.
    incoming.part(0).take(&[0; 1000]).expect("within");
    assert_eq!(counted(), (500, 2200));
}

#[test]
fn a_gap_an_overlap_and_bytes_beyond_the_end_are_refused() {
    let (outgoing, _, incoming, _) = ends(1000, 100);
    let bytes = read(&outgoing, 0, 1000, 1000);
    incoming.part(0).take(&bytes[..400]).expect("within");
    incoming.part(500).take(&bytes[500..]).expect("within");
    assert!(incoming.finish().is_err(), "a gap");
    incoming.part(300).take(&bytes[300..500]).expect("within");
    assert!(incoming.finish().is_err(), "an overlap");
    assert!(incoming.part(999).take(&bytes[..2]).is_err());
    assert!(incoming.part(u64::MAX).take(&bytes[..2]).is_err());
    assert!(outgoing.part(1000).read(1000, 1, &mut [0]).is_err());
}
