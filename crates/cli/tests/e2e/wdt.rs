//! Tests of `regatta wdt`: both ends as processes, over loopback.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::help::{Bench, signal};

/// Time-out of the tests: longer than any end waits for the other one.
const LIMIT: Duration = Duration::from_secs(60);

/// Receiver that has printed its URL.
struct Receiver {
    child: Child,
    url: String,
}

fn start(bench: &Bench, args: &[&str]) -> Child {
    let mut command = bench.regatta(&[&["wdt"], args].concat());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

impl Receiver {
    fn start(bench: &Bench, args: &[&str]) -> Self {
        let mut child = start(
            bench,
            &[&["receive", "target", "--listen", "127.0.0.1"], args].concat(),
        );
        let mut url = String::new();
        let output = child.stdout.as_mut().expect("piped");
        // One byte at a time, so that nothing after the line is lost.
        let mut output = BufReader::with_capacity(1, output);
        output.read_line(&mut url).expect("a line");
        Self {
            child,
            url: url.trim_end().to_owned(),
        }
    }

    /// Returns the key in the URL, which no other output may show.
    fn key(&self) -> Option<&str> {
        let (_, rest) = self.url.split_once("Enc=")?;
        rest.split('&').next()?.get(2..)
    }

    fn end(self) -> Output {
        finish(self.child)
    }
}

/// Returns the output of a process after its end; kills the process if it does not end.
fn finish(mut child: Child) -> Output {
    drop(child.stdin.take());
    let started_at = Instant::now();
    while child.try_wait().expect("our child").is_none() {
        if started_at.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("it does not end: {:?}", child.wait_with_output());
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns every file below a directory, with its content.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |name: PathBuf| {
        let content = fs::read(directory.join(&name)).expect("readable");
        (name, content)
    };
    names(directory).into_iter().map(read).collect()
}

/// Returns every file below a directory.
fn names(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(at) = directories.pop() {
        let Ok(entries) = fs::read_dir(at) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.push(path.strip_prefix(directory).expect("below").to_owned());
            }
        }
    }
    found
}

/// Writes a few files, of which one has several blocks.
fn make_tree(bench: &Bench) {
    let source = bench.path("source");
    fs::create_dir_all(source.join("a/b")).expect("made");
    let bytes: Vec<u8> = (0..3_500_000_u32)
        .map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    fs::write(source.join("large"), &bytes).expect("written");
    fs::write(source.join("a/empty"), "").expect("written");
    fs::write(source.join("a/b/small"), "small").expect("written");
    std::os::unix::fs::symlink("large", source.join("link")).expect("a link");
}

/// Sends a tree with these options of both ends; the sender is given the URL on its standard input,
/// or as an argument.
#[track_caller]
fn a_tree_arrives(encryption: &str, receive: &[&str], send: &[&str], by_input: bool) {
    let bench = Bench::new();
    make_tree(&bench);
    let sent = files(&bench.path("source"));
    let sent: BTreeMap<_, _> = sent
        .into_iter()
        .filter(|(name, _)| name != Path::new("link"))
        .collect();
    let receiver = Receiver::start(&bench, &[&["--encryption", encryption], receive].concat());
    let key = receiver.key().map(str::to_owned);
    assert_eq!(key.is_some(), encryption != "none");
    let mut args = vec!["send", "source"];
    args.push(if by_input { "-" } else { &receiver.url });
    args.extend(["--block-size", "1MiB", "--tag-interval", "100kB"]);
    args.extend(send);
    let mut sender = start(&bench, &args);
    if by_input {
        let input = sender.stdin.as_mut().expect("piped");
        writeln!(input, "{}", receiver.url).expect("it reads");
    }
    let (sender, receiver) = (finish(sender), receiver.end());
    let (sender_stderr, receiver_stderr) = (stderr(&sender), stderr(&receiver));
    let output = format!("{sender_stderr}{receiver_stderr}");
    assert_eq!((code(&sender), code(&receiver)), (0, 0), "{output}");
    assert_eq!(files(&bench.path("target")), sent);
    assert!(sender_stderr.contains("sent 3 files"), "{output}");
    assert!(
        sender_stderr.contains("link` is a symbolic link"),
        "{output}"
    );
    assert!(receiver_stderr.contains("received 3 files"), "{output}");
    if let Some(key) = key {
        assert!(
            !output.contains(&key) && sender.stdout.is_empty(),
            "{output}"
        );
    }
    bench.assert_nothing_left();
}

#[test]
fn a_tree_arrives_without_encryption() {
    a_tree_arrives("none", &["--ports", "1"], &[], true);
}

#[test]
fn a_tree_arrives_with_ctr_and_the_url_as_an_argument() {
    let ports = ["--ports", "3"];
    a_tree_arrives("aes128-ctr", &ports, &["--checksum"], false);
}

