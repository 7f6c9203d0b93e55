//! Guards of a server, which kill one that is stopped or hangs and cannot end itself: the server's own, and that of its
//! start, which the script on the host starts before.

use std::{
    io::{self, Read, Write},
    os::fd::AsFd,
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, getppid},
};
use regatta_process::{Executable, Preparation, ancestors, descriptor, is_stopped, readable};

use crate::launch;

/// Hidden subcommand of `regatta` that kills a server which hangs.
pub const COMMAND: &str = "host-guard";

/// Time added to the maximum silence of a server before the guard regards the server as stopped, and kills it.
const GRACE: Duration = Duration::from_secs(3);

/// Guard, for the server. It ends with the server.
#[derive(Debug)]
pub(crate) struct Guard {
    _process: Child,
    input: ChildStdin,
    /// Time between two heartbeats.
    interval: Duration,
    last_heartbeat: Instant,
}

impl Guard {
    pub(super) fn start(executable: &Executable, silence: Duration) -> io::Result<Self> {
        let streams = [Stdio::piped(), Stdio::null(), Stdio::inherit()];
        let limit = silence.saturating_add(GRACE).as_millis().to_string();
        let mut process = launch::spawn(
            executable,
            &[COMMAND, &limit],
            &[],
            streams,
            Preparation::default(),
        )
        .map_err(io::Error::other)?;
        let input = process.stdin.take().expect("a child with a pipe has one");
        Ok(Self {
            _process: process,
            input,
            interval: silence / 4,
            last_heartbeat: Instant::now(),
        })
    }

    /// Sends a heartbeat to the guard.
    pub(super) fn heartbeat(&mut self) {
        if self.last_heartbeat.elapsed() >= self.interval {
            self.last_heartbeat = Instant::now();
            // Without a guard the server still ends by itself unless it is stopped.
            let _ = self.input.write_all(b".");
        }
    }
}

/// Main function of both guards: `regatta host-guard LIMIT` is the server's own, with the longest time between two
/// heartbeats in milliseconds; `regatta host-guard LIMIT PROCESS [BECOME…]` is that of the start, with the longest time that
/// the process may take, and the words before a command with its rights.
#[must_use]
pub fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    regatta_process::set_name(c"regatta");
    let Some(Ok(limit)) = arguments.next().map(|text| text.parse()) else {
        return ExitCode::FAILURE;
    };
    let limit = Duration::from_millis(limit);
    match arguments.next().map(|text| text.parse()) {
        None => guard_parent(limit),
        Some(Ok(process)) => guard_start(process, limit, arguments),
        Some(Err(_)) => ExitCode::FAILURE,
    }
}

/// Ends the start guard of this server, whose process ID the script has passed.
pub(super) fn end_start_guard(process: Option<&str>) {
    let Some(process) = process.and_then(|text| text.parse::<u32>().ok()) else {
        return;
    };
    let arguments = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    // Another process may have the number by now.
    if arguments
        .split(|byte| *byte == 0)
        .any(|it| it == COMMAND.as_bytes())
    {
        let _ = kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL);
    }
}

/// Kills the group of a process that has not ended within the limit: the server ends this guard when it has its own.
fn guard_start(
    process: u32,
    limit: Duration,
    become_words: impl Iterator<Item = String>,
) -> ExitCode {
    let Some(server) = descriptor(process) else {
        return ExitCode::FAILURE;
    };
    if readable(&[server.as_fd()], Some(limit)).unwrap_or(true) {
        return ExitCode::SUCCESS;
    }
    let group = format!("-{process}");
    let killing = ["kill", "-KILL", "--", &group].map(str::to_owned);
    let mut words = become_words.chain(killing);
    let mut command = Command::new(words.next().unwrap_or_default());
    // It kills this process, too.
    match command.args(words).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Waits for heartbeats of the parent, and kills it when there are none.
fn guard_parent(limit: Duration) -> ExitCode {
    let server = getppid();
    let mut input = io::stdin().lock();
    let mut part = [0; 64];
    loop {
        match readable(&[io::stdin().as_fd()], Some(limit)) {
            Ok(false) => {
                if getppid() == server {
                    // `sudo` stops with what it has started, and would stay for ever. It cannot be continued later, as this
                    // process ends with the server.
                    for above in ancestors(server.as_raw()) {
                        if is_stopped(above.cast_unsigned()) {
                            let _ = kill(Pid::from_raw(above), Signal::SIGCONT);
                        }
                    }
                    // What the server started ends with it.
                    let _ = kill(server, Signal::SIGKILL);
                }
                return ExitCode::FAILURE;
            }
            Ok(true) => match input.read(&mut part) {
                Ok(0) | Err(_) => return ExitCode::SUCCESS,
                Ok(_) => {}
            },
            Err(_) => return ExitCode::FAILURE,
        }
    }
}
