//! What is lost, and where: on the path, at a socket, or nowhere because it was sent again.

use std::collections::BTreeMap;

use regatta_model::TrialRecord;

use crate::help::{Bench, assert_ran, trials};

/// Messages of a trial over `udp`, each in one packet.
const MESSAGES: f64 = 4000.0;

/// No probes, so that the path carries one flow and its few words about itself. Without a rate
/// there is no queue that could drop; the driver paces itself.
const UDP: &str = r#"
name = "losses"
rounds = 1
seed = 5
deadline = "10s"

[[transport]]
label = "udp"
driver = "udp"
rate = "40Mbit/s"

[[transport]]
label = "udp-small-buffer"
driver = "udp"
rate = "80Mbit/s"
receive_buffer = "4kB"

[[transport]]
label = "udp-framed"
driver = "udp"
rate = "40Mbit/s"
frame = "conn"

[[condition]]
name = "clean"
rtt = "4ms"

[[condition]]
name = "one-percent"
rtt = "4ms"
loss = "1%"

[[condition]]
name = "five-percent"
rtt = "4ms"
loss = "5%"

[[workload]]
name = "bulk"
kind = "bulk"
size = "4MB"
message = "1000B"
[workload.probe]
idle_messages = 0
under_load = false
"#;

fn metric(trial: &TrialRecord, name: &str) -> f64 {
    *trial.metrics.get(name).unwrap_or_else(|| {
        panic!(
            "no `{name}` of `{}` under `{}`",
            trial.transport, trial.condition
        )
    })
}

/// Drops on the path towards the receiver, and at the receiver's socket.
fn drops(trial: &TrialRecord) -> (f64, f64) {
    let path = ["path_loss_drops", "path_queue_drops", "path_other_drops"];
    (
        path.iter().map(|name| metric(trial, name)).sum(),
        metric(trial, "receive_buffer_errors"),
    )
}

#[test]
fn udp_counts_what_the_emulator_dropped_and_what_sockets_dropped_told_apart() {
    let bench = Bench::new();
    bench.write("losses.toml", UDP);
    bench.run(&["run", "losses.toml", "--out", "out"]);
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), 9);
    let mut dropped = BTreeMap::new();
    for trial in &trials {
        assert_ran(trial);
        let what = format!("`{}` under `{}`", trial.transport, trial.condition);
        let (path, socket) = drops(trial);
        let lost = metric(trial, "messages_lost");
        assert_eq!(metric(trial, "messages_sent"), MESSAGES, "{what}");
        assert_eq!(
            lost,
            MESSAGES - metric(trial, "messages_delivered"),
            "{what}"
        );
        assert_eq!(metric(trial, "messages_corrupted"), 0.0, "{what}");
        assert_eq!(metric(trial, "messages_duplicated"), 0.0, "{what}");
        // Whatever else the sender said was its opening, its end markers and its thanks: one of
        // each of the first two arrived, the others may be among what was dropped.
        let words = metric(trial, "path_packets") - MESSAGES;
        assert!((2.0..100.0).contains(&words), "{what}: {words} words");
        let all = path + socket;
        assert!(
            (all - (words - 2.0)..=all).contains(&lost),
            "{what}: {lost} lost, {path} dropped on the path, {socket} at the socket, {words} words"
        );
        dropped.insert(
            (trial.transport.as_str(), trial.condition.as_str()),
            (path, socket),
        );
    }
    for (transport, condition) in dropped.keys() {
        let (path, socket) = dropped[&(*transport, *condition)];
        let ratio = path / MESSAGES;
        let what = format!("`{transport}` under `{condition}`: {path} and {socket}");
        // The bounds are six standard deviations wide.
        match *condition {
            "clean" => assert_eq!(path, 0.0, "{what}"),
            "one-percent" => assert!((0.0006..0.0195).contains(&ratio), "{what}"),
            _ => assert!((0.029..0.071).contains(&ratio), "{what}"),
        }
        // A burst of half a millisecond is more than a buffer for two messages takes, unless the
        // receiver is at it all the time; 32 MiB hold the whole transfer.
        match *transport {
            "udp-small-buffer" => assert!(socket > 0.0, "{what}"),
            _ => assert_eq!(socket, 0.0, "{what}"),
        }
    }
    let small = trials
        .iter()
        .find(|trial| trial.transport == "udp-small-buffer" && trial.condition == "clean")
        .expect("it ran");
    let buffer: u64 = small.facts["receive_buffer_bytes.receiver"]
        .parse()
        .expect("a number");
    assert!(buffer < 10_000, "{buffer}");
    bench.assert_nothing_left();
}

