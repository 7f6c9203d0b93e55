//! Writing of a run's files from its results file.

use std::{fs, path::Path};

use regatta_model::{Outcome, TrialRecord};
use regatta_report::{Summary, load, summarise, terminal, write_all};
use regatta_results::{Reader, RunLock, Store};

use crate::common;

#[test]
fn all_files_are_rebuilt_from_the_results_file() {
    let data = common::full();
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("run");
    let mut store = Store::create(&dir, &data.header).expect("a new directory");
    for trial in &data.trials {
        store.add_trial(trial).expect("a new trial");
    }
    for check in &data.path_checks {
        store.add_path_check(check).expect("a check");
    }
    for warning in &data.warnings {
        store.add_warning(warning).expect("a warning");
    }
    store.set_state(&data.state).expect("a state");
    drop(store);

    assert_eq!(load(&dir).expect("a whole file"), data);
    // Files of an earlier report are replaced, and nothing else is left behind.
    fs::write(dir.join("report.html"), "old").expect("a writable directory");
    let written = write_all(&dir).expect("a writable directory");
    let text = fs::read_to_string(dir.join("summary.json")).expect("it was written");
    let summary: Summary = serde_json::from_str(&text).expect("its own text");
    assert_eq!(summary, written.summary);
    let page = fs::read_to_string(dir.join("report.html")).expect("it was written");
    assert!(page.starts_with("<!doctype html>"));
    let mut names: Vec<String> = fs::read_dir(&dir)
        .expect("a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| !name.contains("lock"))
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "report.html",
            "results.sqlite",
            "series.csv",
            "summary.json",
            "trials.csv"
        ]
    );
}

/// Creates a result directory of the fixture.
fn make(dir: &Path) {
    let data = common::one_trial();
    let mut store = Store::create(dir, &data.header).expect("a new directory");
    for trial in &data.trials {
        store.add_trial(trial).expect("a new trial");
    }
    store.set_state(&data.state).expect("a state");
}

#[test]
fn a_write_error_is_not_reported_as_a_read_error() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("a run");
    make(&dir);
    for name in ["trials.csv", "series.csv", "summary.json", "report.html"] {
        // A directory with something in it cannot be replaced by a file.
        let _ = fs::remove_file(dir.join(name));
        fs::create_dir(dir.join(name)).expect("a writable directory");
        fs::write(dir.join(name).join("x"), "x").expect("a writable directory");
        let error = write_all(&dir).expect_err("it cannot be replaced");
        let expected = format!("cannot write `{}`", dir.join(name).display());
        assert_eq!(error.to_string(), expected);
        let hint = error.hint().expect("there is something to do");
        let command = format!("`regatta report '{}'`", dir.display());
        assert!(hint.contains(&command), "{hint}");
        fs::remove_dir_all(dir.join(name)).expect("a writable directory");
    }
    let temporary = fs::read_dir(&dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .any(|name| name.to_string_lossy().ends_with(".tmp"));
    assert!(!temporary, "no half of a file is left");
}

#[test]
fn a_run_with_an_open_reader_is_reported_in_two_files_until_its_checkpoint() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("-run");
    let data = common::one_trial();
    let mut store = Store::create(&dir, &data.header).expect("a new directory");
    let reader = Reader::open(&dir).expect("a run that goes on");
    for trial in &data.trials {
        store.add_trial(trial).expect("a new trial");
    }
    store.set_state(&data.state).expect("a state");
    assert!(!store.close(), "the reader is at it");
    let text = terminal::whereabouts(&dir);
    assert!(text.contains("`results.sqlite-wal`"), "{text}");
    // Nothing is lost meanwhile.
    assert_eq!(load(&dir).expect("both files").trials, data.trials);
    drop(reader);
    assert_eq!(load(&dir).expect("both files").trials, data.trials);
    assert!(!dir.join("results.sqlite-wal").exists());
    assert!(!terminal::whereabouts(&dir).contains("wal"));

    let text = terminal::whereabouts(Path::new("-run"));
    assert!(
        text.ends_with("Report: xdg-open ./-run/report.html\n"),
        "{text}"
    );
}

#[test]
fn a_directory_without_results_is_reported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let error = load(dir.path()).expect_err("there is nothing");
    assert!(
        error.to_string().contains("cannot read the results of"),
        "{error}"
    );
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn only_the_last_attempt_at_a_trial_counts() {
    let mut data = common::one_round();
    let planned = data.planned() as u32;
    let last = data.trials[0].clone();
    let attempts: Vec<TrialRecord> = (1..=3)
        .map(|attempt| TrialRecord {
            attempt,
            index: last.index + (attempt - 1) * planned,
            outcome: match attempt {
                3 => Outcome::Measured,
                _ => Outcome::Invalid,
            },
            ..last.clone()
        })
        .collect();
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("run");
    let mut store = Store::create(&dir, &data.header).expect("a new directory");
    for trial in attempts.iter().chain(&data.trials[1..]) {
        store.add_trial(trial).expect("a new trial");
    }
    store.set_state(&data.state).expect("a state");
    drop(store);

    data.trials[0] = attempts[2].clone();
    let loaded = load(&dir).expect("a whole file");
    assert_eq!(loaded.trials, data.trials, "in the place of the first");
    assert_eq!(loaded.repeated, attempts[..2]);
    let summary = summarise(&loaded);
    assert_eq!(summary.state.trials_saved, u64::from(planned));
    let warning = summary
        .warnings
        .iter()
        .find(|w| w.warning.code == "trials_repeated");
    assert_eq!(warning.map(|warning| warning.trials), Some(1));
    let csv = fs::read_to_string(
        write_all(&dir)
            .map(|_| dir.join("trials.csv"))
            .expect("files"),
    );
    let rows = csv.expect("it was written").lines().count();
    assert_eq!(rows, 1 + planned as usize + 2, "every attempt has its row");
}

#[test]
fn a_run_whose_process_ended_is_not_reported_as_running() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("run");
    let data = common::one_round();
    let mut store = Store::create(&dir, &data.header).expect("a new directory");
    for trial in &data.trials[..2] {
        store.add_trial(trial).expect("a new trial");
    }
    let rendered = || {
        let data = load(&dir).expect("a results file");
        let summary = summarise(&data);
        let options = terminal::TerminalOptions {
            details: true,
            ..Default::default()
        };
        let text = terminal::render(&summary, &data, &options) + &terminal::whereabouts(&dir);
        let fields: Vec<&str> = text.split_whitespace().collect();
        (summary, fields.join(" "))
    };
    let (summary, text) = rendered();
    assert_eq!(summary.state.name, "running");
    assert!(text.contains("(the run is still going on)"), "{text}");
    assert!(
        text.contains("because the run is still going on."),
        "{text}"
    );
    // As after a kill: nothing was written about the end.
    drop(store);
    let (summary, text) = rendered();
    assert_eq!(summary.state.name, "interrupted");
    assert!(!text.contains("going on"), "{text}");
    let killed = load(&dir).expect("a results file");
    let page = regatta_report::html::render(&killed, &summary).expect("a page");
    assert!(page.contains("<code>regatta resume DIR</code> goes on with the run"));
    assert!(!page.contains("run is still going on"));
    assert!(
        text.contains("Partial (the run was interrupted): "),
        "{text}"
    );
    assert!(
        text.contains("interrupted: its process ended without saying why"),
        "{text}"
    );
    // Looking at it keeps nobody from going on with it.
    RunLock::new(&dir)
        .and_then(RunLock::open)
        .expect("a run to continue");
}
