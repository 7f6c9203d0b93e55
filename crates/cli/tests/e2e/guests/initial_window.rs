//! Round trips of small transfers, which the initial congestion window decides: nothing of Regatta's own takes one of its
//! packets.

use regatta_model::{Outcome, TrialRecord};

use super::virtual_time::head;
use crate::help::{cell, shared_trials};

/// Round trip of the path.
const ROUND_TRIP_NS: f64 = 100e6;

/// Sizes of the transfers, each in one message.
const SIZES: &[u64] = &[1, 12_000, 14_400, 40_000, 100_000, 1_000_000];

/// Workload of one byte whose opening is answered before it leaves.
const ANSWERED: &str = "answered";

/// Bytes that open a transfer, before its first message.
const OPENING: u64 = 24;

/// Stack and its slow start.
struct Stack {
    driver: &'static str,
    /// Round trips of a connection's set-up.
    set_up: u32,
    /// Payload that leaves before the first acknowledgement, in bytes.
    initial_window: u64,
    /// Growth of the window in a round trip: SCTP, which grows by one packet for each of its delayed acknowledgements,
    /// does not double it.
    growth: f64,
    /// Round trips that may come on top: pacing, and an early end of slow start.
    more: f64,
}

/// Returns the trials of all stacks, of which the first test makes the run.
fn trials() -> Vec<TrialRecord> {
    let mut study = head("initial-window");
    for Stack { driver, .. } in STACKS {
        study += &format!("[[transport]]\ndriver = \"{driver}\"\n");
    }
    study += "[[condition]]\nname = \"far\"\nrtt = \"100ms\"\nrate = \"1Gbit/s\"\n";
    let mut add = |name: &str, size: u64, more: &str| {
        study += &format!(
            "[[workload]]\nname = \"{name}\"\nkind = \"bulk\"\nsize = \"{size}B\"\nmessage = \"{size}B\"\n{more}\
             [workload.probe]\nidle_messages = 0\nunder_load = false\n"
        );
    };
    for size in SIZES {
        add(&size.to_string(), *size, "");
    }
    add(ANSWERED, 1, "opening = \"answered\"\n");
    shared_trials("cli-initial-window", &study)
}

/// Checks that a transfer of each size takes the round trips of the set-up and those in which the growing window sends
/// everything.
#[track_caller]
fn assert_round_trips(stack: &Stack) {
    let trials = trials();
    for &size in SIZES {
        let trial = cell(&trials, stack.driver, &size.to_string(), "far");
        assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
        let took = trial.measurements.metrics["transfer_time_ns"] / ROUND_TRIP_NS;
        let (mut rounds, mut window, mut sent) = (0, stack.initial_window as f64, 0.0);
        while sent < (size + OPENING) as f64 {
            sent += window;
            window *= stack.growth;
            rounds += 1;
        }
        let expected = f64::from(stack.set_up + rounds);
        println!("{size} B: {took:.2} round trips of {expected}");
        assert!(took < expected + stack.more, "{size} B: {took}, {expected}");
        if rounds == 1 {
            assert!(took >= expected, "{size} B: {took}, {expected}");
        }
    }
}

/// Makes a test for each stack.
macro_rules! stacks {
    ($($name:ident = $driver:literal: $set_up:literal, $window:literal, $growth:literal, $more:literal;)+) => {
        const STACKS: &[Stack] = &[$(Stack {
            driver: $driver,
            set_up: $set_up,
            initial_window: $window,
            growth: $growth,
            more: $more,
        }),+];

        $(#[test]
        fn $name() {
            let stack = STACKS.iter().find(|stack| stack.driver == $driver);
            assert_round_trips(stack.expect("it is listed"));
        })+
    };
}

stacks! {
    // Ten packets of 1448 bytes.
    tcp = "tcp": 1, 14_480, 2.0, 0.1;
    // One of them has the end of the handshake.
    tcp_tls = "tcp-tls": 2, 12_600, 2.0, 0.1;
    mptcp = "mptcp": 1, 14_100, 2.0, 1.2;
    wdt = "wdt": 1, 14_100, 2.0, 0.1;
    // RFC 9002: ten packets, of 1200 bytes at the beginning.
    quic_quinn = "quic-quinn": 1, 11_400, 2.0, 0.8;
    quic_noq = "quic-noq": 1, 11_400, 2.0, 1.2;
    quic_s2n = "quic-s2n": 1, 12_600, 2.0, 0.6;
    quic_quiche = "quic-quiche": 1, 14_100, 2.0, 0.1;
    // RFC 9260: 4380 bytes, or four packets.
    sctp = "sctp": 2, 5_100, 1.5, 0.1;
    sctp_userspace = "sctp-userspace": 2, 4_100, 1.5, 0.1;
}

/// An application that waits for the answer to its opening takes a round trip more, over every transport of streams.
#[test]
fn an_answered_opening_takes_a_round_trip_more() {
    let trials = trials();
    for Stack { driver, .. } in STACKS.iter().filter(|it| it.driver != "wdt") {
        let [with_data, answered] = ["1", ANSWERED].map(|workload| {
            let trial = cell(&trials, driver, workload, "far");
            trial.measurements.metrics["transfer_time_ns"] / ROUND_TRIP_NS
        });
        let more = answered - with_data;
        assert!(
            (0.99..1.05).contains(&more),
            "{driver}: {with_data}, {answered}"
        );
    }
}
