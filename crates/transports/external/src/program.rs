//! A program as a process: started so that no part of it outlives the trial, read line by line,
//! ended with all that it started.

use std::{
    collections::BTreeMap,
    env,
    io::{self, BufReader, Read},
    path::{Path, PathBuf, absolute},
    process::{self, ChildStdin, Stdio},
    sync::{
        Arc, LazyLock,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use nix::sys::wait::WaitStatus;
use parking_lot::Mutex;
use regatta_model::{Phrase, Text, reason};
use regatta_process::{ContainedProcess, JsonLines, MalformedLine, children, write_line};
use regatta_transport::{MonotonicTime, Stop, TransportError};

use crate::{
    contract::{FromProgram, ToProgram, UNSUPPORTED_EXIT},
    error::{ProgramError, ProgramFailure, StderrTail},
    inbox::{Event, ExitStatus, Inbox},
    stderr::{self, Stderr, visible},
};

/// Longest line that is read from a program, in bytes.
const LONGEST_LINE: u64 = 64 << 10;

/// Longest excerpt of a malformed line in an error, in characters.
const EXCERPT_CHARS: usize = 120;

/// Maximum wait for the remaining output of an ended program.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);

/// Variable of the agent's environment: paths of programs on its host (JSON), by their names in
/// [`ProgramFiles`](crate::ProgramFiles).
pub const PROGRAMS_VARIABLE: &str = "REGATTA_PROGRAMS";

/// Returns the path of a program on this agent's host, if it has another one there than where the study was started.
pub(crate) fn path_here(name: &str) -> Option<PathBuf> {
    static PATHS: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| {
        let text = env::var(PROGRAMS_VARIABLE).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    });
    PATHS.get(name).cloned()
}

/// Program to start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Command {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Variables beside those of the agent.
    pub environment: Vec<(String, String)>,
}

/// A running program, killed when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    input: Option<ChildStdin>,
    inbox: Arc<Inbox>,
    /// Inbox of the current trial: the threads that read the program's output outlive a trial.
    current_inbox: Arc<Mutex<Arc<Inbox>>>,
    stderr: Arc<Mutex<Stderr>>,
    process: ContainedProcess,
}

/// Starts a thread of a program.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ProgramError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map(|_| ()).map_err(ProgramError::Start)
}

