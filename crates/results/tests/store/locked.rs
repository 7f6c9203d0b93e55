//! Results files that another program has locked.

use std::{
    path::Path,
    sync::{Mutex, mpsc},
    thread,
};

use regatta_results::{FILE_NAME, Reader, ResultsError, on_locked};
use rusqlite::Connection;
use tempfile::tempdir;

use super::{check_run, write_run};

static NOTIFICATIONS: Mutex<Option<mpsc::Sender<()>>> = Mutex::new(None);

fn notify(path: &Path) {
    assert!(path.ends_with(FILE_NAME), "{}", path.display());
    let notifications = NOTIFICATIONS.lock().unwrap();
    notifications
        .as_ref()
        .expect("a test waits")
        .send(())
        .unwrap();
}

#[test]
fn a_lock_is_reported_after_a_second_and_awaited() {
    let dir = tempdir().unwrap();
    write_run(dir.path());
    let (sender, notified) = mpsc::channel();
    *NOTIFICATIONS.lock().unwrap() = Some(sender);
    on_locked(notify);
    let other = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            notified.recv().unwrap();
            other.execute_batch("COMMIT").unwrap();
        });
        check_run(&Reader::open(dir.path()).unwrap());
    });
}

#[test]
fn a_file_without_one_of_its_tables_is_damaged() {
    let dir = tempdir().unwrap();
    write_run(dir.path());
    let other = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    other.execute_batch("DROP TABLE path_quantity").unwrap();
    drop(other);
    let error = Reader::open(dir.path()).expect_err("a table is missing");
    assert!(
        matches!(&error, ResultsError::Damaged { what, .. } if what.contains("path_quantity")),
        "{error:?}"
    );
    assert!(error.hint().is_some());
}

#[test]
fn io_errors_have_hints() {
    let dir = tempdir().unwrap();
    let looped = dir.path().join("loop");
    std::os::unix::fs::symlink(&looped, &looped).unwrap();
    let error = Reader::open(&looped).expect_err("it leads nowhere");
    let hint = error.hint().expect("a hint");
    assert!(hint.contains("ls -l "), "{hint}");
    // Root may read everything.
    let error = ResultsError::Io {
        doing: "read",
        path: looped,
        source: std::io::ErrorKind::PermissionDenied.into(),
    };
    let hint = error.hint().expect("a hint");
    assert!(hint.contains("right to read"), "{hint}");
}
