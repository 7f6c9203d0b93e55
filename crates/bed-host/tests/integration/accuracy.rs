//! The accuracy that the emulated path promises, in real namespaces, measured from inside the
//! hosts by programs that know nothing of the emulator.
//!
//! Timing is judged by the median of three measurements, see `common::two_or_three`. What is in
//! `real_time` needs the machine for itself.

use std::time::Duration;

use regatta_bed::Host;
use regatta_bed::TestBed as _;
use regatta_model::PacketCounter;

use crate::common::{Agent, answers, bed, condition};

/// Bytes of the IP and UDP headers.
const HEADERS: u64 = 28;

mod real_time {
    use regatta_test_support::machine::MachineLoad;

    use super::*;
    use crate::common::{median, two_or_three, undisturbed, until_undisturbed, withheld::Withheld};

    /// Round trips through 100 Mbit/s and 30 ms with full packets at 90 % of that rate both ways.
    ///
    /// Packets that were under way while a hypervisor withheld a processor are not judged, nor are
    /// those behind them in the queue, which at 90 % load takes ten times as long to drain as it took
    /// to fill.
    #[test]
    fn delay_is_exact_under_load() {
        let _load = MachineLoad::watch();
        let mut bed = bed();
        let (mut a, mut b) = (
            Agent::start(&mut bed, Host::Client),
            Agent::start(&mut bed, Host::Server),
        );
        let condition = condition(30, 100, 0.0);
        let peer = b.listen("echo");
        let (count, packet_bytes) = (7_500u64, 1500u64);
        let transmission_ns = packet_bytes * 8 * 10;
        let interval_ns = transmission_ns * 10 / 9;
        // Transmission is the rate's doing, not the delay's.
        let expected_ns = 30e6 + 2.0 * transmission_ns as f64;
        let mut run = || {
            bed.set_condition(&condition, 1).expect("a condition");
            let withheld = Withheld::watch();
            a.send(&format!(
                "ping {peer} {count} {} {interval_ns}",
                packet_bytes - HEADERS
            ));
            let answers = answers(&a.receive());
            let withheld = withheld.end();
            let lost = count as f64 - answers.len() as f64;
            assert!(
                lost == 0.0 || !withheld.is_empty(),
                "{lost} packets are lost"
            );
            let judged = |&&(departed, delay): &&(u64, u64)| {
                !withheld.iter().any(|late| {
                    let drained = late.end + 10 * (late.end - late.start);
                    late.start < departed + delay && departed < drained
                })
            };
            let off: Vec<f64> = answers
                .iter()
                .filter(judged)
                .map(|&(_, delay)| delay as f64 - expected_ns)
                .collect();
            let n = off.len() as f64;
            let mean = off.iter().sum::<f64>() / n;
            let near = off.iter().filter(|off| off.abs() <= 2e6).count() as f64 / n;
            let counters = bed.counters();
            println!(
                "{lost} lost, {n} judged, mean off by {mean:.0} ns, {near:.4} within 2 ms; {counters:?}"
            );
            // Of fewer packets, one bad moment would be 1 %.
            (n >= 3000.0).then_some((mean, near, lost))
        };
        let is_exact = |&(off, near, lost): &(f64, f64, f64)| {
            lost == 0.0 && off.abs() <= 500_000.0 && near >= 0.99
        };
        let Some(runs) = two_or_three(|| until_undisturbed(&mut run), is_exact) else {
            return;
        };
        let off = median(runs.iter().map(|run| run.0));
        let near = median(runs.iter().map(|run| run.1));
        let lost = median(runs.iter().map(|run| run.2));
        assert!(
            is_exact(&(off, near, lost)),
            "mean off by {off} ns, {near} within 2 ms, {lost} lost"
        );
    }

    /// A third of the rate that a slow processor carries; the maximum is measured by a benchmark
    /// (`forwarder_gigabit`).
    #[test]
    fn tcp_fills_300_mbit_over_30_ms() {
        let _load = MachineLoad::watch();
        let mut bed = bed();
        let (mut a, mut b) = (
            Agent::start(&mut bed, Host::Client),
            Agent::start(&mut bed, Host::Server),
        );
        let condition = condition(30, 300, 0.0);
        let mut run = || {
            bed.set_condition(&condition, 1).expect("a condition");
            let peer = b.listen("listen 0.5");
            a.send(&format!("send {peer} 1.5 cubic"));
            let sent = a.receive();
            assert!(
                sent.starts_with("sent ") && sent.ends_with(" cubic"),
                "{sent}"
            );
            let received = b.receive();
            let fields: Vec<f64> = received
                .split_whitespace()
                .filter_map(|field| field.parse().ok())
                .collect();
            let [bytes, elapsed_ns] = fields[..] else {
                panic!("`{received}` is not `received BYTES NANOSECONDS`");
            };
            let counters = bed.counters().expect("counters");
            let goodput_bps = bytes * 8e9 / elapsed_ns;
            println!("{:.1} Mbit/s; {:?}", goodput_bps / 1e6, counters.forward);
            (
                goodput_bps,
                counters.forward.packets[PacketCounter::Refused] as f64,
            )
        };
        let is_filled =
            |&(goodput_bps, refused): &(f64, f64)| goodput_bps >= 255e6 && refused == 0.0;
        let Some(runs) = two_or_three(|| undisturbed(&mut run), is_filled) else {
            return;
        };
        let goodput_bps = median(runs.iter().map(|run| run.0));
        let refused = median(runs.iter().map(|run| run.1));
        assert!(
            is_filled(&(goodput_bps, refused)),
            "{goodput_bps:.0} bit/s, and {refused} packets that the emulator did not keep up with"
        );
    }
}

