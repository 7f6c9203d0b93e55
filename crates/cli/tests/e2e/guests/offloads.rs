//! Arrangement of the publication S0, netem on both hosts, with the hosts' offloads on and off. In
//! virtual time.

use regatta_model::Outcome;

use crate::help::{cell, shared_trials};

/// Study of TCP with the congestion control `CONTROL`.
const STUDY: &str = r#"
name = "offloads"
rounds = 1
seed = 9
bed = "uml"
clock = "virtual"
emulator = "netem"
placement = "ends"
deadline = "5s"

[[transport]]
driver = "tcp"
cc = "CONTROL"

[[condition]]
name = "loss-5"
rtt = "30ms"
rate = "100Mbit/s"
loss = "5%"
queue = "4MB"               # nothing overflows

[[workload]]
name = "bulk"
kind = "bulk"
size = "10MB"
message = "10kB"
[workload.probe]
idle_messages = 0
under_load = false
"#;

/// Returns the number of netem's drops for each segment that TCP sent with BBR.
fn drops_per_segment(name: &str, study: &str) -> f64 {
    let trials = shared_trials(name, &study.replace("CONTROL", "bbr"));
    let bbr = cell(&trials, "tcp", "bulk", "loss-5");
    assert_eq!(bbr.outcome, Outcome::Measured, "{bbr:#?}");
    // One netem counts what it loses and what finds it full as one.
    assert!(
        !bbr.measurements.metrics.contains_key("path_loss_ratio"),
        "{bbr:#?}"
    );
    assert!(
        !bbr.measurements.metrics.contains_key("path_queue_drops"),
        "{bbr:#?}"
    );
    let segments = bbr.measurements.metrics["bytes_sent"] / 1448.0
        + bbr.measurements.metrics["retransmitted_packets"];
    bbr.measurements.metrics["path_drops"] / segments
}

#[test]
fn loss_drops_super_packets_only_with_offloads() {
    let off = drops_per_segment("cli-offloads-off", STUDY);
    // Of some 7000 packets: six standard errors.
    assert!((0.034..0.066).contains(&off), "{off}");
    let study = STUDY.replace("placement =", "offloads = \"on\"\nplacement =");
    let on = drops_per_segment("cli-offloads-on", &study);
    // BBR sends a millisecond at once: up to eight segments, which are lost as one.
    assert!(on < 0.02, "{on}");
}

/// Checks that a queue for packets of the wire has room for packets of many segments, too.
#[test]
fn queue_between_the_hosts_accepts_super_packets() {
    let study = STUDY
        .replace("placement = \"ends\"", "offloads = \"on\"")
        .replace("loss = \"5%\"", "")
        .replace("CONTROL", "cubic");
    let trials = shared_trials("cli-offloads-between", &study);
    let cubic = cell(&trials, "tcp", "bulk", "loss-5");
    assert_eq!(cubic.outcome, Outcome::Measured, "{cubic:#?}");
    let goodput = cubic.measurements.metrics["goodput_bps"];
    assert!(goodput > 70e6, "{goodput}");
    assert!(
        !cubic.measurements.metrics.contains_key("path_packets"),
        "{cubic:#?}"
    );
}
