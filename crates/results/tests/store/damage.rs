//! Files that are no results files, or damaged ones.

use std::{fs, path::Path};

use regatta_results::{FILE_NAME, Reader, ResultsError, RunLock, schema};
use tempfile::tempdir;

use crate::{
    GOLDEN, check_run,
    common::{open_to_resume, trial},
    write_run,
};

/// Opens bytes as a results file, in both ways, and checks that this changed nothing.
fn open_bytes(bytes: &[u8]) -> ResultsError {
    let dir = tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    fs::write(&path, bytes).unwrap();
    let error = Reader::open(dir.path()).expect_err("what is damaged is refused");
    let resumed = open_to_resume(dir.path()).unwrap_err();
    assert_eq!(error.to_string(), resumed.to_string());
    assert_eq!(fs::read(&path).unwrap(), bytes, "nothing is overwritten");
    error
}

#[test]
fn invalid_files_are_reported_and_unchanged() {
    let sound = fs::read(GOLDEN).unwrap();

    let error = open_bytes(b"");
    assert!(matches!(error, ResultsError::Empty { .. }), "{error}");
    let error = open_bytes(&b"not a database at all, but long enough. ".repeat(50));
    assert!(matches!(error, ResultsError::NotResults { .. }), "{error}");

    for version in [schema::VERSION - 1, schema::VERSION + 1] {
        let mut other = sound.clone();
        other[60..64].copy_from_slice(&version.to_be_bytes());
        let error = open_bytes(&other);
        assert!(
            matches!(error, ResultsError::OtherVersion { found, .. } if found == version),
            "{error}"
        );
        let only = schema::VERSION;
        let expected = format!(
            "was written by Regatta 0.1.0, with tables of version {version}: this Regatta reads those of version {only} alone"
        );
        assert!(error.to_string().ends_with(&expected), "{error}");
        let hint = error.hint().unwrap();
        assert!(hint.contains("the Regatta that wrote it"), "{hint}");
    }

    let mut foreign = sound.clone();
    foreign[68..72].copy_from_slice(&[0; 4]);
    let error = open_bytes(&foreign);
    assert!(matches!(error, ResultsError::NotResults { .. }), "{error}");

    for cut in [sound.len() / 2, sound.len() - 4096, sound.len() - 1, 5000] {
        let error = open_bytes(&sound[..cut]);
        assert!(
            matches!(error, ResultsError::Damaged { .. }),
            "cut to {cut}: {error}"
        );
    }
    // Every page but the first is overwritten in turn.
    assert!(sound.len() > 10 * 4096);
    for page in 1..sound.len() / 4096 {
        let mut damaged = sound.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0xa5);
        let error = open_bytes(&damaged);
        assert!(
            matches!(error, ResultsError::Damaged { .. }),
            "page {page}: {error}"
        );
    }

    let dir = tempdir().unwrap();
    let error = open_to_resume(dir.path()).unwrap_err();
    assert!(matches!(error, ResultsError::Missing { .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_wrong_path_is_distinguished_from_an_empty_run() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let nowhere = Reader::open(&path("none")).unwrap_err();
    assert!(
        matches!(nowhere, ResultsError::NotFound { .. }),
        "{nowhere}"
    );
    let nowhere = RunLock::new(&path("none")).unwrap_err();
    assert!(
        matches!(nowhere, ResultsError::NotFound { .. }),
        "{nowhere}"
    );

    fs::write(path("text"), "hello").unwrap();
    let error = RunLock::new(&path("text")).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is a file, not the directory of a run")
    );
    fs::create_dir_all(path("odd").join(FILE_NAME)).unwrap();
    let error = Reader::open(&path("odd")).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is a directory, not a results file")
    );

    // The directory of several runs names them.
    fs::create_dir(path("run")).unwrap();
    write_run(&path("run"));
    fs::remove_dir_all(path("odd")).unwrap();
    let above = Reader::open(dir.path()).unwrap_err();
    let expected = format!("name the run in it: `{}`", path("run").display());
    assert_eq!(above.hint(), Some(expected.into()));
}

/// Changes a stored run behind our back.
fn tamper(dir: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(dir.join(FILE_NAME)).unwrap();
    connection
        .execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}"))
        .unwrap();
}

