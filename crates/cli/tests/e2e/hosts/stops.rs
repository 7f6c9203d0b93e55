//! Stops of commands that wait for a host: a program in the place of `ssh` that hangs at one point of the start, and then
//! a signal to the controller.

use std::ffi::OsString;

use nix::{
    sys::{
        signal::Signal::{self, SIGHUP, SIGINT, SIGSTOP, SIGTERM},
        stat::Mode,
    },
    unistd::mkfifo,
};
use regatta_process::ended_within;

use super::*;
use crate::help::{Watched, is, signal};

/// Longest time from a stop to the end.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Command over two hosts that waits for one of them.
struct Waiting {
    bench: Bench,
    run: Watched,
}

impl Waiting {
    /// Starts a command with a script in the place of a `program`, which says `reached` where it hangs.
    fn start(program: &str, script: &str, arguments: &[&str]) -> Self {
        let bench = Bench::new();
        fs::create_dir(bench.path("bin")).expect("a directory");
        let script = format!("#!/bin/sh\nreached() {{ echo reached >\"$REACHED\"; }}\n{script}\n");
        let script = bench.write(&format!("bin/{program}"), &script);
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(script, executable).expect("a script");
        bench.write(
            "hosts.toml",
            "[a]\nssh = \"a\"\naddress = \"127.0.0.1\"\n[b]\nssh = \"b\"\naddress = \"127.0.0.2\"\n",
        );
        let reached = bench.path("reached");
        mkfifo(&reached, Mode::S_IRWXU).expect("a pipe");
        let mut path = OsString::from(bench.path("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = bench.regatta(arguments);
        command
            .args(["--hosts-file", "hosts.toml", "--out", "out"])
            .env("PATH", path)
            .env("REGATTA", env!("CARGO_BIN_EXE_regatta"))
            .env("REACHED", &reached);
        // Only a test of the file that is sent makes one of its own.
        let cache = match program {
            "ssh" => shared_cache(&bench),
            _ => bench.path("cache"),
        };
        command.env("XDG_CACHE_HOME", cache);
        let run = Watched::start(command);
        let reached = fs::File::open(reached).expect("a pipe");
        let mut line = String::new();
        BufReader::new(reached)
            .read_line(&mut line)
            .expect("a line");
        assert_eq!(line, "reached\n");
        Self { bench, run }
    }

    /// Stops the command, which ends in time with this message and leaves no process. Returns its directory.
    #[track_caller]
    fn ends(self, with: Signal, message: &str) -> Bench {
        let Self { bench, mut run } = self;
        signal(run.pid(), with);
        let status = ended_within(&mut run.child, END_TIMEOUT).expect("a child");
        if status.is_none() {
            signal(run.pid(), Signal::SIGKILL);
        }
        let done = run.finish();
        assert!(status.is_some(), "not within {END_TIMEOUT:?}: {done:#?}");
        done.assert_code(1);
        done.assert_stderr_contains("stopping: ");
        done.assert_stderr_contains(message);
        bench.assert_nothing_left();
        bench
    }

    /// Stops a run before its first trial, which leaves no directory.
    #[track_caller]
    fn assert_ends_without_results(self, with: Signal) {
        let bench = self.ends(with, "stopped by the user before anything was measured");
        assert!(!bench.path("out").exists());
    }
}

const RUN: [&str; 9] = [
    "run",
    "--hosts",
    "a,b",
    "--transport",
    "tcp",
    "--size",
    "100MB",
    "--no-progress",
    "--json",
];

/// Host that serves, with heartbeats that nobody misses during the test.
const SERVES: &str = "case \"$*\" in *' a '*) reached;; esac; exec \"$REGATTA\" host-server 600000";

/// Stops the processes with this first argument on both hosts, and then a run that has measured nothing yet.
#[track_caller]
fn assert_stops_while_hanging(role: &str) {
    let mut waiting = Waiting::start("ssh", SERVES, &RUN);
    waiting.run.until(|event| is(event, "run_started"));
    let mut processes = waiting.bench.running(role);
    // A child that has not become another program yet would not end with its parent once it is stopped.
    let children: Vec<i32> = (processes.iter())
        .flat_map(|pid| regatta_process::children(*pid))
        .collect();
    processes.retain(|pid| !children.contains(pid));
    for pid in processes {
        signal(pid, SIGSTOP);
    }
    let bench = waiting.ends(
        SIGHUP,
        "the run is partial: stopped by the user after 0 trials",
    );
    assert!(bench.path("out/report.html").exists());
    // The monitors end with their hosts, as they should.
    let summary = fs::read_to_string(bench.path("out/summary.json")).expect("a summary");
    assert!(!summary.contains("host_not_monitored"), "{summary}");
}

/// Stops of which each ends its command within [`END_TIMEOUT`], some with a report.
mod real_time {
    use super::*;

    #[test]
    fn while_a_host_is_silent() {
        let run = Waiting::start("ssh", "reached; exec sleep 600", &RUN);
        run.assert_ends_without_results(SIGHUP);
    }

    #[test]
    fn while_a_host_does_not_read_the_file_that_it_is_sent() {
        let script = "printf 'regatta-host is Linux %s\\nregatta-host needs 0\\n' \"$(uname -m)\"
            read -r bytes; reached; exec sleep 600";
        Waiting::start("ssh", script, &RUN).assert_ends_without_results(SIGTERM);
    }

    #[test]
    fn while_the_file_is_made_that_is_sent() {
        let run = Waiting::start("strip", "reached; exec sleep 600", &RUN);
        run.assert_ends_without_results(SIGINT);
    }

    #[test]
    fn while_monitors_are_started() {
        let script = "reached; exec sleep 600";
        let monitor = Waiting::start("ssh", script, &["monitor", "a,b", "--for", "10min"]);
        monitor.ends(SIGTERM, "stopped by the user before anything was sampled");
    }

    #[test]
    fn while_the_path_check_hangs() {
        assert_stops_while_hanging("path-daemon");
    }

    #[test]
    fn while_servers_hang() {
        assert_stops_while_hanging("host-server");
    }
}
