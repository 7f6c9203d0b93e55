//! Ordinary use without failures.

use std::path::Path;

use regatta_model::TrialRecord;
use regatta_results::{Reader, RunState};
use serde_json::Value;

use crate::help::{Bench, Done, SMALL, assert_ran, is, trials};

/// Returns the exit code that a summary requires: on a busy machine the path may miss its
/// tolerance, and the run must say so.
pub fn expected_code(summary: &Value) -> i32 {
    let gates = summary["gates"].as_array().expect("gates");
    i32::from(!gates.iter().all(|gate| gate["passed"] == true))
}

const SUMMARY_SCHEMA: &str = include_str!("../../../../schemas/summary.schema.json");
pub const EVENTS_SCHEMA: &str = include_str!("../../../../schemas/events.schema.json");

#[track_caller]
pub fn assert_fits(schema: &str, value: &Value) {
    let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// Asserts that a trial over the path of [`SMALL`] has every metric, each with a definition.
fn assert_measured(trial: &TrialRecord) {
    let metric = |name: &str| {
        *trial
            .measurements
            .metrics
            .get(name)
            .unwrap_or_else(|| panic!("no `{name}` of `{}`", trial.transport))
    };
    assert!(metric("goodput_bps") > 1e6);
    assert!(metric("goodput_bps") < 50e6, "faster than the path");
    assert!(metric("cpu_sender_ratio") > 0.0);
    assert!(metric("cpu_receiver_ratio") > 0.0);
    // 10 ms each round trip; a timer that is early would measure less than the path has.
    assert!(metric("round_trip_delay_idle_p50_ns") > 9.9e6);
    assert!(metric("path_packets") > 600.0);
    // The path counts from before the idle probe, the sender from the connect call.
    assert!(metric("path_packets") > metric("packets_sent"));
    for name in trial.measurements.metrics.keys() {
        assert!(
            regatta_model::metric::find(name).is_some(),
            "`{name}` has no definition"
        );
    }
    for series in &trial.measurements.series {
        assert!(
            regatta_model::metric::find_series(&series.name).is_some(),
            "`{}` has no definition",
            series.name
        );
        assert_eq!(series.t_ns.len(), series.values.len());
    }
}

/// Asserts that the results have the study as it was written and the facts of the build.
fn assert_stored(out: &Path) {
    let reader = Reader::open(out).expect("results");
    assert_eq!(reader.state().expect("a state"), RunState::Complete);
    let header = reader.header().expect("a header");
    assert_eq!(header.study_text, SMALL);
    assert_eq!(header.hosts.len(), 2);
    for name in [
        "commit",
        "dirty",
        "profile",
        "opt_level",
        "debug_assertions",
        "lockfile_sha256",
        "compiler",
    ] {
        for facts in header.hosts.values() {
            let known = facts.0.get(&format!("build.{name}"));
            assert!(known.is_some_and(|known| !known.is_empty()), "{name}");
        }
    }
    // Only a check that the machine spoiled is made again.
    let checks = reader.path_checks().expect("checks");
    let (_, repeated) = checks.split_last().expect("a check");
    assert!(repeated.iter().all(|check| check.spoiled.is_some()));
}

fn assert_exported(out: &Path) {
    let trials_csv = std::fs::read_to_string(out.join("trials.csv")).expect("trials.csv");
    // With the attempts that the machine spoiled.
    let records = Reader::open(out).and_then(|reader| reader.trials());
    let records = records.expect("the results are readable").len();
    assert_eq!(trials_csv.lines().count(), 1 + records);
    let series_csv = std::fs::read_to_string(out.join("series.csv")).expect("series.csv");
    assert!(series_csv.lines().count() > 4);
    let html = std::fs::read_to_string(out.join("report.html")).expect("report.html");
    assert!(html.contains("<svg"), "the report has figures");
}

/// Asserts that the reports of a run can be made again from the results file alone.
fn assert_reported_again(bench: &Bench, out: &Path, summary: &Value) {
    let code = expected_code(summary);
    for name in ["summary.json", "report.html", "trials.csv", "series.csv"] {
        std::fs::remove_file(out.join(name)).expect("the file is there");
    }
    bench.run(&["report", "out"]).assert_code(code);
    for name in ["summary.json", "report.html", "trials.csv", "series.csv"] {
        assert!(out.join(name).exists(), "{name}");
    }
    // A report that cannot be written is nowhere to be opened.
    std::fs::remove_file(out.join("report.html")).expect("the file is there");
    std::fs::create_dir(out.join("report.html")).expect("a directory");
    let unwritten = bench.run(&["report", "out"]);
    unwritten.assert_code(1);
    assert!(unwritten.stdout.contains("tcp"), "{}", unwritten.stdout);
    assert!(
        !unwritten.stdout.contains("report.html"),
        "{}",
        unwritten.stdout
    );
    std::fs::remove_dir(out.join("report.html")).expect("still empty");
    let plain = bench
        .regatta(&["report", "out"])
        .env("LC_ALL", "C")
        .output();
    let plain = Done::from(plain.expect("the binary starts"));
    plain.assert_code(code);
    assert!(plain.stdout.contains("tcp"), "{}", plain.stdout);
    assert!(plain.stdout.is_ascii(), "{}", plain.stdout);
    let json = bench.run(&["report", "out", "--json"]);
    json.assert_code(code);
    let again: Value = serde_json::from_str(&json.stdout).expect("JSON alone on stdout");
    assert_eq!(again["cells"], summary["cells"]);
}

#[test]
fn a_study_file_becomes_results_and_reports() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    let done = bench.run(&["run", "small.toml", "--out", "out"]);
    let out = bench.path("out");

    let trials = trials(&out);
    assert_eq!(trials.len(), 4, "2 transports, 2 rounds: {done:#?}");
    for trial in &trials {
        assert_ran(trial);
        assert_measured(trial);
    }
    let tcp = trials.iter().find(|t| t.transport == "tcp").expect("tcp");
    assert_eq!(tcp.measurements.metrics["bytes_delivered"], 1e6);
    assert_eq!(tcp.measurements.facts["congestion_control.sender"], "cubic");

    assert_stored(&out);
    let summary: Value = serde_json::from_str(
        &std::fs::read_to_string(out.join("summary.json")).expect("summary.json"),
    )
    .expect("JSON");
    assert_fits(SUMMARY_SCHEMA, &summary);
    done.assert_code(expected_code(&summary));
    assert_eq!(
        summary["builds"][0]["hosts"].as_array().map(Vec::len),
        Some(2)
    );
    // The tests run a build with debug assertions, which every run warns of.
    let codes = summary["warnings"].as_array().expect("warnings");
    let is_warned = codes.iter().any(|warning| warning["code"] == "debug_build");
    assert_eq!(is_warned, cfg!(debug_assertions));

    assert_exported(&out);

    assert!(done.stdout.contains("tcp"), "{}", done.stdout);
    assert!(done.stdout.contains("report.html"), "{}", done.stdout);
    assert!(
        done.stderr.contains("[4/4]"),
        "one line per trial off a terminal: {}",
        done.stderr
    );
    bench.assert_nothing_left();

    assert_reported_again(&bench, &out, &summary);
    // Nothing is left to resume, and that is no error.
    let resumed = bench.run(&["resume", "out"]);
    resumed.assert_code(expected_code(&summary));
    resumed.assert_stderr_contains("nothing is left to do");
    assert_eq!(crate::help::trials(&out).len(), 4);
}