/// Setting a condition forgets what was under way.
#[test]
fn a_new_condition_starts_empty() {
    let mut bed = bed();
    let (mut a, mut b) = (
        Agent::start(&mut bed, Host::Client),
        Agent::start(&mut bed, Host::Server),
    );
    let peer = b.listen("echo");
    let slow = condition(2 * 3600 * 1000, 0, 0.0);
    bed.set_condition(&slow, 1).expect("a condition");
    a.send(&format!("ping {peer} 10 100 1000"));
    assert_eq!(a.receive(), "", "nothing returns within an hour");
    assert_eq!(bed.counters().expect("counters").forward.offered, 10);

    let mut small = condition(2, 0, 0.0);
    small.mtu_bytes = 600;
    bed.set_condition(&small, 1).expect("a condition");
    assert_eq!(bed.counters().expect("counters").forward.offered, 0);
    // Two fragments each: the host's interface has the new size.
    a.send(&format!("ping {peer} 10 1000 1000"));
    assert_eq!(a.receive().split_whitespace().count(), 10);
    let forward = bed.counters().expect("counters").forward;
    assert_eq!((forward.offered, forward.delivered), (20, 20));
    assert!(forward.lateness_max_ns < Duration::from_secs(1).as_nanos() as u64);
}

/// Packets are so far apart that a pause of 100 ms of the emulator or of a host loses none. The draws of the bed's seed are fixed, so this either always holds or never: the interval is the
/// 99 % one of a binomial count.
#[test]
fn loss_is_within_its_99_percent_interval() {
    let mut bed = bed();
    let (mut a, mut b) = (
        Agent::start(&mut bed, Host::Client),
        Agent::start(&mut bed, Host::Server),
    );
    let peer = b.listen("echo");
    let (n, loss) = (10_000u64, 0.05);
    let mut lost = Vec::new();
    for seed in [1, 1, 2] {
        bed.set_condition(&condition(2, 0, loss), seed)
            .expect("a condition");
        a.send(&format!("ping {peer} {n} 100 200000"));
        let back = a.receive().split_whitespace().count() as u64;
        let counters = bed.counters().expect("counters");
        let (forward, reverse) = (counters.forward, counters.reverse);
        assert_eq!(
            forward.packets[PacketCounter::Refused] + reverse.packets[PacketCounter::Refused],
            0
        );
        assert_eq!(
            (
                forward.offered,
                forward.delivered + forward.packets[PacketCounter::Loss]
            ),
            (n, n)
        );
        assert_eq!(
            reverse.offered, forward.delivered,
            "the far host echoes all"
        );
        assert_eq!(reverse.delivered, back, "what is delivered arrives");
        for (offered, lost) in [
            (n, forward.packets[PacketCounter::Loss]),
            (reverse.offered, reverse.packets[PacketCounter::Loss]),
        ] {
            let expected = offered as f64 * loss;
            let width = 2.576 * (expected * (1.0 - loss)).sqrt();
            assert!(
                (lost as f64 - expected).abs() <= width,
                "{lost} of {offered}"
            );
        }
        lost.push((
            forward.packets[PacketCounter::Loss],
            reverse.packets[PacketCounter::Loss],
        ));
    }
    assert_eq!(lost[0], lost[1], "the same seed loses as many");
    assert_ne!(lost[1], lost[2], "another seed loses others");
}

/// More than the queue holds is dropped and counted as such; the limit is kept.
#[test]
fn a_full_queue_drops_and_counts() {
    let mut bed = bed();
    let (mut a, mut b) = (
        Agent::start(&mut bed, Host::Client),
        Agent::start(&mut bed, Host::Server),
    );
    let peer = b.listen("echo");
    // A packet takes 12 ms, so that a sender that is paused for a second still overruns the queue.
    let mut condition = condition(2, 1, 0.0);
    condition.forward.queue = Some(regatta_model::Bytes(15_000));
    bed.set_condition(&condition, 1).expect("a condition");
    a.send(&format!("ping {peer} 500 {} 1", 1500 - HEADERS));
    let back = a.receive().split_whitespace().count() as u64;
    let forward = bed.counters().expect("counters").forward;
    assert_eq!(forward.offered, 500);
    assert!(forward.packets[PacketCounter::Queue] > 400, "{forward:?}");
    assert!(forward.queue_max_bytes <= 15_000, "{forward:?}");
    assert_eq!(
        forward.delivered,
        500 - forward.packets[PacketCounter::Queue]
    );
    assert_eq!(back, forward.delivered);
}

/// Packets that a host sends faster than its interface of 1 Gbit/s carries them wait in its socket.
#[test]
fn a_host_sends_at_the_rate_of_an_interface() {
    let mut bed = bed();
    let (mut a, mut b) = (
        Agent::start(&mut bed, Host::Client),
        Agent::start(&mut bed, Host::Server),
    );
    let peer = b.listen("echo");
    bed.set_condition(&condition(40, 900, 0.0), 1)
        .expect("a condition");
    // 36 ms at 1 Gbit/s, of which the socket's buffer and the interface hold less than 4.
    a.send(&format!("ping {peer} 3000 {} 1", 1500 - HEADERS));
    let departed: Vec<u64> = (answers(&a.receive()).into_iter())
        .map(|(departed, _)| departed)
        .collect();
    let first = departed.iter().min().expect("an answer");
    let last = departed.iter().max().expect("an answer");
    assert!(last - first >= 32_000_000, "{} ns", last - first);
}
