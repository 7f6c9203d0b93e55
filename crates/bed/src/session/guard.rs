//! Guard of a server: kills a server that is stopped or hangs, which cannot end itself.

use std::{
    io::{self, Read, Write},
    os::fd::AsFd,
    process::{Child, ChildStdin, ExitCode, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::getppid,
};
use regatta_process::{Executable, Preparation, readable};

use crate::launch;

/// First argument of the guard's process.
pub const COMMAND: &str = "host-guard";

/// Time beyond the longest silence after which a server is taken for stopped.
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

/// Waits for heartbeats of the parent and kills it when there are none. The body of `regatta
/// host-guard LIMIT`, with the longest time between two of them in milliseconds.
#[must_use]
pub fn main(limit_ms: Option<&str>) -> ExitCode {
    regatta_process::set_name(c"regatta");
    let server = getppid();
    let mut input = io::stdin().lock();
    let Some(Ok(limit)) = limit_ms.map(str::parse) else {
        return ExitCode::FAILURE;
    };
    let limit = Duration::from_millis(limit);
    let mut part = [0; 64];
    loop {
        match readable(&[io::stdin().as_fd()], Some(limit)) {
            Ok(false) => {
                if getppid() == server {
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
