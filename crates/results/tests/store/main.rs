//! Tests of the results file: stored data, refused data, and recovery from a crash.

mod common;
mod damage;
mod displaced;
mod host_samples;
mod locked;
mod log;
mod merge;
mod parameters;
mod tables;

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use common::{failed, header, open_to_resume, path_check, trial};
use regatta_model::{Measurements, PathCheck, Ratio, Text, TrialRecord, phrase, reason, warning};
use regatta_results::{FILE_NAME, Reader, ResultsError, RunState, Store, checkpoint, exports};
use tempfile::tempdir;

/// Results file that `write_run` made. From the first release on, each version of the tables has one.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/schema-9.sqlite");

/// Writes the run that the golden file holds.
fn write_run(dir: &Path) {
    let mut store = Store::create(dir, &header()).unwrap();
    store.add_path_check(&path_check()).unwrap();
    store.add_trial(&trial(2)).unwrap();
    store.add_trial(&trial(0)).unwrap();
    store.add_trial(&failed(1)).unwrap();
    store.add_warning(&common::warning()).unwrap();
    let reason = "stopped with Ctrl-C".into();
    store.set_state(&RunState::Interrupted { reason }).unwrap();
}

fn check_run(reader: &Reader) {
    assert_eq!(reader.header().unwrap(), header());
    assert_eq!(reader.trial_indices().unwrap(), [0, 1, 2]);
    assert_eq!(reader.trials().unwrap(), [trial(0), failed(1), trial(2)]);
    assert_eq!(reader.path_checks().unwrap(), [path_check()]);
    assert_eq!(reader.warnings().unwrap(), [common::warning()]);
    let reason = "stopped with Ctrl-C".into();
    assert_eq!(reader.state().unwrap(), RunState::Interrupted { reason });
}

#[test]
fn a_run_round_trips() {
    let dir = tempdir().unwrap();
    let run = dir.path().join("new/parents/run");
    write_run(&run);
    check_run(&Reader::open(&run).unwrap());
    check_run(&Reader::open(&run.join(FILE_NAME)).unwrap());
    // One plain file is left, no log beside it.
    assert_eq!(fs::read_dir(&run).unwrap().count(), 1);
}

/// Checks that a file of this version of the tables can still be read. To make one for a new version, run this crate's tests
/// with `REGATTA_MAKE_GOLDEN` set to a new directory.
#[test]
fn golden_file_still_loads() {
    if let Some(dir) = env::var_os("REGATTA_MAKE_GOLDEN") {
        write_run(Path::new(&dir));
    }
    check_run(&Reader::open(Path::new(GOLDEN)).unwrap());
}

/// Reasons, hints, facts and void path checks keep their phrases.
#[test]
fn texts_keep_their_phrases() {
    let dir = tempdir().unwrap();
    write_run(dir.path());
    let texts = [
        reason::path_too_small_for_quic(1000, 1228),
        reason::larger_mtu(1228),
        phrase::packets(10),
    ]
    .map(Text::from);
    let [why, hint, window] = &texts;
    let mut added = failed(10);
    added.reasons = vec![why.clone(), "os error 5".into()];
    added.hint = hint.clone();
    let facts = &mut added.measurements.facts;
    facts.insert("initial_window.sender", window.clone());
    let mut store = open_to_resume(dir.path()).unwrap();
    store.add_trial(&added).unwrap();
    let reason = reason::stopped_by_user();
    let state = RunState::Interrupted {
        reason: reason.clone().into(),
    };
    store.set_state(&state).unwrap();
    drop(store);
    let reader = Reader::open(dir.path()).unwrap();
    let read = reader.trials().unwrap().remove(3);
    assert_eq!(read, added);
    let stored = [
        &read.reasons[0],
        &read.hint,
        &read.measurements.facts["initial_window.sender"],
    ];
    for (stored, made) in stored.into_iter().zip(&texts) {
        assert_eq!(stored.phrase(), made.phrase());
    }
    assert_eq!(read.reasons[1].phrase(), None);
    let RunState::Interrupted { reason: stored } = reader.state().unwrap() else {
        panic!("an interrupted run");
    };
    assert_eq!(stored.phrase(), Some(&reason));
    drop(reader);
    let connection = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let change = "UPDATE phrase SET content_json = replace(content_json, '1228', '1300')";
    assert!(connection.execute(change, []).unwrap() > 0);
    drop(connection);
    let error = Reader::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("`phrase`"), "{error}");
}

