//! Flow-control windows and the use of the path: on an idle clean path, and after steps of its
//! round-trip delay. In virtual time, so that only protocol and path decide.

use regatta_model::TrialRecord;

use crate::help::{assert_ran, cell, shared_trials};

/// Study of a transfer long enough for slow start to reach the 4 MB of `wide` windows, if they were
/// needed.
const ALONE: &str = r#"
name = "windows"
rounds = 1
seed = 7
bed = "uml"
clock = "virtual"
emulator = "userspace"
deadline = "30s"

[[transport]]
driver = "tcp"
[[transport]]
driver = "quic-quinn"
[[transport]]
label = "wide"
driver = "quic-quinn"
stream_window = "4MB"
[[transport]]
driver = "quic-noq"
[[transport]]
driver = "quic-quiche"
[[transport]]
driver = "quic-s2n"
[[transport]]
driver = "sctp"
[[transport]]
driver = "sctp-userspace"

[[condition]]
name = "baseline"
rtt = "30ms"
rate = "50Mbit/s"

[[workload]]
name = "bulk"
kind = "bulk"
size = "5MB"
message = "60kB"
[workload.probe]
idle_messages = 0
under_load = false
"#;

fn alone(transport: &str) -> TrialRecord {
    let trials = shared_trials("cli-windows", ALONE);
    let trial = cell(&trials, transport, "bulk", "baseline");
    assert_ran(trial);
    trial.clone()
}

fn warned(trial: &TrialRecord, code: &str) -> bool {
    trial
        .measurements
        .warnings
        .iter()
        .any(|warning| warning.code == code)
}

/// Checks that the window does not hold the transport back, and slow start does not overflow the
/// queue. Slow start takes about a quarter of so short a transfer; a window of half a
/// bandwidth-delay product would give 25 Mbit/s.
#[track_caller]
fn assert_window_fits(transport: &str) {
    let trial = alone(transport);
    assert_eq!(
        trial.measurements.metrics["path_queue_drops"], 0.0,
        "{transport}"
    );
    let goodput = trial.measurements.metrics["goodput_bps"] / 1e6;
    assert!(goodput > 30.0, "{transport}: {goodput} Mbit/s");
    for code in ["window_limited", "slow_start_overflow"] {
        assert!(
            !warned(&trial, code),
            "{transport}: {:?}",
            trial.measurements.warnings
        );
    }
}

/// Makes a test for each transport with a window of its own.
macro_rules! fits {
    ($($name:ident: $transport:literal),+ $(,)?) => {
        $(#[test]
        fn $name() {
            assert_window_fits($transport);
        })+
    };
}

fits! {
    the_window_of_quinn_fits_the_path: "quic-quinn",
    the_window_of_noq_fits_the_path: "quic-noq",
    the_window_of_quiche_fits_the_path: "quic-quiche",
    the_window_of_s2n_fits_the_path: "quic-s2n",
    the_window_of_the_kernels_sctp_fits_the_path: "sctp",
    the_window_of_sctp_in_user_space_fits_the_path: "sctp-userspace",
}

#[test]
fn slow_start_overflow_is_reported() {
    let wide = alone("wide");
    assert!(wide.measurements.metrics["path_queue_drops"] > 150.0);
    assert!(
        warned(&wide, "slow_start_overflow"),
        "{:?}",
        wide.measurements.warnings
    );
    // Its slow start ends by the delay that it finds, not by losses (HyStart).
    assert!(!warned(&alone("tcp"), "slow_start_overflow"));
}

const STEPS: &str = r#"
name = "steps"
rounds = 1
seed = 7
bed = "uml"
clock = "virtual"
emulator = "userspace"
deadline = "30s"

[[transport]]
driver = "TRANSPORT"

[[condition]]
name = "steps"
rtt = "300ms"
rate = "RATE"
[[condition.step]]
at = "10s"
rtt = "100ms"
[[condition.step]]
at = "20s"
rtt = "200ms"

[[workload]]
name = "bulk"
kind = "bulk"
size = "SIZE"
message = "60kB"
[workload.probe]
idle_messages = 0
under_load = false
"#;

/// Checks that the link stays full over both steps, however in-order delivery stops. `size` takes 30 s
/// at `rate`, or longer.
#[track_caller]
fn assert_settles(transport: &str, rate: &str, size: &str) {
    let study = STEPS
        .replace("TRANSPORT", transport)
        .replace("RATE", rate)
        .replace("SIZE", size);
    let trials = shared_trials(&format!("cli-steps-{transport}"), &study);
    let trial = cell(&trials, transport, "bulk", "steps");
    assert_ran(trial);
    assert_eq!(
        trial.measurements.metrics["unsettled_steps"], 0.0,
        "{transport}"
    );
    let settling_ms = trial.measurements.metrics["settling_time_mean_ns"] / 1e6;
    assert!(settling_ms < 1000.0, "{transport}: {settling_ms} ms");
}

#[test]
fn tcp_settles_after_steps_of_the_round_trip() {
    assert_settles("tcp", "4Mbit/s", "15MB");
}

mod long_forms {
    use super::*;

    #[test]
    fn wdt_settles_after_steps_of_the_round_trip() {
        // Each of its eight connections has blocks of 16 MiB to send until the deadline. Of 75 MB there are
        // five, and the link is not full once the first connection has sent its own.
        assert_settles("wdt", "10Mbit/s", "400MB");
    }
}
