//! A transfer that failed is resumed by later ones, in simulated time: blocks that were counted are
//! not sent again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use regatta_transport_wdt::crypto::{Cipher, Key, Secret};
use regatta_transport_wdt::files::{DirectoryOptions, DirectorySink};
use regatta_transport_wdt::path::RelativePath;
use regatta_transport_wdt::url::ConnectionUrl;
use regatta_transport_wdt::{receiver, sender};

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
    assert!(!target.path().join(".wdt-resume.part").exists());
    let all = second.values().map(|content| content.len() as u64).sum();
    (sent, all)
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
    assert_eq!(sent, all);
    let second = files(&[("b", 50_000), ("new", 10)]);
    resumed(None, &a_tree(), &second, true);
}

#[test]
fn a_sender_that_does_not_ask_sends_everything() {
    let (sent, all) = resumed(None, &a_tree(), &a_tree(), false);
    assert_eq!(sent, all);
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