/// Warnings of the run and of a trial keep template and arguments, beside those that are sentences alone.
#[test]
fn warnings_keep_their_arguments() {
    let dir = tempdir().unwrap();
    write_run(dir.path());
    let late = warning::path_late(Ratio(0.021), Duration::from_micros(1500));
    let mut added = trial(10);
    added.measurements.warnings.push(late.clone());
    let mut store = open_to_resume(dir.path()).unwrap();
    store.add_trial(&added).unwrap();
    store.add_warning(&late).unwrap();
    drop(store);
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.trials().unwrap()[3], added);
    assert_eq!(reader.warnings().unwrap(), [common::warning(), late]);
    drop(reader);
    let connection = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let change = "UPDATE warning SET content_json = replace(content_json, '21000', '22000') WHERE trial = 10";
    assert!(connection.execute(change, []).unwrap() > 0);
    drop(connection);
    let error = Reader::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("trial 10"), "{error}");
}

#[test]
fn a_resumed_run_stores_attempts_and_steps() {
    let dir = tempdir().unwrap();
    write_run(dir.path());
    let again = TrialRecord {
        attempt: 2,
        index: 10,
        ..trial(1)
    };
    let check = PathCheck {
        step_at_ns: 20_000_000_000,
        spoiled: Some("it was late".into()),
        ..path_check()
    };
    for attempt in 0..2 {
        let mut store = open_to_resume(dir.path()).unwrap();
        if attempt == 0 {
            store.add_trial(&again).unwrap();
            store.add_path_check(&check).unwrap();
        }
    }
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(
        reader.trials().unwrap(),
        [trial(0), failed(1), trial(2), again]
    );
    assert_eq!(reader.path_checks().unwrap(), [path_check(), check]);
}

#[test]
fn a_directory_with_a_run_is_refused_and_unchanged() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    write_run(dir.path());
    let before = fs::read(dir.path().join(FILE_NAME)).unwrap();
    let error = Store::create(dir.path(), &header()).unwrap_err();
    assert!(
        matches!(error, ResultsError::AlreadyExists { .. }),
        "{error}"
    );
    let hint = error.hint().unwrap();
    assert!(
        hint.contains("regatta resume") && hint.contains("--out"),
        "{hint}"
    );
    assert_eq!(fs::read(dir.path().join(FILE_NAME)).unwrap(), before);

    // An export alone is part of a run, too.
    let other = tempdir().unwrap();
    fs::write(other.path().join("trials.csv"), "x").unwrap();
    let error = Store::create(other.path(), &header()).unwrap_err();
    assert!(!error.hint().unwrap().contains("resume"), "{error}");
    assert!(matches!(error, ResultsError::AlreadyExists { found, .. } if found == "trials.csv"));
}

#[test]
fn a_trial_is_stored_once_and_atomically() {
    let dir = tempdir().unwrap();
    let mut store = Store::create(dir.path(), &header()).unwrap();
    store.add_trial(&trial(7)).unwrap();
    let error = store.add_trial(&failed(7)).unwrap_err();
    assert!(
        matches!(error, ResultsError::DuplicateTrial { index: 7 }),
        "{error}"
    );

    let mut uneven = trial(8);
    uneven.measurements.series[0].values.pop();
    let error = store.add_trial(&uneven).unwrap_err();
    assert!(
        matches!(error, ResultsError::UnusableTrial { index: 8, .. }),
        "{error}"
    );

    let mut odd = trial(9);
    odd.measurements
        .metrics
        .insert("cpu_sender_ratio", f64::NAN);
    odd.measurements.metrics.insert("speed", 1.0);
    odd.measurements.series[0].values[1] = f64::INFINITY;
    store.add_trial(&odd).unwrap();
    drop(store);

    let trials = Reader::open(dir.path()).unwrap().trials().unwrap();
    assert_eq!(trials[0], trial(7));
    assert_eq!((trials.len(), trials[1].index), (2, 9));
    assert_eq!(
        trials[1].measurements.metrics,
        trial(9).measurements.metrics
    );
    assert_eq!(trials[1].measurements.series[0].t_ns, [100_000_000, -1]);
    let codes: Vec<&str> = trials[1]
        .measurements
        .warnings
        .iter()
        .map(|w| w.code.as_str())
        .collect();
    assert_eq!(
        codes,
        ["deadline_reached", "value_not_kept", "value_not_kept"]
    );
}

