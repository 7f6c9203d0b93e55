//! Programs on a host of the bed, each kept together with all processes that it starts.
//!
//! Between the controller and the program there is a process of its own, the supervisor ([`main`]). It
//! inherits the end of a control pipe: the controller writes signals for the program to it, and
//! when the other end closes, however the controller ended, the supervisor ends the program and all of
//! its descendants. These have a process namespace, unless they have a terminal, so that the kernel kills them when the
//! supervisor is killed.

mod supervisor;

use std::{
    ffi::{OsStr, OsString},
    io::{self, PipeWriter, Write},
    os::{fd::AsRawFd, unix::process::ExitStatusExt as _},
    process::{Child, ExitStatus, Stdio},
    time::Duration,
};

use nix::sys::signal::{SigSet, Signal};
use regatta_model::shell::printable;
use regatta_process::{
    Executable, PROGRAM_MARK, Preparation, end_within, kill_marked, program_mark,
};

pub use self::supervisor::main;
use crate::error::BedError;

/// Hidden subcommand of `regatta` that is the supervisor of a program.
pub const SUPERVISOR_COMMAND: &str = "path-program";

/// Time that the supervisor has to end by itself before it is killed: longer than it takes to end
/// programs that ignore signals.
const EXIT_LIMIT: Duration = Duration::from_secs(8);

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
    /// Mark of its processes.
    mark: String,
    control: Option<PipeWriter>,
}

/// Returns the signals that a supervisor leaves to its program, which gets them from the terminal as
/// well.
fn terminal_signals() -> SigSet {
    SigSet::from_iter([
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGHUP,
    ])
}

/// Starts a program in the namespaces of `preparation`; `executable` is the supervisor's file.
pub(crate) fn start(
    executable: &Executable,
    preparation: Preparation,
    order: ProgramOrder,
) -> Result<Program, BedError> {
    let failed = |source| BedError::Spawn {
        what: order.program.to_string_lossy().into_owned(),
        source,
    };
    let (held, control) = io::pipe().map_err(failed)?;
    let number = held.as_raw_fd();
    let mark = program_mark();
    let [input, output, errors] = order.streams;
    let mut process = executable.command();
    process
        .arg(SUPERVISOR_COMMAND)
        .arg(number.to_string())
        .arg(&order.program)
        .args(&order.arguments)
        .envs(order.environment)
        .env(PROGRAM_MARK, &mark)
        .stdin(input)
        .stdout(output)
        .stderr(errors);
    Preparation {
        // A Ctrl-C in the moment before the program stands is not the supervisor's end.
        signal_mask: Some(terminal_signals()),
        inherited: vec![number],
        session: order.apart,
        ..preparation
    }
    .apply(&mut process);
    let supervisor = process.spawn().map_err(failed)?;
    Ok(Program {
        supervisor,
        mark,
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
        let status = end_within(&mut self.supervisor, EXIT_LIMIT);
        // A supervisor that was killed leaves what has no namespace that ends with it.
        if status.is_none_or(|status| status.signal().is_some()) {
            kill_marked(PROGRAM_MARK, &self.mark, 0);
        }
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
