//! Tests of captures of trials and of commands behind a path.

use std::{
    io::{BufRead, BufReader},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use regatta_bed::capture::read;
use regatta_model::{Outcome, TrialRecord};

use crate::{
    happy::expected_code,
    help::{Bench, Done, SLOW, Watched, assert_ran, is, signal, trials},
};

/// Returns direction and comment of each packet.
pub fn packets(file: &Path) -> Vec<(bool, String)> {
    let mut all = Vec::new();
    read(file, |packet| {
        all.push((packet.forward, packet.comment.to_owned()));
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|error| panic!("{error}"));
    all
}

/// Asserts that the capture has as many packets of the connecting host, with this comment, as the
/// path counted, or a few more: it ends a moment later, when the transports close.
#[track_caller]
pub fn assert_counted(
    trial: &TrialRecord,
    metric: &str,
    packets: &[(bool, String)],
    comment: &str,
) {
    let captured = (packets.iter())
        .filter(|(forward, text)| *forward && text.starts_with(comment))
        .count() as f64;
    let counted = trial.measurements.metrics[metric];
    assert!(
        (counted..=counted + 8.0).contains(&captured),
        "{metric}: {counted}, {captured}"
    );
}

/// Study with the two protocols of the publication S4, slow enough that nothing queues at the
/// hosts.
pub const UDPR: &str = r#"
name = "udpr"
rounds = 2
deadline = "20s"
capture = "headers"

[[transport]]
driver = "udp"
frame = "conn"
rate = "10Mbit/s"

[[transport]]
driver = "udp-reliable"

[[condition]]
name = "a path, lossy"
rtt = "4ms"
rate = "50Mbit/s"
loss = "1%"

[[workload]]
name = "bulk"
kind = "bulk"
size = "100kB"
message = "1000B"
"#;

#[test]
fn captures_agree_with_the_transfer_times_of_sockets() {
    let bench = Bench::new();
    let study = bench.write("udpr.toml", UDPR);
    let study = study.to_str().expect("UTF-8");
    bench.run(&["run", study, "--out", "out"]);
    let out = bench.path("out");
    let trials = trials(&out);
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        assert_ran(trial);
        let fact = &*trial.measurements.facts["capture_file"];
        let expected = format!(
            "files/trial-{:04}/{}.a-path-lossy.bulk.round-{}.pcapng",
            trial.index + 1,
            trial.transport,
            trial.round + 1
        );
        assert_eq!(*fact, expected);
        let packets = packets(&out.join(fact));
        assert_counted(trial, "path_packets", &packets, "");
        assert_counted(trial, "path_loss_drops", &packets, "lost at random");
        assert!(
            trial
                .measurements
                .warnings
                .iter()
                .all(|warning| warning.code != "capture_incomplete")
        );
    }
    // The clock of the connecting host's process starts before CONN reaches the path and stops
    // after RCVD has left it: a little later each time, never earlier.
    for trial in &trials {
        let own = trial.measurements.metrics["transfer_time_ns"];
        let captured = trial.measurements.metrics["captured_transfer_time_ns"];
        assert!(own > captured, "{}: {own}, {captured}", trial.transport);
    }
}

/// Returns the only trial of a run, whose exit code must be that of its gates: on a busy machine every attempt may leave
/// the path out of its tolerance.
#[track_caller]
fn only_trial(bench: &Bench, done: &Done, out: &str) -> TrialRecord {
    let out = bench.path(out);
    let summary = std::fs::read_to_string(out.join("summary.json")).expect("a summary");
    let summary = serde_json::from_str(&summary).expect("JSON");
    done.assert_code(expected_code(&summary));
    let mut all = trials(&out);
    assert_eq!(all.len(), 1, "{done:#?}");
    assert_ran(&all[0]);
    all.remove(0)
}

#[test]
fn capture_option_takes_a_size_and_refuses_netem() {
    let bench = Bench::new();
    let small = [
        "run",
        "--transport",
        "tcp",
        "--rtt",
        "4ms",
        "--size",
        "100kB",
        "--rounds",
        "1",
    ];
    let with = |more: &[&str]| bench.run(&[&small[..], more].concat());
    let full = with(&["--capture=full", "--out", "full"]);
    let trial = only_trial(&bench, &full, "full");
    let file = &*trial.measurements.facts["capture_file"];
    let whole = std::fs::metadata(bench.path("full").join(file)).expect("a file");
    assert!(whole.len() > 100_000, "{whole:?}");
    // The clock of the process starts before the SYN and stops after the acknowledgement.
    let metric = |name: &str| trial.measurements.metrics[name];
    let captured = metric("captured_transfer_time_ns");
    assert!(captured < metric("transfer_time_ns"), "{captured}");
    assert!(captured > 4e6, "a round trip of 4 ms and more: {captured}");
    let goodput = trial.measurements.metrics.get("captured_goodput_bps");
    let is_measured = trial.outcome == Outcome::Measured;
    let expected = is_measured.then_some(100_000.0 * 8e9 / captured);
    assert_eq!(goodput.copied(), expected);

    let times = with(&["--capture=times", "--out", "times"]);
    let measured = only_trial(&bench, &times, "times").measurements;
    assert!(measured.metrics.contains_key("captured_transfer_time_ns"));
    assert!(!measured.facts.contains_key("capture_file"));
    assert!(
        !bench.path("times/files/trial-0001").exists(),
        "the capture is removed"
    );

    let plan = with(&["--capture", "--dry-run"]);
    assert!(
        plan.stdout
            .contains("captured in `files/`: the first 128 bytes of each packet")
    );
    let refused = with(&["--capture", "--emulator", "netem"]);
    refused.assert_code(2);
    refused.assert_stderr_contains("netem, which does not tell what it does to each packet");
    let refused = with(&["--capture=0B"]);
    refused.assert_code(2);
    refused.assert_stderr_contains("a size from `20B` to `65535B`");
    // Without the option nothing is captured.
    only_trial(&bench, &with(&["--out", "none"]), "none");
    assert!(!bench.path("none/files").exists());
}

/// Checks that a trial is measured, and a warning given, if its files cannot be created or may not
/// grow.
#[test]
fn capture_write_error_is_reported_and_the_trial_is_measured() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("out")).expect("a directory");
    bench.write("out/files", "in the way");
    let args = [
        "run",
        "--transport",
        "tcp",
        "--rtt",
        "4ms",
        "--size",
        "4MB",
        "--rounds",
        "1",
        "--capture",
        "--out",
    ];
    bench.run(&[&args[..], &["out"]].concat());
    let incomplete = |out: &str| {
        let trials = trials(&bench.path(out));
        assert_ran(&trials[0]);
        let warning = (trials[0].measurements.warnings.iter())
            .find(|warning| warning.code == "capture_incomplete")
            .expect("a warning");
        (trials[0].clone(), warning.message.clone())
    };
    let (_, message) = incomplete("out");
    assert!(
        message.starts_with("there is no capture: cannot write the capture"),
        "{message}"
    );

    // 600 blocks of 512 bytes are room for the results, also if the path is checked several times, and not for 128 bytes
    // of each packet.
    let command = format!(
        "ulimit -f 600; exec '{}' {} small",
        env!("CARGO_BIN_EXE_regatta"),
        args.join(" ")
    );
    let mut shell = bench.command("sh");
    shell.args(["-c", &command]);
    shell.output().expect("a shell");
    let (trial, message) = incomplete("small");
    assert!(message.contains("the capture ends early") && message.contains("File too large"));
    // What was written before is whole.
    let file = bench
        .path("small")
        .join(&*trial.measurements.facts["capture_file"]);
    assert!(packets(&file).len() > 100);
}