#[test]
fn a_tree_arrives_with_gcm() {
    let more = [
        "--ports",
        "8",
        "--tag-interval",
        "64KiB",
        "--iv-change",
        "200KiB",
    ];
    a_tree_arrives("aes128-gcm", &more, &["--checksum"], true);
}

#[test]
fn selected_files_arrive_at_the_requested_rate() {
    let bench = Bench::new();
    make_tree(&bench);
    fs::write(bench.path("list"), "./large\t300000\nlink\t200000\n").expect("written");
    for (send, expected) in [
        (
            &["--exclude", "large", "--follow-links"][..],
            &["a/b/small", "a/empty", "link"][..],
        ),
        (&["--include", "a/**", "--exclude", "empty"], &["a/b/small"]),
        (
            &["--manifest", "list", "--follow-links", "--rate", "4Mbit/s"],
            &["large", "link"],
        ),
    ] {
        let _ = fs::remove_dir_all(bench.path("target"));
        let receiver = Receiver::start(&bench, &["--ports", "2"]);
        let started_at = Instant::now();
        let sender = finish(start(
            &bench,
            &[&["send", "source", &receiver.url], send].concat(),
        ));
        let receiver = receiver.end();
        let output = format!("{}{}", stderr(&sender), stderr(&receiver));
        assert_eq!((code(&sender), code(&receiver)), (0, 0), "{output}");
        let arrived = files(&bench.path("target"));
        let names: Vec<_> = arrived.keys().map(|name| name.to_string_lossy()).collect();
        assert_eq!(names, expected, "{output}");
        if send.contains(&"--rate") {
            assert_eq!(arrived[Path::new("link")].len(), 200_000);
            // 500 kB at 4 Mbit/s.
            assert!(
                started_at.elapsed() >= Duration::from_millis(900),
                "{output}"
            );
        }
    }
    let url = "wdt://127.0.0.1:1?id=1";
    for (send, expected) in [
        (
            &["--manifest", "list", "--include", "a"][..],
            "cannot be used with",
        ),
        (
            &["--rate", "8Mbit/s", "--peak-rate", "1Mbit/s"],
            "--peak-rate",
        ),
        (&["--peak-rate", "1Mbit/s"], "--rate"),
        (&["--exclude", "a**b"], "--exclude"),
        (&["--manifest", "missing"], "`missing`"),
    ] {
        let done = finish(start(&bench, &[&["send", "source", url], send].concat()));
        assert!([2, 7].contains(&code(&done)), "{done:?}");
        assert!(self::stderr(&done).contains(expected), "{done:?}");
    }
}

#[test]
fn existing_files_are_replaced_only_on_request() {
    let bench = Bench::new();
    make_tree(&bench);
    fs::create_dir_all(bench.path("target/a/b")).expect("made");
    fs::write(bench.path("target/a/b/small"), "other").expect("written");
    let before = files(&bench.path("target"));
    for (overwrite, expected) in [(false, 8), (true, 0)] {
        let args: &[&str] = if overwrite { &["--overwrite"] } else { &[] };
        let receiver = Receiver::start(&bench, args);
        let sender = finish(start(&bench, &["send", "source", &receiver.url]));
        let receiver = receiver.end();
        let output = format!("{}{}", stderr(&sender), stderr(&receiver));
        assert_eq!(
            (code(&sender), code(&receiver)),
            (expected, expected),
            "{output}"
        );
        if overwrite {
            assert_eq!(files(&bench.path("target")).len(), 3);
            assert_eq!(
                fs::read(bench.path("target/a/b/small")).expect("there"),
                b"small"
            );
        } else {
            assert!(stderr(&receiver).contains("--overwrite"), "{output}");
            assert_eq!(files(&bench.path("target")), before);
        }
    }
}

#[test]
fn file_and_url_errors_have_the_exit_codes_of_the_protocol() {
    let bench = Bench::new();
    make_tree(&bench);
    let done = bench.run(&["wdt", "receive", "/proc/regatta"]);
    done.assert_code(8);
    done.assert_stderr_contains("cannot write into `/proc/regatta`");
    let done = bench.run(&["wdt", "send", "missing", "wdt://127.0.0.1:1?id=1"]);
    done.assert_code(7);
    done.assert_stderr_contains("cannot read `missing`");
    done.assert_stderr_contains("hint: give a file or a directory that this user may read");
    let secret = "4d68b299c6dda26733981701be805ec4";
    for (url, expected) in [
        ("http://127.0.0.1:1".to_owned(), "begins with `wdt://`"),
        (format!("wdt://127.0.0.1:0?Enc=2:{secret}"), "the port"),
        (format!("wdt://h:1?Enc=7:{secret}"), "`Enc`"),
    ] {
        let done = bench.run(&["wdt", "send", "source", &url]);
        done.assert_code(2);
        done.assert_stderr_contains(expected);
        let shown = finish(start(&bench, &["send", "source", &url]));
        assert!(!self::stderr(&shown).contains(secret), "{shown:?}");
    }
    let done = bench.run(&["wdt", "receive", "x", "--start-port", "65535"]);
    done.assert_code(2);
    done.assert_stderr_contains("--start-port");
    assert!(!bench.path("x/large").exists());
}

