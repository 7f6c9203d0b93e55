//! Write-ahead logs of killed runs: what is missing in a damaged one is told, and nothing is told of a sound one.

use std::{fs, path::Path};

use regatta_results::{FILE_NAME, Reader, ResultsError, Store};
use tempfile::{TempDir, tempdir};

use crate::common::{header, open_to_resume, path_check, trial};

const LOG: &str = "results.sqlite-wal";
const LIST: &str = "results.sqlite-commits";

/// Bytes of an entry of the list.
const ENTRY: usize = 20;

/// Returns the directory of a run that was killed after it had stored trials with these indices: a copy of the files while the
/// run is written.
fn killed(trials: impl IntoIterator<Item = u32>) -> TempDir {
    let dir = tempdir().unwrap();
    let mut store = Store::create(&dir.path().join("run"), &header()).unwrap();
    store.add_path_check(&path_check()).unwrap();
    for index in trials {
        store.add_trial(&trial(index)).unwrap();
    }
    let killed = tempdir().unwrap();
    for name in [FILE_NAME, LOG, LIST] {
        fs::copy(dir.path().join("run").join(name), killed.path().join(name)).unwrap();
    }
    killed
}

/// Returns the trials of a run that opens without an error.
fn trials(dir: &Path) -> Vec<u32> {
    Reader::open(dir).unwrap().trial_indices().unwrap()
}

