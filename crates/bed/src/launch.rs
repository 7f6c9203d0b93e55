//! Starting Regatta's own processes on the hosts of a bed.

use std::{
    fmt::Debug,
    fs::File,
    io::Write,
    os::fd::{AsRawFd, OwnedFd},
    process::{Child, Stdio},
    sync::Arc,
    time::Duration,
};

use nix::sched::CloneFlags;
use regatta_process::{
    Executable, Preparation, end_within, ended_within, is_stopped, out_of_memory_kills,
};

use crate::{
    clocks::RemoteClock,
    error::BedError,
    exit::Exit,
    program::{self, Program, ProgramOrder},
};

/// Command of the process at each end of a trial.
pub(crate) const AGENT: &str = "agent";

/// Starts processes on one host of a bed.
pub trait Launcher: Debug {
    /// Starts `regatta command` on the host, with pipes for input and output.
    ///
    /// # Errors
    /// If the process cannot be started, or the host does not answer.
    fn launch(&mut self, command: &str, errors: Errors) -> Result<Launched, BedError>;

    /// Converts an error of a path daemon on the host: one that does not answer may mean that the host
    /// does not.
    fn daemon_error(&self, error: BedError) -> BedError {
        error
    }

    /// Returns the clock of the host; `None` for one of this machine, whose clock is this process's.
    fn clock(&self) -> Option<Arc<dyn RemoteClock>> {
        None
    }

    /// Starts any program on the host, kept together by `regatta path-program`.
    ///
    /// # Errors
    /// [`BedError::Spawn`]; [`BedError::Refused`] for a host that is not in namespaces of this
    /// machine.
    fn start_program(&self, _order: ProgramOrder) -> Result<Program, BedError> {
        let reason = "the host is not in a namespace of this machine";
        let hint = "use the bed `netns`";
        Err(BedError::refused(
            "start a program on its host",
            reason,
            hint,
        ))
    }
}

/// Destination of a process's standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// Standard error of the process that launches.
    Inherit,
    /// A stream of its own.
    Pipe,
}

/// Process that was started on a host, and its standard streams.
#[derive(Debug)]
pub struct Launched {
    /// Standard input; dropping it closes it.
    pub input: Box<dyn Input>,
    /// Standard output.
    pub output: OwnedFd,
    /// Standard error, if it has a stream of its own.
    pub errors: Option<OwnedFd>,
    /// The process itself. Dropping it does nothing to the process; the end of its input ends it.
    pub process: Box<dyn LaunchedProcess>,
}

/// Standard input of a launched process.
pub trait Input: Write + Send + Debug {}

impl<T: Write + Send + Debug> Input for T {}

/// Process that can be waited for and killed.
pub trait LaunchedProcess: Send + Debug {
    /// Returns the process ID, on the host that the launcher starts processes on.
    fn id(&self) -> u32;
    /// Waits for at most `within` and returns the end of the process; `None` if it still runs.
    fn ended(&mut self, within: Duration) -> Option<Exit>;
    /// Kills the process and waits for its end. Returns [`Exit::Stopped`] if somebody else had stopped it.
    fn kill(&mut self) -> Option<Exit>;
}

/// Child of this process.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    /// [`out_of_memory_kills`] when it was started.
    kills_before: u64,
}

impl From<Child> for ChildProcess {
    /// Takes over a child that was just started.
    fn from(child: Child) -> Self {
        Self {
            child,
            kills_before: out_of_memory_kills(),
        }
    }
}

impl From<Child> for Launched {
    /// Takes over a child that was just started with pipes for input and output.
    fn from(mut child: Child) -> Self {
        let no_pipe = "a child with pipes has pipes";
        Self {
            input: Box::new(child.stdin.take().expect(no_pipe)),
            output: child.stdout.take().expect(no_pipe).into(),
            errors: child.stderr.take().map(Into::into),
            process: Box::new(ChildProcess::from(child)),
        }
    }
}

impl LaunchedProcess for ChildProcess {
    fn id(&self) -> u32 {
        self.child.id()
    }

    fn ended(&mut self, within: Duration) -> Option<Exit> {
        let ended = ended_within(&mut self.child, within).ok().flatten();
        ended.map(|status| Exit::new(status, self.kills_before))
    }

    fn kill(&mut self) -> Option<Exit> {
        let was_stopped = is_stopped(self.child.id());
        end_within(&mut self.child, Duration::ZERO);
        was_stopped.then_some(Exit::Stopped)
    }
}

/// Starts processes on this machine, in namespaces or outside of any.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    pub(crate) executable: Arc<Executable>,
    /// Files that hold the namespaces to enter, in order.
    namespaces: Arc<[(File, CloneFlags)]>,
}

impl Local {
    /// Returns a launcher of processes in this process's namespaces.
    pub(crate) fn new(executable: Executable) -> Self {
        Self {
            executable: Arc::new(executable),
            namespaces: Arc::new([]),
        }
    }

    /// Returns a launcher of the same program inside of namespaces.
    pub(crate) fn within(&self, namespaces: impl Into<Arc<[(File, CloneFlags)]>>) -> Self {
        Self {
            executable: Arc::clone(&self.executable),
            namespaces: namespaces.into(),
        }
    }

    pub(crate) fn preparation(&self) -> Preparation {
        let namespaces = self.namespaces.iter();
        let namespaces = namespaces.map(|(file, kind)| (file.as_raw_fd(), *kind));
        Preparation {
            namespaces: namespaces.collect(),
            ..Preparation::default()
        }
    }
}

impl Launcher for Local {
    fn launch(&mut self, command: &str, errors: Errors) -> Result<Launched, BedError> {
        let errors = match errors {
            Errors::Inherit => Stdio::inherit(),
            Errors::Pipe => Stdio::piped(),
        };
        let streams = [Stdio::piped(), Stdio::piped(), errors];
        let preparation = self.preparation();
        let child = spawn(&self.executable, &[command], &[], streams, preparation)?;
        Ok(child.into())
    }

    fn start_program(&self, order: ProgramOrder) -> Result<Program, BedError> {
        program::start(&self.executable, self.preparation(), order)
    }
}

/// Starts a program with these arguments, variables beside its own and standard streams; the kernel kills it when the calling thread
/// ends.
pub(crate) fn spawn(
    executable: &Executable,
    arguments: &[impl AsRef<str>],
    environment: &[(String, String)],
    streams: [Stdio; 3],
    preparation: Preparation,
) -> Result<Child, BedError> {
    let [input, output, errors] = streams;
    let mut process = executable.command();
    process
        .args(arguments.iter().map(AsRef::as_ref))
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(input)
        .stdout(output)
        .stderr(errors);
    Preparation {
        session: true,
        dies_with_parent: true,
        ..preparation
    }
    .apply(&mut process);
    process.spawn().map_err(|source| {
        let program = executable.path().to_string_lossy().into_owned();
        let arguments = arguments.iter().map(AsRef::as_ref);
        BedError::Spawn {
            what: arguments.fold(program, |what, argument| what + " " + argument),
            source,
        }
    })
}

/// Opens the file from which processes are started.
pub(crate) fn open(path: &std::path::Path) -> Result<Executable, BedError> {
    Executable::open(path).map_err(|source| BedError::Spawn {
        what: path.display().to_string(),
        source,
    })
}
