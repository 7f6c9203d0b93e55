//! Tests of two guests of which one dies or hangs, of one run. It waits for a quarter of a minute until a
//! stopped guest is given up, so that it does not count as `guests`, which each take a core.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use regatta_model::Outcome;
use regatta_results::Reader;

use crate::{
    guests::two::in_two_guests,
    help::{Bench, SLOW, Watched, assert_ran, is, signal, trials},
};

/// Returns the kernels of the two guests, the receiver's first: it is started first.
fn kernels(bench: &Bench) -> [i32; 2] {
    let is_kernel = |pid: i32| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("linux.uml"))
    };
    let parent = |pid: i32| -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        let field = after.split_whitespace().nth(1).unwrap_or("0");
        field.parse().unwrap_or(0)
    };
    // A kernel's helpers are its children; its daemon is two processes above it.
    let mut found: Vec<(i32, i32)> = bench
        .processes()
        .into_iter()
        .filter(|pid| is_kernel(*pid) && !is_kernel(parent(*pid)))
        .map(|pid| (parent(parent(pid)), pid))
        .collect();
    found.sort_unstable();
    let [(_, receiver), (_, sender)] = found[..] else {
        panic!("not two kernels: {found:?}");
    };
    [receiver, sender]
}

/// Guest, signal that it is sent at the start of a trial, and reason that this trial must give.
type Fault = (usize, Signal, &'static str);

const RECEIVER_KILLED: Fault = (0, Signal::SIGKILL, "the receiver's guest ended");
const RECEIVER_HUNG: Fault = (0, Signal::SIGSTOP, "the receiver's guest hung");
const SENDER_HUNG: Fault = (1, Signal::SIGSTOP, "the guest hung");

/// Runs a study of two trials with these faults of its first trials, one each. Checks that each makes its trial invalid,
/// and that all trials are run in other guests.
#[track_caller]
fn assert_trials_are_repeated_after(faults: &[Fault]) {
    let bench = Bench::new();
    let study = in_two_guests(SLOW).replacen("rounds = 2\n", "rounds = 1\n", 1);
    bench.write("study.toml", &study);
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    for (guest, fault_signal, _) in faults {
        run.until(|event| is(event, "trial_started"));
        signal(kernels(&bench)[*guest], *fault_signal);
        let at = Instant::now();
        let ended = run.until(|event| is(event, "trial_ended"));
        assert!(at.elapsed() < Duration::from_secs(30), "{ended:#}");
    }
    let done = run.finish();
    done.assert_code(0);
    bench.assert_nothing_left();
    let out = bench.path("out");
    let last = trials(&out);
    assert_eq!(last.len(), 2, "{last:#?}");
    last.iter().for_each(assert_ran);
    let mut attempts = Reader::open(&out)
        .and_then(|reader| reader.trials())
        .expect("the results are readable");
    attempts.retain(|attempt| attempt.outcome == Outcome::Invalid);
    assert_eq!(attempts.len(), faults.len(), "{attempts:#?}");
    for (attempt, (.., reason)) in attempts.iter().zip(faults) {
        assert!(attempt.reasons.concat().contains(reason), "{attempt:#?}");
    }
}

#[test]
fn trials_of_killed_receivers_and_stopped_senders_are_repeated() {
    assert_trials_are_repeated_after(&[RECEIVER_KILLED, SENDER_HUNG]);
}

mod long_forms {
    use super::*;

    #[test]
    fn a_trial_of_a_stopped_receiver_is_repeated() {
        assert_trials_are_repeated_after(&[RECEIVER_HUNG]);
    }
}
