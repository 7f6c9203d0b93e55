//! Tests of the bed `uml` with one guest, in real and in virtual time.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use regatta_model::Outcome;
use regatta_results::{Reader, RunState};
use regatta_test_support::machine::repetitions;

use super::virtual_time::again;
use crate::{
    help::{Bench, Done, SLOW, SMALL, Watched, assert_ran, is, signal, trials},
    kills::assert_nothing_survives_kills,
};

/// Returns the study SMALL in a guest, with `keys` added to its first lines.
fn in_guest(study: &str, keys: &str) -> String {
    study.replacen(
        "rounds = 2\n",
        &format!("rounds = 2\nbed = \"uml\"\n{keys}"),
        1,
    )
}

#[test]
fn a_study_runs_in_a_guest_with_another_congestion_control() {
    let bench = Bench::new();
    let study = in_guest(SMALL, "").replacen("\"tcp\"\n", "\"tcp\"\ncc = \"hybla\"\n", 1);
    bench.write("study.toml", &study);
    // What is not UTF-8 in the environment does not come along.
    let mut command = bench.regatta(&["run", "study.toml", "--out", "out"]);
    command.env("LANGUAGE", OsStr::from_bytes(b"\xff"));
    let done = Done::from(command.output().expect("the binary starts"));
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), 4, "{done:#?}");
    for trial in &trials {
        assert_ran(trial);
        let goodput = trial.measurements.metrics["goodput_bps"];
        // On a busy machine a guest may be slow, but never faster than its path.
        assert!((1e4..50e6).contains(&goodput), "{goodput}");
        assert!(trial.measurements.metrics.contains_key("cpu_sender_ratio"));
        if trial.transport == "tcp" {
            assert_eq!(
                trial.measurements.facts["congestion_control.sender"],
                "hybla"
            );
        }
    }
    let reader = Reader::open(&bench.path("out")).expect("results");
    assert_eq!(reader.state().expect("a state"), RunState::Complete);
    let header = reader.header().expect("a header");
    assert!(
        header.bed.starts_with("uml, Linux ") && header.bed.contains("real time: netns"),
        "{}",
        header.bed
    );
    assert!(header.hosts["sender"].0.contains_key("guest.start_ms"));
    assert!(
        !bench.path("out/files").exists(),
        "no transport left a file"
    );
    bench.assert_nothing_left();
}

#[test]
fn runs_in_virtual_time_are_identical() {
    let [one, two] = again::with_both(|dir| {
        let stderr = std::fs::read_to_string(dir.join("stderr")).expect("standard error");
        assert!(stderr.contains("time was virtual"), "{stderr}");
        let mut trials = trials(&dir.join("out"));
        trials.retain(|trial| again::PLAIN.contains(&&*trial.transport));
        assert_eq!(trials.len(), again::PLAIN.len(), "{stderr}");
        for trial in &mut trials {
            assert_eq!(trial.outcome, Outcome::Measured, "{trial:#?}");
            let metrics = &trial.measurements.metrics;
            assert!(
                !metrics.keys().any(|name| name.starts_with("cpu_")),
                "{metrics:?}"
            );
            trial.started_unix_ns = 0;
        }
        // 1 % of a thousand packets and more: none lost at all would be a path without loss.
        assert!(
            trials
                .iter()
                .any(|trial| trial.measurements.metrics["path_loss_drops"] > 0.0)
        );
        trials
    });
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(
            one.measurements.metrics, two.measurements.metrics,
            "{}",
            one.transport
        );
        assert_eq!(one, two);
    }
}

#[test]
fn a_trial_whose_guest_is_killed_is_invalid_and_another_guest_repeats_it() {
    let bench = Bench::new();
    bench.write("study.toml", &in_guest(SLOW, ""));
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    run.until(|event| is(event, "trial_started"));
    let kernel = kernel_of(&bench);
    signal(kernel, Signal::SIGKILL);
    let first = run.until(|event| is(event, "trial_ended"));
    assert_eq!(first["trial"]["outcome"], "invalid", "{first:#}");
    let reasons = first["trial"]["reasons"].to_string();
    assert!(reasons.contains("the guest ended"), "{reasons}");
    let done = run.finish();
    done.assert_code(0);
    let all = trials(&bench.path("out"));
    assert_eq!(all.len(), 4, "the last attempts: {done:#?}");
    all.iter().for_each(assert_ran);
    bench.assert_nothing_left();
}

