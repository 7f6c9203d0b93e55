//! Tests of two guests of which one dies or hangs. They wait for most of half a minute until a
//! stopped guest is given up, so that they do not count as `guests`, which each take a core.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

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

/// Guest, signal that it is sent, and reason that its trial must give.
type Fault = (usize, Signal, &'static str);

/// Checks that each fault costs a trial, and the next trial runs in other guests.
#[track_caller]
fn assert_fails_its_trial(faults: &[Fault]) {
    let bench = Bench::new();
    bench.write("study.toml", &in_two_guests(SLOW));
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    for (guest, fault_signal, expected) in faults {
        run.until(|event| is(event, "trial_started"));
        signal(kernels(&bench)[*guest], *fault_signal);
        let at = Instant::now();
        let ended = run.until(|event| is(event, "trial_ended"));
        assert!(at.elapsed() < Duration::from_secs(30), "{ended:#}");
        assert_eq!(ended["trial"]["outcome"], "failed", "{ended:#}");
        let reasons = ended["trial"]["reasons"].to_string();
        assert!(reasons.contains(expected), "{reasons}");
    }
    let done = run.finish();
    done.assert_code(1);
    let all = trials(&bench.path("out"));
    assert_eq!(all.len(), 4, "{done:#?}");
    all[faults.len()..].iter().for_each(assert_ran);
    bench.assert_nothing_left();
}

#[test]
fn killed_and_hung_receivers_fail_one_trial_each() {
    assert_fails_its_trial(&[
        (0, Signal::SIGKILL, "the receiver's guest ended"),
        (0, Signal::SIGSTOP, "the receiver's guest hung"),
    ]);
}

#[test]
fn hung_sender_fails_its_trial() {
    assert_fails_its_trial(&[(1, Signal::SIGSTOP, "the guest hung")]);
}
