//! Tests of merging results files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use regatta_model::{Outcome, RunHeader, RunPart, Shard, TrialRecord};
use regatta_results::{
    FILE_NAME, Reader, ResultsError, RunState, Store,
    merge::{Merge, MergeError, MergePlan, Merged, Refusal},
};
use tempfile::tempdir;

use super::common::{header, path_check, trial, warning};

const PLAN: MergePlan = MergePlan {
    trials: 12,
    most_attempts: 3,
};

fn header_of(number: u32, node: &str) -> RunHeader {
    let mut header = header();
    header.run_id = format!("run {number} on {node}");
    header.started_unix_ns += i64::from(number);
    header.part = RunPart {
        plan_sha256: "d1".repeat(32),
        shard: Some(Shard { number, of: 3 }),
        trials: 4,
        node: node.to_owned(),
    };
    header
}

/// Writes a part with these trials.
fn part(dir: &Path, name: &str, header: &RunHeader, trials: &[TrialRecord]) -> PathBuf {
    let dir = dir.join(name);
    let mut store = Store::create(&dir, header).unwrap();
    store.add_path_check(&path_check()).unwrap();
    store.add_warning(&warning()).unwrap();
    for trial in trials {
        store.add_trial(trial).unwrap();
    }
    store.set_state(&RunState::Complete).unwrap();
    assert!(store.close());
    dir
}

fn numbered(range: std::ops::Range<u32>) -> Vec<TrialRecord> {
    range.map(trial).collect()
}

fn merge(out: &Path, parts: &[PathBuf]) -> Merged {
    let merge = Merge::open(parts).unwrap();
    assert!(merge.refused.is_empty(), "{:?}", merge.refused);
    merge.write(out, PLAN).unwrap()
}

/// Returns the only reason for which a file is refused beside two that are good.
fn refused(bad: &Path, good: &[PathBuf]) -> Refusal {
    let mut parts = good.to_vec();
    parts.insert(1, bad.to_owned());
    let mut merge = Merge::open(&parts).unwrap();
    assert_eq!(merge.refused.len(), 1, "{:?}", merge.refused);
    assert_eq!(merge.refused[0].path, bad);
    assert!(
        merge.refused[0]
            .message()
            .contains(&bad.display().to_string())
    );
    merge.refused.remove(0).refusal
}

#[test]
fn a_merged_run_has_all_trials_of_its_parts() {
    let dir = tempdir().unwrap();
    let parts: Vec<PathBuf> = (0..3)
        .map(|n| {
            let header = header_of(n + 1, "n1");
            let trials = numbered(4 * n..4 * n + 4);
            part(dir.path(), &format!("part {n}%?#"), &header, &trials)
        })
        .collect();
    let out = dir.path().join("merged");
    // The order in which they are named is of no account.
    let merged = merge(
        &out,
        &[parts[2].clone(), parts[0].clone(), parts[1].clone()],
    );
    assert_eq!((merged.trials, merged.duplicates), (12, 0));
    assert!(merged.missing.is_empty());
    let reader = Reader::open(&out).unwrap();
    assert_eq!(reader.trials().unwrap(), numbered(0..12));
    assert_eq!(reader.path_checks().unwrap(), [path_check()]);
    assert_eq!(reader.warnings().unwrap(), [warning()]);
    assert_eq!(reader.state().unwrap(), RunState::Complete);
    let header = reader.header().unwrap();
    assert_eq!(header.study, header_of(1, "").study);
    assert_eq!(header.part.shard, None);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
    // Again, as after a missing shard was run; a merged file is no part.
    let before = fs::read(out.join(FILE_NAME)).unwrap();
    merge_again(&out, &parts, &before);
    let refusal = refused(&out, &parts[..2]);
    assert!(matches!(refusal, Refusal::Merged), "{refusal}");
    let error = Merge::open(&parts).unwrap().write(&parts[0], PLAN);
    let error = error.unwrap_err();
    assert!(
        matches!(
            error,
            MergeError::Results(ResultsError::AlreadyExists { .. })
        ),
        "{error}"
    );
}

