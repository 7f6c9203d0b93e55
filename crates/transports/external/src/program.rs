//! A program as a process: started so that no part of it outlives the trial, read line by line,
//! ended with all that it started.

use std::{
    io::{self, BufRead as _, BufReader, Read},
    path::PathBuf,
    process::{self, ChildStdin, Stdio},
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use nix::sys::wait::WaitStatus;
use parking_lot::Mutex;
use regatta_process::{ContainedProcess, children, write_line};
use regatta_transport::{MonotonicTime, Stop, TransportError};

use crate::{
    contract::{FromProgram, ToProgram, UNSUPPORTED_EXIT},
    error::{ProgramError, ProgramFailure, StderrTail},
    inbox::{Ending, Event, Inbox},
};

/// Longest line that is read from a program, in bytes.
const LONGEST_LINE: u64 = 64 << 10;

/// Longest part of a malformed line in an error, in characters.
const SHOWN: usize = 120;

/// Longest end of standard error that is kept, in bytes.
const KEPT_BYTES: usize = 2 << 10;

/// Maximum wait for the remaining output of an ended program.
const LAST_OUTPUT_WITHIN: Duration = Duration::from_millis(500);

/// Program to start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Command {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// A running program, killed when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    input: Option<ChildStdin>,
    inbox: Arc<Inbox>,
    /// Inbox of the trial that the program carries out: the threads that read its output outlive a trial.
    addressed: Arc<Mutex<Arc<Inbox>>>,
    /// The end of standard error.
    words: Arc<Mutex<Vec<u8>>>,
    process: ContainedProcess,
}

/// Starts a thread of a program.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ProgramError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map(|_| ()).map_err(ProgramError::Start)
}

impl Program {
    /// Starts a program. Its events are put into its inbox, until `stop` is raised.
    pub(crate) fn start(command: &Command, stop: &Stop) -> Result<Self, ProgramError> {
        let mut start = process::Command::new(&command.program);
        start
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let inbox = Arc::new(Inbox::default());
        let addressed = Arc::new(Mutex::new(Arc::clone(&inbox)));
        // Dropped by each thread that reads output when that ends.
        let (open, closed) = channel::<()>();
        let ended = Arc::clone(&addressed);
        let on_end = move |status| {
            let _ = closed.recv_timeout(LAST_OUTPUT_WITHIN);
            put(&ended, Event::Ended(ending(status)));
        };
        let (process, (input, out, errors)) =
            ContainedProcess::start(start, on_end).map_err(ProgramError::Start)?;
        let program = Self {
            input,
            inbox,
            addressed,
            words: Arc::default(),
            process,
        };
        if let (Some(out), Some(errors)) = (out, errors) {
            program.read(out, errors, open)?;
        }
        stop.on_stop(&program.inbox);
        Ok(program)
    }

    /// Starts the threads that read standard output and standard error. They end with the pipes.
    fn read(
        &self,
        out: impl Read + Send + 'static,
        errors: impl Read + Send + 'static,
        open: Sender<()>,
    ) -> Result<(), ProgramError> {
        let (inbox, still_open) = (Arc::clone(&self.addressed), open.clone());
        spawn("program-output", move || {
            read_lines(out, &inbox);
            drop(still_open);
        })?;
        let words = Arc::clone(&self.words);
        spawn("program-errors", move || {
            keep_words(errors, &words);
            drop(open);
        })
    }

    /// Returns the lines of standard error that are kept.
    fn lines(&self) -> Vec<String> {
        let words = self.words.lock();
        String::from_utf8_lossy(&words)
            .lines()
            .map(|line| visible(line.trim()))
            .filter(|line| !line.is_empty())
            .collect()
    }

    fn last_lines(&self) -> Option<StderrTail> {
        let lines = self.lines();
        let last = &lines[lines.len().saturating_sub(3)..];
        (!last.is_empty()).then(|| StderrTail(last.join(" / ")))
    }

    /// Returns the program's process number, as this process sees it.
    pub(crate) fn process(&self) -> u32 {
        self.process.id().unsigned_abs()
    }

    /// Returns the number of the process that a program with the capability `repeat` has started for a trial, as this
    /// process sees it; the program's own if that has ended.
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
    pub(crate) fn end_trial(mut self, within: Duration) -> Result<Self, String> {
        let until = MonotonicTime::now() + within;
        let mut heard = self.send(&ToProgram::End).map(|()| true);
        while let Ok(true) = heard {
            heard = match self.next(until) {
                Ok(Some(Event::Message(FromProgram::Over))) => return Ok(self),
                Ok(event) => Ok(event.is_some()),
                Err(broken) => Err(broken),
            };
        }
        let seconds = within.as_secs();
        Err(match heard {
            Ok(_) => format!("did not answer `end` with `over` within {seconds} s"),
            Err(_) => {
                (self.finish(LAST_OUTPUT_WITHIN)).unwrap_or_else(|| "ended with the trial".into())
            }
        })
    }

    /// Makes a program that has ended its trial ready for another, until `stop` is raised; `None` if it has ended itself.
    pub(crate) fn renew(mut self, stop: &Stop) -> Option<Self> {
        let before = std::mem::take(&mut self.inbox);
        *self.addressed.lock() = Arc::clone(&self.inbox);
        if before.ended_by(MonotonicTime::now()).is_some() {
            return None;
        }
        self.words.lock().clear();
        stop.on_stop(&self.inbox);
        Some(self)
    }

