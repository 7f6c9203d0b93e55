//! Tests of captures of trials in a guest.

use regatta_model::Outcome;

use crate::{
    capture::{UDPR, assert_counted, packets},
    help::{Bench, trials},
};

/// Checks captures with engine and path in the guest, and files outside. In virtual time no process
/// waits for a processor, so that the times of capture and socket always agree within a
/// millisecond.
#[test]
fn trials_in_a_guest_are_captured_too_and_agree_with_the_sockets() {
    let bench = Bench::new();
    let study = UDPR.replacen(
        "rounds = 2\n",
        "rounds = 2\nbed = \"uml\"\nclock = \"virtual\"\n",
        1,
    );
    bench.write("udpr.toml", &study);
    bench.run(&["run", "udpr.toml", "--out", "out"]);
    let out = bench.path("out");
    let trials = trials(&out);
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
        let own = trial.measurements.metrics["transfer_time_ns"];
        let captured = trial.measurements.metrics["captured_transfer_time_ns"];
        assert!(captured > 8e6, "{trial:#?}");
        let apart = own - captured;
        assert!(
            apart > 0.0 && apart < 1e6,
            "{}: {own}, {captured}",
            trial.transport
        );
        let packets = packets(&out.join(&*trial.measurements.facts["capture_file"]));
        assert_counted(trial, "path_packets", &packets, "");
    }
    bench.assert_nothing_left();
}
