//! Losses by place: on the path, at a socket, or none because of retransmission. In virtual time,
//! in which only the losses of the study occur: a busy machine loses packets at its own devices.

use regatta_model::{Outcome, TrialRecord};

use super::virtual_time::head;
use crate::help::{cell, shared_trials};

/// Number of messages of a trial over `udp`, each in one packet.
const MESSAGES: f64 = 2000.0;

/// Study with the `udp` drivers, without probes, so that the path carries one flow and its few
/// control packets. The driver paces itself so far below the rate of the path that no queue could
/// drop.
const DRIVERS: &str = r#"
name = "losses"
rounds = 1
seed = 5
bed = "uml"
clock = "virtual"
emulator = "userspace"
deadline = "10s"

[[transport]]
label = "udp"
driver = "udp"
rate = "20Mbit/s"

[[transport]]
label = "udp-framed"
driver = "udp"
rate = "20Mbit/s"
frame = "conn"
"#;

/// Workload and paths of both studies of `udp`. A virtual clock needs a rate.
pub(crate) const PATHS: &str = r#"
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
size = "2MB"
message = "1000B"
[workload.probe]
idle_messages = 0
under_load = false
"#;

fn metric(trial: &TrialRecord, name: &str) -> f64 {
    *trial.measurements.metrics.get(name).unwrap_or_else(|| {
        panic!(
            "no `{name}` of `{}` under `{}`",
            trial.transport, trial.condition
        )
    })
}

/// Returns the drops on the path towards the receiver, and at the receiver's socket.
fn drops(trial: &TrialRecord) -> (f64, f64) {
    let path = ["path_loss_drops", "path_queue_drops", "path_other_drops"];
    (
        path.iter().map(|name| metric(trial, name)).sum(),
        metric(trial, "receive_buffer_errors"),
    )
}

/// Returns the drops at the receiver's socket of a trial that must distinguish them from those on
/// the path.
#[track_caller]
pub(crate) fn assert_drops_distinguished(trial: &TrialRecord) -> f64 {
    let context = format!("`{}` under `{}`", trial.transport, trial.condition);
    let (path, socket) = drops(trial);
    let lost = metric(trial, "messages_lost");
    assert_eq!(metric(trial, "messages_sent"), MESSAGES, "{context}");
    assert_eq!(
        lost,
        MESSAGES - metric(trial, "messages_delivered"),
        "{context}"
    );
    assert_eq!(metric(trial, "messages_corrupted"), 0.0, "{context}");
    assert_eq!(metric(trial, "messages_duplicated"), 0.0, "{context}");
    // Whatever else the sender said was its opening, its end markers and its thanks: one of
    // each of the first two arrived, the others may be among what was dropped.
    let control_packets = metric(trial, "path_packets") - MESSAGES;
    assert!(
        (2.0..100.0).contains(&control_packets),
        "{context}: {control_packets} control packets"
    );
    let all = path + socket;
    assert!(
        (all - (control_packets - 2.0)..=all).contains(&lost),
        "{context}: {lost} lost, {path} dropped on the path, {socket} at the socket, {control_packets} control packets"
    );
    let ratio = path / MESSAGES;
    let context = format!("{context}: {path} and {socket}");
    // The bounds are six standard deviations wide.
    match trial.condition.as_str() {
        "clean" => assert_eq!(path, 0.0, "{context}"),
        "one-percent" => assert!((0.0005..0.0234).contains(&ratio), "{context}"),
        _ => assert!((0.0207..0.0793).contains(&ratio), "{context}"),
    }
    socket
}

