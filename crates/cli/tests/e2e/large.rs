//! Merge and report of a plan of very many trials, whose results files are made without running them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};
use regatta_engine::{Done, Plan, PlannedTrial};
use regatta_model::{Measurements, Outcome, RunHeader, Shard, Study, TrialRecord};
use regatta_results::{RunState, Store};
use regatta_test_support::machine::repetitions;

use crate::help::{self, Bench};

/// Number of shards of each plan.
pub const SHARDS: u32 = 20;

/// Returns the plan of a study of two transports under `losses` × 20 conditions of a sweep.
pub fn plan(rounds: u64, losses: u32) -> Plan {
    let study = format!(
        "name = \"large\"\nrounds = {rounds}\ndeadline = \"10s\"\n\
         [[transport]]\ndriver = \"tcp\"\n[[transport]]\ndriver = \"quic-quinn\"\n\
         [[workload]]\nkind = \"bulk\"\nsize = \"10MB\"\n\
         [[condition]]\nname = \"wan\"\nrate = \"50Mbit/s\"\n\
         [[sweep]]\nkey = \"condition.loss\"\nfrom = \"0.1%\"\nto = \"5%\"\npoints = {losses}\n\
         [[sweep]]\nkey = \"condition.rtt\"\nfrom = \"10ms\"\nto = \"200ms\"\npoints = 20\n"
    );
    let study = Study::parse(&study, "large.toml").expect("a sound study");
    Plan::new(&study).expect("few trials")
}

/// Makes the record of a trial. The second transport is better where the path is long.
fn record(plan: &Plan, trial: &PlannedTrial) -> TrialRecord {
    let condition = plan.condition(trial.cell);
    let seconds = condition.round_trip_delay().as_secs_f64();
    let loss = condition.forward.mean_loss().0;
    let advantage = match trial.cell.transport {
        0 => 1.0,
        _ => 0.7 + seconds * 4.0,
    };
    let noise = 0.9 + 0.2 * f64::from(trial.index.wrapping_mul(2_654_435_761) % 1000) / 1000.0;
    let goodput = (1500.0 * 8.0 / (seconds * loss.sqrt()) * advantage).min(48e6) * noise;
    let values = [
        ("goodput_bps", goodput),
        ("transfer_time_ns", 8e7 / goodput * 1e9),
        ("bytes_delivered", 1e7),
        ("bytes_sent", 1e7),
        ("set_up_time_mean_ns", seconds * 1e9),
    ];
    TrialRecord {
        index: trial.index,
        attempt: trial.attempt,
        round: trial.round,
        transport: (&plan.transport(trial.cell).label).into(),
        condition: (&condition.name).into(),
        workload: (&plan.workload(trial.cell).name).into(),
        started_unix_ns: i64::from(trial.index),
        seed: trial.seed,
        outcome: Outcome::Measured,
        reasons: Vec::new(),
        hint: regatta_model::Text::default(),
        measurements: Measurements {
            metrics: values.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Measurements::default()
        },
    }
}

/// Writes the results file of a shard.
pub fn store(plan: &Plan, number: u32, dir: &Path) {
    let mut store = stored(plan, number, dir);
    store.set_state(&RunState::Complete).expect("its end");
    assert!(store.close());
}

/// Writes the files of a shard that was killed after its last trial.
pub fn store_killed(plan: &Plan, number: u32, dir: &Path) {
    let running = dir.with_extension("running");
    let store = stored(plan, number, &running);
    fs::create_dir_all(dir).expect("a directory");
    for name in [
        "results.sqlite",
        "results.sqlite-wal",
        "results.sqlite-commits",
    ] {
        fs::copy(running.join(name), dir.join(name)).expect("a copy");
    }
    drop(store);
    fs::remove_dir_all(running).expect("removed");
}

/// Stores all trials of a shard that is still running.
fn stored(plan: &Plan, number: u32, dir: &Path) -> Store {
    let shard = Shard { number, of: SHARDS };
    let done = plan.shard(shard, Done::default()).expect("a shard");
    let header = RunHeader {
        run_id: format!("large {number}"),
        regatta_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ns: i64::from(number),
        study: plan.study().clone(),
        study_text: String::new(),
        bed: "netns".into(),
        hosts: BTreeMap::new(),
        part: plan.part(Some(shard), &done, format!("n{}", number % 4)),
    };
    let mut store = Store::create(dir, &header).expect("a file");
    for trial in plan.remaining_trials(&done) {
        store.add_trial(&record(plan, &trial)).expect("a record");
    }
    store
}

/// Merges and reports a million trials of 600 cells (with `REGATTA_LONG_TESTS`), or three thousand.
#[test]
fn many_trials_are_merged_and_reported() {
    merge_and_report("trials", &plan(repetitions(5, 1667), 15));
}

/// Merges and reports a million trials of 20 000 cells (with `REGATTA_LONG_TESTS`), or a thousand of 400.
#[test]
fn trials_of_many_cells_are_merged_and_reported() {
    merge_and_report(
        "cells",
        &plan(repetitions(3, 50), repetitions(10, 500) as u32),
    );
}

/// Merges and reports the shards of a plan in at most 1 GB of memory and, where `REGATTA_RELEASE` names a release build
/// of the program, which is then measured, in 60 s of processor time.
fn merge_and_report(name: &str, plan: &Plan) {
    let bench = Bench::new();
    // Each trial is flushed to the disk.
    let memory = Files::new(name);
    let trials = plan.trials().len();
    let parts: Vec<String> = (1..=SHARDS)
        .map(|number| {
            let dir = memory.path(&format!("part-{number}"));
            store(plan, number, Path::new(&dir));
            dir
        })
        .collect();
    let out = memory.path("merged");
    let release = std::env::var_os("REGATTA_RELEASE");
    let program = release
        .clone()
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_regatta").into());
    let mut command = bench.command(program);
    command.args(["merge", &out]).args(&parts);
    let done = help::Done::from(command.output().expect("the program starts"));
    // Nobody has checked the paths.
    done.assert_code(1);
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("figures");
    let peak_mb = usage.max_rss() / 1000;
    let seconds = usage.user_time().num_seconds() + usage.system_time().num_seconds();
    println!(
        "{trials} trials merged and reported in {seconds} s of processor time with {peak_mb} MB"
    );
    done.assert_stderr_contains(&format!(
        "{trials} of {trials} trials are merged, from {SHARDS} files"
    ));
    assert!(peak_mb < 1000, "{peak_mb} MB");
    assert!(release.is_none() || seconds < 60, "{seconds} s");
}

/// Directory in memory, which is removed with its files; or one in that of `REGATTA_KEEP_LARGE`, which is kept, so that
/// another build can merge the same shards.
struct Files {
    dir: PathBuf,
    is_kept: bool,
}

impl Files {
    fn new(name: &str) -> Self {
        let kept_dir = std::env::var_os("REGATTA_KEEP_LARGE").map(PathBuf::from);
        let in_memory = || PathBuf::from(format!("/dev/shm/regatta-large-{}", std::process::id()));
        let is_kept = kept_dir.is_some();
        let dir = kept_dir.map_or_else(in_memory, |dir| dir.join(name));
        fs::create_dir_all(&dir).expect("a new directory");
        Self { dir, is_kept }
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
