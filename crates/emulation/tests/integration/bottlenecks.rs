//! Queues, rates, buckets, traces and schedules in simulated time.

use std::time::Duration;

use regatta_emulation::{Direction, EmulatedLink, Offer};
use regatta_model::{
    BitRate, Bytes, Condition, DeliveryTrace, Link, PacketCounter, QueueDiscipline, RateOf, Ratio,
    Step,
};

const MS: u64 = 1_000_000;

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

fn emulated(condition: &Condition) -> EmulatedLink<Vec<u8>> {
    EmulatedLink::new(condition, Direction::Forward, 1).expect("a link")
}

fn step(at_ms: u64, link: Link) -> Step {
    Step {
        at: Duration::from_millis(at_ms),
        forward: link.clone(),
        reverse: link,
    }
}

fn drain(emulated: &mut EmulatedLink<Vec<u8>>) -> Vec<u64> {
    std::iter::from_fn(|| emulated.poll(u64::MAX))
        .map(|due| due.at)
        .collect()
}

/// 1500 bytes take 1 ms.
const RATE: BitRate = BitRate(12_000_000);

#[test]
fn a_full_queue_delays_by_its_size_over_the_rate() {
    let condition = condition(Link {
        rate: Some(RATE),
        queue: Some(Bytes(75_000)),
        ..Link::default()
    });
    let mut emulated = emulated(&condition);
    // Twice as fast as the link: the queue is full after 100 ms.
    let mut longest = 0;
    for index in 0..2000u64 {
        let now = index * MS / 2;
        emulated.offer(now, now.to_le_bytes().repeat(1500 / 8 + 1)[..1500].to_vec());
        while let Some(due) = emulated.poll(now) {
            let sent = u64::from_le_bytes(due.packet[..8].try_into().expect("eight bytes"));
            longest = longest.max(due.at - sent);
        }
    }
    // 50 packets wait, the one under transmission and its own transmission come on top.
    assert!((50 * MS..=52 * MS).contains(&longest), "{longest}");
    let counters = emulated.counters();
    assert_eq!(counters.queue_max_bytes, 75_000);
    // Half of what comes after the queue has filled.
    assert!(
        (940..=960).contains(&counters.packets[PacketCounter::Queue]),
        "{counters:?}"
    );
}

/// By hand: two packets of 1500 bytes are under way at 3100, after one has left one more finds room.
#[test]
fn without_a_bottleneck_the_queue_limits_the_bytes_under_way() {
    let mut emulated = emulated(&condition(Link {
        delay: Duration::from_millis(10),
        queue: Some(Bytes(3100)),
        ..Link::default()
    }));
    let mut carried = |now| matches!(emulated.offer(now, vec![0; 1500]), Offer::Carried);
    assert_eq!([carried(0), carried(MS), carried(MS)], [true, true, false]);
    assert!(emulated.poll(10 * MS).is_some());
    let mut carried = |now| matches!(emulated.offer(now, vec![0; 1500]), Offer::Carried);
    assert_eq!([carried(10 * MS), carried(10 * MS)], [true, false]);
}

#[test]
fn a_bottleneck_tells_when_it_is_free() {
    let mut emulated = emulated(&condition(Link {
        rate: Some(RATE),
        queue: Some(Bytes(15_000)),
        ..Link::default()
    }));
    assert_eq!(emulated.free_at(1500), Some(0));
    emulated.offer(5 * MS, vec![0; 1500]);
    assert_eq!(emulated.free_at(1500), Some(6 * MS));
    emulated.offer(5 * MS, vec![0; 1500]);
    assert_eq!(emulated.free_at(1500), Some(u64::MAX));
    assert_eq!(
        self::emulated(&condition(Link::default())).free_at(1500),
        None
    );
}