#[test]
fn a_capture_can_be_read_after_ctrl_c_and_after_a_kill() {
    let bench = Bench::new();
    for (out, end) in [("stopped", Signal::SIGINT), ("killed", Signal::SIGKILL)] {
        let study = bench.write("slow.toml", SLOW);
        let study = study.to_str().expect("UTF-8");
        let args = ["run", study, "--json", "--capture", "--out", out];
        let mut run = Watched::start(bench.regatta(&args));
        run.until(|event| is(event, "trial_started"));
        let directory = bench.path(out).join("files/trial-0001");
        let capture = || -> Option<PathBuf> {
            let mut files = std::fs::read_dir(&directory).ok()?;
            Some(files.next()?.ok()?.path())
        };
        // Some hundred bytes of each packet, which are written every 50 ms.
        let written = || capture().and_then(|file| file.metadata().ok());
        let until = Instant::now() + Duration::from_secs(60);
        while written().is_none_or(|file| file.len() < 16_000) {
            assert!(Instant::now() < until, "{out}: {:?}", written());
            thread::sleep(Duration::from_millis(5));
        }
        signal(run.pid(), end);
        run.finish();
        bench.assert_nothing_left();
        let file = capture().expect("a capture");
        assert!(packets(&file).len() > 10, "{out}");
    }
}

