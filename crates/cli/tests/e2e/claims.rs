//! Claims of a study as a regression test.

use crate::help::{Bench, SMALL};

const CLAIMS: &str = r#"
[[claim]]
text = "TCP moves something"
transport = "tcp"
value = { at_least = "1bit/s", every_trial = true }

[[claim]]
text = "UDP is faster than its path"
transport = "udp"
value = { at_least = "1Gbit/s", every_trial = true }
"#;

#[test]
fn a_run_fails_on_a_claim_that_does_not_come_out() {
    let bench = Bench::new();
    bench.write("study.toml", &format!("{SMALL}{CLAIMS}"));
    let options = [
        "--no-progress",
        "--rounds",
        "1",
        "--out",
        "out",
        "--fail-on",
        "claims",
    ];
    let done = bench.run(&[&["run", "study.toml"][..], &options].concat());
    done.assert_code(1);
    done.assert_stderr_contains("claim: UDP is faster than its path: does not come out");
    assert!(
        !done.stderr.contains("TCP moves something"),
        "{}",
        done.stderr
    );
    assert!(
        done.stdout.contains("1 of 2 claims come out, 1 does not"),
        "{}",
        done.stdout
    );

    let report = bench.run(&["report", "out", "--html", "--fail-on", "claims"]);
    report.assert_code(1);
    report.assert_stderr_contains("claim: UDP is faster than its path: does not come out");
    let report = bench.run(&["report", "out", "--html"]);
    assert!(!report.stderr.contains("claim:"), "{}", report.stderr);
}

#[test]
fn a_study_without_claims_cannot_fail_on_them() {
    let bench = Bench::new();
    bench.write("study.toml", SMALL);
    let done = bench.run(&["run", "study.toml", "--fail-on", "claims"]);
    done.assert_code(2);
    done.assert_stderr_contains("`--fail-on claims` of a study without claims");
}