/// The first packet is due at 11 ms, the second one leaves the queue at 1 ms.
#[test]
fn a_link_is_polled_before_the_next_packet_is_due_only_if_packets_can_overtake() {
    let next = |link| {
        let mut emulated = emulated(&condition(Link {
            rate: Some(RATE),
            delay: Duration::from_millis(10),
            ..link
        }));
        emulated.offer(0, vec![0; 1500]);
        emulated.offer(0, vec![0; 1500]);
        emulated.next()
    };
    let overtaking = Link {
        jitter_reorders: true,
        ..Link::default()
    };
    let jitter = Duration::from_millis(1);
    assert_eq!(next(Link::default()), Some(11 * MS));
    assert_eq!(next(overtaking.clone()), Some(11 * MS));
    let in_order = Link {
        jitter,
        ..Link::default()
    };
    assert!(next(in_order).is_some_and(|at| at > 9 * MS));
    assert_eq!(
        next(Link {
            jitter,
            ..overtaking
        }),
        Some(MS)
    );
    assert_eq!(
        next(Link {
            reorder_ratio: Ratio(0.01),
            ..Link::default()
        }),
        Some(MS)
    );
}

#[test]
fn a_queue_in_packets_counts_packets_of_any_size() {
    let condition = condition(Link {
        rate: Some(RATE),
        queue_packets: Some(10),
        ..Link::default()
    });
    for size in [100, 1500] {
        let mut emulated = emulated(&condition);
        for _ in 0..50 {
            emulated.offer(0, vec![0; size]);
        }
        // Ten wait and one is under transmission.
        assert_eq!(
            emulated.counters().packets[PacketCounter::Queue],
            39,
            "{size}"
        );
        assert_eq!(drain(&mut emulated).len(), 11);
    }
}

#[test]
fn a_token_bucket_lets_its_burst_pass_and_then_keeps_to_the_rate() {
    let condition = condition(Link {
        rate: Some(RATE),
        burst_bytes: Some(Bytes(15_000)),
        queue: Some(Bytes(1_000_000)),
        ..Link::default()
    });
    let mut emulated = emulated(&condition);
    for _ in 0..30 {
        emulated.offer(0, vec![0; 1500]);
    }
    let due = drain(&mut emulated);
    // Ten at once, then one each millisecond.
    let expected: Vec<u64> = (0..30u64).map(|n| n.saturating_sub(9) * MS).collect();
    assert_eq!(due, expected);
    // The last token was used at 20 ms; 5 ms fill half of the bucket.
    for _ in 0..10 {
        emulated.offer(25 * MS, vec![0; 1500]);
    }
    let expected: Vec<u64> = (0..10u64)
        .map(|n| 25 * MS + n.saturating_sub(4) * MS)
        .collect();
    assert_eq!(drain(&mut emulated), expected);
}

#[test]
fn a_bucket_never_lets_more_pass_than_its_burst_and_its_rate() {
    let condition = condition(Link {
        rate: Some(RATE),
        burst_bytes: Some(Bytes(6_000)),
        queue: Some(Bytes(1_000_000)),
        ..Link::default()
    });
    let mut emulated = emulated(&condition);
    let sizes = [1500usize, 60, 700, 1500, 1400, 40];
    let mut sent = Vec::new();
    for index in 0..600u64 {
        let size = sizes[index as usize % sizes.len()];
        let now = index * MS / 3 + (index / 100) * 20 * MS;
        assert!(matches!(emulated.offer(now, vec![0; size]), Offer::Carried));
        while let Some(due) = emulated.poll(now) {
            sent.push((due.at, due.packet.len() as u64));
        }
    }
    sent.extend(
        std::iter::from_fn(|| emulated.poll(u64::MAX)).map(|d| (d.at, d.packet.len() as u64)),
    );
    for (first, (from, _)) in sent.iter().enumerate() {
        let mut bytes = 0;
        for (to, size) in &sent[first..] {
            bytes += size;
            let allowed = 6_000 + ((to - from + 1) * 12).div_ceil(8_000);
            assert!(bytes <= allowed, "{bytes} bytes in {} ns", to - from);
        }
    }
}

fn trace(opportunities_ms: &[u32]) -> DeliveryTrace {
    DeliveryTrace {
        name: "t".into(),
        opportunities_ms: opportunities_ms.to_vec(),
    }
}