#[test]
fn a_live_run_is_read_and_not_written_by_a_second() {
    let dir = tempdir().unwrap();
    let mut store = Store::create(dir.path(), &header()).unwrap();
    store.add_trial(&trial(0)).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    store.add_trial(&trial(1)).unwrap();
    // A reader keeps to its moment and does not make the run wait.
    assert_eq!(reader.trial_indices().unwrap(), [0]);
    assert_eq!(
        Reader::open(dir.path()).unwrap().trial_indices().unwrap(),
        [0, 1]
    );
    let error = open_to_resume(dir.path()).unwrap_err();
    assert!(matches!(error, ResultsError::InUse { .. }), "{error}");
    drop(reader);
    // The refusal must not have loosened the first one's hold.
    store.add_trial(&trial(2)).unwrap();
    drop(store);

    let mut store = open_to_resume(dir.path()).unwrap();
    assert_eq!(store.header().unwrap(), header());
    assert_eq!(store.trial_indices().unwrap(), [0, 1, 2]);
    store.add_trial(&trial(3)).unwrap();
    store.set_state(&RunState::Complete).unwrap();
    drop(store);
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.trial_indices().unwrap(), [0, 1, 2, 3]);
    assert_eq!(reader.state().unwrap(), RunState::Complete);
}

/// Runs this test binary again as a child that plays one part in a directory.
fn child(part: &str, dir: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "child_process_roles", "--nocapture"])
        .env("REGATTA_TEST_PART", part)
        .env("REGATTA_TEST_DIR", dir)
        .stdout(Stdio::piped());
    command
}

/// Entry point of a child process (see [`child`]); not a test by itself.
#[test]
fn child_process_roles() {
    let Ok(part) = env::var("REGATTA_TEST_PART") else {
        return;
    };
    let dir = PathBuf::from(env::var_os("REGATTA_TEST_DIR").unwrap());
    match part.as_str() {
        "write for ever" => {
            let mut store = Store::create(&dir, &header()).unwrap();
            for index in 0.. {
                store.add_trial(&trial(index)).unwrap();
                println!("\nstored {index}");
                std::io::stdout().flush().unwrap();
            }
        }
        "fill the disk" => {
            let mut store = Store::create(&dir, &header()).unwrap();
            let mut large = trial(0);
            large.measurements.series[0].t_ns = (0..5000).collect();
            large.measurements.series[0].values = vec![1.5; 5000];
            let mut stored = 0;
            let error = loop {
                large.index = stored;
                match store.add_trial(&large) {
                    Ok(()) => stored += 1,
                    Err(error) => break error,
                }
            };
            assert!(stored > 3, "{stored}: {error}");
            assert!(
                matches!(&error, ResultsError::DiskFull { stored: reported, .. } if *reported == stored as usize),
                "{error:?}"
            );
            assert!(
                error
                    .to_string()
                    .contains(&format!("{stored} trials are safe"))
            );
            assert!(error.hint().unwrap().contains("regatta resume"));
            assert_eq!(causes(&error), 1, "the message of SQLite is there once");
            drop(store);
            let reader = Reader::open(&dir).unwrap();
            assert_eq!(reader.trial_indices().unwrap().len(), stored as usize);
            let error = exports::write_exports(&reader, &dir).unwrap_err();
            assert!(matches!(error, ResultsError::Export { .. }), "{error:?}");
            let hint = error.hint().unwrap();
            assert!(
                hint.starts_with("free some space, then run `regatta report "),
                "{hint}"
            );
            let mut entries = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name());
            assert!(entries.all(|name| !name.to_string_lossy().ends_with(".tmp")));
            println!("\nplayed");
        }
        "have no room to begin" => {
            let error = Store::create(&dir.join("run"), &header()).unwrap_err();
            assert!(
                matches!(error, ResultsError::DiskFull { stored: 0, .. }),
                "{error:?}"
            );
            assert!(!dir.join("run").join(FILE_NAME).exists());
            assert!(
                error.to_string().ends_with("; nothing was saved"),
                "{error}"
            );
            let hint = error.hint().unwrap();
            assert!(hint.contains("--out") && !hint.contains("resume"), "{hint}");
            println!("\nplayed");
        }
        "read" => {
            // Proves that the directory cannot be written to.
            assert!(fs::write(dir.join("x"), "x").is_err());
            let reader = Reader::open(&dir).unwrap();
            println!("\nread {}", reader.trials().unwrap().len());
        }
        "resume" => {
            let error = open_to_resume(&dir).unwrap_err();
            assert!(
                matches!(error, ResultsError::NotWritable { .. }),
                "{error:?}"
            );
            assert_eq!(causes(&error), 1, "the message of SQLite is there once");
            assert!(error.hint().unwrap().contains("resume a copy"));
            println!("\nplayed");
        }
        other => panic!("no part `{other}`"),
    }
}