#[test]
fn machine_output_is_alone_on_stdout() {
    let bench = Bench::new();
    let done = bench.run(&[
        "run",
        "--transport",
        "tcp,quic-quinn",
        "--rtt",
        "10ms",
        "--rate",
        "50Mbit/s",
        "--size",
        "500kB",
        "--rounds",
        "1",
        "--json",
        "--out",
        "out",
    ]);
    let events = done.events();
    assert!(is(&events[0], "run_started"), "{done:#?}");
    for event in &events {
        assert_fits(EVENTS_SCHEMA, event);
    }
    // A check and a trial that the machine spoiled come again.
    let named = |name| events.iter().filter(move |event| is(event, name));
    let checks: Vec<_> = named("path_checked").collect();
    let (_, earlier) = checks.split_last().expect("the path was checked");
    assert!(
        earlier
            .iter()
            .all(|event| event["check"]["spoiled"].is_string()),
        "{done:#?}"
    );
    assert_eq!(
        named("trial_started").filter(|e| e["attempt"] == 1).count(),
        2
    );
    let ended = named("trial_ended").filter(|e| e["trial"]["attempt"] == 1);
    assert_eq!(ended.count(), 2);
    let last = events.last().expect("a line");
    assert!(is(last, "summary"));
    assert_fits(SUMMARY_SCHEMA, &last["summary"]);
    done.assert_code(expected_code(&last["summary"]));
    assert_eq!(last["directory"], "out");
    bench.assert_nothing_left();
}

