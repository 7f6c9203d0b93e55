//! Round trips of handshakes, and the benefit of streams, over an emulated path: in virtual time,
//! in which hosts need no time for cryptography and are never late.

use regatta_model::{Outcome, TrialRecord};

use crate::help::{assert_ran, cell, shared_trials};

/// Round trip of the path, in milliseconds.
const ROUND_TRIP_MS: f64 = 30.0;

/// Maximum excess of a median over whole round trips, in milliseconds: the time that the path takes
/// to send certificates and answers.
const TOLERANCE_MS: f64 = 2.0;

/// Returns the median of a cell, in milliseconds.
#[track_caller]
fn median_ms(trial: &TrialRecord, name: &str) -> f64 {
    let name = format!("{name}_p50_ns");
    let value = trial.measurements.metrics.get(&name);
    value.unwrap_or_else(|| panic!("no `{name}`: {trial:#?}")) / 1e6
}

/// Returns the trial of a transport with a kind of handshake.
fn handshakes(transport: &str, handshake: &str) -> TrialRecord {
    let mut study = String::from(
        "name = \"handshakes\"\nrounds = 1\ndeadline = \"20s\"\nbed = \"uml\"\nclock = \"virtual\"\n\
         emulator = \"userspace\"\n",
    );
    for transport in ["tcp", "tcp-tls", "quic-quinn"] {
        study += &format!("[[transport]]\ndriver = \"{transport}\"\n");
    }
    study += "[[condition]]\nname = \"far\"\nrtt = \"30ms\"\nrate = \"100Mbit/s\"\n";
    for handshake in ["full", "resumed", "0-rtt", "retry"] {
        study += &format!(
            "[[workload]]\nname = \"{handshake}\"\nkind = \"short-connections\"\n\
             connections = 11\nhandshake = \"{handshake}\"\nrequest = \"100B\"\nresponse = \"1kB\"\n\
             [workload.probe]\nidle_messages = 3\n"
        );
    }
    let trials = shared_trials("cli-handshakes", &study);
    assert_eq!(trials.len(), 12);
    cell(&trials, transport, handshake, "far").clone()
}

/// Checks the number of round trips that a connection takes before its first byte can be sent, and
/// before the first byte of the answer arrives.
#[track_caller]
fn assert_round_trips(transport: &str, handshake: &str, set_up: f64, first_byte: f64) {
    let trial = handshakes(transport, handshake);
    assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
    assert_eq!(trial.measurements.metrics["connections_completed"], 11.0);
    assert_eq!(trial.measurements.metrics["connections_failed"], 0.0);
    assert!(
        !trial.measurements.metrics.contains_key("goodput_bps"),
        "small exchanges have no goodput"
    );
    for (name, round_trips) in [
        ("set_up_time", set_up),
        ("time_to_first_byte", first_byte),
        ("time_to_completion", first_byte),
    ] {
        let found = median_ms(&trial, name);
        let least = round_trips * ROUND_TRIP_MS;
        println!("{name}: {found:.3} ms of {least} ms");
        // The path is never shorter than it was asked to be.
        assert!(
            found >= least - 0.2 && found <= least + TOLERANCE_MS,
            "{name} is {found:.1} ms and not {least} ms"
        );
    }
    let (made, least) = match handshake {
        "resumed" => ("resumed", 8),
        "0-rtt" => ("early_data_taken", 8),
        _ => ("full", 11),
    };
    let count: u32 = trial.measurements.facts[&format!("handshakes.{made}")]
        .parse()
        .expect("a count");
    assert!(count >= least, "{:?}", trial.measurements.facts);
}

/// Checks that a handshake that a transport does not have is unsupported, and not measured with
/// another one.
#[track_caller]
fn assert_unsupported(transport: &str, handshake: &str) {
    let trial = handshakes(transport, handshake);
    assert_eq!(trial.outcome, Outcome::Unsupported, "{trial:#?}");
    assert!(trial.measurements.metrics.is_empty());
}

/// Makes a test for each transport and handshake.
macro_rules! handshakes {
    ($($case:ident: $check:ident($($argument:literal),+);)+) => {
        $(#[test]
        fn $case() {
            $check($($argument),+);
        })+
    };
}

