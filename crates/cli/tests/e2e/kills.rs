//! Kills of a run at random times, after which nothing of its bed is left.

use std::{collections::BTreeSet, time::Duration};

use regatta_test_support::machine::repetitions;

use crate::help::{Bench, Random, SMALL};

/// Returns the state of this machine that a bed could leave behind beside processes.
fn machine() -> (String, BTreeSet<std::ffi::OsString>) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let interfaces = std::fs::read_dir("/sys/class/net").expect("interfaces");
    let names = interfaces.flatten().map(|entry| entry.file_name());
    (mounts, names.collect())
}

/// Kills a run at random times between its start and its second trial. Nothing else makes mounts or
/// interfaces where the tests run: those of other tests are in namespaces of their own.
#[track_caller]
pub fn assert_nothing_survives_kills(study: &str, kills: u64, longest: Duration) {
    let bench = Bench::new();
    bench.write("study.toml", study);
    let scratch = bench.path("scratch");
    std::fs::create_dir(&scratch).expect("a directory");
    let before = machine();
    let mut random = Random::new();
    for (kill, moment) in random.moments(kills, longest).into_iter().enumerate() {
        let out = format!("out-{kill}");
        let mut run = bench
            .regatta(&["run", "study.toml", "--out", &out, "--no-progress"])
            .env("TMPDIR", &scratch)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the binary starts");
        std::thread::sleep(moment);
        run.kill().expect("a signal");
        run.wait().expect("an end");
        bench.assert_nothing_left();
        let out = bench.path(&out);
        let has_run = out.join("results.sqlite").exists();
        assert!(has_run || !out.join("files").exists(), "{moment:?}");
    }
    assert_eq!(machine(), before);
    let remaining: Vec<_> = std::fs::read_dir(&scratch).expect("a directory").collect();
    assert!(remaining.is_empty(), "{remaining:?}");
}

#[test]
fn nothing_of_two_namespaces_survives_kill_9_at_any_moment() {
    assert_nothing_survives_kills(SMALL, repetitions(20, 185), Duration::from_millis(500));
}
