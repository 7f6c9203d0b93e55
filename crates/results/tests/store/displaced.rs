//! Results directories that are removed or replaced while their run is written.

use std::{fs, path::Path};

use regatta_results::{Displaced, Reader, ResultsError, Store};
use tempfile::tempdir;

use crate::common::{header, trial};

/// Displaces the directory `out` of a run of one trial, and stores another trial; returns the place
/// of the data.
fn displaced(displace: impl FnOnce(&Path)) -> (tempfile::TempDir, Displaced) {
    let dir = tempdir().unwrap();
    let out = dir.path().join("out");
    let mut store = Store::create(&out, &header()).unwrap();
    store.add_trial(&trial(0)).unwrap();
    displace(&out);
    let refused = store.add_trial(&trial(1)).unwrap_err();
    let ResultsError::Displaced { path, now } = refused else {
        panic!("{refused}");
    };
    assert_eq!(path, out.join("results.sqlite"));
    drop(store);
    (dir, now)
}

fn assert_holds_the_first_trial(dir: &Path) {
    let reader = Reader::open(dir).unwrap();
    assert_eq!(reader.trials().unwrap(), [trial(0)]);
}

#[test]
fn a_moved_directory_is_located() {
    let (dir, now) = displaced(|out| fs::rename(out, out.with_file_name("moved")).unwrap());
    let moved = dir.path().canonicalize().unwrap().join("moved");
    assert_eq!(now, Displaced::Moved(moved.clone()));
    assert_holds_the_first_trial(&moved);
}

#[test]
fn a_replaced_directory_is_located_and_its_replacement_unchanged() {
    let (dir, now) = displaced(|out| {
        fs::rename(out, out.with_file_name("moved")).unwrap();
        let mut other = Store::create(out, &header()).unwrap();
        other.add_trial(&trial(7)).unwrap();
    });
    let moved = dir.path().canonicalize().unwrap().join("moved");
    assert_eq!(now, Displaced::Moved(moved.clone()));
    assert_holds_the_first_trial(&moved);
    let other = Reader::open(&dir.path().join("out")).unwrap();
    assert_eq!(other.trials().unwrap(), [trial(7)]);
}

#[test]
fn a_run_in_a_deleted_directory_is_saved_beside_it() {
    let (dir, now) = displaced(|out| fs::remove_dir_all(out).unwrap());
    let saved = dir.path().join("out-saved-1");
    assert_eq!(now, Displaced::Saved(saved.clone()));
    assert_holds_the_first_trial(&saved);
    assert!(!dir.path().join("out").exists());
}
