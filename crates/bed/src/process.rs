//! Processes that a bed starts; they end with the controller.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, setns},
};

use crate::{
    error::{BedError, Reported},
    messages::{FromDaemon, ToDaemon},
    second_guest::SecondGuestProcess,
};

/// Time that a daemon has to end by itself before it is killed.
const EXIT_LIMIT: Duration = Duration::from_millis(500);

/// File from which every process of a bed is started.
///
/// It is held open, so that whatever happens to its name meanwhile (a new build, an update), all
/// processes of a run are the same program.
#[derive(Debug)]
pub(crate) struct Executable {
    file: File,
    path: PathBuf,
}

impl Executable {
    pub(crate) fn open(path: &Path) -> Result<Self, BedError> {
        // A program may be executable and not readable; this asks for neither.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(path)
            .map_err(|source| BedError::Spawn {
                what: path.display().to_string(),
                source,
            })?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Returns a name of the open file for a process that inherits its descriptor: the descriptor
    /// is closed when the process becomes the program, after the name was looked up.
    fn inherited_name(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// Returns a command that starts this program, called by the name under which it was opened.
    pub(crate) fn command(&self) -> Command {
        let mut process = Command::new(self.inherited_name());
        process.arg0(&self.path);
        process
    }
}

/// Namespaces to enter, in order, by the descriptors that hold them.
pub(crate) type Entries = Vec<(RawFd, CloneFlags)>;

/// Streams and files that a process is given beside its program.
pub(crate) struct Given<'a> {
    pub(crate) input: Stdio,
    pub(crate) output: Stdio,
    pub(crate) errors: Stdio,
    pub(crate) entries: Entries,
    /// Files that the process has open under the same numbers as here.
    pub(crate) files: &'a [OwnedFd],
}

impl Given<'_> {
    /// Returns streams with pipes for input and output, and `errors` for standard error.
    pub(crate) fn pipes(errors: Stdio) -> Self {
        Self {
            input: Stdio::piped(),
            output: Stdio::piped(),
            errors,
            entries: Entries::new(),
            files: &[],
        }
    }
}

