//! Guard of a shaped interface: a second process that restores it when the path daemon is killed or stopped. The
//! daemon does when its guard is killed.

use std::{
    fs,
    io::{self, BufRead, Read as _, Write as _},
    os::fd::AsFd as _,
    path::PathBuf,
    process::{Child, ChildStdin, ExitCode, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::getppid,
};
use regatta_process::{
    Executable, Preparation, ended_within, exit_code, in_one_line, readable, write_line,
};
use serde::{Deserialize, Serialize};

use super::{record::Record, saved_qdisc::SavedQdisc};
use crate::error::InterfaceError;

/// Hidden subcommand of `regatta` that is the guard of a shaped interface.
pub const COMMAND: &str = "interface-guard";

/// Time between two heartbeats of the daemon.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time without heartbeats after which the guard regards the daemon as stopped, and restores the interface.
const SILENCE: Duration = Duration::from_secs(5);

/// First line to the guard.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    former: SavedQdisc,
    /// File that is removed once the interface is restored.
    record: PathBuf,
}

/// Starts the guard of an interface, which ends with this process. From then on this process restores the interface and
/// ends if the guard does.
pub(super) fn start(former: &SavedQdisc, record: Record) -> Result<(), InterfaceError> {
    let failed = InterfaceError::system("start the guard of an interface");
    record.write(former).map_err(&failed)?;
    let order = Order {
        former: former.clone(),
        record: record.path().to_owned(),
    };
    let (child, input) = spawn(&order, &record).map_err(&failed)?;
    let thread = thread::Builder::new().name("guard".into());
    let watch = move || watch(child, input, &order.former, &record);
    thread.spawn(watch).map(drop).map_err(failed)
}

fn spawn(order: &Order, record: &Record) -> io::Result<(Child, ChildStdin)> {
    let executable = Executable::running()?;
    let mut command = executable.command();
    command
        .arg(COMMAND)
        .stdin(Stdio::piped())
        // Nothing is written to it: it holds the lock.
        .stdout(record.share()?);
    let blocked = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];
    // It outlives the daemon, if only to restore the interface.
    Preparation {
        signal_mask: Some(SigSet::from_iter(blocked)),
        session: true,
        ..Preparation::default()
    }
    .apply(&mut command);
    let mut child = command.spawn()?;
    let mut input = child.stdin.take().expect("a child with a pipe has one");
    write_line(&mut input, order)?;
    Ok((child, input))
}

/// Sends heartbeats to the guard until it ends, then restores the interface and ends this process.
fn watch(mut guard: Child, mut input: ChildStdin, former: &SavedQdisc, record: &Record) {
    while let Ok(None) = ended_within(&mut guard, INTERVAL) {
        // A guard that has ended is noticed above.
        let _ = input.write_all(b".");
    }
    eprintln!("error: the guard of `{}` was killed", former.name);
    match former.restore() {
        Ok(()) => record.remove(),
        Err(error) => report(&error),
    }
    std::process::exit(1);
}

pub(super) fn report(error: &InterfaceError) {
    eprintln!("error: {}", in_one_line(error));
}

/// Restores an interface when the path daemon, its parent, ends or is stopped. The body of `regatta interface-guard`.
#[must_use]
pub fn main() -> ExitCode {
    regatta_process::set_name(c"regatta");
    let daemon = getppid();
    let mut input = io::stdin().lock();
    let line = input.by_ref().lines().next();
    let order = line.and_then(|line| serde_json::from_str(&line.ok()?).ok());
    let Some(Order { former, record }) = order else {
        return ExitCode::FAILURE;
    };
    let mut part = [0; 64];
    let mut is_killed = false;
    loop {
        match readable(&[io::stdin().as_fd()], Some(SILENCE)) {
            Ok(false) if is_killed || getppid() != daemon => break,
            Ok(false) => {
                // It would go on with what it was doing once it is no longer stopped. Its end closes the pipe.
                let _ = kill(daemon, Signal::SIGKILL);
                is_killed = true;
            }
            Ok(true) => match input.read(&mut part) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            },
            Err(_) => break,
        }
    }
    let restored = former.restore();
    if restored.is_ok() {
        // Before the lock ends with this process.
        let _ = fs::remove_file(record);
    }
    exit_code(restored.map_err(|error| in_one_line(&error)), "")
}