fn merge_again(out: &Path, parts: &[PathBuf], before: &[u8]) {
    let parts = [parts[2].clone(), parts[0].clone(), parts[1].clone()];
    merge(out, &parts);
    assert!(
        fs::read(out.join(FILE_NAME)).unwrap() == before,
        "it differs"
    );
}

/// Nobody can take the name of the unfinished file in advance.
#[test]
fn a_merge_uses_no_predictable_name() {
    let dir = tempdir().unwrap();
    let one = part(dir.path(), "one", &header_of(1, "n1"), &numbered(0..4));
    let out = dir.path().join("merged");
    fs::create_dir_all(out.join(".results.sqlite.tmp")).unwrap();
    merge(&out, &[one]);
    let mut names: Vec<_> = (fs::read_dir(&out).unwrap())
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [".results.sqlite.tmp", FILE_NAME]);
}

#[test]
fn a_trial_that_ran_twice_is_taken_once_and_by_the_rule() {
    let dir = tempdir().unwrap();
    let with = |index: u32, outcome: Outcome, started: i64| TrialRecord {
        outcome,
        started_unix_ns: started,
        ..trial(index)
    };
    let mut spoiled = with(3, Outcome::Invalid, 5);
    spoiled.attempt = 1;
    let repeated = TrialRecord {
        index: 3 + PLAN.trials,
        attempt: 2,
        ..with(3, Outcome::Measured, 6)
    };
    let one = [
        with(0, Outcome::Failed, 1),
        with(1, Outcome::Measured, 9),
        with(2, Outcome::Invalid, 1),
        spoiled.clone(),
        repeated.clone(),
    ];
    let two = [
        with(0, Outcome::Measured, 2),
        with(1, Outcome::Measured, 8),
        with(2, Outcome::TimedOut, 2),
        with(3, Outcome::Failed, 1),
        with(4, Outcome::Invalid, 1),
    ];
    let one = part(dir.path(), "one", &header_of(1, "n1"), &one);
    let two = part(dir.path(), "two", &header_of(1, "n2"), &two);
    let out = dir.path().join("merged");
    let merged = merge(&out, &[one, two]);
    assert_eq!((merged.trials, merged.duplicates), (5, 4));
    // The fourth has an attempt left.
    assert_eq!(merged.missing, (4..12).collect::<Vec<u32>>());
    assert_eq!(merged.outcomes["measured"], 3);
    let reader = Reader::open(&out).unwrap();
    let expected = [
        with(0, Outcome::Measured, 2),
        with(1, Outcome::Measured, 8),
        with(2, Outcome::TimedOut, 2),
        spoiled,
        with(4, Outcome::Invalid, 1),
        repeated,
    ];
    assert_eq!(reader.trials().unwrap(), expected);
    let RunState::Interrupted { reason } = reader.state().unwrap() else {
        panic!("it is not complete");
    };
    assert!(reason.starts_with("8 of 12 trials"), "{reason}");
}

#[test]
fn differing_host_facts_are_stored_by_part_with_a_warning() {
    let dir = tempdir().unwrap();
    let parts: Vec<PathBuf> = [(1, "n1", "AMD"), (2, "n2", "AMD"), (3, "n3", "Intel")]
        .into_iter()
        .map(|(number, node, cpu)| {
            let mut header = header_of(number, node);
            let sender = header.hosts.get_mut("sender").unwrap();
            sender.0.insert("cpu.model".into(), cpu.into());
            sender.0.insert("cpu.mhz".into(), number.to_string());
            let trials = numbered(4 * number - 4..4 * number);
            part(dir.path(), node, &header, &trials)
        })
        .collect();
    let out = dir.path().join("merged");
    merge(&out, &parts);
    let reader = Reader::open(&out).unwrap();
    let warnings = reader.warnings().unwrap();
    let differ: Vec<&str> = (warnings.iter())
        .filter(|warning| warning.code == "parts_differ")
        .map(|warning| warning.message.as_str())
        .collect();
    assert_eq!(differ.len(), 1);
    assert!(
        differ[0].ends_with("`cpu.model` of the sender is `AMD` on `n1`, `n2`; `cpu.model` of the sender is `Intel` on `n3`"),
        "{differ:?}"
    );
    let hosts = reader.header().unwrap().hosts;
    assert!(!hosts["sender"].0.contains_key("cpu.model"));
    assert_eq!(hosts["sender"].0["kernel.release"], "6.18");
    let nodes = reader.nodes().unwrap();
    assert_eq!((&*nodes[&0], &*nodes[&11], nodes.len()), ("n1", "n3", 12));
}

