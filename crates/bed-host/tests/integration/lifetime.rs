//! Tests that nothing outlives the run, however it ends.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, BufRead, BufReader},
    os::fd::AsRawFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use regatta_bed::{Bed, BedError, Host, TestBed as _, program::SUPERVISOR_COMMAND};
use regatta_model::{BedKind, PathSetup};
use regatta_process::{Preparation, children};
use regatta_test_support::processes::{is_running, running_with};

use crate::common::{Agent, bed, condition, executable};

/// Returns the network namespaces that some process is in, as `net:[NUMBER]`.
fn namespaces_in_use() -> BTreeSet<PathBuf> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries
        .filter_map(|entry| fs::read_link(entry.ok()?.path().join("ns/net")).ok())
        .collect()
}

/// Waits for at most five seconds until a condition holds.
fn soon(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < until, "still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Held {
    controller: Child,
    processes: Vec<i32>,
    namespaces: BTreeSet<PathBuf>,
}

fn hold() -> Held {
    let mut controller = Command::new(executable())
        .arg("hold")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a controller");
    let mut line = String::new();
    BufReader::new(controller.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("a line");
    assert!(line.starts_with("agents "), "{line}");
    let processes = children(controller.id().cast_signed());
    assert_eq!(processes.len(), 3, "a daemon and two agents");
    let own_namespace = fs::read_link("/proc/self/ns/net").expect("a namespace");
    let namespaces: BTreeSet<_> = processes
        .iter()
        .map(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).expect("a namespace"))
        .collect();
    assert_eq!(namespaces.len(), 2, "the daemon shares the second host's");
    assert!(!namespaces.contains(&own_namespace));
    Held {
        controller,
        processes,
        namespaces,
    }
}

fn assert_all_ended(held: &Held) {
    soon("every process has ended", || {
        !held.processes.iter().any(|pid| is_running(*pid))
    });
    soon("the namespaces are gone", || {
        namespaces_in_use().is_disjoint(&held.namespaces)
    });
}

#[test]
fn a_killed_daemon_is_an_error() {
    let mut bed = bed();
    bed.set_condition(&condition(30, 100, 0.0), 1)
        .expect("a condition");
    let pid = nix::unistd::Pid::from_raw(bed.daemon_pid() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("a signal");
    let error = bed.counters().expect_err("no daemon");
    assert!(matches!(error, BedError::DaemonEnded { .. }), "{error}");
    assert!(error.to_string().contains("signal: 9"), "{error}");
}

#[test]
fn an_agent_can_be_started_again_after_it_died() {
    let mut bed = bed();
    bed.set_condition(&condition(2, 100, 0.0), 1)
        .expect("a condition");
    let mut b = Agent::start(&mut bed, Host::Server);
    let peer = b.listen("echo");
    drop(Agent::start(&mut bed, Host::Client));
    let mut a = Agent::start(&mut bed, Host::Client);
    a.send(&format!("ping {peer} 5 100 1000"));
    assert_eq!(a.receive().split_whitespace().count(), 5);
}

#[test]
fn an_agent_runs_the_original_program_after_its_file_was_removed_or_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("regatta");
    fs::copy(executable(), &program).expect("a copy");
    let mut bed = Bed::up(
        BedKind::Netns,
        PathSetup::USERSPACE,
        &[],
        &program,
        "bed tests",
    )
    .expect("a bed");
    fs::remove_file(&program).expect("removed");
    let removed = Agent::start(&mut bed, Host::Server).listen("echo");
    assert_ne!(removed.port(), 0);
    // What a build does: another file of the same name.
    fs::copy("/bin/false", &program).expect("another program");
    let mut b = Agent::start(&mut bed, Host::Server);
    let mut a = Agent::start(&mut bed, Host::Client);
    let peer = b.listen("echo");
    a.send(&format!("ping {peer} 5 100 1000"));
    assert_eq!(a.receive().split_whitespace().count(), 5);
}

#[test]
fn sigkill_of_the_controller_ends_everything() {
    let mut held = hold();
    held.controller.kill().expect("a signal");
    held.controller.wait().expect("an end");
    assert_all_ended(&held);
}

#[test]
fn the_controller_s_end_ends_everything() {
    let mut held = hold();
    held.controller.stdin = None;
    assert!(held.controller.wait().expect("an end").success());
    assert_all_ended(&held);
}

#[test]
fn dropping_the_bed_ends_its_daemon() {
    let daemon = {
        let bed = bed();
        assert!(is_running(bed.daemon_pid().cast_signed()));
        bed.daemon_pid().cast_signed()
    };
    soon("the daemon has ended", || !is_running(daemon));
}

#[test]
fn a_supervisor_notices_the_ends_of_processes_that_ignore_its_first_signal() {
    let (held, control) = io::pipe().expect("a pipe");
    let sleep = format!("sleep 600.{}", std::process::id());
    // The second one has a session of its own and a parent that has ended, the third one a parent that is killed, too.
    let script =
        format!("trap '' TERM; setsid {sleep} & sh -c '{sleep} & {sleep}' & echo up; exec {sleep}");
    let mut command = Command::new(executable());
    command
        .args([SUPERVISOR_COMMAND, &held.as_raw_fd().to_string()])
        .args(["sh", "-c", &script])
        .stdout(Stdio::piped());
    Preparation {
        inherited: vec![held.as_raw_fd()],
        ..Preparation::default()
    }
    .apply(&mut command);
    let mut supervisor = command.spawn().expect("a supervisor");
    let mut line = String::new();
    BufReader::new(supervisor.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("a line");
    assert_eq!(line, "up\n");
    let ended = Instant::now();
    drop(control);
    let status = supervisor.wait().expect("a child");
    assert_eq!(status.code(), Some(128 + libc::SIGKILL));
    // It gives up after five seconds if it does not notice the ends.
    let took = ended.elapsed();
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    assert_eq!(running_with(&sleep[6..]), [] as [i32; 0]);
}