/// Makes a test for each transport of [`DRIVERS`] and each condition: `udp` counts drops of the
/// emulator and of sockets, each on its own.
macro_rules! udp {
    ($($module:ident = $transport:literal;)+) => {
        $(mod $module {
            udp!(@cases $transport
                clean = "clean", one_percent = "one-percent", five_percent = "five-percent");
        })+
    };
    (@cases $transport:literal $($case:ident = $condition:literal),+) => {
        $(#[test]
        fn $case() {
            let study = [super::DRIVERS, super::PATHS].concat();
            let trials = crate::help::shared_trials("cli-losses-udp", &study);
            assert_eq!(trials.len(), 6);
            let trial = crate::help::cell(&trials, $transport, "bulk", $condition);
            assert_eq!(trial.outcome, regatta_model::Outcome::Measured, "{trial:#?}");
            // 32 MiB hold the whole transfer.
            assert_eq!(super::assert_drops_distinguished(trial), 0.0);
        })+
    };
}

udp! {
    udp = "udp";
    udp_framed = "udp-framed";
}

/// Study of reliable modes. Stop-and-wait has few messages, as every loss costs a wait.
const RELIABLE: &str = r#"
name = "repaired"
rounds = 1
seed = 5
bed = "uml"
clock = "virtual"
emulator = "userspace"
deadline = "30s"

[[transport]]
label = "sliding"
driver = "udp-reliable"
window_messages = 64                 # the queue of the bottleneck holds 100 packets

[[transport]]
label = "stop-and-wait"
driver = "udp-reliable"
rto_max = "50ms"

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

mod udp_reliable {
    use super::*;

    /// Returns the trials of both modes under a condition, the sliding window first.
    fn both(condition: &str) -> [TrialRecord; 2] {
        let trials = shared_trials("cli-losses-udp-reliable", RELIABLE);
        assert_eq!(trials.len(), 6);
        ["sliding", "stop-and-wait"].map(|mode| cell(&trials, mode, "bulk", condition).clone())
    }

    /// Checks that every byte arrives in both modes under this condition.
    #[track_caller]
    fn assert_delivers_all(condition: &str) {
        let trials = both(condition);
        for trial in &trials {
            assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
            let context = &trial.transport;
            assert_eq!(metric(trial, "bytes_delivered"), 400_000.0, "{context}");
            assert_eq!(metric(trial, "messages_corrupted"), 0.0, "{context}");
            let again = metric(trial, "retransmitted_packets");
            let (path, _) = drops(trial);
            match condition {
                "clean" => assert_eq!((path, again), (0.0, 0.0), "{context}"),
                "one-percent" => {}
                // Of 400 messages at 5 % none is lost once in 10^9 runs.
                _ => assert!(path > 0.0 && again > 0.0, "{context}: {path}, {again}"),
            }
        }
        let [many, one] = trials.map(|trial| metric(&trial, "transfer_time_ns"));
        // 400 round trips of 4 ms against what 50 Mbit/s allow.
        assert!(condition != "clean" || one >= 1.6e9, "{one}");
        assert!(many * 2.0 < one, "{many} and {one}");
    }

    #[test]
    fn clean() {
        assert_delivers_all("clean");
    }

    #[test]
    fn one_percent() {
        assert_delivers_all("one-percent");
    }

    #[test]
    fn five_percent() {
        assert_delivers_all("five-percent");
    }
}

/// Study of file transfers with little data, as every connection is slow on a long lossy path.
const FILES: &str = r#"
name = "files"
rounds = 1
seed = 5
bed = "uml"
clock = "virtual"
emulator = "userspace"
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

mod wdt {
    use super::*;

    /// Checks that a tree arrives complete over a long lossy path.
    #[track_caller]
    fn assert_delivers_tree(mode: &str) {
        let trials = shared_trials("cli-losses-wdt", FILES);
        assert_eq!(trials.len(), 4);
        let trial = cell(&trials, mode, "tree", "long-lossy");
        assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
        assert_eq!(metric(trial, "bytes_delivered"), 3e6);
        assert_eq!(metric(trial, "messages_corrupted"), 0.0);
        assert!(metric(trial, "path_loss_drops") > 0.0);
    }

    #[test]
    fn none() {
        assert_delivers_tree("none");
    }