/// Returns the number of causes in an error's chain.
fn causes(error: &ResultsError) -> usize {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |cause| cause.source()).count()
}

/// Kills a child in mid-run and returns the number of trials that it had reported as stored.
fn kill_in_mid_run(dir: &Path) -> usize {
    let mut writer = child("write for ever", dir).spawn().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .filter(|line| line.starts_with("stored "));
    let stored = lines.by_ref().take(25).count();
    // SIGKILL; the child is writing while it comes.
    writer.kill().unwrap();
    writer.wait().unwrap();
    stored + lines.count()
}

#[test]
fn a_killed_run_loses_no_stored_trial() {
    let dir = tempdir().unwrap();
    let stored = kill_in_mid_run(dir.path());
    assert!(
        dir.path().join("results.sqlite-wal").exists(),
        "killed with its log open"
    );
    let reader = Reader::open(dir.path()).unwrap();
    let trials = reader.trials().unwrap();
    // The last one may have been committed without a chance to say so.
    assert!(
        (stored..=stored + 1).contains(&trials.len()),
        "{stored} stored, {} found",
        trials.len()
    );
    for (index, found) in (0..).zip(&trials) {
        assert_eq!(*found, trial(index));
    }
    assert_eq!(reader.state().unwrap(), RunState::Running);
    drop(reader);

    // The lock went with the process, and the run goes on.
    let mut store = open_to_resume(dir.path()).unwrap();
    let next = u32::try_from(trials.len()).unwrap();
    store.add_trial(&trial(next)).unwrap();
    drop(store);
    assert_eq!(
        Reader::open(dir.path()).unwrap().trials().unwrap().len(),
        trials.len() + 1
    );
}

/// Runs a shell script in a mount namespace of its own (made in a user namespace, so that an
/// ordinary user may, too), then a child that plays `part` in `dir`, and returns what it printed.
fn in_mounts(script: &str, part: &str, dir: &Path) -> String {
    let played = child(part, dir);
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-ec"])
        .arg(format!("{script}; exec \"$@\""))
        .arg("sh")
        .arg(played.get_program())
        .args(played.get_args())
        .env("REGATTA_TEST_PART", part)
        .env("REGATTA_TEST_DIR", dir)
        .env("DIR", dir);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{part}: {text}\n{errors}");
    text
}

#[test]
fn a_read_only_medium_is_read_closed_or_crashed() {
    let dir = tempdir().unwrap();
    let read_only = "mount --bind \"$DIR\" \"$DIR\"; mount -o remount,bind,ro \"$DIR\"";
    write_run(dir.path());
    let output = in_mounts(read_only, "read", dir.path());
    assert!(output.contains("\nread 3\n"), "{output}");
    let output = in_mounts(read_only, "resume", dir.path());
    assert!(output.contains("\nplayed\n"), "{output}");

    for drop_index in [false, true] {
        let crashed = tempdir().unwrap();
        let n = kill_in_mid_run(crashed.path());
        if drop_index {
            // As when only the file and its log were copied from elsewhere.
            fs::remove_file(crashed.path().join("results.sqlite-shm")).unwrap();
        }
        let output = in_mounts(read_only, "read", crashed.path());
        let expected = [format!("\nread {n}\n"), format!("\nread {}\n", n + 1)];
        assert!(
            expected.iter().any(|text| output.contains(text)),
            "{n}: {output}"
        );
    }
}