#[test]
fn files_of_other_plans_and_versions_are_refused() {
    let dir = tempdir().unwrap();
    let good: Vec<PathBuf> = (0..2)
        .map(|n| {
            let header = header_of(n + 1, "n1");
            part(
                dir.path(),
                &format!("good-{n}"),
                &header,
                &numbered(4 * n..4 * n + 4),
            )
        })
        .collect();
    let mut other = header_of(3, "n1");
    other.part.plan_sha256 = "e2".repeat(32);
    let other = part(dir.path(), "other", &other, &numbered(8..12));
    let refusal = refused(&other, &good);
    assert!(refusal.to_string().contains("another plan"), "{refusal}");

    let original = part(dir.path(), "no-plan", &header(), &numbered(8..12));
    let refusal = refused(&original, &good);
    assert!(matches!(refusal, Refusal::NoPlan), "{refusal}");

    let copy = dir.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(good[0].join(FILE_NAME), copy.join(FILE_NAME)).unwrap();
    let parts = [good[0].clone(), good[1].clone(), copy.clone()];
    let merge = Merge::open(&parts).unwrap();
    assert_eq!(merge.refused.len(), 1);
    assert!(
        matches!(merge.refused[0].refusal, Refusal::Twice { .. }),
        "{:?}",
        merge.refused
    );

    for (version, tables) in [(1, "tables of version 1"), (10, "tables of version 10")] {
        let path = copy.join(FILE_NAME);
        fs::copy(good[0].join(FILE_NAME), &path).unwrap();
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection
            .pragma_update(None, "user_version", version)
            .unwrap();
        drop(connection);
        let refusal = refused(&copy, &good);
        assert!(refusal.to_string().contains(tables), "{refusal}");
    }
    let refusal = refused(&dir.path().join("nothing"), &good);
    assert!(
        matches!(refusal, Refusal::Results(ResultsError::NotFound { .. })),
        "{refusal}"
    );
    fs::write(copy.join(FILE_NAME), "").unwrap();
    let refusal = refused(&copy, &good);
    assert!(
        matches!(refusal, Refusal::Results(ResultsError::Empty { .. })),
        "{refusal}"
    );
}

/// Damages a file in one of a hundred ways. Each must be refused, or must not change what is merged.
#[test]
fn damaged_files_are_refused_or_merged_without_changes() {
    let dir = tempdir().unwrap();
    let good = part(dir.path(), "good", &header_of(1, "n1"), &numbered(0..4));
    let damaged = part(dir.path(), "victim", &header_of(2, "n1"), &numbered(4..8));
    let original = fs::read(damaged.join(FILE_NAME)).unwrap();
    let mut state = 20_261_125_u64;
    let mut draw = |most: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % most
    };
    let (mut refused, mut unchanged) = (0, 0);
    for case in 0..100 {
        let mut bytes = original.clone();
        match case % 4 {
            0 => bytes.truncate(draw(original.len())),
            1 => {
                let from = draw(original.len());
                let to = (from + 1 + draw(8192)).min(original.len());
                bytes[from..to].fill(0);
            }
            2 => {
                let at = draw(original.len());
                bytes[at] ^= 1 << draw(8);
            }
            _ => {
                let (from, to) = (draw(original.len() / 4096), draw(original.len() / 4096));
                bytes.copy_within(from * 4096..(from + 1) * 4096, to * 4096);
            }
        }
        fs::write(damaged.join(FILE_NAME), &bytes).unwrap();
        let merge = Merge::open(&[good.clone(), damaged.clone()]).unwrap();
        if merge.refused.is_empty() {
            let out = dir.path().join(format!("merged-{case}"));
            merge.write(&out, PLAN).unwrap();
            let trials = Reader::open(&out).unwrap().trials().unwrap();
            assert_eq!(trials, numbered(0..8), "case {case}");
            unchanged += 1;
        } else {
            assert!(merge.refused[0].path.starts_with(&damaged), "case {case}");
            refused += 1;
        }
    }
    println!("{refused} refused, {unchanged} without a change of what is read");
    assert!(refused >= 50, "{refused}");
}

