//! Comparison of two small runs.

use serde_json::Value;

use crate::{
    happy::assert_fits,
    help::{Bench, SMALL},
};

const SCHEMA: &str = include_str!("../../../../schemas/comparison.schema.json");

/// Runs a study twice, into `a` and `b`, the second time with these options besides.
fn two_runs(bench: &Bench, study: &str, options: &[&str]) {
    bench.write("study.toml", study);
    for (out, options) in [("a", &[][..]), ("b", options)] {
        let args = ["run", "study.toml", "--no-progress", "--out", out];
        let done = bench.run(&[&args[..], options].concat());
        // On a busy machine the path may miss its tolerance.
        assert!([0, 1].contains(&done.code()), "{}", done.stderr);
    }
}

#[test]
fn two_runs_of_a_study_are_compared() {
    let bench = Bench::new();
    let study = SMALL.replacen("rounds = 2", "rounds = 4", 1);
    two_runs(&bench, &study, &["--seed", "7", "--rtt", "120ms"]);

    let done = bench.run(&["compare", "a", "b", "--html", "compare.html"]);
    done.assert_code(0);
    assert!(
        done.stdout.contains("A to B: what changed"),
        "{}",
        done.stdout
    );
    let page = std::fs::read_to_string(bench.path("compare.html")).expect("the page");
    assert!(page.contains("Change of each cell from A to B"), "{page}");
    assert!(done.stdout.contains("seed: "), "{}", done.stdout);

    let done = bench.run(&["compare", "a", "b", "--json", "--fail-on", "slower:20%"]);
    // Twelve times the delay costs a short transfer far more than 20 %, and more than a busy machine does.
    done.assert_code(1);
    let comparison: Value = serde_json::from_str(&done.stdout).expect("one JSON value");
    assert_fits(SCHEMA, &comparison);
    assert_eq!(comparison["gate"]["passed"], false, "{comparison}");
    let verdict = comparison["pairs"][0]["verdict"]
        .as_str()
        .expect("a sentence");
    assert!(verdict.starts_with("B against A: goodput "), "{verdict}");
    assert!(verdict.contains(" % worse"), "{verdict}");

    let done = bench.run(&[
        "compare",
        "b",
        "a",
        "--fail-on",
        "slower:20%,goodput-worse:20%",
    ]);
    done.assert_code(0);
    assert!(
        done.stdout
            .contains("pass  no cell misses `slower:20%`, `goodput-worse:20%`"),
        "{}",
        done.stdout
    );
}

#[test]
fn bad_comparisons_are_refused_with_a_hint() {
    let bench = Bench::new();
    let study = SMALL.replacen("rounds = 2", "rounds = 1", 1);
    two_runs(&bench, &study, &["--transport", "udp"]);
    for (args, expected) in [
        (&["compare", "a", "a"][..], "are the same run"),
        (&["compare", "a"], "2 values required"),
        (&["compare", "a", "nowhere"], "nowhere"),
        (
            &["compare", "a", "b", "--fail-on", "dealy-worse:5%"],
            "did you mean `delay-worse`?",
        ),
        (
            &["compare", "a", "b", "--fail-on", "slower:5%"],
            "hint: run the study with `--rounds 5`",
        ),
    ] {
        let done = bench.run(args);
        done.assert_code(2);
        done.assert_stderr_contains(expected);
    }
}
