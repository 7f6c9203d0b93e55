//! Tests that need a real clock, and the machine for themselves.

use crate::{
    guests::losses::{PATHS, assert_drops_distinguished},
    help::{assert_ran, cell, shared_trials},
};

/// Study with a receive buffer that is too small, which has no effect in virtual time: there a
/// receiver takes every datagram before the next one comes.
const SMALL_BUFFER: &str = r#"
name = "small-buffer"
rounds = 1
seed = 5
deadline = "10s"

[[transport]]
label = "udp-small-buffer"
driver = "udp"
rate = "80Mbit/s"
receive_buffer = "4kB"
"#;

/// Checks that losses of `udp` at a receive buffer that is too small are distinguished from those
/// on the path.
#[track_caller]
fn small_buffer(condition: &str) {
    let study = [SMALL_BUFFER, &PATHS.replace("rate = \"50Mbit/s\"\n", "")].concat();
    let trials = shared_trials("cli-losses-small-buffer", &study);
    assert_eq!(trials.len(), 3);
    let trial = cell(&trials, "udp-small-buffer", "bulk", condition);
    assert_ran(trial);
    // A burst of half a millisecond is more than a buffer for two messages takes.
    assert!(assert_drops_distinguished(trial) > 0.0);
    let buffer: u64 = trial.measurements.facts["receive_buffer_bytes.receiver"]
        .parse()
        .expect("a number");
    assert!(buffer < 10_000, "{buffer}");
}

#[test]
fn a_small_buffer_without_loss() {
    small_buffer("clean");
}

#[test]
fn a_small_buffer_and_one_percent_of_loss() {
    small_buffer("one-percent");
}

#[test]
fn a_small_buffer_and_five_percent_of_loss() {
    small_buffer("five-percent");
}