#[test]
fn a_full_disk_loses_no_stored_trial() {
    let dir = tempdir().unwrap();
    let small = |size: &str| format!("mount -t tmpfs -o size={size} none \"$DIR\"");
    let output = in_mounts(&small("2m"), "fill the disk", dir.path());
    assert!(output.contains("\nplayed\n"), "{output}");
    let output = in_mounts(&small("16k"), "have no room to begin", dir.path());
    assert!(output.contains("\nplayed\n"), "{output}");
}

#[test]
fn two_processes_do_not_write_one_run() {
    let dir = tempdir().unwrap();
    let mut writer = child("write for ever", dir.path()).spawn().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("stored ")));
    let error = open_to_resume(dir.path()).unwrap_err();
    assert!(matches!(error, ResultsError::InUse { .. }), "{error}");
    // A report works meanwhile.
    assert!(
        !Reader::open(dir.path())
            .unwrap()
            .trials()
            .unwrap()
            .is_empty()
    );
    writer.kill().unwrap();
    writer.wait().unwrap();
    open_to_resume(dir.path()).unwrap();
}

#[test]
fn a_run_with_an_open_reader_is_checkpointed_later() {
    let dir = tempdir().unwrap();
    let log = dir.path().join("results.sqlite-wal");
    let mut store = Store::create(dir.path(), &header()).unwrap();
    store.add_trial(&trial(0)).unwrap();
    let early = Reader::open(dir.path()).unwrap();
    store.add_trial(&trial(1)).unwrap();
    store.set_state(&RunState::Complete).unwrap();
    // What the reader sees may go into the file, what came later may not.
    assert!(!store.close());
    assert!(log.metadata().unwrap().len() > 0);
    assert!(dir.path().join(FILE_NAME).metadata().unwrap().len() > 4096);
    assert_eq!(early.trial_indices().unwrap(), [0]);
    assert!(!checkpoint(dir.path()), "the reader is at it still");
    drop(early);
    assert!(!Reader::open(dir.path()).unwrap().is_single_file().unwrap());
    assert!(checkpoint(dir.path()));
    assert!(!log.exists());
    let reader = Reader::open(dir.path()).unwrap();
    assert!(reader.is_single_file().unwrap());
    assert_eq!(reader.trial_indices().unwrap(), [0, 1]);

    // A run that was ended by force keeps its log until it is resumed.
    let killed = tempdir().unwrap();
    kill_in_mid_run(killed.path());
    assert!(!checkpoint(killed.path()));
    assert!(killed.path().join("results.sqlite-wal").exists());
}

#[test]
fn concurrent_replacements_of_a_file_are_atomic() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("trials.csv");
    let write = |text: &str| {
        let mut bytes = text.bytes();
        let write = |out: &mut (dyn Write + Send)| bytes.try_for_each(|it| out.write_all(&[it]));
        regatta_results::replace(&path, |e| e, write).unwrap();
    };
    write("first");
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    let texts = ["a".repeat(20_000), "b".repeat(10_000)];
    std::thread::scope(|scope| {
        for text in &texts {
            scope.spawn(|| (0..20).for_each(|_| write(text)));
        }
        for _ in 0..200 {
            let there = fs::read_to_string(&path).unwrap();
            assert!(there == "first" || texts.contains(&there), "half of a file");
        }
    });
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Replaces a file by `whole`, and returns the error.
fn replaced(path: &Path) -> Option<String> {
    let write = |out: &mut (dyn Write + Send)| out.write_all(b"whole");
    regatta_results::replace(
        path,
        |e| e.to_string(),
        |out| write(out).map_err(|e| e.to_string()),
    )
    .err()
}

