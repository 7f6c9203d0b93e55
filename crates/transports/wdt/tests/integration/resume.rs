//! A transfer that failed is resumed by later ones, in simulated time: blocks that were counted are
//! not sent again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use wdt_protocol::crypto::{Cipher, Key, Secret};
use wdt_protocol::files::{DirectoryOptions, DirectorySink};
use wdt_protocol::path::RelativePath;
use wdt_protocol::sink::Sink as _;
use wdt_protocol::url::ConnectionUrl;
use wdt_protocol::{receiver, sender};

use crate::memory::{MemorySink, MemorySource};
use crate::random::Random;
use crate::simulated::{Cut, Outcome, Refusal, Simulation, Tee};

type Files = BTreeMap<RelativePath, Vec<u8>>;

fn files(sizes: &[(&str, usize)]) -> Files {
    let content = |size: usize| (0..size).map(|byte| (byte * 31 % 251) as u8).collect();
    sizes
        .iter()
        .map(|(path, size)| (RelativePath::new(path.as_bytes()).unwrap(), content(*size)))
        .collect()
}

/// Runs a transfer into a directory; with `cut`, both ports end for good after this many bytes of
/// the sender.
fn transfer(
    target: &Path,
    files: &Files,
    cipher: Option<Cipher>,
    cut: Option<u64>,
    resumes: bool,
) -> Outcome {
    let url = ConnectionUrl {
        host: "localhost".to_owned(),
        ports: vec![4000, 4001],
        id: b"42".to_vec(),
        version: Some(32),
        secret: cipher.map(|cipher| Secret {
            cipher,
            key: Key::new([9; 16]),
            iv_change_bytes: 0,
        }),
        iv_change_bytes: 0,
        resumption: true,
    };
    let mut source = MemorySource::new();
    for (path, content) in files {
        source.add(path.clone(), content.clone());
    }
    let options = sender::Options {
        block_bytes: 9000,
        tag_interval_bytes: 2048,
        ..sender::Options::default()
    };
    let to_disk = DirectoryOptions {
        overwrite: true,
        sync: false,
        resume: true,
        delete_extra_files: false,
    };
    let disk = DirectorySink::new(target, to_disk).expect("a sink");
    let ports = if cut.is_some() { 0..2 } else { 0..0 };
    let simulation = Simulation {
        delay: Duration::from_millis(40),
        cuts: ports
            .clone()
            .map(|port| Cut {
                port,
                connection: 0,
                of_sender: true,
                after: cut.unwrap_or_default(),
                silent: false,
            })
            .collect(),
        refusals: ports.map(|port| Refusal { port, from: 1 }).collect(),
        random: Random::new(1),
    };
    let sender_url = ConnectionUrl {
        resumption: resumes,
        ..url.clone()
    };
    let sink = Tee(MemorySink::new(1 << 20), disk.clone());
    let outcome = simulation.run(
        source,
        sink,
        &url,
        &sender_url,
        (options, receiver::Options::default()),
    );
    if outcome.received.is_ok() {
        disk.commit().expect("all is there");
    }
    outcome
}

/// Runs a transfer that fails, and one that resumes it and succeeds; returns the bytes of blocks
/// that each sent.
#[track_caller]
fn resumed(cipher: Option<Cipher>, first: &Files, second: &Files, resumes: bool) -> (u64, u64) {
    let target = tempfile::tempdir().expect("a directory");
    let failed = transfer(target.path(), first, cipher, Some(60_000), true);
    assert!(failed.sent.is_err() && failed.received.is_err());
    assert!(target.path().join(".wdt-resume.part/journal").exists());
    let outcome = transfer(target.path(), second, cipher, None, resumes);
    outcome.received.expect("the receiver succeeds");
    let sent = outcome.sent.expect("the sender succeeds").bytes;
    for (path, content) in second {
        let there = std::fs::read(target.path().join(path.as_path())).expect("a file");
        assert!(there == *content, "`{path}`");
    }
    let all = second.values().map(|content| content.len() as u64).sum();
    // Of what is complete nothing is sent again.
    let again = transfer(target.path(), second, cipher, None, resumes);
    again.received.expect("the receiver succeeds");
    let again = again.sent.expect("the sender succeeds").bytes;
    assert_eq!(again, if resumes { 0 } else { all });
    assert_eq!(journal_alone(target.path()), ["journal"]);
    (sent, all)
}

/// Returns the names in the staging directory.
fn journal_alone(target: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(target.join(".wdt-resume.part")).expect("readable");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    names.map(|name| name.expect("text")).collect()
}

fn a_tree() -> Files {
    files(&[
        ("a/large", 100_000),
        ("b", 50_000),
        ("empty", 0),
        ("z", 20_000),
    ])
}

#[test]
fn acknowledged_blocks_are_not_resent() {
    for cipher in [None, Some(Cipher::Aes128Ctr), Some(Cipher::Aes128Gcm)] {
        let (sent, all) = resumed(cipher, &a_tree(), &a_tree(), true);
        // 120 kB went over both ports, of which a block or so of each was not whole.
        assert!(
            sent > 0 && sent + 80_000 < all,
            "{cipher:?}: {sent} of {all}"
        );
    }
}

