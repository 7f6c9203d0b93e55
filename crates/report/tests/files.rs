//! From a results file to the files that a run leaves.

mod common;

use std::fs;

use regatta_report::{Summary, load, write_all};
use regatta_results::Store;

#[test]
fn everything_is_made_again_from_the_results_file() {
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

#[test]
fn a_directory_without_results_is_said_plainly() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let error = load(dir.path()).expect_err("there is nothing");
    assert!(
        error.to_string().contains("cannot read the results of"),
        "{error}"
    );
    assert!(std::error::Error::source(&error).is_some());
}
