//! Sweeps of a study: their plan, options beside them, and a run with its report.

use regatta_model::Part;
use regatta_results::Reader;
use serde_json::Value;

use crate::help::{Bench, assert_ran};

/// Two transports under two conditions of which one is swept.
const SWEPT: &str = r#"
name = "swept"
rounds = 3
deadline = "5s"

[[transport]]
driver = "tcp"

[[transport]]
driver = "udp"
rate = "40Mbit/s"

[[condition]]
name = "near"
rtt = "10ms"
rate = "50Mbit/s"

[[condition]]
name = "plain"

[[workload]]
name = "bulk"
size = "200kB"

[workload.probe]
idle_messages = 2
under_load = false

[[sweep]]
key = "condition.loss"
of = ["near"]
values = ["0%", "5%", "20%"]
"#;

#[test]
fn plan_groups_the_cells_of_a_sweep() {
    let bench = Bench::new();
    let losses = "values = [\"0%\", \"5%\", \"20%\"]";
    let range = "from = \"0%\"\nto = \"10%\"\npoints = 5000";
    bench.write("study.toml", &SWEPT.replacen(losses, range, 1));
    let done = bench.run(&["run", "--dry-run", "study.toml"]);
    done.assert_code(0);
    let plan = &done.stdout;
    assert!(
        plan.contains("30006 trials: 3 rounds of 10002 cells"),
        "{plan}"
    );
    assert!(
        plan.contains("condition.loss: 5000 values from 0 % to 10 %, linear"),
        "{plan}"
    );
    assert!(
        plan.contains("near, 5000 conditions from `near, 0 % loss` to `near, 10 % loss`"),
        "{plan}"
    );
    assert!(plan.contains("10002 trials in each round"), "{plan}");
    assert!(plan.lines().count() < 40, "{plan}");
}

#[test]
fn option_that_sets_a_swept_value_is_refused() {
    let bench = Bench::new();
    bench.write("study.toml", SWEPT);
    let done = bench.run(&["run", "--dry-run", "study.toml", "--loss", "1%"]);
    done.assert_code(2);
    done.assert_stderr_contains("`near, 0 % loss` and `near, 5 % loss` would be the same");
    done.assert_stderr_contains("hint: ");
    // Another key is changed in all of them.
    let done = bench.run(&["run", "--dry-run", "study.toml", "--rtt", "20ms"]);
    done.assert_code(0);
    assert!(
        done.stdout.contains("round-trip delay 20 ms"),
        "{}",
        done.stdout
    );
}

#[test]
fn swept_transports_are_chosen_by_the_label_in_the_file() {
    let bench = Bench::new();
    let sweep = "[[sweep]]\nkey = \"transport.rate\"\nof = [\"udp\"]\nvalues = [\"10Mbit/s\", \"20Mbit/s\"]\n";
    let study = SWEPT.replacen("rate = \"40Mbit/s\"\n", "", 1) + sweep;
    bench.write("study.toml", &study);
    let done = bench.run(&[
        "run",
        "--dry-run",
        "study.toml",
        "--transport",
        "udp",
        "--aa",
    ]);
    done.assert_code(0);
    let plan = &done.stdout;
    assert!(plan.contains("48 trials: 3 rounds of 16 cells"), "{plan}");
    assert!(
        plan.contains("udp:rate=10Mbit/s-again · near, 5 % loss · bulk"),
        "{plan}"
    );
    assert!(!plan.contains("tcp"), "{plan}");
}

#[test]
fn a_sweep_is_run_and_reported_from_its_results() {
    let bench = Bench::new();
    let study = SWEPT
        .replacen("rounds = 3", "rounds = 2", 1)
        .replacen("[\"0%\", \"5%\", \"20%\"]", "[\"0%\", \"5%\"]", 1)
        .replacen("[[condition]]\nname = \"plain\"\n", "", 1);
    bench.write("study.toml", &study);
    let done = bench.run(&["run", "study.toml", "--out", "out"]);
    let reader = Reader::open(&bench.path("out")).expect("results");
    let measured = reader.trials().expect("trials");
    assert!(measured.len() >= 8, "{done:#?}");
    measured.iter().for_each(assert_ran);
    let sweeps = reader.header().expect("a header").study.sweeps;
    let entry = sweeps.entry(Part::Condition, "near, 5 % loss");
    let values: Vec<Option<f64>> = (sweeps.parameters(entry.expect("it is swept")))
        .map(|(_, value)| value.value)
        .collect();
    assert_eq!(values, [Some(0.05)]);
    let trials = std::fs::read_to_string(bench.path("out/trials.csv")).expect("trials.csv");
    assert_eq!(trials.lines().count(), 1 + measured.len());
    assert!(
        trials
            .lines()
            .next()
            .is_some_and(|head| head.contains(",condition.loss,"))
    );
    let summary = std::fs::read_to_string(bench.path("out/summary.json")).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    crate::happy::assert_fits(
        include_str!("../../../../schemas/summary.schema.json"),
        &summary,
    );
    let sweep = &summary["sweeps"][0];
    assert_eq!(sweep["lines"], serde_json::json!(["tcp", "udp"]));
    assert_eq!(sweep["cells"].as_array().map(Vec::len), Some(4));
    let page = std::fs::read_to_string(bench.path("out/report.html")).expect("a report");
    assert!(page.contains("figure-sweep-0-goodput-bps"));
    let details = bench.run(&["report", "out", "--details"]).stdout;
    assert!(details.contains("loss under near: goodput"), "{details}");
}