/// Returns message and hint of the error for a run that lacks records.
fn incomplete(dir: &Path) -> (String, String) {
    let error = Reader::open(dir).unwrap_err();
    assert!(
        matches!(error, ResultsError::Incomplete { .. }),
        "{error:?}"
    );
    let resumed = open_to_resume(dir).unwrap_err();
    assert_eq!(resumed.to_string(), error.to_string());
    (error.to_string(), error.hint().unwrap().to_string())
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_log_that_was_cut_is_reported_with_the_missing_trials() {
    let dir = killed(0..8);
    let log = dir.path().join(LOG);
    change(&log, |bytes| bytes.truncate(bytes.len() / 2));
    let (message, hint) = incomplete(dir.path());
    assert!(
        message.contains("of the 8 trials that were stored are missing"),
        "{message}"
    );
    // The hint leads to the trials that are left.
    assert!(hint.contains(&format!("{LIST}`")), "{hint}");
    fs::remove_file(dir.path().join(LIST)).unwrap();
    let left = trials(dir.path());
    assert!(!left.is_empty() && left.len() < 8, "{left:?}");
    drop(open_to_resume(dir.path()).unwrap());
    assert_eq!(trials(dir.path()), left);
}

#[test]
fn the_check_of_commits_alone_tells_of_a_log_that_was_cut() {
    let dir = killed(0..8);
    Reader::check_commits(dir.path()).unwrap();
    let log = dir.path().join(LOG);
    change(&log, |bytes| bytes.truncate(bytes.len() / 2));
    let error = Reader::check_commits(dir.path()).unwrap_err();
    assert_eq!(error.to_string(), incomplete(dir.path()).0);
}

#[test]
fn a_run_under_way_has_all_that_it_has_committed() {
    let dir = tempdir().unwrap();
    let mut store = Store::create(dir.path(), &header()).unwrap();
    Reader::check_commits(dir.path()).unwrap();
    store.add_trial(&trial(0)).unwrap();
    Reader::check_commits(dir.path()).unwrap();
}

#[test]
fn a_directory_without_a_run_lacks_no_commits() {
    Reader::check_commits(tempdir().unwrap().path()).unwrap();
}

#[test]
fn a_removed_log_is_reported() {
    let dir = killed(0..2);
    fs::remove_file(dir.path().join(LOG)).unwrap();
    let (message, _) = incomplete(dir.path());
    assert!(
        message.contains("2 of the 2 trials that were stored are missing (0, 1)"),
        "{message}"
    );
}

#[test]
fn the_log_of_another_run_is_reported() {
    let [dir, other] = [killed(0..3), killed(3..6)];
    fs::copy(other.path().join(LOG), dir.path().join(LOG)).unwrap();
    let error = Reader::open(dir.path()).unwrap_err();
    assert!(
        matches!(
            error,
            ResultsError::Incomplete { .. } | ResultsError::Damaged { .. }
        ),
        "{error}"
    );
}

/// Checks that after any of two hundred flipped bits of the log no trial is missing without an error.
#[test]
fn a_flipped_bit_in_the_log_loses_nothing_without_an_error() {
    let dir = killed(0..8);
    let log = dir.path().join(LOG);
    let sound = fs::read(&log).unwrap();
    let bits = sound.len() * 8;
    let mut refused = 0;
    for n in 1..=200 {
        // Knuth's multiplier spreads them over the file.
        let bit = n * 2_654_435_761 % bits;
        change(&log, |bytes| {
            bytes.clone_from(&sound);
            bytes[bit / 8] ^= 1 << (bit % 8);
        });
        let _ = fs::remove_file(dir.path().join("results.sqlite-shm"));
        match Reader::open(dir.path()) {
            Ok(reader) => assert_eq!(
                reader.trials().unwrap(),
                (0..8).map(trial).collect::<Vec<_>>()
            ),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0, "none was found");
}

#[test]
fn a_kill_between_commit_and_list_is_no_loss() {
    let dir = killed(0..3);
    change(&dir.path().join(LIST), |bytes| {
        bytes.truncate(bytes.len() - ENTRY);
    });
    assert_eq!(trials(dir.path()), [0, 1, 2]);
}

#[test]
fn an_incomplete_entry_is_no_loss_and_the_list_goes_on_after_it() {
    let dir = killed(0..3);
    let list = dir.path().join(LIST);
    change(&list, |bytes| bytes.truncate(bytes.len() - ENTRY / 2));
    assert_eq!(trials(dir.path()), [0, 1, 2]);
    let mut store = open_to_resume(dir.path()).unwrap();
    store.add_trial(&trial(3)).unwrap();
    let entries = fs::read(&list).unwrap();
    assert_eq!(entries.len() % ENTRY, 0);
    // The new trial is listed, so that its loss shows.
    let lost = tempdir().unwrap();
    for name in [FILE_NAME, LIST] {
        fs::copy(dir.path().join(name), lost.path().join(name)).unwrap();
    }
    drop(store);
    let (message, _) = incomplete(lost.path());
    assert!(message.contains("missing (0, 1, 3)"), "{message}");
}

/// A file system may keep the length of what was appended and not its content when the power fails.
#[test]
fn a_list_with_zeros_at_its_end_is_no_loss() {
    let dir = killed(0..3);
    change(&dir.path().join(LIST), |bytes| {
        let end = bytes.len() - ENTRY;
        bytes[end..].fill(0);
        bytes.extend([0; 4096]);
    });
    assert_eq!(trials(dir.path()), [0, 1, 2]);
}

#[test]
fn a_kill_before_the_list_was_begun_is_no_loss() {
    let dir = killed(0..3);
    fs::write(dir.path().join(LIST), "").unwrap();
    assert_eq!(trials(dir.path()), [0, 1, 2]);
}

#[test]
fn a_kill_before_the_list_was_removed_is_no_loss() {
    let dir = killed(0..3);
    let list = fs::read(dir.path().join(LIST)).unwrap();
    drop(open_to_resume(dir.path()).unwrap());
    assert!(!dir.path().join(LIST).exists(), "one plain file is left");
    fs::write(dir.path().join(LIST), list).unwrap();
    assert_eq!(trials(dir.path()), [0, 1, 2]);
}

#[test]
fn the_list_of_another_run_is_reported() {
    let dir = killed(0..1);
    let mut other = header();
    other.run_id = "another".to_owned();
    let run = tempdir().unwrap();
    let store = Store::create(run.path(), &other).unwrap();
    fs::copy(run.path().join(LIST), dir.path().join(LIST)).unwrap();
    drop(store);
    of_another_run(dir.path());
}

/// Checks that a run is refused for being of two, with a hint that removes nothing.
#[track_caller]
fn of_another_run(dir: &Path) {
    let error = Reader::open(dir).unwrap_err();
    assert!(matches!(error, ResultsError::OtherRun { .. }), "{error:?}");
    let message = error.reasons().join(": ");
    let hint = error.hint().expect("a hint");
    assert!(message.contains("is of another run"), "{message}");
    assert!(
        hint.contains("put those of one run beside one another"),
        "{hint}"
    );
}

/// The log of a run with another identifier, whose pages are all in it.
#[test]
fn the_log_with_the_run_of_another_one_is_reported() {
    let dir = killed(0..2);
    let mut other = header();
    other.run_id = "another".to_owned();
    let run = tempdir().unwrap();
    let mut store = Store::create(run.path(), &other).unwrap();
    store.add_trial(&trial(0)).unwrap();
    fs::copy(run.path().join(FILE_NAME), dir.path().join(FILE_NAME)).unwrap();
    fs::copy(run.path().join(LOG), dir.path().join(LOG)).unwrap();
    of_another_run(dir.path());
}

/// Checks that every record that is there when a reader opens a run under way is in its list, and no later one counts.
#[test]
fn a_run_under_way_is_never_reported() {
    let dir = tempdir().unwrap();
    let mut store = Store::create(dir.path(), &header()).unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            for _ in 0..100 {
                drop(Reader::open(dir.path()).unwrap());
            }
        });
        for index in 0.. {
            if reading.is_finished() {
                break;
            }
            store.add_trial(&trial(index)).unwrap();
        }
    });
}

/// A bit of the version decides about nothing: columns with a checksum are always compared.
#[test]
fn no_bit_of_the_version_switches_the_checksums_off() {
    let dir = tempdir().unwrap();
    let mut store = Store::create(dir.path(), &header()).unwrap();
    store.add_trial(&trial(0)).unwrap();
    drop(store);
    let path = dir.path().join(FILE_NAME);
    let sound = fs::read(&path).unwrap();
    for bit in 0..32 {
        let mut flipped = sound.clone();
        // `user_version` of SQLite's header.
        flipped[60 + bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, flipped).unwrap();
        let error = Reader::open(dir.path()).unwrap_err();
        assert!(
            matches!(error, ResultsError::OtherVersion { .. }),
            "{error}"
        );
    }
}
