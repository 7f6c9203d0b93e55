//! Programs on a host of the bed, each kept together with all processes that it starts.
//!
//! Between the controller and the program there is a process of its own, the supervisor ([`main`]). It
//! inherits the end of a control pipe: the controller writes signals for the program to it, and
//! when the other end closes, however the controller ended, the supervisor ends the program and all of
//! its descendants.

mod supervisor;
mod tree;

use std::{
    ffi::{OsStr, OsString},
    io::{self, PipeWriter, Write},
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::process::CommandExt,
    },
    process::{Child, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sched::setns,
    sys::signal::{SigSet, Signal},
};
use regatta_model::shell::printable;

pub use self::supervisor::main;
use crate::{
    error::BedError,
    process::{Entries, Executable},
};

/// First argument of the supervisor's process.
pub const WARDEN_COMMAND: &str = "path-program";

/// Time that the supervisor has to end by itself before it is killed: longer than it takes to end
/// programs that ignore signals.
const FAREWELL: Duration = Duration::from_secs(8);

/// A program to be started.
#[derive(Debug)]
pub struct ProgramOrder {
    /// Name or path of the program, looked up as a shell does.
    pub program: OsString,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// Additions to the environment.
    pub environment: Vec<(String, String)>,
    /// Standard input, output and error of the program.
    pub streams: [Stdio; 3],
    /// Whether the program runs in a session of its own, apart from the terminal, so that Ctrl-C
    /// does not reach it.
    pub apart: bool,
}

/// Running program. It ends, with all that it started, when this is dropped.
#[derive(Debug)]
pub struct Program {
    supervisor: Child,
    control: Option<PipeWriter>,
}

/// Returns the signals that a supervisor leaves to its program, which gets them from the terminal as
/// well.
fn left_to_the_program() -> SigSet {
    SigSet::from_iter([
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGHUP,
    ])
}

pub(crate) fn start(
    executable: &Executable,
    order: ProgramOrder,
    entries: Entries,
) -> Result<Program, BedError> {
    let failed = |source| BedError::Spawn {
        what: order.program.to_string_lossy().into_owned(),
        source,
    };
    let (held, control) = io::pipe().map_err(failed)?;
    let number = held.as_raw_fd();
    let [input, output, errors] = order.streams;
    let mut process = executable.command();
    process
        .arg(WARDEN_COMMAND)
        .arg(number.to_string())
        .arg(&order.program)
        .args(&order.arguments)
        .envs(order.environment)
        .stdin(input)
        .stdout(output)
        .stderr(errors);
    let apart = order.apart;
    let blocked = left_to_the_program();
    let prepare = move || {
        // A Ctrl-C in the moment before the program stands is not the supervisor's end.
        blocked.thread_block()?;
        for (fd, kind) in &entries {
            // SAFETY: the caller's bed holds the files until the process has been started.
            setns(unsafe { BorrowedFd::borrow_raw(*fd) }, *kind)?;
        }
        if apart {
            nix::unistd::setsid()?;
        }
        // SAFETY: the pipe is open until the process has been started.
        let held = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl(held, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(())
    };
    // SAFETY: between fork and exec this makes system calls and reads memory that was allocated
    // before; it allocates nothing and takes no lock.
    unsafe { process.pre_exec(prepare) };
    let supervisor = process.spawn().map_err(failed)?;
    Ok(Program {
        supervisor,
        control: Some(control),
    })
}

impl Program {
    /// Returns the process identifier of the supervisor, which is in the host's namespaces as the
    /// program is.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.supervisor.id()
    }

    /// Sends a signal to the program; does nothing if the program has ended.
    pub fn signal(&mut self, signal: Signal) {
        if let Some(control) = &mut self.control {
            // The supervisor ends with its program, and then nobody reads.
            let _ = control.write_all(&[signal as u8]);
        }
    }

    /// Returns the exit status if the program and all that it started have ended. The status is
    /// that of a shell: 127 for a program that was not found, 126 for one that cannot be run, 128
    /// plus the signal for one that a signal ended.
    ///
    /// # Errors
    /// The error of `waitpid`.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.supervisor.try_wait()
    }

    /// Ends the program with all that it started: by `SIGTERM` first, and by `SIGKILL` after a
    /// second.
    pub fn end(&mut self) {
        self.control = None;
        let until = Instant::now() + FAREWELL;
        while Instant::now() < until {
            if !matches!(self.supervisor.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // Fails only if it has ended meanwhile.
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the name of a program, for errors.
fn shown(program: &OsStr) -> String {
    printable(&program.to_string_lossy())
}