    /// Returns the queue of the program's events.
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Sends a message to the program.
    pub(crate) fn send(&mut self, message: &ToProgram) -> Result<(), ProgramFailure> {
        let deaf = |source| ProgramFailure::Program(ProgramError::StdinClosed(source));
        let Some(input) = &mut self.input else {
            return Err(deaf(io::ErrorKind::BrokenPipe.into()));
        };
        match write_line(input, message) {
            Ok(()) => Ok(()),
            // It has ended, or has closed its input; how it ended tells more.
            Err(error) => match self
                .inbox
                .ended_by(MonotonicTime::now() + LAST_OUTPUT_WITHIN)
            {
                Some(ending) => Err(self.broken_by(ending)),
                None => Err(deaf(error)),
            },
        }
    }

    /// Returns the next message of the program, or a note of the other end; `None` once `until` has
    /// come.
    pub(crate) fn next(&self, until: MonotonicTime) -> Result<Option<Event>, ProgramFailure> {
        match self.inbox.take_until(until) {
            None => Ok(None),
            Some(Event::Aborted) => Err(TransportError::Cancelled.into()),
            Some(Event::Rubbish(error)) => Err(error.into()),
            Some(Event::Ended(ending)) => Err(self.broken_by(ending)),
            Some(event) => Ok(Some(event)),
        }
    }

    /// Waits for the message `what`, from which `take` takes its content; any other one comes too early, `when`.
    pub(crate) fn await_message<T>(
        &self,
        what: &'static str,
        within: Duration,
        when: &'static str,
        take: impl FnOnce(FromProgram) -> Result<T, FromProgram>,
    ) -> Result<T, ProgramFailure> {
        let until = MonotonicTime::now() + within;
        loop {
            match self.next(until)? {
                Some(Event::Message(said)) => {
                    return take(said).map_err(|said| said.out_of_turn(when).into());
                }
                Some(_) => {}
                None => return Err(self.silent(what, within)),
            }
        }
    }

    /// Returns the error of a program that did not send `what` within this time.
    pub(crate) fn silent(&self, what: &'static str, within: Duration) -> ProgramFailure {
        let words = self.last_lines();
        ProgramFailure::Program(ProgramError::Silent {
            what,
            within,
            words,
        })
    }

    /// Returns the error of a program that ended too early.
    fn broken_by(&self, ending: Ending) -> ProgramFailure {
        if ending == Ending::Code(UNSUPPORTED_EXIT) {
            let lines = self.lines();
            let mut last_first = lines.iter().rev();
            let hint = last_first.find_map(|line| line.strip_prefix("hint: "));
            let reason = lines.iter().rev().find(|line| !line.starts_with("hint: "));
            let none = "the program says that it cannot run here, and not why";
            let reason = reason.map_or(none, String::as_str);
            return TransportError::unsupported(reason, hint.unwrap_or_default()).into();
        }
        let (how, words) = (ending.to_string(), self.last_lines());
        ProgramFailure::Program(ProgramError::Ended { how, words })
    }

    /// Closes the program's input and lets it end by itself; returns a description of its end if
    /// that was not a success. The program is killed after `within` at the latest.
    pub(crate) fn finish(mut self, within: Duration) -> Option<String> {
        self.input = None;
        let how = match self.inbox.ended_by(MonotonicTime::now() + within) {
            Some(Ending::Code(0)) => return None,
            Some(ending) => ending.to_string(),
            None => format!(
                "did not end within {} s of its input's end",
                within.as_secs()
            ),
        };
        let words = self.last_lines();
        Some(words.map_or(how.clone(), |words| format!("{how}; {words}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.input = None;
        self.inbox.close();
    }
}

fn ending(status: nix::Result<WaitStatus>) -> Ending {
    match status {
        Ok(WaitStatus::Exited(_, code)) => Ending::Code(code),
        Ok(WaitStatus::Signaled(_, signal, _)) => Ending::Signal(signal as i32),
        // Another thread has waited for it.
        _ => Ending::Signal(0),
    }
}

fn put(inbox: &Mutex<Arc<Inbox>>, event: Event) -> bool {
    let inbox = Arc::clone(&inbox.lock());
    inbox.put(event)
}

/// Puts each line into the inbox, until the pipe ends or a line is malformed: after that no output
/// of the program is understood.
fn read_lines(out: impl Read, inbox: &Mutex<Arc<Inbox>>) {
    let mut reader = BufReader::new(out);
    loop {
        let mut line = Vec::new();
        let read = (&mut reader)
            .take(LONGEST_LINE + 1)
            .read_until(b'\n', &mut line);
        if read.is_err() || line.is_empty() {
            return;
        }
        let limit = LONGEST_LINE;
        let said = match line.trim_ascii() {
            _ if line.len() as u64 > limit => Err(ProgramError::TooLong { limit }),
            line => serde_json::from_slice(line).map_err(|source| ProgramError::Rubbish {
                line: shown(line),
                source,
            }),
        };
        let last = said.is_err();
        if !put(inbox, said.map_or_else(Event::Rubbish, Event::Message)) || last {
            // The program can go on writing; it is ended soon.
            let _ = io::copy(&mut reader, &mut io::sink());
            return;
        }
    }
}

/// Returns the beginning of a line, with control characters escaped.
fn shown(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).chars().take(SHOWN).collect();
    visible(&text)
}

/// Escapes control characters: the text comes from a program, and goes to a terminal.
fn visible(text: &str) -> String {
    let escaped = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Keeps the end of the program's standard error.
fn keep_words(mut errors: impl Read, words: &Mutex<Vec<u8>>) {
    let mut piece = [0; 1024];
    loop {
        match errors.read(&mut piece) {
            Ok(length @ 1..) => {
                let mut words = words.lock();
                words.extend_from_slice(&piece[..length]);
                let surplus = words.len().saturating_sub(KEPT_BYTES);
                words.drain(..surplus);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}