#[test]
fn command_of_a_path_is_captured() {
    let bench = Bench::new();
    let send = r#"
import socket, os, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(5):
    to.sendto(b"x", (os.environ["REGATTA_SERVER"], 9))
# Many times what the packets take, and the path to write them down.
time.sleep(2)
print("sent", flush=True)
time.sleep(float(os.environ.get("STAY", "0")))
"#;
    let args = [
        "path",
        "--rtt",
        "20ms",
        "--capture",
        "one.pcapng",
        "--",
        "python3",
        "-c",
        send,
    ];
    let done = bench.run(&args);
    done.assert_code(0);
    done.assert_stderr_contains("packets in `one.pcapng`");
    let all = packets(&bench.path("one.pcapng"));
    let delay_ms = |comment: &str| -> Option<f64> {
        let text = comment.strip_prefix("passed in ")?;
        text.split(' ').next()?.parse().ok()
    };
    let passed = |all: &[(bool, String)]| {
        let forward = all.iter().filter(|(forward, _)| *forward);
        forward
            .filter(|(_, comment)| delay_ms(comment).is_some_and(|ms| ms >= 10.0))
            .count()
    };
    // A pause of the machine adds milliseconds to a delay; beyond two the emulator has counted the packet as late.
    let delays = all.iter().filter_map(|(_, comment)| delay_ms(comment));
    let late = delays.filter(|ms| *ms > 12.0).count();
    let output = format!("{}{}", done.stdout, done.stderr);
    let counted = output.match_indices(" delivered more than 2 ms after");
    let counted =
        counted.filter_map(|(at, _)| output[..at].rsplit(' ').next()?.parse::<usize>().ok());
    assert_eq!(late, counted.sum::<usize>(), "{all:?}: {output}");
    assert_eq!(passed(&all), 5, "{all:?}");

    std::fs::remove_file(bench.path("one.pcapng")).expect("removed");
    let mut child = bench
        .regatta(&args)
        .env("STAY", "600")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    signal(child.id().cast_signed(), Signal::SIGKILL);
    child.wait().expect("it ends");
    bench.assert_nothing_left();
    let all = packets(&bench.path("one.pcapng"));
    assert_eq!(passed(&all), 5, "{all:?}");
}

/// Checks that a capture never overwrites a file that exists, and creates no directory.
#[test]
fn a_command_is_not_started_without_its_capture() {
    let bench = Bench::new();
    bench.write("notes", "precious");
    std::os::unix::fs::symlink("notes", bench.path("link")).expect("a link");
    nix::unistd::mkfifo(&bench.path("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for file in [
        "notes",
        "link",
        "fifo",
        "deep/one.pcapng",
        "/proc/one.pcapng",
    ] {
        let refused = bench.run(&["path", "--capture", file, "--", "touch", "started"]);
        refused.assert_code(2);
        refused.assert_stderr_contains("cannot write the capture");
        assert!(!bench.path("started").exists(), "{file}");
    }
    let notes = std::fs::read_to_string(bench.path("notes"));
    assert_eq!(notes.expect("still there"), "precious");
    assert!(!bench.path("deep").exists());
}
