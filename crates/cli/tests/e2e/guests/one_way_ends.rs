//! Transfers in both directions of which one has ended when the deadline comes, in virtual time.

use regatta_model::Outcome;

use super::virtual_time::head;
use crate::help::{Bench, trials};

#[test]
fn the_deadline_ends_the_other_direction_with_its_figures() {
    let bench = Bench::new();
    let mut study = head("one-way");
    for transport in ["tcp", "udp-reliable", "quic-quinn", "sctp-userspace"] {
        study += &format!("[[transport]]\ndriver = \"{transport}\"\n");
    }
    study += "[[condition]]\nname = \"path\"\nrtt = \"20ms\"\nrate = \"100Mbit/s\"\n\
              [condition.reverse]\nrate = \"200kbit/s\"\n\
              [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"100kB\"\nmessage = \"1000B\"\n\
              direction = \"both\"\n";
    bench.write("study.toml", &study);
    bench.run(&["run", "study.toml", "--out", "out", "--deadline", "3s"]);
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        let transport = &trial.transport;
        assert_eq!(
            trial.outcome,
            Outcome::Measured,
            "{transport}: {:?}",
            trial.reasons
        );
        let warnings = trial.measurements.warnings.iter();
        let codes: Vec<&str> = warnings.map(|warning| warning.code.as_str()).collect();
        assert!(
            codes.contains(&"deadline_reached"),
            "{transport}: {codes:?}"
        );
    }
    bench.assert_nothing_left();
}