#[test]
fn wrong_transfer_and_unencrypted_bytes_are_refused() {
    let bench = Bench::new();
    make_tree(&bench);
    // The wait is longer than a sender takes to start.
    let receiver = Receiver::start(
        &bench,
        &["--ports", "1", "--encryption", "none", "--wait", "5s"],
    );
    let wrong = receiver.url.replacen("id=", "id=9", 1);
    let sender = finish(start(&bench, &["send", "source", &wrong]));
    let receiver = receiver.end();
    let output = format!("{}{}", stderr(&sender), stderr(&receiver));
    assert_eq!((code(&sender), code(&receiver)), (12, 12), "{output}");
    assert_eq!(files(&bench.path("target")).len(), 0);

    // Without the key, and with another one, no receiver waits any longer for a sender.
    for (replaced, expected) in [("", 28), ("Enc=2:4d68b299c6dda26733981701be805ec4&", 10)] {
        let receiver = Receiver::start(&bench, &["--ports", "1", "--wait", "1h"]);
        let key = format!("Enc=2:{}&", receiver.key().expect("encrypted"));
        let other = receiver.url.replacen(&key, replaced, 1);
        assert_ne!(other, receiver.url);
        let sender = finish(start(&bench, &["send", "source", &other]));
        let receiver = receiver.end();
        let output = format!("{}{}", stderr(&sender), stderr(&receiver));
        assert_eq!((code(&sender), code(&receiver)), (28, expected), "{output}");
        assert!(
            stderr(&receiver).contains("warning: refused a connection from"),
            "{output}"
        );
        assert_eq!(files(&bench.path("target")).len(), 0, "{output}");
    }
}

#[test]
fn a_second_transfer_with_resumption_sends_what_is_new() {
    let bench = Bench::new();
    make_tree(&bench);
    fs::remove_file(bench.path("source/link")).expect("removed");
    // The files that are named in each session.
    for expected in [
        "received 3 files, 3.5",
        "received 1 file, 4",
        "received 0 files, 0",
    ] {
        let receiver = Receiver::start(&bench, &["--ports", "2", "--resume"]);
        let sender = finish(start(&bench, &["send", "source", &receiver.url]));
        let receiver = receiver.end();
        let output = format!("{}{}", stderr(&sender), stderr(&receiver));
        assert_eq!((code(&sender), code(&receiver)), (0, 0), "{output}");
        assert!(stderr(&receiver).contains(expected), "{output}");
        if expected.contains("3 files") {
            fs::write(bench.path("source/added"), "more").expect("written");
        }
    }
    let mut arrived = files(&bench.path("target"));
    arrived.retain(|path, _| !path.starts_with(".wdt-resume.part"));
    assert_eq!(arrived, files(&bench.path("source")));
}

#[test]
fn a_file_that_the_sender_has_no_longer_is_deleted_on_request() {
    for (options, is_there) in [
        (&["--resume"][..], true),
        (&["--resume", "--delete-extra-files"], false),
    ] {
        let bench = Bench::new();
        make_tree(&bench);
        for options in [&["--resume"], options] {
            let receiver = Receiver::start(&bench, options);
            let sender = finish(start(&bench, &["send", "source", &receiver.url]));
            let receiver = receiver.end();
            let output = format!("{}{}", stderr(&sender), stderr(&receiver));
            assert_eq!((code(&sender), code(&receiver)), (0, 0), "{output}");
            let _ = fs::remove_file(bench.path("source/a/b/small"));
        }
        assert_eq!(
            bench.path("target/a/b/small").exists(),
            is_there,
            "{options:?}"
        );
    }
}

