//! Tests of `resume` on a run that cannot continue, or that was closed while it had a reader.

use std::{fs, path::Path};

use regatta_results::{FILE_NAME, Reader, Store};

use crate::help::{Bench, SMALL, Watched, is, trials};

/// Returns the directory of a complete run of two trials.
fn ran(bench: &Bench) -> std::path::PathBuf {
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 1"));
    bench.run(&["run", "study.toml", "--out", "out", "--no-progress"]);
    assert_eq!(trials(&bench.path("out")).len(), 2);
    bench.path("out/results.sqlite")
}

/// Returns every file of a directory with its content.
fn contents(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| {
            let entry = entry.expect("an entry");
            (
                entry.file_name(),
                fs::read(entry.path()).expect("its content"),
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn results_file_names_its_run() {
    let bench = Bench::new();
    ran(&bench);
    let code = bench.run(&["report", "out", "--json"]).code();
    for command in ["resume", "report"] {
        let done = bench.run(&[command, "out/results.sqlite"]);
        done.assert_code(code);
        assert!(done.stdout.contains("out/report.html"), "{done:#?}");
    }
}

/// Makes the study of a run unreadable.
fn damaged_study(dir: &Path) {
    let change = "UPDATE run SET study_json = replace(study_json, '\"rounds\":1', '\"rounds\":x')
        WHERE instr(study_json, '\"rounds\":1') > 0";
    let connection = rusqlite::Connection::open(dir.join(FILE_NAME)).expect("a results file");
    assert_eq!(connection.execute(change, []).expect("a change"), 1);
}

/// Replaces a run by one of a study whose first transport has another label.
fn other_label(dir: &Path) {
    let reader = Reader::open(dir).expect("a run");
    let (mut header, trials) = (reader.header().expect("it"), reader.trials().expect("them"));
    header.study.transports[0].label = "odp".to_owned();
    let other = dir.with_file_name("other");
    let mut store = Store::create(&other, &header).expect("a new run");
    for trial in &trials {
        store.add_trial(trial).expect("a new trial");
    }
    assert!(store.close());
    fs::rename(other.join(FILE_NAME), dir.join(FILE_NAME)).expect("moved");
    fs::remove_dir_all(other).expect("removed");
}

#[test]
fn run_that_cannot_be_resumed_is_unchanged() {
    let bench = Bench::new();
    let file = ran(&bench);
    let good = fs::read(&file).expect("results");
    for (damage, expected) in [
        (damaged_study as fn(&Path), "run 1 is not what was stored"),
        (other_label, "another plan"),
    ] {
        fs::write(&file, &good).expect("written");
        damage(&bench.path("out"));
        let before = contents(&bench.path("out"));
        let done = bench.run(&["resume", "out"]);
        done.assert_code(2);
        done.assert_stderr_contains(expected);
        assert!(
            contents(&bench.path("out")) == before,
            "{expected}: a file was changed"
        );
    }
    // Nothing to do is no reason to write to it either.
    fs::write(&file, &good).expect("written");
    let done = bench.run(&["resume", "out", "--no-progress"]);
    done.assert_stderr_contains("nothing is left to do");
    assert!(fs::read(&file).expect("results") == good);
}

#[test]
fn write_ahead_log_left_by_a_reader_is_merged_by_the_next_report() {
    let bench = Bench::new();
    // Many trials are left when the first one has ended and the reader comes.
    bench.write("study.toml", &SMALL.replace("rounds = 2", "rounds = 6"));
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    run.until(|event| is(event, "trial_ended"));
    let reader = Reader::open(&bench.path("out")).expect("a run that goes on");
    run.finish();
    let log = bench.path("out/results.sqlite-wal");
    assert!(log.exists(), "a reader was at it");
    let report = bench.run(&["report", "out"]);
    assert!(
        report.stdout.contains("`results.sqlite-wal`"),
        "{}",
        report.stdout
    );
    drop(reader);
    let report = bench.run(&["report", "out"]);
    assert!(!report.stdout.contains("-wal"), "{}", report.stdout);
    assert!(!log.exists());
    assert_eq!(trials(&bench.path("out")).len(), 12);
}