#[test]
fn resizing_or_removing_files_does_not_prevent_resumption() {
    let second = files(&[("a/large", 90_000), ("b", 60_000), ("new", 10)]);
    let (sent, all) = resumed(None, &a_tree(), &second, true);
    // All of the one that became smaller, and the rest of the one that grew.
    assert!(sent >= 90_000 + 10_000 && sent < all, "{sent} of {all}");
    let second = files(&[("b", 50_000), ("new", 10)]);
    resumed(None, &a_tree(), &second, true);
}

#[test]
fn a_sender_that_does_not_ask_sends_everything() {
    let (sent, all) = resumed(None, &a_tree(), &a_tree(), false);
    assert_eq!(sent, all);
}

/// Runs a first transfer that succeeds, and one of files of other sizes, which is cut for good if asked.
fn changed_after_success(second: &Files, cut: Option<u64>) -> (tempfile::TempDir, Outcome) {
    let target = tempfile::tempdir().expect("a directory");
    let first = transfer(target.path(), &a_tree(), None, None, true);
    first.received.expect("the receiver succeeds");
    let outcome = transfer(target.path(), second, None, cut, true);
    (target, outcome)
}

fn read(target: &tempfile::TempDir, path: &str) -> Vec<u8> {
    std::fs::read(target.path().join(path)).expect("a file")
}

#[test]
fn a_complete_file_that_grew_gets_its_rest_alone() {
    let second = files(&[("a/large", 150_000), ("b", 50_000), ("z", 5)]);
    let (target, outcome) = changed_after_success(&second, None);
    outcome.received.expect("the receiver succeeds");
    assert_eq!(outcome.sent.expect("the sender succeeds").bytes, 50_000 + 5);
    for (path, content) in &second {
        assert!(read(&target, &path.to_string()) == *content, "`{path}`");
    }
    // It was not asked to delete what the sender no longer has.
    assert!(target.path().join("empty").exists());
}

#[test]
fn a_complete_file_keeps_its_name_and_content_until_the_whole_of_the_new_one_is_there() {
    let second = files(&[("a/large", 150_000), ("b", 50_000), ("z", 5)]);
    let (target, outcome) = changed_after_success(&second, Some(20_000));
    assert!(outcome.received.is_err());
    let first = a_tree();
    for (path, content) in &first {
        assert!(read(&target, &path.to_string()) == *content, "`{path}`");
    }
    let outcome = transfer(target.path(), &second, None, None, true);
    outcome.received.expect("the receiver succeeds");
    let sent = outcome.sent.expect("the sender succeeds").bytes;
    assert!(sent < 50_000, "{sent}");
    for (path, content) in &second {
        assert!(read(&target, &path.to_string()) == *content, "`{path}`");
    }
}

#[test]
fn a_file_changed_at_the_receiver_is_not_replaced_without_being_asked() {
    let options = DirectoryOptions {
        resume: true,
        ..DirectoryOptions::default()
    };
    let (target, _) = changed_after_success(&a_tree(), None);
    let held = || {
        let sink = DirectorySink::new(target.path(), options).expect("a sink");
        let paths = sink.held().into_iter().map(|file| file.path.to_string());
        paths.collect::<Vec<_>>()
    };
    assert_eq!(held().len(), 4);
    std::fs::write(target.path().join("z"), vec![1; 20_000]).expect("written");
    assert!(!held().contains(&"z".to_owned()));
}

/// Runs a transfer that fails, flips bits of a file below the staging directory, one for each run of this stride, and
/// checks that the transfer that follows brings all files.
fn flipped(name: &str, stride: usize) {
    let (first, target) = (a_tree(), tempfile::tempdir().expect("a directory"));
    transfer(target.path(), &first, None, Some(60_000), true);
    let damaged = |path: &Path| path.join(".wdt-resume.part").join(name);
    let bits = std::fs::read(damaged(target.path())).expect("there").len() * 8;
    for bit in (0..bits).rev().step_by(stride).chain(bits - 32..bits) {
        let copy = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(copy.path().join(".wdt-resume.part")).expect("made");
        for entry in std::fs::read_dir(target.path().join(".wdt-resume.part")).expect("there") {
            let entry = entry.expect("an entry");
            let to = copy.path().join(".wdt-resume.part").join(entry.file_name());
            std::fs::copy(entry.path(), to).expect("copied");
        }
        let mut content = std::fs::read(damaged(copy.path())).expect("there");
        content[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(damaged(copy.path()), content).expect("written");
        let outcome = transfer(copy.path(), &first, None, None, true);
        outcome
            .received
            .unwrap_or_else(|failure| panic!("bit {bit}: {failure}"));
        for (path, content) in &first {
            assert!(
                read(&copy, &path.to_string()) == *content,
                "bit {bit}: `{path}`"
            );
        }
    }
}

#[test]
fn a_flipped_bit_of_the_journal_never_gives_a_wrong_file() {
    flipped("journal", 131);
}

#[test]
fn a_flipped_bit_of_a_held_file_never_gives_a_wrong_file() {
    // The sequence id of the first file of a transfer without earlier ones.
    flipped("0", 40_009);
}

#[test]
fn one_receiver_at_a_time_resumes_in_a_directory() {
    let target = tempfile::tempdir().expect("a directory");
    let options = DirectoryOptions {
        resume: true,
        ..DirectoryOptions::default()
    };
    let first = DirectorySink::new(target.path(), options).expect("a sink");
    let second = DirectorySink::new(target.path(), options).expect_err("taken");
    assert!(second.to_string().contains("another receiver"), "{second}");
    drop(first);
    assert_eq!(std::fs::read_dir(target.path()).expect("there").count(), 0);
}