/// A name that somebody else can guess may be a link to a file of the user's.
#[test]
fn planted_links_at_temporary_names_are_not_followed() {
    let dir = tempdir().unwrap();
    let (path, other) = (dir.path().join("out"), dir.path().join("other"));
    fs::write(&other, "untouched").unwrap();
    for name in [".out.tmp".to_owned(), format!("out.{}", std::process::id())] {
        std::os::unix::fs::symlink(&other, dir.path().join(name)).unwrap();
    }
    assert_eq!(replaced(&path), None);
    regatta_results::replace_unflushed(&path, b"text").unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), "untouched");
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
}

#[test]
fn a_link_is_not_replaced() {
    let dir = tempdir().unwrap();
    let [link, other] = ["link", "other"].map(|name| dir.path().join(name));
    fs::write(&other, "untouched").unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let error = replaced(&link).unwrap();
    assert!(error.contains("it is a symbolic link"), "{error}");
    assert_eq!(fs::read_to_string(&link).unwrap(), "untouched");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_pipe_is_not_replaced_and_not_waited_for() {
    let dir = tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = replaced(&pipe).unwrap();
    assert!(error.contains("a device, a pipe or a socket"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_private_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempdir().unwrap();
    let path = dir.path().join("private");
    fs::write(&path, "old").unwrap();
    regatta_results::replace_private(&path, b"new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn exports_contain_the_stored_values() {
    let dir = tempdir().unwrap();
    write_run(dir.path());
    let reader = Reader::open(dir.path()).unwrap();
    exports::write_exports(&reader, dir.path()).unwrap();
    exports::write_exports(&reader, dir.path()).unwrap();
    assert_eq!(
        fs::read_to_string(dir.path().join("trials.csv")).unwrap(),
        "trial,attempt,round,transport,condition,workload,started_unix_ns,seed,outcome,reasons,hint,\
         warnings,goodput_bps,messages_sent,fact.congestion_control.sender\n\
         0,1,0,tcp,loss-5,bulk,1790000001000000000,18446744073709551615,measured,,,\
         deadline_reached,82800000.1,1000,cubic\n\
         1,1,1,tcp,loss-5,bulk,1790000001000000001,18446744073709551614,failed,\
         the agent at the sender ended; signal 9,\"look, then try again\",,,,\n\
         2,1,2,tcp,loss-5,bulk,1790000001000000002,18446744073709551613,measured,,,\
         deadline_reached,82800000.1,1000,cubic\n"
    );
    let series = fs::read_to_string(dir.path().join("series.csv")).unwrap();
    let lines: Vec<&str> = series.lines().collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(
        lines[0],
        "trial,round,transport,condition,workload,side,name,unit,t_ns,value"
    );
    assert_eq!(
        lines[1],
        "0,0,tcp,loss-5,bulk,receiver,goodput_bps,bit/s,100000000,0.3333333333333333"
    );
    assert_eq!(
        lines[6],
        "2,2,tcp,loss-5,bulk,receiver,goodput_bps,bit/s,-1,-0"
    );
    // The results file and two exports: no temporary file is left.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}

#[test]
fn no_exported_text_is_a_formula() {
    let dir = tempdir().unwrap();
    let mut store = Store::create(dir.path(), &header()).unwrap();
    let record = TrialRecord {
        reasons: vec!["=HYPERLINK(\"http://example.org\")".into()],
        hint: "@SUM(A1)".into(),
        measurements: Measurements {
            facts: [
                ("driver.a", "-1+2"),
                ("driver.b", "-12.5"),
                ("driver.c", "a=b"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            ..Measurements::default()
        },
        ..failed(0)
    };
    store.add_trial(&record).unwrap();
    drop(store);
    let reader = Reader::open(dir.path()).unwrap();
    exports::write_exports(&reader, dir.path()).unwrap();
    let trials = fs::read_to_string(dir.path().join("trials.csv")).unwrap();
    let row = trials.lines().nth(1).unwrap();
    // A negative number stays a number.
    assert!(
        row.ends_with(",\"'=HYPERLINK(\"\"http://example.org\"\")\",'@SUM(A1),,'-1+2,-12.5,a=b"),
        "{row}"
    );
}