/// Returns the process of a guest's kernel.
fn kernel_of(bench: &Bench) -> i32 {
    let mut found = bench.processes();
    found.retain(|pid| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("linux.uml"))
    });
    // The others are its children.
    let helpers: Vec<i32> = found
        .iter()
        .flat_map(|pid| regatta_process::children(*pid))
        .collect();
    found.retain(|pid| !helpers.contains(pid));
    *found.first().expect("a kernel runs")
}

/// Checks that a kernel that is killed while it boots is a failure, which tells nothing about the
/// machine, and one that exits at once is unsupported.
#[test]
fn a_kernel_that_is_killed_while_it_boots_is_a_failure_and_one_that_gives_up_is_unsupported() {
    let bench = Bench::new();
    for (end, code, expected) in [
        ("kill -9 $$", 1, "signal: 9"),
        ("exit 1", 77, "exit status: 1"),
    ] {
        let kernel = bench.write(
            "kernel",
            &format!(
                "#!/bin/sh\ncase $1 in --showconfig) echo CONFIG_UML=y;; \
                 --version) echo 6.1;; *) {end};; esac\n"
            ),
        );
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&kernel, executable).expect("a mode");
        let done = bench.run(&[
            "run",
            "--transport",
            "tcp",
            "--bed",
            "uml",
            "--kernel",
            "./kernel",
            "--out",
            "out",
        ]);
        done.assert_code(code);
        done.assert_stderr_contains(expected);
        assert!(!bench.path("out").exists(), "nothing is left behind");
    }
}

#[test]
fn invalid_guest_options_are_refused() {
    let bench = Bench::new();
    let with = |more: &[&str]| {
        let mut args = vec!["run", "--transport", "tcp", "--out", "out"];
        args.extend(more);
        let done = bench.run(&args);
        assert!(!bench.path("out").exists(), "nothing is left behind");
        done
    };
    let done = with(&["--bed", "uml", "--clock", "virtual", "--rate", "unlimited"]);
    done.assert_code(2);
    done.assert_stderr_contains("has no rate forward");
    done.assert_stderr_contains("--rate 100Mbit/s");
    let done = with(&["--clock", "virtual"]);
    done.assert_code(2);
    done.assert_stderr_contains("--bed uml");
    let done = with(&["--bed", "uml", "--kernel", "/bin/true"]);
    done.assert_code(2);
    done.assert_stderr_contains("`/bin/true` is not a User Mode Linux kernel");
    let done = with(&["--bed", "uml", "--kernel", "/no/such/kernel"]);
    done.assert_code(2);
    let kernel = [
        "--bed",
        "uml",
        "--clock",
        "virtual",
        "--kernel",
        "linux.uml",
    ];
    let packaged = std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))
        .map(|directory| directory.join("linux.uml"))
        .find(|file| file.exists())
        .expect("a kernel");
    let mut args = kernel;
    let packaged = packaged.display().to_string();
    args[5] = &packaged;
    let done = with(&args);
    done.assert_code(2);
    done.assert_stderr_contains("make lab-kernel");
    let mut command = bench.regatta(&[
        "run",
        "--bed",
        "uml",
        "--clock",
        "virtual",
        "--transport",
        "tcp",
        "--out",
        "out",
    ]);
    command.env("REGATTA_LAB_KERNELS", bench.path("empty"));
    let output = command.output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(77), "{output:?}");
}

#[test]
fn nothing_of_a_guest_survives_kill_9_at_any_moment() {
    let study = in_guest(SMALL, "");
    assert_nothing_survives_kills(&study, repetitions(5, 15), Duration::from_secs(4));
}

/// A guest ends within less than the time after which it would be given up.
#[test]
fn ctrl_c_ends_a_guest_and_keeps_finished_trials() {
    assert_ctrl_c_keeps_finished_trials(&in_guest(SLOW, ""));
}

/// Interrupts the second of two trials of [`SLOW`] in guests, and resumes the run in others.
#[track_caller]
pub fn assert_ctrl_c_keeps_finished_trials(slow: &str) {
    let bench = Bench::new();
    let study = slow.replacen("rounds = 2", "rounds = 1", 1);
    bench.write("study.toml", &study);
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    run.until(|event| is(event, "trial_ended"));
    signal(run.pid(), Signal::SIGINT);
    let interrupted_at = Instant::now();
    let done = run.finish();
    assert!(
        interrupted_at.elapsed() < Duration::from_secs(10),
        "{done:#?}"
    );
    done.assert_code(1);
    done.assert_stderr_contains("the run is partial");
    assert_eq!(trials(&bench.path("out")).len(), 1, "{done:#?}");
    bench.assert_nothing_left();
    let done = bench.run(&["resume", "out"]);
    assert_eq!(trials(&bench.path("out")).len(), 2, "{done:#?}");
    bench.assert_nothing_left();
}
