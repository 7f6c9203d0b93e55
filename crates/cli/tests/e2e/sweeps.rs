//! Sweeps of a study: their plan, options beside them, and a run with its report.

use crate::help::Bench;

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
fn a_plan_groups_what_a_sweep_makes() {
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
fn an_option_that_sets_what_is_swept_is_refused() {
    let bench = Bench::new();
    bench.write("study.toml", SWEPT);
    let done = bench.run(&["run", "--dry-run", "study.toml", "--loss", "1%"]);
    done.assert_code(2);
    done.assert_says("`near, 0 % loss` and `near, 5 % loss` would be the same");
    done.assert_says("hint: ");
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