/// Starts `executable command`; the kernel kills it when the calling thread ends.
pub(crate) fn spawn(
    executable: &Executable,
    command: &str,
    given: Given<'_>,
) -> Result<Child, BedError> {
    let Given {
        input,
        output,
        errors,
        entries,
        files,
    } = given;
    let files: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let parent = nix::unistd::getpid();
    let mut process = executable.command();
    process
        .arg(command)
        .stdin(input)
        .stdout(output)
        .stderr(errors);
    let prepare = move || {
        for (fd, kind) in &entries {
            // SAFETY: the caller's bed holds the files until the process has been started.
            let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
            setns(fd, *kind)?;
        }
        for fd in &files {
            // Here alone: no other process that this one starts gets them.
            // SAFETY: as above.
            let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        // A session of its own: Ctrl-C at the terminal is the controller's to handle, and a scheduler
        // that shares the machine out by session does not weigh the path against the hosts.
        nix::unistd::setsid()?;
        // After the user namespace, since entering one forgets this.
        // SAFETY: takes numbers only.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // A parent that ended before that would never be noticed. Its identifier is unknown (0)
        // only in another process namespace, which is not entered here.
        if nix::unistd::getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec this makes system calls and reads memory that was allocated
    // before; it allocates nothing and takes no lock.
    unsafe { process.pre_exec(prepare) };
    process.spawn().map_err(|source| BedError::Spawn {
        what: format!("{} {command}", executable.path.display()),
        source,
    })
}

/// Command of the process that keeps a path.
pub(crate) const PATH_DAEMON: &str = "path-daemon";

/// Handle of the daemon, in this guest or in the other.
#[derive(Debug)]
enum Kept {
    Here(Child),
    InSecondGuest(SecondGuestProcess),
}

/// Path daemon, for the controller. Dropping this ends the daemon.
#[derive(Debug)]
pub(crate) struct DaemonProcess {
    kept: Kept,
    requests: Option<File>,
    answers: Option<BufReader<File>>,
}

impl DaemonProcess {
    pub(crate) fn start(executable: &Executable) -> Result<Self, BedError> {
        let mut child = spawn(executable, PATH_DAEMON, Given::pipes(Stdio::inherit()))?;
        let file = |fd: OwnedFd| File::from(fd);
        Ok(Self {
            requests: child.stdin.take().map(|pipe| file(pipe.into())),
            answers: child
                .stdout
                .take()
                .map(|pipe| BufReader::new(file(pipe.into()))),
            kept: Kept::Here(child),
        })
    }

    /// Wraps a daemon that was started in the other guest; `stream` is its standard input and
    /// output.
    pub(crate) fn far(process: SecondGuestProcess, stream: OwnedFd) -> io::Result<Self> {
        let answers = stream.try_clone()?;
        Ok(Self {
            kept: Kept::InSecondGuest(process),
            requests: Some(stream.into()),
            answers: Some(BufReader::new(answers.into())),
        })
    }

    /// Returns the daemon's process identifier here, or its number in the other guest.
    pub(crate) fn pid(&self) -> u32 {
        match &self.kept {
            Kept::Here(child) => child.id(),
            Kept::InSecondGuest(process) => process.number(),
        }
    }

    /// Sends a request and waits for the answer; `what` names the request in errors.
    pub(crate) fn ask(
        &mut self,
        request: &ToDaemon,
        what: &'static str,
        within: Duration,
    ) -> Result<FromDaemon, BedError> {
        let asked = self.put(request);
        self.answer(asked, what, within)
    }

    /// Sends a request whose answer is read later.
    pub(crate) fn put(&mut self, request: &ToDaemon) -> io::Result<()> {
        let Some(requests) = &mut self.requests else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut text = serde_json::to_string(request)?;
        text.push('\n');
        requests.write_all(text.as_bytes())
    }

    /// Waits for the answer to a request; `asked` is the result of [`DaemonProcess::put`].
    pub(crate) fn answer(
        &mut self,
        asked: io::Result<()>,
        what: &'static str,
        within: Duration,
    ) -> Result<FromDaemon, BedError> {
        let line = match asked.and_then(|()| self.line(within)) {
            Ok(Some(line)) => line,
            Ok(None) => return Err(BedError::TimedOut(within)),
            Err(source) => {
                let status = match self.wait(EXIT_LIMIT) {
                    Some(status) => format!(" ({status})"),
                    None => String::new(),
                };
                return Err(BedError::Gone { status, source });
            }
        };
        match serde_json::from_str(&line) {
            Ok(FromDaemon::Failed { reasons, hint }) => Err(BedError::Refused {
                what,
                source: Reported::chain(&reasons).ok_or(BedError::Protocol { line })?,
                hint,
            }),
            Ok(answer) => Ok(answer),
            Err(_) => Err(BedError::Protocol { line }),
        }
    }

    /// Returns the line of the answer, or `None` if none came in time.
    fn line(&mut self, within: Duration) -> io::Result<Option<String>> {
        let Some(answers) = &mut self.answers else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        // The daemon writes a line at once, so that one that has begun will end.
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(answers.get_ref().as_fd(), PollFlags::POLLIN)];
            match poll(
                &mut polled,
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
            ) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(Some(line))
    }

    /// Waits for at most `within` and returns the exit status, in words; `None` if the daemon still
    /// runs.
    fn wait(&mut self, within: Duration) -> Option<String> {
        match &mut self.kept {
            Kept::Here(child) => ended(child, within),
            Kept::InSecondGuest(process) => process.ended(within),
        }
    }
}

/// Waits for at most `within` until `child` has ended and returns its exit status, in words; `None`
/// if it still runs.
pub(crate) fn ended(child: &mut Child, within: Duration) -> Option<String> {
    let until = Instant::now() + within;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status.to_string());
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        // End of input ends it; where input and output are one stream, both ends of it.
        self.requests = None;
        if let Kept::InSecondGuest(_) = self.kept {
            self.answers = None;
        }
        if self.wait(EXIT_LIMIT).is_none() {
            match &mut self.kept {
                Kept::Here(child) => {
                    // Fails only if it has ended meanwhile.
                    let _ = child.kill();
                    let _ = child.wait();
                }
                Kept::InSecondGuest(process) => process.kill(),
            }
        }
    }
}
