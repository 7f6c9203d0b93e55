//! Merge and report of a plan of very many trials, whose results files are made without running them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use regatta_engine::{Done, Plan, PlannedTrial};
use regatta_model::{Measurements, Outcome, RunHeader, Shard, Study, TrialRecord};
use regatta_results::{RunState, Store};
use regatta_telemetry::testing::repetitions;

use crate::help::Bench;

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
        ("set_up_time_ns", seconds * 1e9),
    ];
    TrialRecord {
        index: trial.index,
        attempt: trial.attempt,
        round: trial.round,
        transport: plan.transport(trial.cell).label.clone(),
        condition: condition.name.clone(),
        workload: plan.workload(trial.cell).name.clone(),
        started_unix_ns: i64::from(trial.index),
        seed: trial.seed,
        outcome: Outcome::Measured,
        reasons: Vec::new(),
        hint: String::new(),
        measurements: Measurements {
            metrics: values.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Measurements::default()
        },
    }
}

/// Writes the results file of a shard.
pub fn store(plan: &Plan, number: u32, dir: &Path) {
    let shard = Shard { number, of: SHARDS };
    let done = plan.shard(shard, Done::default()).expect("a shard");
    let header = RunHeader {
        run_id: format!("large {number}"),
        regatta_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ns: i64::from(number),
        study: plan.study().clone(),
        study_text: String::new(),
        bed: "netns".to_owned(),
        hosts: BTreeMap::new(),
        part: plan.part(Some(shard), &done, format!("n{}", number % 4)),
    };
    let mut store = Store::create(dir, &header).expect("a file");
    for trial in plan.left(&done) {
        store.add_trial(&record(plan, &trial)).expect("a record");
    }
    store.set_state(&RunState::Complete).expect("its end");
    assert!(store.close());
}

/// Merges and reports a million trials of 600 cells (with `REGATTA_LONG_TESTS`, in release: at most 60 s and
/// 1 GB), or three thousand.
#[test]
fn many_trials_are_merged_and_reported() {
    let rounds = repetitions(5, 1667);
    let bench = Bench::new();
    // Each trial is flushed to the disk.
    let memory = Files::new();
    let plan = plan(rounds, 15);
    let trials = plan.trials().len();
    let parts: Vec<String> = (1..=SHARDS)
        .map(|number| {
            let dir = memory.path(&format!("part-{number}"));
            store(&plan, number, Path::new(&dir));
            dir
        })
        .collect();
    let out = memory.path("merged");
    let mut args = vec!["merge", &out];
    args.extend(parts.iter().map(String::as_str));
    let begun = Instant::now();
    let done = bench.run(&args);
    // Nobody has checked the paths.
    done.assert_code(1);
    let took = begun.elapsed();
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN);
    let peak_mb = usage.expect("figures").max_rss() / 1000;
    println!("{trials} trials merged and reported in {took:.1?} with {peak_mb} MB");
    done.assert_says(&format!(
        "{trials} of {trials} trials are merged, from {SHARDS} files"
    ));
    assert!(peak_mb < 1000, "{peak_mb} MB");
}

/// Directory in memory, which is removed with its files; or that of `REGATTA_KEEP_LARGE`, which is kept, so that a
/// release build can merge the same shards.
struct Files {
    dir: PathBuf,
    is_kept: bool,
}

impl Files {
    fn new() -> Self {
        let kept = std::env::var_os("REGATTA_KEEP_LARGE").map(PathBuf::from);
        let in_memory = || PathBuf::from(format!("/dev/shm/regatta-large-{}", std::process::id()));
        let is_kept = kept.is_some();
        let dir = kept.unwrap_or_else(in_memory);
        fs::create_dir(&dir).expect("a new directory");
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