#[test]
fn closed_stdout_ends_without_an_error() {
    let bench = Bench::new();
    let done = bench
        .command("bash")
        .args([
            "-c",
            "set -o pipefail; \"$0\" list metrics | head -n 1; echo \"code ${PIPESTATUS[0]}\"",
            env!("CARGO_BIN_EXE_regatta"),
        ])
        .output()
        .expect("bash");
    let stdout = String::from_utf8_lossy(&done.stdout);
    assert!(stdout.contains("code 0"), "{stdout}");
    assert!(
        done.stderr.is_empty(),
        "{:?}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Checks one run of each transport against itself, from which the rounds of the study are planned.
#[test]
fn noise_is_reported_and_rounds_are_planned_for_equal_transports() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    bench
        .run(&["plan", "--detect", "5%", "small.toml"])
        .assert_stderr_contains("run a pilot with");
    let done = bench.run(&["run", "small.toml", "--aa", "--out", "out"]);
    assert_eq!(
        trials(&bench.path("out")).len(),
        8,
        "twice 2 transports, 2 rounds: {done:#?}"
    );
    let details = bench.run(&["report", "out", "--details"]).stdout;
    assert!(
        details.contains("Noise floor: of 2 pairs of the same transport"),
        "{details}"
    );
    for pilot in [&["out"][..], &["small.toml", "--pilot", "out"]] {
        let plan = bench.run(&[&["plan", "--detect", "5%"], pilot].concat());
        plan.assert_code(0);
        assert!(plan.stdout.contains("All of it: "), "{}", plan.stdout);
    }
    bench.run(&["plan", "--detect", "0%", "out"]).assert_code(2);
}

#[test]
fn rounds_are_planned_for_two_runs_of_one_transport() {
    let bench = Bench::new();
    let run = |line: &str| bench.run(&line.split(' ').collect::<Vec<_>>());
    run("run --transport tcp --size 100kB --rounds 2 --out one").assert_code(0);
    let plan = run("plan --detect 5% one");
    plan.assert_code(0);
    assert!(
        plan.stdout
            .contains("(`tcp` against another run of it varies by ")
            && plan
                .stdout
                .contains(" rounds in each of the two runs that `regatta compare` compares."),
        "{}",
        plan.stdout
    );
    run("run --transport tcp --size 100kB --rounds 1 --out short");
    let plan = run("plan --detect 5% short");
    plan.assert_code(2);
    plan.assert_stderr_contains("`short` has no two rounds in which `tcp` was measured");
}

#[test]
fn rounds_that_end_with_narrow_intervals_are_shown_in_the_plan() {
    let bench = Bench::new();
    let until = "rounds = { until = \"3%\", at_most = 60 }\n";
    bench.write("small.toml", &SMALL.replace("rounds = 2\n", until));
    let done = bench.run(&["run", "small.toml", "--dry-run"]);
    done.assert_code(0);
    assert!(
        done.stdout
            .contains("fewer rounds, from 10 on, if every interval is ± 3 %"),
        "{}",
        done.stdout
    );
    let fixed = bench.run(&["run", "small.toml", "--dry-run", "--rounds", "3"]);
    assert!(!fixed.stdout.contains("fewer rounds"), "{}", fixed.stdout);
}

#[test]
fn rounds_that_decide_the_ranking_are_shown_in_the_plan() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    let decided = ["run", "small.toml", "--dry-run", "--rounds", "decided"];
    let shown = "fewer rounds, from 3 on, if the leader of each condition and workload is decided";
    let all = bench.run(&decided);
    all.assert_code(0);
    assert!(
        all.stdout.contains("60 rounds of 2 cells"),
        "{}",
        all.stdout
    );
    assert!(all.stdout.contains(shown), "{}", all.stdout);
    let limited = ["--at-most", "7", "--for", "90s"];
    let limited = bench.run(&[&decided[..], &limited].concat());
    assert!(
        limited.stdout.contains("7 rounds of 2 cells"),
        "{}",
        limited.stdout
    );
    let time = "no further round begins after 90 s";
    assert!(limited.stdout.contains(time), "{}", limited.stdout);
    // Of options alone.
    let options = [
        "--transport",
        "tcp,tcp-tls",
        "--dry-run",
        "--rounds",
        "decided",
    ];
    let options =
        bench.run(&[&["run"], &options[..], &["--at-most", "9", "--for", "90s"]].concat());
    for expected in ["9 rounds of 2 cells", shown, time] {
        assert!(options.stdout.contains(expected), "{}", options.stdout);
    }
}

