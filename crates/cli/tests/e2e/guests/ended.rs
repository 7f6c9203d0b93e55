//! Guests with a virtual clock that the machine ends, or stops for a while: figures do not depend on it.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use regatta_model::TrialRecord;

use super::virtual_time::head;
use crate::help::{Bench, Watched, assert_ran, is, shared_trials, signal, trials};

/// Returns a study of a run that takes some seconds, with random losses, in one chunk of several trials.
fn study() -> String {
    head("ended").replace("rounds = 1", "rounds = 12")
        + "[[transport]]\ndriver = \"tcp\"\n[[transport]]\ndriver = \"quic-quinn\"\n\
        [[condition]]\nname = \"lossy\"\nrtt = \"20ms\"\nrate = \"50Mbit/s\"\nloss = \"1%\"\n\
        [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"1MB\"\nmessage = \"10kB\"\n"
}

/// Returns the processes of the guest's kernel, and of the programs in it, which are its children.
fn kernel(bench: &Bench) -> Vec<i32> {
    let is_kernel = |pid: &i32| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("linux"))
    };
    bench.processes().into_iter().filter(is_kernel).collect()
}

/// Compares a run whose guest is disturbed at its second trial with one that is not.
#[track_caller]
fn assert_same_figures(disturb: impl Fn(&[i32])) {
    let bench = Bench::new();
    bench.write("study.toml", &study());
    let figures = |mut trials: Vec<TrialRecord>| {
        for trial in &mut trials {
            assert_ran(trial);
            trial.started_unix_ns = 0;
        }
        trials
    };
    let alone = figures(shared_trials("cli-ended", &study()));
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    run.until(|event| is(event, "trial_ended"));
    run.until(|event| is(event, "trial_started"));
    let processes = kernel(&bench);
    assert!(processes.len() > 1, "{processes:?}");
    disturb(&processes);
    run.finish().assert_code(0);
    assert_eq!(figures(trials(&bench.path("out"))), alone);
    bench.assert_nothing_left();
}

#[test]
fn killed_guest_in_virtual_time_is_run_again() {
    assert_same_figures(|processes| {
        let kernel = processes.iter().min().expect("a kernel");
        signal(*kernel, Signal::SIGKILL);
    });
}

/// As a shell or a batch system suspends a job: all its processes, one after another.
#[test]
fn stopped_guest_in_virtual_time_continues() {
    assert_same_figures(|processes| {
        for _ in 0..20 {
            for signal in [Signal::SIGSTOP, Signal::SIGCONT] {
                for pid in processes {
                    // A program of the guest may have ended.
                    let _ = kill(Pid::from_raw(*pid), signal);
                }
            }
        }
        let exists = |pid: &i32| std::path::Path::new(&format!("/proc/{pid}")).exists();
        let kernel = processes.iter().min();
        assert!(kernel.is_some_and(exists), "the guest's kernel has ended");
    });
}
