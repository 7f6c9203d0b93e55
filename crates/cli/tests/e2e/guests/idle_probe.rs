//! Round-trip delay before the transfer, whose messages may be under way at once, in virtual time.

use base64::Engine as _;
use hdrhistogram::{Histogram, serialization::Deserializer};
use regatta_model::TrialRecord;

use super::virtual_time::head;
use crate::help::{Bench, assert_ran, trials};

/// Longest idle delay over a path of 40 ms, in milliseconds: a message that another one holds up takes two round trips or
/// more, and one on the slow path 5 ms each way.
const LONGEST_MS: f64 = 52.0;

/// Returns the longest idle delay, in milliseconds.
fn longest_ms(trial: &TrialRecord) -> f64 {
    let mut histograms = trial.measurements.histograms.iter();
    let idle = histograms.find(|histogram| histogram.name == "round_trip_delay_idle_ns");
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(&idle.expect("a histogram").hdr_v2_base64)
        .expect("base64");
    let idle: Histogram<u64> = Deserializer::new()
        .deserialize(&mut &*bytes)
        .expect("a histogram");
    assert_eq!(idle.len(), 8);
    idle.max() as f64 / 1e6
}

/// Checks that no idle delay is longer than the path's.
fn assert_delays_of_the_path(transports: &[&str], path: &str, probe: &str) {
    let bench = Bench::new();
    let mut study = head("idle");
    for transport in transports {
        study += &format!("[[transport]]\ndriver = \"{transport}\"\n");
    }
    study += &format!(
        "[[condition]]\nname = \"path\"\nrtt = \"40ms\"\nrate = \"100Mbit/s\"\n{path}\
         [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"20kB\"\nmessage = \"1000B\"\n\
         [workload.probe]\nidle_messages = 8\n{probe}"
    );
    bench.write("study.toml", &study);
    bench.run(&["run", "study.toml", "--out", "out"]);
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), transports.len());
    for trial in &trials {
        assert_ran(trial);
        let longest_ms = longest_ms(trial);
        println!("{}: {longest_ms:.2} ms", trial.transport);
        assert!((40.0..LONGEST_MS).contains(&longest_ms));
    }
    bench.assert_nothing_left();
}

#[test]
fn idle_probe_messages_do_not_delay_one_another() {
    let transports = [
        "tcp",
        "tcp-tls",
        "udp",
        "udp-reliable",
        "sctp",
        "sctp-userspace",
        "quic-quinn",
        "quic-noq",
        "quic-quiche",
        "quic-s2n",
    ];
    assert_delays_of_the_path(&transports, "", "");
}

#[test]
fn replies_do_not_wait_for_one_another_on_a_slow_reverse_path() {
    let slow = "[condition.reverse]\nrate = \"200kbit/s\"\n";
    assert_delays_of_the_path(&["tcp"], slow, "under_load = false\n");
}