    #[test]
    fn checksum() {
        assert_delivers_tree("checksum");
    }

    #[test]
    fn ctr() {
        assert_delivers_tree("ctr");
    }

    #[test]
    fn gcm() {
        assert_delivers_tree("gcm");
    }
}

/// Connections whose openings, messages and last answers are lost and sent again.
const PROBED: &str = r#"
name = "probed"
rounds = 3
seed = 7
bed = "uml"
clock = "virtual"
emulator = "userspace"
deadline = "60s"

[[transport]]
driver = "tcp"

[[transport]]
driver = "quic-quinn"

[[transport]]
driver = "quic-quiche"

[[transport]]
driver = "quic-s2n"

[[transport]]
driver = "sctp-userspace"

[[condition]]
name = "lossy"
rtt = "30ms"
rate = "20Mbit/s"
loss = "5%"

[[workload]]
name = "bulk"
kind = "bulk"
size = "200kB"
[workload.probe]
idle_messages = 0
interval = "5ms"
"#;

/// The listening end answers the probe until its sender has all answers, although the transfer has
/// ended, and although the probe's connection came after the transfer's. Where the probe's messages are datagrams, which
/// the path loses, none takes longer than the path can hold a packet.
#[test]
fn every_probe_message_is_answered_or_a_lost_datagram() {
    let trials = shared_trials("cli-losses-probed", PROBED);
    assert_eq!(trials.len(), 15);
    let mut tcp_retransmitted = 0.0;
    for trial in &trials {
        assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
        let context = format!("{} in round {}", trial.transport, trial.round);
        let is_broken =
            (trial.measurements.warnings.iter()).any(|warning| warning.code == "probe_broken");
        assert!(!is_broken, "{context}: {:?}", trial.measurements.warnings);
        let lost = metric(trial, "probe_messages_lost");
        let retransmission = trial.measurements.facts["probe.retransmission"].as_str();
        let again = metric(trial, "probe_packets_retransmitted");
        if trial.transport == "tcp" {
            assert_eq!(
                (retransmission, lost),
                ("by the transport", 0.0),
                "{context}"
            );
            tcp_retransmitted += again;
            continue;
        }
        assert!(retransmission.starts_with("none: "), "{context}");
        assert_eq!(again, 0.0, "{context}");
        let sent = metric(trial, "probe_messages_sent");
        assert!(lost < sent / 2.0, "{context}: {lost} of {sent}");
        // 30 ms, 100 full packets at 20 Mbit/s, and what waits on the way back.
        let longest = metric(trial, "round_trip_delay_max_ns");
        assert!(longest < 95e6, "{context}: {longest}");
    }
    // Virtual time: the same losses in each run.
    println!("packets of TCP's probe that were sent again: {tcp_retransmitted}");
    assert!(tcp_retransmitted > 0.0);
}

/// Transports that send a lost message of the probe again, over a path that loses none.
#[test]
fn nothing_of_a_probe_is_sent_again_without_losses() {
    let transports = ["tcp", "tcp-tls", "mptcp", "sctp", "udp-reliable"];
    let mut study = head("probed-without-losses");
    for transport in transports {
        study += &format!("[[transport]]\ndriver = \"{transport}\"\n");
    }
    study += "[[condition]]\nname = \"clean\"\nrtt = \"30ms\"\nrate = \"20Mbit/s\"\nqueue = \"1MB\"\n\
        [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"500kB\"\n\
        [workload.probe]\nidle_messages = 0\ninterval = \"5ms\"\n";
    let trials = shared_trials("cli-probed-without-losses", &study);
    for transport in transports {
        let trial = cell(&trials, transport, "bulk", "clean");
        assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
        let sent = metric(trial, "probe_messages_sent");
        assert!(sent > 10.0, "{transport}: {sent}");
        assert_eq!(
            metric(trial, "probe_packets_retransmitted"),
            0.0,
            "{transport}"
        );
    }
}