/// Blocks are counted while they arrive, so that a receiver without time for a last word keeps them.
#[test]
fn a_receiver_that_was_killed_is_sent_the_rest_alone() {
    let bench = Bench::new();
    let source = bench.path("source");
    fs::create_dir_all(&source).expect("made");
    for number in 0..6_u32 {
        let bytes = (0..500_000).flat_map(|at| (at * 6 + number).to_le_bytes());
        let bytes: Vec<u8> = bytes.collect();
        fs::write(source.join(number.to_string()), bytes).expect("written");
    }
    let receiver = Receiver::start(&bench, &["--resume", "--ports", "1"]);
    // 2 s for all of them, so that it is under way when the receiver ends.
    let options = ["--rate", "48Mbit/s", "--tag-interval", "1MiB"];
    let args = [&["send", "source", &receiver.url][..], &options].concat();
    let sender = start(&bench, &args);
    let started_at = Instant::now();
    // Over one connection files come one after the other: the first has been counted when the third begins.
    while names(&bench.path("target/.wdt-resume.part")).len() < 4 {
        assert!(started_at.elapsed() < LIMIT, "nothing is counted");
        thread::sleep(Duration::from_millis(1));
    }
    signal(receiver.child.id() as i32, Signal::SIGKILL);
    let (sender, receiver) = (finish(sender), receiver.end());
    assert_ne!(code(&sender), 0, "{}{}", stderr(&sender), stderr(&receiver));

    let receiver = Receiver::start(&bench, &["--resume", "--ports", "1"]);
    let sender = finish(start(&bench, &["send", "source", &receiver.url]));
    let receiver = receiver.end();
    let output = format!("{}{}", stderr(&sender), stderr(&receiver));
    assert_eq!((code(&sender), code(&receiver)), (0, 0), "{output}");
    assert!(!output.contains("12 MB"), "all was sent again: {output}");
    let mut arrived = files(&bench.path("target"));
    arrived.retain(|path, _| !path.starts_with(".wdt-resume.part"));
    assert!(arrived == files(&source), "other bytes arrived: {output}");
}

/// Starts a transfer of one file that takes a while; returns when it is under way.
fn under_way(bench: &Bench) -> (Child, Receiver) {
    fs::create_dir_all(bench.path("source")).expect("made");
    let file = fs::File::create(bench.path("source/huge")).expect("made");
    // Its bytes need no room: nothing was ever written into it.
    file.set_len(2 << 30).expect("a size");
    let receiver = Receiver::start(bench, &["--no-sync"]);
    let sender = start(bench, &["send", "source", &receiver.url]);
    let started_at = Instant::now();
    let target = bench.path("target");
    while names(&target).is_empty() {
        assert!(started_at.elapsed() < LIMIT, "nothing begins");
        thread::sleep(Duration::from_millis(1));
    }
    (sender, receiver)
}

/// Checks that the end of one side is the other's failure, and no incomplete file appears under its
/// name.
#[track_caller]
fn assert_peer_fails(receiver_is_killed: bool, fatal_signal: Signal) {
    let bench = Bench::new();
    let (sender, receiver) = under_way(&bench);
    let killed = if receiver_is_killed {
        receiver.child.id()
    } else {
        sender.id()
    };
    signal(killed as i32, fatal_signal);
    let (sender, receiver) = (finish(sender), receiver.end());
    let output = format!("{fatal_signal}: {}{}", stderr(&sender), stderr(&receiver));
    let (survivor, killed) = if receiver_is_killed {
        (&sender, &receiver)
    } else {
        (&receiver, &sender)
    };
    assert!((1..=28).contains(&code(survivor)), "{output}");
    assert!(stderr(survivor).contains("error: "), "{output}");
    if fatal_signal == Signal::SIGINT {
        // Each learns it from the other, and not by a time-out.
        assert_eq!((code(killed), code(survivor)), (2, 2), "{output}");
    }
    let remaining = names(&bench.path("target"));
    assert!(!remaining.contains(&PathBuf::from("huge")), "{output}");
    // Only who was killed outright could not remove it.
    let remains = receiver_is_killed && fatal_signal == Signal::SIGKILL;
    assert_eq!(remaining.is_empty(), !remains, "{output}");
    bench.assert_nothing_left();
}

#[test]
fn sender_fails_when_the_receiver_is_killed() {
    assert_peer_fails(true, Signal::SIGKILL);
}

#[test]
fn sender_fails_when_the_receiver_is_interrupted() {
    assert_peer_fails(true, Signal::SIGINT);
}

#[test]
fn receiver_fails_when_the_sender_is_killed() {
    assert_peer_fails(false, Signal::SIGKILL);
}

#[test]
fn receiver_fails_when_the_sender_is_interrupted() {
    assert_peer_fails(false, Signal::SIGINT);
}

#[test]
fn receiver_without_a_sender_times_out() {
    let bench = Bench::new();
    let started_at = Instant::now();
    let mut receiver = Receiver::start(&bench, &["--wait", "1s"]);
    let mut rest = String::new();
    receiver
        .child
        .stdout
        .as_mut()
        .expect("piped")
        .read_to_string(&mut rest)
        .expect("text");
    let output = receiver.end();
    assert!(started_at.elapsed() >= Duration::from_secs(1));
    assert_ne!(code(&output), 0);
    assert_eq!(rest, "", "one line is all that a receiver prints");
    assert_eq!(files(&bench.path("target")).len(), 0);
}
