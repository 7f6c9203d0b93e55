//! Four cells of docs/conformance.md, measured as `make conformance` does.

use std::fs;

use regatta_test_support::test_run::once_per_test_run;
use serde_json::Value;

use crate::help::{Bench, Done};

/// Transports whose cells are measured.
const TRANSPORTS: &str = "tcp-reno,quic-quinn-cubic";

/// Round trip of the path, in seconds.
const ROUND_TRIP_S: f64 = 0.05;

/// Returns what `scripts/conformance cells` prints.
fn cells() -> Value {
    let make = |dir: &std::path::Path| {
        let bench = Bench::new();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/conformance");
        let mut command = bench.command(script);
        command.args(["cells", env!("CARGO_BIN_EXE_regatta")]);
        command.arg(dir.join("runs")).arg(TRANSPORTS);
        let done = Done::from(command.output().expect("Python starts"));
        bench.assert_nothing_left();
        if done.code() != 0 {
            return Err(format!("{done:#?}"));
        }
        fs::write(dir.join("cells.json"), &done.stdout).map_err(|error| error.to_string())
    };
    let read = |dir: &std::path::Path| {
        let text = fs::read_to_string(dir.join("cells.json")).expect("the cells");
        serde_json::from_str(&text).expect("JSON")
    };
    once_per_test_run("cli-conformance", make, read)
}

/// Returns a figure of a transport's cell.
#[track_caller]
fn figure(transport: &str, workload: &str, measure: &str, name: &str) -> f64 {
    let cells = cells();
    let figure = &cells[transport][workload][measure][name];
    let figure = figure.as_f64();
    figure.unwrap_or_else(|| panic!("no `{measure}` of `{transport}`: {cells:#}"))
}

/// RFC 6928: ten segments, of which the first acknowledgement is still under way when the last one leaves.
#[test]
fn tcp_begins_with_ten_packets() {
    let window = |name: &str| figure("tcp-reno", "idle", "initial_window", name);
    assert_eq!(window("packets"), 10.0);
    assert!(window("spread_s") < 1e-3, "not paced");
}

/// RFC 2861: the window is halved for each time-out of the pause, of which 1.05 s have four: 250 ms.
#[test]
fn tcp_halves_its_window_for_each_time_out_of_an_idle_second() {
    let idle = |name: &str| figure("tcp-reno", "idle", "idle", name);
    assert!((1.0..1.1).contains(&idle("pause_s")));
    let (sent, after) = (idle("packets_sent"), idle("after"));
    let halved = ((10.0 + sent) / after).log2();
    assert!((3.9..4.1).contains(&halved), "{sent}, {after}");
}

/// RFC 6298 with Linux's least variance of 200 ms: the time-out begins with the last acknowledgement, a round trip after the
/// packet, and ends with a tick of the guest's clock of 10 ms, or the one after it.
#[test]
fn tcp_sends_a_lost_tail_again_after_its_time_out() {
    let data = figure("tcp-reno", "tail", "lost_tail", "data_s");
    let expected = ROUND_TRIP_S + ROUND_TRIP_S + 0.2;
    assert!((0.0..0.03).contains(&(data - expected)), "{data}");
}

/// RFC 9002 §6.2.1: smoothed RTT, four times its variance and the peer's delay of 25 ms, from when the packet left. quinn's probe
/// has a PING and no data, which follows a round trip later.
#[test]
fn quinn_probes_after_its_probe_time_out() {
    let tail = |name: &str| figure("quic-quinn-cubic", "tail", "lost_tail", name);
    let (probe, data) = (tail("probe_s"), tail("data_s"));
    let expected = ROUND_TRIP_S + 0.025;
    assert!((0.0..0.02).contains(&(probe - expected)), "{probe}");
    assert!((0.049..0.052).contains(&(data - probe)), "{probe}, {data}");
}