#[test]
fn a_part_under_way_is_merged_with_its_stored_trials() {
    let dir = tempdir().unwrap();
    let live = dir.path().join("live");
    let mut store = Store::create(&live, &header_of(1, "n1")).unwrap();
    store.add_trial(&trial(0)).unwrap();
    let merge = Merge::open(std::slice::from_ref(&live)).unwrap();
    store.add_trial(&trial(1)).unwrap();
    let out = dir.path().join("merged");
    let merged = merge.write(&out, PLAN).unwrap();
    assert_eq!(merged.trials, 1);
    assert_eq!(Reader::open(&out).unwrap().trials().unwrap(), [trial(0)]);
}

/// Merges a million trials (with `REGATTA_LONG_TESTS`), or twenty thousand, of a hundred files. The files
/// are made in memory where that is possible, because each trial is flushed to the disk.
#[test]
fn many_trials_are_merged_in_little_memory() {
    let is_long = std::env::var_os("REGATTA_LONG_TESTS").is_some_and(|set| set == "1");
    let of_part: u32 = if is_long { 10_000 } else { 200 };
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempdir().unwrap()
    };
    let names = [
        "goodput_bps",
        "transfer_time_ns",
        "bytes_delivered",
        "bytes_sent",
        "packets_sent",
    ];
    let parts: Vec<PathBuf> = (0..100)
        .map(|number| {
            let path = dir.path().join(format!("part-{number}"));
            let mut store = Store::create(&path, &header_of(number + 1, "n1")).unwrap();
            for index in number * of_part..(number + 1) * of_part {
                let mut trial = TrialRecord {
                    index,
                    round: index / 600,
                    measurements: regatta_model::Measurements::default(),
                    ..trial(0)
                };
                for (position, name) in names.iter().enumerate() {
                    let value = f64::from(index) * (position + 1) as f64 / 7.0;
                    trial.measurements.metrics.insert((*name).to_owned(), value);
                }
                let fact = ("congestion_control.sender".to_owned(), "cubic".to_owned());
                trial.measurements.facts.extend([fact]);
                store.add_trial(&trial).unwrap();
            }
            store.set_state(&RunState::Complete).unwrap();
            path
        })
        .collect();
    let plan = MergePlan {
        trials: 100 * of_part,
        most_attempts: 3,
    };
    let begun = std::time::Instant::now();
    let merge = Merge::open(&parts).unwrap();
    assert!(merge.refused.is_empty(), "{:?}", merge.refused);
    let checked = begun.elapsed();
    let merged = merge.write(&dir.path().join("merged"), plan).unwrap();
    assert_eq!((merged.trials, merged.missing.len()), (100 * of_part, 0));
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak
        .and_then(|text| text.trim().strip_suffix(" kB"))
        .unwrap();
    let peak_mb = peak.parse::<u64>().unwrap() / 1000;
    println!(
        "{} trials: {checked:.1?} to check, {:.1?} in all, {peak_mb} MB at most",
        merged.trials,
        begun.elapsed()
    );
    assert!(peak_mb < 1000, "{peak_mb} MB");
}
