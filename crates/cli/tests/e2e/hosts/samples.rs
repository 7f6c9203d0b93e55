//! Tests of the samples of both hosts, in a run and without one.

use super::*;
use crate::happy::{EVENTS_SCHEMA, assert_fits};

#[test]
fn a_run_writes_the_samples_of_both_hosts_as_events() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let run = lab.race("out", &["--rounds", "1", "--json"]).output();
    let run = run.expect("a run");
    succeeds(&run);
    let events: Vec<serde_json::Value> = String::from_utf8_lossy(&run.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for event in &events {
        assert_fits(EVENTS_SCHEMA, event);
    }
    let sampled = |host: &str| {
        let mut batches = (events.iter())
            .filter(|event| event["event"] == "hosts_sampled")
            .flat_map(|event| event["samples"].as_array().expect("a list"));
        batches.any(|batch| batch["host"] == host && batch["trial"] == 0)
    };
    assert!(sampled("sender") && sampled("receiver"), "{events:#?}");
}

#[test]
fn hosts_are_sampled_without_a_run() {
    let Some(lab) = Lab::start() else { return };
    succeeds(&lab.add("a", &lab.password, &["--accept-new"]));
    let monitor = lab.run(&[
        "monitor",
        "a,local",
        "--for",
        "6s",
        "--interval",
        "100ms",
        "--out",
        "out",
    ]);
    succeeds(&monitor);
    let output = text(&monitor);
    assert!(
        output.contains("\nlocal: ") && output.starts_with("a: "),
        "{output}"
    );
    let csv = fs::read_to_string(lab.bench.path("out/hosts.csv")).expect("samples");
    assert!(
        csv.lines()
            .next()
            .is_some_and(|names| names.contains("interface.manage.received_bytes"))
    );
    for of in ["a,,", "local,,"] {
        let samples = csv.lines().filter(|line| line.starts_with(of));
        let times: Vec<u64> = samples
            .filter_map(|line| line.split(',').nth(2)?.parse().ok())
            .collect();
        // 60 are due; a busy machine takes fewer. It ends later, too: one is due at each multiple of 100 ms between the
        // first, which may be late, and the last, which comes at the end.
        let covered = times
            .last()
            .zip(times.first())
            .map(|(last, first)| last - first);
        let due = covered.unwrap_or_default() / 100_000_000 + 3;
        assert!((15..=due).contains(&(times.len() as u64)), "{of}: {csv}");
    }
    assert!(lab.bench.path("out/monitor.html").exists());
    eventually(CLEANUP_TIMEOUT, "nothing is left on the host", || {
        lab.on_hosts().is_empty()
    });
    let unknown = lab.run(&["monitor", "lap1", "--for", "1s", "--out", "other"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown));
    assert!(text(&unknown).contains("has no host `lap1`"));
}

#[test]
fn a_monitor_that_is_killed_has_written_its_samples() {
    let bench = Bench::new();
    let args = ["monitor", "local", "--for", "10min", "--interval", "100ms"];
    let mut monitor = bench.regatta(&args);
    monitor.env("XDG_CACHE_HOME", shared_cache(&bench));
    let mut monitor = monitor.args(["--out", "out"]).spawn().expect("a monitor");
    let csv = || fs::read_to_string(bench.path("out/hosts.csv")).unwrap_or_default();
    eventually(TIMEOUT, "samples are written", || csv().lines().count() > 5);
    monitor.kill().expect("a signal");
    monitor.wait().expect("an end");
    bench.assert_nothing_left();
    let csv = csv();
    let fields = |line: &str| line.matches(',').count();
    let head = fields(csv.lines().next().expect("a head"));
    assert!(csv.lines().all(|line| fields(line) == head), "{csv}");
    assert!(csv.ends_with('\n'), "{csv}");
}

#[test]
fn a_monitor_whose_disk_is_full_keeps_the_samples_before() {
    let bench = Bench::new();
    fs::create_dir(bench.path("full")).expect("a directory");
    let regatta = env!("CARGO_BIN_EXE_regatta");
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs full || exit
         {regatta} monitor local --for 10min --interval 20ms --out full/out; code=$?
         cat full/out/hosts.csv; exit $code"
    );
    let mut monitor = bench.command("unshare");
    monitor.args(["--map-root-user", "--mount", "sh", "-c", &script]);
    monitor.env("XDG_CACHE_HOME", shared_cache(&bench));
    let monitor = monitor.output().expect("unshare");
    let output = text(&monitor);
    assert_eq!(monitor.status.code(), Some(1), "{output}");
    let errors = String::from_utf8_lossy(&monitor.stderr);
    for expected in [
        "cannot write `full/out/hosts.csv`",
        "No space left on device",
        "hint: the samples up to then are in it",
    ] {
        assert!(errors.contains(expected), "{errors}");
    }
    let csv = String::from_utf8_lossy(&monitor.stdout);
    assert!(csv.lines().count() > 5 && csv.ends_with('\n'), "{csv}");
    bench.assert_nothing_left();
}