/// Stop-and-wait has few messages, as every loss costs it a wait.
const RELIABLE: &str = r#"
name = "repaired"
rounds = 1
seed = 5
deadline = "30s"

[[transport]]
label = "sliding"
driver = "udp-reliable"
window = 64                 # the queue of the bottleneck holds 100 packets

[[transport]]
label = "stop-and-wait"
driver = "udp-reliable"
max_wait = "50ms"

[[condition]]
name = "clean"
rtt = "4ms"
rate = "50Mbit/s"

[[condition]]
name = "one-percent"
rtt = "4ms"
rate = "50Mbit/s"
loss = "1%"

[[condition]]
name = "five-percent"
rtt = "4ms"
rate = "50Mbit/s"
loss = "5%"

[[workload]]
name = "bulk"
kind = "bulk"
size = "400kB"
message = "1000B"
verify = "digest"
"#;

#[test]
fn udp_reliable_delivers_every_byte_whatever_the_path_loses() {
    let bench = Bench::new();
    bench.write("repaired.toml", RELIABLE);
    bench.run(&["run", "repaired.toml", "--out", "out"]);
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), 6);
    let mut times = BTreeMap::new();
    for trial in &trials {
        assert_ran(trial);
        let what = format!("`{}` under `{}`", trial.transport, trial.condition);
        assert_eq!(metric(trial, "bytes_delivered"), 400_000.0, "{what}");
        assert_eq!(metric(trial, "messages_corrupted"), 0.0, "{what}");
        let again = metric(trial, "retransmitted_packets");
        let (path, _) = drops(trial);
        match trial.condition.as_str() {
            // A busy machine may be late with an acknowledgement, so that a message goes twice.
            "clean" => assert_eq!(path, 0.0, "{what}"),
            "one-percent" => {}
            // Of 400 messages at 5 % none is lost once in 10^9 runs.
            _ => assert!(path > 0.0 && again > 0.0, "{what}: {path}, {again}"),
        }
        times.insert(
            (trial.transport.as_str(), trial.condition.as_str()),
            metric(trial, "transfer_time_ns"),
        );
    }
    // 400 round trips of 4 ms against what 50 Mbit/s allow.
    assert!(times[&("stop-and-wait", "clean")] >= 1.6e9, "{times:?}");
    for condition in ["clean", "one-percent", "five-percent"] {
        let (one, many) = (
            times[&("stop-and-wait", condition)],
            times[&("sliding", condition)],
        );
        assert!(many * 2.0 < one, "{condition}: {many} and {one}");
    }
    bench.assert_nothing_left();
}

/// Little, as every connection is slow on a long path that loses.
const FILES: &str = r#"
name = "files"
rounds = 1
seed = 5
deadline = "60s"

[[transport]]
label = "none"
driver = "wdt"
block_size = "128KiB"
files = 20

[[transport]]
label = "checksum"
driver = "wdt"
block_size = "128KiB"
files = 20
checksum = true

[[transport]]
label = "ctr"
driver = "wdt"
block_size = "128KiB"
files = 20
encryption = "aes128-ctr"

[[transport]]
label = "gcm"
driver = "wdt"
block_size = "128KiB"
files = 20
encryption = "aes128-gcm"

[[condition]]
name = "long-lossy"
rtt = "80ms"
loss = "1%"
rate = "100Mbit/s"

[[workload]]
name = "tree"
kind = "bulk"
size = "3MB"
verify = "digest"
[workload.probe]
idle_messages = 0
under_load = false
"#;

#[test]
fn wdt_delivers_a_tree_whole_over_a_long_lossy_path_in_every_mode() {
    let bench = Bench::new();
    bench.write("files.toml", FILES);
    bench.run(&["run", "files.toml", "--out", "out"]);
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        assert_ran(trial);
        let what = &trial.transport;
        assert_eq!(metric(trial, "bytes_delivered"), 3e6, "{what}");
        assert_eq!(metric(trial, "messages_corrupted"), 0.0, "{what}");
        assert!(metric(trial, "path_loss_drops") > 0.0, "{what}");
    }
    bench.assert_nothing_left();
}