#[test]
fn an_unreadable_run_is_not_opened_for_writing() {
    for sql in [
        "UPDATE run SET study_json = '{\"name\": 7}'",
        "DELETE FROM trial WHERE trial = 1",
        "UPDATE trial SET seed = 'none' WHERE trial = 1",
    ] {
        let dir = tempdir().unwrap();
        write_run(dir.path());
        tamper(dir.path(), sql);
        let before = fs::read(dir.path().join(FILE_NAME)).unwrap();
        let error = open_to_resume(dir.path()).unwrap_err();
        assert!(
            matches!(error, ResultsError::Damaged { .. }),
            "{sql}: {error}"
        );
        assert!(error.hint().unwrap().starts_with("nothing was changed"));
        let after = fs::read(dir.path().join(FILE_NAME)).unwrap();
        assert!(after == before, "{sql}: the file was changed");
    }

    // Nor is one that its claimant has looked at and left.
    let dir = tempdir().unwrap();
    write_run(dir.path());
    let before = fs::read(dir.path().join(FILE_NAME)).unwrap();
    let claim = RunLock::new(dir.path()).unwrap();
    let error = RunLock::new(dir.path()).unwrap_err();
    assert!(matches!(error, ResultsError::InUse { .. }), "{error}");
    check_run(claim.reader());
    drop(claim);
    assert!(fs::read(dir.path().join(FILE_NAME)).unwrap() == before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn values_that_are_not_finite_are_left_out() {
    let dir = tempdir().unwrap();
    write_run(dir.path());
    tamper(
        dir.path(),
        "UPDATE metric SET value = 9e999 WHERE trial = 2 AND name = 'goodput_bps'",
    );
    // The checksum of the trial shows it, to who compares it.
    let reader = Reader::unexamined(dir.path()).unwrap();
    let trials = reader.trials().unwrap();
    assert_eq!(trials[0], trial(0));
    assert!(!trials[2].measurements.metrics.contains_key("goodput_bps"));
    assert_eq!(trials[2].measurements.metrics["messages_sent"], 1000.0);
    let codes: Vec<&str> = trials[2]
        .measurements
        .warnings
        .iter()
        .map(|w| w.code.as_str())
        .collect();
    assert!(codes.contains(&"value_not_kept"), "{codes:?}");
}

/// Checks that each of a thousand flipped bits is detected, or changes nothing that is read.
#[test]
fn a_flipped_bit_changes_nothing_that_is_read() {
    let dir = tempdir().unwrap();
    write_run(dir.path());
    let path = dir.path().join(FILE_NAME);
    let sound = fs::read(&path).unwrap();
    let bits = sound.len() * 8;
    let mut undetected = 0;
    for n in 1..=1000 {
        // Knuth's multiplier spreads them over the file.
        let bit = n * 2_654_435_761 % bits;
        let mut flipped = sound.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &flipped).unwrap();
        let Ok(reader) = Reader::open(dir.path()) else {
            continue;
        };
        undetected += 1;
        check_run(&reader);
    }
    assert!(undetected < 1000, "none was found");
}

#[test]
fn a_link_to_itself_is_not_called_missing() {
    let dir = tempdir().unwrap();
    let link = dir.path().join("run");
    std::os::unix::fs::symlink("run", &link).unwrap();
    let error = Reader::open(&link).unwrap_err();
    assert!(matches!(error, ResultsError::Io { .. }), "{error}");
    let resumed = open_to_resume(&link).unwrap_err();
    assert_eq!(error.to_string(), resumed.to_string());
    let hint = resumed.hint().unwrap();
    assert!(hint.contains("where the link leads"), "{hint}");
}

#[test]
fn a_record_without_a_checksum_is_damaged() {
    for sql in [
        "UPDATE metric SET value = 9e9 WHERE trial = 2 AND name = 'goodput_bps';
         UPDATE trial SET checksum = NULL WHERE trial = 2",
        "UPDATE run SET checksum = NULL",
        "INSERT INTO warning VALUES (9999, NULL, 'a', 'b', 'c', NULL, NULL)",
    ] {
        let dir = tempdir().unwrap();
        write_run(dir.path());
        tamper(dir.path(), sql);
        let error = Reader::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains("is missing"), "{error}");
    }
}

#[test]
fn a_metric_without_its_definition_or_unit_is_damaged() {
    for (sql, expected) in [
        (
            "UPDATE metric_definition SET unit = 'byte' WHERE name = 'goodput_bps'",
            Some("the unit of the metric `goodput_bps`"),
        ),
        (
            "UPDATE metric_definition SET name = 'goodput_bpr' WHERE name = 'goodput_bps'",
            Some("no definition of the metric `goodput_bps`"),
        ),
        (
            "UPDATE metric_definition SET title = CAST(x'ff' AS TEXT) WHERE name = 'goodput_bps'",
            Some("another type"),
        ),
        // What a later Regatta would store.
        (
            "INSERT INTO metric_definition VALUES ('later', 'lux', 'Later', 'A later metric');
             UPDATE metric_definition SET title = 'Other words' WHERE name = 'goodput_bps'",
            None,
        ),
    ] {
        let dir = tempdir().unwrap();
        write_run(dir.path());
        tamper(dir.path(), sql);
        match (Reader::open(dir.path()), expected) {
            (Err(error), Some(expected)) => {
                assert!(matches!(error, ResultsError::Damaged { .. }), "{error}");
                assert!(error.to_string().contains(expected), "{error}");
            }
            (Ok(reader), None) => check_run(&reader),
            (opened, _) => panic!("{sql}: {opened:?}"),
        }
    }
}

#[test]
fn foreign_views_and_triggers_are_refused() {
    for sql in [
        "CREATE VIEW spare AS SELECT 1",
        "DROP TABLE fact; CREATE VIEW fact AS WITH RECURSIVE n(trial) AS
         (SELECT 0 UNION ALL SELECT trial FROM n) SELECT trial, 'a' AS name, 'b' AS value FROM n",
        "CREATE TRIGGER lose AFTER INSERT ON trial BEGIN DELETE FROM metric; END",
    ] {
        let dir = tempdir().unwrap();
        write_run(dir.path());
        tamper(dir.path(), sql);
        let error = Reader::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains("Regatta made no"), "{error}");
    }
}