#[test]
fn a_trace_delivers_at_its_opportunities_and_begins_anew() {
    let condition = condition(Link {
        trace: Some(trace(&[2, 5, 5, 10])),
        ..Link::default()
    });
    let mut emulated = emulated(&condition);
    for _ in 0..9 {
        emulated.offer(0, vec![0; 1500]);
    }
    let due: Vec<u64> = drain(&mut emulated).iter().map(|at| at / MS).collect();
    assert_eq!(due, [2, 5, 5, 10, 12, 15, 15, 20, 22]);
    // An opportunity with nothing to deliver is lost: at 25 ms two pass, at 30 ms comes the next.
    emulated.offer(26 * MS, vec![0; 1500]);
    assert_eq!(drain(&mut emulated), [30 * MS]);
    // After many idle periods, too.
    emulated.offer(1_000_003 * MS, vec![0; 1500]);
    assert_eq!(drain(&mut emulated), [1_000_005 * MS]);
}

/// Small packets share an opportunity as in Mahimahi, with four bytes more each, and a packet that
/// does not fit continues in the next one.
#[test]
fn opportunities_carry_1504_bytes() {
    let condition = condition(Link {
        trace: Some(trace(&[1, 2, 3, 4])),
        ..Link::default()
    });
    let mut emulated = emulated(&condition);
    for size in [748, 748, 748, 1000, 1500] {
        emulated.offer(0, vec![0; size]);
    }
    // 752 + 752 fill the first; 752 and the beginning of 1004 the second; its rest, and the
    // beginning of 1504 the third.
    let due: Vec<u64> = drain(&mut emulated).iter().map(|at| at / MS).collect();
    assert_eq!(due, [1, 1, 2, 3, 4]);
}

#[test]
fn a_trace_begins_with_the_transfer() {
    let condition = condition(Link {
        trace: Some(trace(&[7, 10])),
        ..Link::default()
    });
    let mut emulated = emulated(&condition);
    emulated.begin(1_000_123_456);
    emulated.offer(1_000_123_456, vec![0; 1500]);
    assert_eq!(drain(&mut emulated), [1_000_123_456 + 7 * MS]);
}

/// Greedy packets at twice the rate of the link: a drop-tail queue stands full, CoDel's stands at
/// its target.
#[test]
fn codel_holds_the_delay_near_its_target() {
    let codel = QueueDiscipline::Codel {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
    };
    let link = Link {
        rate: Some(BitRate(120_000_000)),
        queue: Some(Bytes(3_000_000)),
        discipline: codel,
        ..Link::default()
    };
    let mut emulated = emulated(&condition(link));
    // One packet takes 0.1 ms. A sender that answers a drop as AIMD does, after 20 ms.
    let (mut window, mut sent, mut completed) = (50.0f64, 0u64, 0u64);
    let (mut now, mut drops) = (0u64, 0);
    let mut delays = Vec::new();
    let mut discarded = 0;
    let mut recovery_until = 0;
    while now < 20_000 * MS {
        while ((sent - completed) as f64) < window {
            let mut packet = vec![0; 1500];
            packet[..8].copy_from_slice(&now.to_le_bytes());
            emulated.offer(now, packet);
            sent += 1;
        }
        now += MS / 10;
        while let Some(due) = emulated.poll(now) {
            let offered = u64::from_le_bytes(due.packet[..8].try_into().expect("eight bytes"));
            if now > 5_000 * MS {
                delays.push((due.at - offered) as f64 / MS as f64);
            }
            completed += 1;
            window += 1.0 / window;
        }
        while let Some(dropped) = emulated.discarded() {
            assert_eq!(dropped.packet.len(), 1500);
            discarded += 1;
            completed += 1;
        }
        let counters = emulated.counters();
        if counters.packets[PacketCounter::Discipline] > drops {
            drops = counters.packets[PacketCounter::Discipline];
            if now > recovery_until {
                window /= 2.0;
                recovery_until = now + 20 * MS;
            }
        }
    }
    let counters = emulated.counters();
    assert_eq!(counters.packets[PacketCounter::Discipline], discarded);
    assert!(
        counters.packets[PacketCounter::Discipline] > 10,
        "{counters:?}"
    );
    assert_eq!(counters.packets[PacketCounter::Queue], 0, "{counters:?}");
    delays.sort_by(f64::total_cmp);
    let median = delays[delays.len() / 2];
    assert!(median < 10.0, "median delay {median} ms under CoDel");
    assert_eq!(
        counters.offered,
        counters.delivered + counters.packets[PacketCounter::Discipline] + emulated.in_flight()
    );
}

