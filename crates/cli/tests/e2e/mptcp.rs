//! Tests of MPTCP over the two addresses of the emulated path.

use regatta_model::Outcome;

use crate::help::{Bench, assert_ran, trials};

const STUDY: &str = r#"
name = "mptcp"
rounds = 1
deadline = "20s"

[[transport]]
driver = "mptcp"

[[transport]]
driver = "mptcp"
label = "one-down"
subflow_down_after = "500ms"

[[condition]]
name = "near"
rtt = "20ms"
rate = "20Mbit/s"

[[workload]]
size = "5MB"
[workload.probe]
idle_messages = 0
under_load = false
"#;

#[test]
fn a_transfer_goes_on_when_one_of_two_subflows_is_taken_down() {
    let bench = Bench::new();
    bench.write("mptcp.toml", STUDY);
    let _ = bench.run(&["run", "mptcp.toml", "--out", "out"]);
    for trial in trials(&bench.path("out")) {
        if trial.outcome == Outcome::Unsupported {
            assert!(trial.reasons.concat().contains("MPTCP"), "{trial:?}");
            continue;
        }
        assert_ran(&trial);
        assert_eq!(
            trial.measurements.metrics["bytes_delivered"], 5e6,
            "{}",
            trial.transport
        );
        let subflows = |when: &str| {
            trial.measurements.facts[&format!("mptcp.subflows_{when}.sender")].as_str()
        };
        let at_end = if trial.transport == "one-down" {
            "1"
        } else {
            "2"
        };
        assert_eq!((subflows("most"), subflows("at_end")), ("2", at_end));
        assert_eq!(
            trial.measurements.facts["mptcp.fell_back_to_tcp.sender"],
            "false"
        );
    }
}