handshakes! {
    tcp_full: assert_round_trips("tcp", "full", 1.0, 2.0);
    tcp_resumed: assert_unsupported("tcp", "resumed");
    tcp_early_data: assert_unsupported("tcp", "0-rtt");
    tcp_retry: assert_unsupported("tcp", "retry");
    tcp_tls_full: assert_round_trips("tcp-tls", "full", 2.0, 3.0);
    tcp_tls_resumed: assert_round_trips("tcp-tls", "resumed", 2.0, 3.0);
    tcp_tls_early_data: assert_round_trips("tcp-tls", "0-rtt", 1.0, 2.0);
    tcp_tls_retry: assert_unsupported("tcp-tls", "retry");
    quic_full: assert_round_trips("quic-quinn", "full", 1.0, 2.0);
    quic_resumed: assert_round_trips("quic-quinn", "resumed", 1.0, 2.0);
    quic_early_data: assert_round_trips("quic-quinn", "0-rtt", 0.0, 1.0);
    quic_retry: assert_round_trips("quic-quinn", "retry", 2.0, 3.0);
}

mod streams {
    use super::*;

    /// Returns trials over one stream, over several, and over several connections.
    fn trials() -> Vec<TrialRecord> {
        let mut study = String::from(
            "name = \"streams\"\nrounds = 1\nseed = 7\ndeadline = \"30s\"\nbed = \"uml\"\n\
             clock = \"virtual\"\nemulator = \"userspace\"\n\
             [[transport]]\ndriver = \"tcp\"\n[[transport]]\ndriver = \"quic-quinn\"\n\
             [[transport]]\ndriver = \"sctp-userspace\"\nrto_min = \"200ms\"\n\
             [[condition]]\nname = \"lossy\"\nrtt = \"40ms\"\nrate = \"100Mbit/s\"\nloss = \"2%\"\n",
        );
        for (name, streams, spread) in [
            ("one", 1, "streams"),
            ("many", 8, "streams"),
            ("connections", 8, "connections"),
        ] {
            study += &format!(
                "[[workload]]\nname = \"{name}\"\nkind = \"multi-stream\"\nmessages = 500\n\
                 message = \"200B\"\nmessages_per_second = 125\nstreams = {streams}\n\
                 spread = \"{spread}\"\n[workload.probe]\nidle_messages = 0\n"
            );
        }
        let trials = shared_trials("cli-streams", &study);
        assert_eq!(trials.len(), 9);
        trials
    }

    #[track_caller]
    fn p95_ms(trials: &[TrialRecord], transport: &str, workload: &str) -> f64 {
        let trial = cell(trials, transport, workload, "lossy");
        assert_ran(trial);
        assert_eq!(trial.measurements.metrics["messages_delivered"], 500.0);
        assert_eq!(trial.measurements.metrics["messages_corrupted"], 0.0);
        let p95 = trial.measurements.metrics["message_delay_p95_ns"] / 1e6;
        // One way takes 20 ms.
        assert!(p95 > 19.9, "{p95} ms");
        p95
    }

    /// Checks that several streams keep losses apart. Over one stream every message behind a lost
    /// one waits for its retransmission: with one each 8 ms, a round trip of 40 ms and a loss of 2
    /// %, about one in seven. Over eight hardly any but the lost ones do, one in fifty. The rate
    /// stays below what a congestion control allows under such a loss, or all messages would queue
    /// at the sender. Fewer than three losses among 500 packets, which would be too few to show it,
    /// come with one seed in 300; this one is fixed.
    #[track_caller]
    fn assert_no_head_of_line_blocking(transport: &str) {
        let trials = trials();
        let [one, many] = ["one", "many"].map(|workload| p95_ms(&trials, transport, workload));
        println!("95th percentile {one:.1} ms over one stream, {many:.1} over eight");
        assert!(
            many < one,
            "the 95th percentile over 8 streams is {many:.1} ms, over one {one:.1} ms"
        );
    }

    #[test]
    fn of_quic_avoid_head_of_line_blocking() {
        assert_no_head_of_line_blocking("quic-quinn");
    }

    #[test]
    fn of_sctp_avoid_head_of_line_blocking() {
        assert_no_head_of_line_blocking("sctp-userspace");
    }

    /// Checks that several connections deliver all messages as well. They are not compared: with as
    /// little data on each, TCP detects a lost segment by a time-out, and not by the segments after
    /// it.
    #[test]
    fn several_connections_deliver_all_messages() {
        let trials = trials();
        for transport in ["tcp", "quic-quinn", "sctp-userspace"] {
            p95_ms(&trials, transport, "connections");
        }
    }

    #[test]
    fn tcp_streams_are_unsupported() {
        let trials = trials();
        let refused = cell(&trials, "tcp", "many", "lossy");
        assert_eq!(refused.outcome, Outcome::Unsupported);
    }
}