/// An unresponsive flood: after the first drop at 100 ms above the target, drops come ever faster,
/// at the intervals of the control law.
#[test]
fn codel_drops_by_the_control_law() {
    let link = Link {
        rate: Some(RATE),
        queue: Some(Bytes(100_000_000)),
        discipline: QueueDiscipline::Codel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        },
        ..Link::default()
    };
    let mut emulated = emulated(&condition(link));
    for _ in 0..5000 {
        emulated.offer(0, vec![0; 1500]);
    }
    let mut dropped = Vec::new();
    while emulated.poll(u64::MAX).is_some() {}
    while let Some(discarded) = emulated.discarded() {
        dropped.push(discarded.at / MS);
    }
    dropped.sort_unstable();
    // The head has waited for more than 5 ms at 5 ms; from then 100 ms; then 100/√1, 100/√2, … ms.
    let mut at = 105.0;
    for (number, found) in dropped.iter().take(20).enumerate() {
        let late = *found as f64 - at;
        // A packet leaves each millisecond, so that a drop comes up to one later.
        assert!(
            (-0.01..=1.01).contains(&late),
            "drop {number} at {found} ms, not {at}"
        );
        at += 100.0 / ((number + 1) as f64).sqrt();
    }
}

/// The delay has been above the target for 50 ms when a step releases the queue at 55 ms. With the rate of before at 60 ms,
/// the queue is too long from 65 ms on, and the first drop comes 100 ms later.
#[test]
fn codel_begins_anew_after_its_queue_was_released() {
    let limited = Link {
        rate: Some(RATE),
        queue: Some(Bytes(100_000_000)),
        discipline: QueueDiscipline::Codel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        },
        ..Link::default()
    };
    let released = Link {
        rate: None,
        ..limited.clone()
    };
    let mut condition = condition(limited.clone());
    condition.schedule = vec![step(55, released), step(60, limited)];
    let mut emulated = emulated(&condition);
    emulated.begin(0);
    for now in [0, 60] {
        for _ in 0..200 {
            emulated.offer(now * MS, vec![0; 1500]);
        }
    }
    drain(&mut emulated);
    let dropped = std::iter::from_fn(|| emulated.discarded());
    assert_eq!(dropped.map(|dropped| dropped.at / MS).min(), Some(165));
}

#[test]
fn a_step_applies_to_packets_that_leave_the_queue_after_it() {
    let slow = Link {
        rate: Some(RATE),
        delay: Duration::from_millis(10),
        queue: Some(Bytes(1_000_000)),
        ..Link::default()
    };
    let mut scheduled = condition(slow.clone());
    let fast = Link {
        rate: Some(BitRate(2 * RATE.0)),
        ..slow
    };
    scheduled.schedule = vec![step(5, fast.clone())];
    let mut emulated = emulated(&scheduled);
    emulated.begin(0);
    for _ in 0..9 {
        emulated.offer(0, vec![0; 1500]);
    }
    // Five at a millisecond each, then two in a millisecond; none is lost, none waits anew.
    let expected = [1.0, 2.0, 3.0, 4.0, 5.0, 5.5, 6.0, 6.5, 7.0]
        .map(|ms: f64| 10 * MS + (ms * MS as f64) as u64);
    assert_eq!(drain(&mut emulated), expected);

    // Not begun, nothing changes.
    let mut emulated = self::emulated(&scheduled);
    for _ in 0..9 {
        emulated.offer(0, vec![0; 1500]);
    }
    assert_eq!(drain(&mut emulated).last(), Some(&(19 * MS)));
}

#[test]
fn a_step_does_not_affect_packets_in_flight() {
    let delay = |ms| Link {
        delay: Duration::from_millis(ms),
        ..Link::default()
    };
    let mut condition = condition(delay(100));
    condition.schedule = vec![step(10, delay(20)), step(200, delay(100))];
    let mut emulated = emulated(&condition);
    emulated.begin(0);
    for now in [0, 9, 10, 50, 95, 100, 199, 200] {
        emulated.offer(now * MS, vec![0; 100]);
    }
    // What would overtake waits, until nothing is ahead of it.
    let due: Vec<u64> = drain(&mut emulated).iter().map(|at| at / MS).collect();
    assert_eq!(due, [100, 109, 109, 109, 115, 120, 219, 300]);
}

