//! Starting a program.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sched::{CloneFlags, setns},
    sys::signal::{SigHandler, SigSet, Signal, signal},
    unistd::{Pid, getpid, getppid, setsid},
};

use crate::own::die_with_parent;

/// File from which several processes are started.
///
/// It is held open, so that whatever happens to its name meanwhile (a new build, an update), all
/// processes of a run are the same program.
#[derive(Debug)]
pub struct Executable {
    file: File,
    path: PathBuf,
}

impl Executable {
    /// Path of the file of the process that opens it, also if another file has taken its name since.
    pub const RUNNING: &str = "/proc/self/exe";

    /// Opens a file. That of this process, [`Executable::RUNNING`], has the name with which the process was started.
    ///
    /// # Errors
    /// The error of `open` or `readlink`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = match path == Path::new(Self::RUNNING) {
            true => std::env::current_exe()?,
            false => path.to_owned(),
        };
        Self::open_as(path, name)
    }

    /// Opens the file of this process.
    ///
    /// # Errors
    /// As [`Executable::open`].
    pub fn running() -> io::Result<Self> {
        Self::open(Path::new(Self::RUNNING))
    }

    fn open_as(path: &Path, name: PathBuf) -> io::Result<Self> {
        // A program may be executable and not readable; this asks for neither.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(path)?;
        Ok(Self { file, path: name })
    }

    /// Returns the path under which the file was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a command that starts this program, called by the name under which it was opened.
    #[must_use]
    pub fn command(&self) -> Command {
        // A name of the open file for a process that inherits its descriptor: the descriptor is
        // closed when the process becomes the program, after the name was looked up.
        let mut command = Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        command.arg0(&self.path);
        command
    }
}

/// Steps of a child between `fork` and `exec`, in the order of the fields. The caller keeps the files
/// open until the process has been started.
#[derive(Debug, Default)]
pub struct Preparation {
    /// Signals that the program blocks, and no others; `None` for those that the calling thread blocks.
    pub signal_mask: Option<SigSet>,
    /// Namespaces to enter, by the descriptors that hold them.
    pub namespaces: Vec<(RawFd, CloneFlags)>,
    /// Files that the program has open under the same numbers as here.
    pub inherited: Vec<RawFd>,
    /// Whether the program leads a session of its own: then Ctrl-C at the terminal does not reach it,
    /// and a scheduler that divides the machine by session gives it a share of its own.
    pub session: bool,
    /// Signals that the program does not ignore, where this process does.
    pub default_signals: Vec<Signal>,
    /// Whether the kernel kills the program when the thread that started it ends.
    pub dies_with_parent: bool,
}

impl Preparation {
    /// Adds these steps to a command.
    pub fn apply(self, command: &mut Command) {
        let parent = getpid();
        let prepare = move || {
            if let Some(mask) = &self.signal_mask {
                mask.thread_set_mask()?;
            }
            for (fd, kind) in &self.namespaces {
                // SAFETY: the caller holds the file until the process has been started.
                setns(unsafe { BorrowedFd::borrow_raw(*fd) }, *kind)?;
            }
            for fd in &self.inherited {
                // In the child alone: no other process that this one starts gets them.
                // SAFETY: as above.
                let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
                fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
            }
            if self.session {
                setsid()?;
            }
            // In its own session already, if it has one: a Ctrl-C before would end it.
            for default in &self.default_signals {
                // SAFETY: installs no handler.
                unsafe { signal(*default, SigHandler::SigDfl) }?;
            }
            if self.dies_with_parent {
                // After the user namespace, since entering one forgets this.
                die_with_parent()?;
                // A parent that ended before that would never be noticed. Its identifier is unknown (0) in
                // another process namespace.
                if ![parent, Pid::from_raw(0)].contains(&getppid()) {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec this makes system calls and reads memory that was allocated
        // before; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(prepare) };
    }
}