#[test]
fn options_of_a_rule_are_refused_without_it() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    for (arguments, expected) in [
        (
            &["small.toml", "--at-most", "9"][..],
            "add `--rounds decided`",
        ),
        (
            &["small.toml", "--rounds", "4", "--for", "90s"],
            "add `--rounds decided`",
        ),
        (
            &["--transport", "tcp,udp", "--for", "90s"],
            "add `--rounds decided`",
        ),
        (&["small.toml", "--rounds", "pleased"], "nor `decided`"),
        (
            &["small.toml", "--rounds", "decided", "--transport", "tcp"],
            "name a second transport",
        ),
        (
            &[
                "small.toml",
                "--rounds",
                "decided",
                "--for",
                "90s",
                "--bed",
                "uml",
                "--clock",
                "virtual",
            ],
            "leave `for` out",
        ),
        (
            &["small.toml", "--rounds", "decided", "--shard", "1/2"],
            "add `--rounds N`",
        ),
    ] {
        let refused = bench.run(&[&["run", "--dry-run"], arguments].concat());
        refused.assert_code(2);
        refused.assert_stderr_contains(expected);
    }
}

#[test]
fn a_dry_run_shows_the_plan_and_runs_nothing() {
    let bench = Bench::new();
    let done = bench.run(&["run", "--dry-run"]);
    done.assert_code(0);
    assert!(
        done.stdout.contains("50 trials: 5 rounds of 10 cells"),
        "{}",
        done.stdout
    );
    assert!(!bench.path("regatta-results").exists());
    let again = bench.run(&["run", "--dry-run"]);
    assert_eq!(done.stdout, again.stdout, "the order follows from the seed");
    let other = bench.run(&["run", "--dry-run", "--seed", "7"]);
    assert_ne!(done.stdout, other.stdout);
}

#[test]
fn lists_and_doctor_succeed() {
    let bench = Bench::new();
    let list = bench.run(&["list"]);
    list.assert_code(0);
    for name in ["tcp-tls", "quic-quinn", "gadasin-2026-short", "goodput_bps"] {
        assert!(list.stdout.contains(name), "{name}");
    }
    let doctor = bench.run(&["doctor"]);
    doctor.assert_code(0);
    for name in ["tun", "user_namespaces", "congestion_control"] {
        assert!(doctor.stdout.contains(name), "{name}: {}", doctor.stdout);
    }
    let kernels = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    let kernels = kernels.expect("Linux has it");
    let line = (doctor.stdout.lines()).find(|line| line.contains("default_congestion_control"));
    let line = line.expect("a line");
    assert!(line.contains(&format!("`{}`", kernels.trim())), "{line}");
    assert!(line.contains("`cubic`"), "{line}");
    bench.run(&["doctor", "--fix-hints"]).assert_code(0);
}

#[test]
fn without_an_emulator_the_hosts_have_a_direct_link() {
    let bench = Bench::new();
    let direct = ["run", "--emulator", "none", "--transport", "tcp"];
    let run = ["--size", "1MB", "--rounds", "1", "--out", "out"];
    let done = bench.run(&[&direct[..], &run].concat());
    done.assert_stderr_contains("direct link");
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), 1);
    assert_ran(&trials[0]);
    let refused = bench.run(&[&direct[..], &["--rtt", "10ms"]].concat());
    refused.assert_code(2);
    refused.assert_stderr_contains("without an emulator the path is a direct link");
}

/// Packets of an external program's probe that are sent again are counted, as those of a stack in Regatta. Until the first
/// loss each message and each answer has a packet of its own: six leave in a round trip, and the window is ten. That none of
/// 300 packets is lost at 5 %, so that this fails on correct code, has a probability of 0.95³⁰⁰ = 2 · 10⁻⁷.
#[test]
fn packets_of_a_programs_probe_that_are_sent_again_are_counted() {
    let bench = Bench::new();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../external/example/driver");
    bench.write(
        "study.toml",
        &format!(
            "name = \"probed\"\nrounds = 1\nseed = 7\ndeadline = \"30s\"\n\
             [[transport]]\ndriver = \"tcp\"\n\
             [[transport]]\nlabel = \"program\"\ndriver = \"external\"\nprogram = \"{program}\"\n\
             [[condition]]\nname = \"lossy\"\nrtt = \"30ms\"\nrate = \"20Mbit/s\"\nloss = \"5%\"\n\
             [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"500kB\"\nmessage = \"10kB\"\n\
             [workload.probe]\nidle_messages = 0\ninterval = \"5ms\"\n"
        ),
    );
    bench.run(&["run", "study.toml", "--out", "out"]);
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        assert_ran(trial);
        let metrics = &trial.measurements.metrics;
        let (sent, again) = (
            metrics["probe_messages_sent"],
            metrics["probe_packets_retransmitted"],
        );
        println!(
            "{}: {sent} messages, {again} packets sent again",
            trial.transport
        );
        assert!(
            sent >= 150.0 && again > 0.0,
            "{}: {sent}, {again}",
            trial.transport
        );
    }
}