impl Program {
    /// Starts a program, in `directory` if there is one. Its events are put into its inbox, until `stop` is raised.
    pub(crate) fn start(
        command: &Command,
        directory: Option<&Path>,
        stop: &Stop,
    ) -> Result<Self, ProgramError> {
        // As seen from here, wherever it runs.
        let path = absolute(&command.program).map_err(ProgramError::Start)?;
        let mut start = process::Command::new(path);
        if let Some(directory) = directory {
            start.current_dir(directory);
        }
        start
            .args(&command.arguments)
            .envs(
                command
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let inbox = Arc::new(Inbox::default());
        let current_inbox = Arc::new(Mutex::new(Arc::clone(&inbox)));
        // Dropped by each thread that reads output when that ends.
        let (reading, read_out) = channel::<()>();
        let end_inbox = Arc::clone(&current_inbox);
        let on_end = move |status| {
            let _ = read_out.recv_timeout(LAST_OUTPUT_TIMEOUT);
            put(&end_inbox, Event::Ended(exit_status(status)));
        };
        let (process, (input, out, errors)) =
            ContainedProcess::start(start, on_end).map_err(ProgramError::Start)?;
        let program = Self {
            input,
            inbox,
            current_inbox,
            stderr: Arc::new(Mutex::new(Stderr::of_trial(directory))),
            process,
        };
        if let (Some(out), Some(errors)) = (out, errors) {
            program.read(out, errors, reading)?;
        }
        stop.on_stop(&program.inbox);
        Ok(program)
    }

    /// Starts the threads that read standard output and standard error. They end with the pipes.
    fn read(
        &self,
        out: impl Read + Send + 'static,
        errors: impl Read + Send + 'static,
        reading: Sender<()>,
    ) -> Result<(), ProgramError> {
        let (inbox, reading_output) = (Arc::clone(&self.current_inbox), reading.clone());
        spawn("program-output", move || {
            read_messages(out, &inbox);
            drop(reading_output);
        })?;
        let stderr = Arc::clone(&self.stderr);
        spawn("program-errors", move || {
            stderr::keep(errors, &stderr);
            drop(reading);
        })
    }

    fn stderr_tail(&self) -> Option<StderrTail> {
        let mut stderr = self.stderr.lock();
        Some(StderrTail {
            lines: stderr.excerpt()?,
            file: stderr.file().cloned(),
        })
    }

    /// Returns the program's process ID in the namespace of this process.
    pub(crate) fn process(&self) -> u32 {
        self.process.id().unsigned_abs()
    }

    /// Returns the ID, in the namespace of this process, of the process that a program with the capability `repeat` has
    /// started for a trial; the program's own if that process has ended.
    pub(crate) fn trial_process(&self) -> u32 {
        let children = children(self.process.id());
        children
            .first()
            .map_or(self.process(), |child| child.unsigned_abs())
    }

    /// Ends the trial of a program with the capability `repeat`, whose process can then carry out the next one.
    ///
    /// # Errors
    /// Why the program has no further use, if it has not answered within `within`.
    pub(crate) fn end_trial(mut self, within: Duration) -> Result<Self, Text> {
        let until = MonotonicTime::now() + within;
        let mut answers = self.send(&ToProgram::End).map(|()| true);
        while let Ok(true) = answers {
            answers = match self.next(until) {
                Ok(Some(Event::Message(FromProgram::Over))) => return Ok(self),
                Ok(event) => Ok(event.is_some()),
                Err(failure) => Err(failure),
            };
        }
        Err(match answers {
            Ok(_) => reason::end_not_answered(within).into(),
            Err(_) => {
                let ended = self.finish(LAST_OUTPUT_TIMEOUT);
                ended.unwrap_or_else(|| reason::ended_with_trial().into())
            }
        })
    }

    /// Makes a program that has ended its trial ready for another with this directory for files, until `stop` is raised; `None`
    /// if its process has ended.
    pub(crate) fn renew(mut self, directory: Option<&Path>, stop: &Stop) -> Option<Self> {
        let earlier = std::mem::take(&mut self.inbox);
        *self.current_inbox.lock() = Arc::clone(&self.inbox);
        if earlier.wait_for_exit(MonotonicTime::now()).is_some() {
            return None;
        }
        *self.stderr.lock() = Stderr::of_trial(directory);
        stop.on_stop(&self.inbox);
        Some(self)
    }

    /// Returns the queue of the program's events.
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Sends a message to the program.
    pub(crate) fn send(&mut self, message: &ToProgram) -> Result<(), ProgramFailure> {
        let closed = |source| ProgramFailure::Program(ProgramError::StdinClosed(source));
        let Some(input) = &mut self.input else {
            return Err(closed(io::ErrorKind::BrokenPipe.into()));
        };
        match write_line(input, message) {
            Ok(()) => Ok(()),
            // It has ended, or has closed its input; an exit status says more.
            Err(error) => match self
                .inbox
                .wait_for_exit(MonotonicTime::now() + LAST_OUTPUT_TIMEOUT)
            {
                Some(status) => Err(self.early_end(status)),
                None => Err(closed(error)),
            },
        }
    }

    /// Returns the next message of the program, or a note of the other end; `None` once `until` has
    /// come.
    pub(crate) fn next(&self, until: MonotonicTime) -> Result<Option<Event>, ProgramFailure> {
        match self.inbox.take_until(until) {
            None => Ok(None),
            Some(Event::Aborted) => Err(TransportError::Cancelled.into()),
            Some(Event::Malformed(error)) => Err(error.into()),
            Some(Event::Ended(status)) => Err(self.early_end(status)),
            Some(event) => Ok(Some(event)),
        }
    }

    /// Waits for the message `what`, from which `take` takes its content; any other one comes too early, `when`.
    pub(crate) fn await_message<T>(
        &self,
        what: &'static str,
        within: Duration,
        when: Phrase,
        take: impl FnOnce(FromProgram) -> Result<T, FromProgram>,
    ) -> Result<T, ProgramFailure> {
        let until = MonotonicTime::now() + within;
        loop {
            match self.next(until)? {
                Some(Event::Message(message)) => {
                    return take(message).map_err(|message| message.unexpected(when).into());
                }
                Some(_) => {}
                None => return Err(self.timeout(what, within)),
            }
        }
    }

    /// Returns the error of a program that did not send `what` within this time.
    pub(crate) fn timeout(&self, what: &'static str, within: Duration) -> ProgramFailure {
        let stderr = self.stderr_tail();
        ProgramFailure::Program(ProgramError::Timeout {
            what,
            within,
            stderr,
        })
    }

    /// Returns the error of a program that ended too early.
    fn early_end(&self, status: ExitStatus) -> ProgramFailure {
        if status == ExitStatus::Code(UNSUPPORTED_EXIT) {
            let lines = self.stderr.lock().lines();
            let mut last_first = lines.iter().rev();
            let hint = last_first.find_map(|line| line.strip_prefix("hint: "));
            let reason = lines.iter().rev().find(|line| !line.starts_with("hint: "));
            let none = reason::program_says_no_reason;
            let reason = reason.map_or_else(|| none().into(), |line| Text::from(line.as_str()));
            return TransportError::unsupported(reason, hint.unwrap_or_default()).into();
        }
        let (how, stderr) = (status.phrase(), self.stderr_tail());
        ProgramFailure::Program(ProgramError::Ended { how, stderr })
    }

    /// Closes the program's input and lets it end by itself; returns a description of its end if
    /// that was not a success. The program is killed after `within` at the latest.
    pub(crate) fn finish(mut self, within: Duration) -> Option<Text> {
        self.input = None;
        let how = match self.inbox.wait_for_exit(MonotonicTime::now() + within) {
            Some(ExitStatus::Code(0)) => return None,
            Some(status) => status.phrase(),
            None => reason::not_ended_after_input(within),
        };
        Some(match self.stderr_tail() {
            Some(stderr) => reason::with_stderr(how.into(), stderr.phrase()).into(),
            None => how.into(),
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.input = None;
        self.inbox.close();
    }
}

fn exit_status(status: nix::Result<WaitStatus>) -> ExitStatus {
    match status {
        Ok(WaitStatus::Exited(_, code)) => ExitStatus::Code(code),
        Ok(WaitStatus::Signaled(_, signal, _)) => ExitStatus::Signal(signal as i32),
        // Another thread has waited for it.
        _ => ExitStatus::Signal(0),
    }
}

fn put(inbox: &Mutex<Arc<Inbox>>, event: Event) -> bool {
    let inbox = Arc::clone(&inbox.lock());
    inbox.put(event)
}

/// Puts each message into the inbox, until the pipe ends or a line is malformed: after that no output
/// of the program is understood.
fn read_messages(out: impl Read, inbox: &Mutex<Arc<Inbox>>) {
    let mut lines = JsonLines::new(BufReader::new(out), LONGEST_LINE);
    while let Ok(Some(message)) = lines.receive() {
        let is_last = message.is_err();
        let event = message.map_or_else(|line| Event::Malformed(malformed(line)), Event::Message);
        if !put(inbox, event) || is_last {
            // The program can go on writing; it is ended soon.
            let _ = io::copy(&mut lines.into_reader(), &mut io::sink());
            return;
        }
    }
}

/// Converts a line that is no message, with control characters escaped.
fn malformed(line: MalformedLine) -> ProgramError {
    match line.is_too_long {
        true => ProgramError::TooLong {
            limit: LONGEST_LINE,
        },
        false => ProgramError::Malformed {
            line: visible(&line.beginning(EXCERPT_CHARS)),
            source: line.source,
        },
    }
}