#[test]
fn a_step_may_let_packets_overtake() {
    let delay = |ms| Link {
        delay: Duration::from_millis(ms),
        jitter_reorders: true,
        ..Link::default()
    };
    let mut condition = condition(delay(100));
    condition.schedule = vec![step(10, delay(20))];
    let mut emulated = emulated(&condition);
    emulated.begin(0);
    for now in [0, 9, 10, 50] {
        emulated.offer(now * MS, vec![0; 100]);
    }
    let due: Vec<u64> = drain(&mut emulated).iter().map(|at| at / MS).collect();
    assert_eq!(due, [30, 70, 100, 109]);
}

/// Draws belong to the ordinal: impairments that a step asks for later apply as if they had been
/// asked for from the beginning.
#[test]
fn draws_after_a_step_do_not_depend_on_earlier_settings() {
    let lossy = Link {
        loss: Ratio(0.3),
        ..Link::default()
    };
    let lost = |condition: &Condition| -> Vec<u64> {
        let mut emulated = emulated(condition);
        emulated.begin(0);
        (0..1000u64)
            .filter(|now| {
                matches!(
                    emulated.offer(now * MS, vec![0; 100]),
                    Offer::Dropped { .. }
                )
            })
            .collect()
    };
    let always = lost(&condition(lossy.clone()));
    let mut later = condition(Link::default());
    later.schedule = vec![step(500, lossy)];
    let later = lost(&later);
    assert!(!later.is_empty());
    let expected: Vec<u64> = always.into_iter().filter(|now| *now >= 500).collect();
    assert_eq!(later, expected);
}

#[test]
fn removing_the_bottleneck_releases_its_queue() {
    let limited = Link {
        rate: Some(RATE),
        ..Link::default()
    };
    let mut condition = condition(limited.clone());
    condition.schedule = vec![step(3, Link::default()), step(10, limited)];
    let mut emulated = emulated(&condition);
    emulated.begin(0);
    for _ in 0..6 {
        emulated.offer(0, vec![0; 1500]);
    }
    for _ in 0..2 {
        emulated.offer(11 * MS, vec![0; 1500]);
    }
    let due: Vec<u64> = drain(&mut emulated).iter().map(|at| at / MS).collect();
    assert_eq!(due, [1, 2, 3, 3, 3, 3, 12, 13]);
}

#[test]
fn an_ethernet_rate_counts_frame_overhead() {
    // 1 Gbit/s, full packets, then the smallest: payload of TCP over the time that they take.
    for (packet, payload, mbit) in [
        (1500u64, 1460u64, 949.28),
        (1500, 1448, 941.48),
        (40, 0, 0.0),
    ] {
        let link = Link {
            rate: Some(BitRate(1_000_000_000)),
            rate_of: RateOf::Ethernet,
            queue: Some(Bytes(1 << 30)),
            ..Link::default()
        };
        let condition = Condition {
            name: "c".into(),
            forward: link.clone(),
            reverse: link,
            mtu_bytes: 1500,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        };
        let mut emulated = EmulatedLink::new(&condition, Direction::Forward, 1).expect("a link");
        let packets = 1000u64;
        for _ in 0..packets {
            emulated.offer(0, vec![0; packet as usize]);
        }
        let mut last = 0;
        while let Some(due) = emulated.poll(u64::MAX) {
            last = due.at;
        }
        let frame = packet.max(46) + 38;
        assert_eq!(last, packets * frame * 8, "8 ns a byte");
        let goodput = (packets * payload * 8) as f64 * 1e3 / last as f64;
        assert!((goodput - mbit).abs() < 0.01, "{goodput}");
    }
}

#[test]
fn jitter_goes_on_through_a_step_that_keeps_it() {
    let link = Link {
        delay: Duration::from_millis(20),
        jitter: Duration::from_millis(5),
        ..Link::default()
    };
    let due = |schedule: Vec<Step>| {
        let mut condition = condition(link.clone());
        condition.schedule = schedule;
        let mut emulated = emulated(&condition);
        emulated.begin(0);
        for now in 0..100 {
            emulated.offer(now * MS, vec![0; 1500]);
        }
        drain(&mut emulated)
    };
    assert_eq!(due(vec![step(50, link.clone())]), due(Vec::new()));
}
