//! Client of a session.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    process::{ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{fcntl::OFlag, unistd::pipe2};
use parking_lot::{Condvar, Mutex};
use regatta_model::shell::printable;
use regatta_process::{Preparation, StopRequest};

use super::{
    GREETING, SESSION_PROTOCOL_VERSION,
    carrier::{Carrier, EXIT_LIMIT},
    error::{MAX_BEFORE_GREETING, SessionError},
    frame::{Frame, Incoming, Kind, MAX_BYTES, NamespaceOf, Outgoing, Start},
};
use crate::{
    clocks::RemoteClock,
    exit::Exit,
    launch::{Errors, Launched, LaunchedProcess},
};

/// Dialogue with the host before the server's greeting: called with each line and with the standard
/// input of the host's shell.
pub type LineHandler<'a> =
    dyn FnMut(&str, &mut ChildStdin) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

/// Function that is called with each line before the server's greeting.
pub type GreetingLines<'a> =
    dyn FnMut(&str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

/// Connection to a host on which processes of Regatta can be started. Clones are the same connection; it
/// ends with the last of them, of the processes' inputs and handles.
#[derive(Debug, Clone)]
pub struct Session {
    outgoing: Outgoing,
    state: Arc<State>,
    count: Arc<AtomicU32>,
}

#[derive(Debug, Default)]
struct State {
    processes: Mutex<Processes>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Processes {
    running: BTreeMap<u32, Process>,
    /// Exchanges of clocks since they were last taken.
    exchanges: Vec<[i64; 4]>,
    /// Reason for which the session has ended.
    ended: Option<String>,
}

#[derive(Debug, Default)]
struct Process {
    /// Ends of pipes to those who read the process's output.
    output: Option<File>,
    errors: Option<File>,
    ended: Option<Exit>,
}

impl Session {
    /// Starts a carrier and waits for the server's greeting on its standard output. The kernel kills the
    /// carrier when the calling thread ends.
    ///
    /// # Errors
    /// As [`Opening::start`] and [`Opening::greeted`].
    pub fn start(
        command: Command,
        within: Duration,
        silence: Duration,
        on_line: &mut LineHandler<'_>,
    ) -> Result<Self, SessionError> {
        Opening::start(command)?.greeted(within, silence, on_line)
    }

    /// Opens a session over two streams; `silence` is the longest one of the server, and of this side, and `explain`
    /// returns the reason for the end of the second stream.
    pub(crate) fn over(
        input: impl Write + Send + 'static,
        mut incoming: Incoming,
        [silence, own_silence]: [Duration; 2],
        explain: impl FnOnce(&io::Error) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let outgoing = Outgoing::new(input, own_silence)?;
        let state = Arc::<State>::default();
        let session = Self {
            outgoing,
            state: Arc::clone(&state),
            count: Arc::default(),
        };
        thread::Builder::new()
            .name("session in".into())
            .spawn(move || {
                let error = loop {
                    match incoming.frame(silence) {
                        Ok(frame) => state.take(frame),
                        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                            break io::Error::new(
                                io::ErrorKind::TimedOut,
                                format!("the host was silent for {silence:?}"),
                            );
                        }
                        Err(error) => break error,
                    }
                };
                state.end(explain(&error));
            })?;
        Ok(session)
    }

    /// Returns the reason for which the session has ended; `None` while it lasts.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        self.state.processes.lock().ended.clone()
    }

    /// Sends a line for whoever runs the server, as long as the session lasts.
    pub fn send_line(&self, line: &str) {
        let line = line.as_bytes();
        let line = &line[..line.len().min(MAX_BYTES)];
        let _ = self.outgoing.send(Frame::new(Kind::Line, 0, line));
    }

    /// Starts Regatta with these arguments on the host, in a namespace that another process of the session
    /// holds, with further variables of its environment.
    pub(crate) fn launch(
        &self,
        arguments: &[&str],
        (namespace, environment): (Option<NamespaceOf>, &[(String, String)]),
        errors: Errors,
    ) -> io::Result<Launched> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        // No other process may hold them: their readers would not see the end.
        let pipe = || pipe2(OFlag::O_CLOEXEC);
        let (output, to_output) = pipe()?;
        let (errors, to_errors) = match errors {
            Errors::Inherit => (None, None),
            Errors::Pipe => {
                let (errors, to_errors) = pipe()?;
                (Some(errors), Some(to_errors))
            }
        };
        let order = Start {
            arguments: arguments.iter().map(|&it| it.to_owned()).collect(),
            namespace,
            has_errors: errors.is_some(),
            environment: environment.to_vec(),
        };
        let process = Process {
            output: Some(to_output.into()),
            errors: to_errors.map(Into::into),
            ended: None,
        };
        {
            let mut processes = self.state.processes.lock();
            if let Some(reason) = &processes.ended {
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, reason.clone()));
            }
            processes.running.insert(number, process);
        }
        let order = serde_json::to_vec(&order)?;
        self.outgoing
            .send(Frame::new(Kind::Start, number, order))
            .map_err(|error| self.explained(error))?;
        let handle = ProcessHandle {
            number,
            session: self.clone(),
        };
        Ok(Launched {
            input: Box::new(ProcessInput(handle.clone())),
            output,
            errors,
            process: Box::new(handle),
        })
    }

    /// Returns the reason for which the session has ended instead of the error that shows it.
    fn explained(&self, error: io::Error) -> io::Error {
        match self.ended() {
            Some(reason) => io::Error::new(io::ErrorKind::BrokenPipe, reason),
            None => error,
        }
    }
}

impl RemoteClock for Session {
    fn exchange(&self, count: usize, within: Duration) -> Vec<[i64; 4]> {
        let until = Instant::now() + within;
        self.state.processes.lock().exchanges.clear();
        for number in 1..=count {
            if self.outgoing.send(Frame::new(Kind::Clock, 0, [])).is_err() {
                break;
            }
            let is_missing = |processes: &mut Processes| {
                processes.ended.is_none() && processes.exchanges.len() < number
            };
            let remaining = until.saturating_duration_since(Instant::now());
            let mut processes = self.state.processes.lock();
            let changed = &self.state.changed;
            let waited = changed.wait_while_for(&mut processes, is_missing, remaining);
            if waited.timed_out() {
                break;
            }
        }
        std::mem::take(&mut self.state.processes.lock().exchanges)
    }
}

/// Carrier that was started, before the greeting of its server. Several can be waited for at the same time.
#[derive(Debug)]
pub struct Opening {
    carrier: Carrier,
    input: ChildStdin,
    incoming: Incoming,
}

impl Opening {
    /// Starts a carrier. The kernel kills it when the calling thread ends.
    ///
    /// # Errors
    /// [`SessionError::Spawn`].
    pub fn start(mut command: Command) -> Result<Self, SessionError> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Preparation {
            session: true,
            dies_with_parent: true,
            ..Preparation::default()
        }
        .apply(&mut command);
        let child = command.spawn().map_err(|source| SessionError::Spawn {
            what: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        let mut carrier = Carrier::new(child);
        let input = carrier.child.stdin.take().expect("a pipe");
        let output: OwnedFd = carrier.child.stdout.take().expect("a pipe").into();
        let incoming = Incoming::of_child(output, carrier.child.id());
        Ok(Self {
            carrier,
            input,
            incoming,
        })
    }

    /// Has a stop kill the carrier, which ends the session and all that waits for it.
    pub fn ends_with(&self, stop: &StopRequest) {
        stop.kills(self.carrier.child.id());
    }

    /// Waits for the server's greeting, on any thread.
    ///
    /// # Errors
    /// If nothing comes `within` this time before the greeting, or one of another version comes.
    pub fn greeted(
        mut self,
        within: Duration,
        silence: Duration,
        on_line: &mut LineHandler<'_>,
    ) -> Result<Session, SessionError> {
        let input = &mut self.input;
        greet(&mut self.incoming, within, &mut |line| on_line(line, input)).map_err(|error| {
            match error {
                Greeting::Session(SessionError::Bootstrap(during)) => {
                    match self.carrier.last_lines(&*during) {
                        Some(reason) => {
                            // What the host's shell still said, such as why it ended.
                            let until = Instant::now() + EXIT_LIMIT;
                            while let Ok(line) = self.incoming.line(until) {
                                let _ = on_line(&String::from_utf8_lossy(&line), &mut self.input);
                            }
                            SessionError::Interrupted { reason, during }
                        }
                        None => SessionError::Bootstrap(during),
                    }
                }
                Greeting::Session(error) => error,
                Greeting::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
                    SessionError::Silent { within }
                }
                Greeting::Io(error) => {
                    let (reason, silent_code) = self.carrier.end(&error);
                    SessionError::Ended {
                        reason,
                        silent_code,
                    }
                }
            }
        })?;
        let mut carrier = self.carrier;
        Session::over(self.input, self.incoming, [silence; 2], move |error| {
            carrier.end(error).0
        })
        .map_err(|source| SessionError::Spawn {
            what: "a thread".to_owned(),
            source,
        })
    }
}

pub(super) enum Greeting {
    Io(io::Error),
    Session(SessionError),
}

impl From<io::Error> for Greeting {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads lines until the server's greeting; each must come `within` this time after the one before was dealt with.
pub(super) fn greet(
    incoming: &mut Incoming,
    within: Duration,
    on_line: &mut GreetingLines<'_>,
) -> Result<(), Greeting> {
    let mut bytes = 0;
    loop {
        let line = incoming.line(Instant::now() + within)?;
        bytes += line.len() + 1;
        let line = String::from_utf8_lossy(&line);
        let mut fields = line.split_ascii_whitespace();
        if fields.next() == Some(GREETING) {
            let protocol = fields.next().and_then(|field| field.parse().ok());
            if protocol == Some(SESSION_PROTOCOL_VERSION) {
                return Ok(());
            }
            let theirs = printable(fields.next().unwrap_or("of an unknown version"));
            return Err(Greeting::Session(SessionError::Version { theirs }));
        }
        if bytes > MAX_BEFORE_GREETING {
            return Err(Greeting::Session(SessionError::Noise));
        }
        on_line(&line).map_err(|error| Greeting::Session(SessionError::Bootstrap(error)))?;
    }
}

impl State {
    /// Takes a frame of the server.
    fn take(&self, mut frame: Frame) {
        if frame.kind == Kind::Time {
            frame.stamp();
            if let Some(times) = frame.times() {
                self.processes.lock().exchanges.push(times);
                self.changed.notify_all();
            }
            return;
        }
        let mut processes = self.processes.lock();
        let Some(process) = processes.running.get_mut(&frame.process) else {
            return;
        };
        let pipe = match frame.kind {
            Kind::Output => &mut process.output,
            Kind::Errors => &mut process.errors,
            Kind::Ended => {
                process.ended = Some(match serde_json::from_slice(&frame.content) {
                    Ok(Exit::Unknown(reason)) => Exit::Unknown(printable(&reason).into()),
                    Ok(exit) => exit,
                    Err(error) => Exit::Unknown(error.to_string().into()),
                });
                self.changed.notify_all();
                return;
            }
            _ => return,
        };
        if frame.content.is_empty() {
            *pipe = None;
            return;
        }
        // Not under the lock: the reader may be slow.
        let to = pipe.as_ref().and_then(|pipe| pipe.try_clone().ok());
        drop(processes);
        if let Some(mut to) = to {
            // Whoever does not read any more does not miss it.
            let _ = to.write_all(&frame.content);
        }
    }

    fn end(&self, reason: String) {
        let mut processes = self.processes.lock();
        for process in processes.running.values_mut() {
            process.output = None;
            process.errors = None;
        }
        processes.ended = Some(reason);
        self.changed.notify_all();
    }
}

/// Process on the host, by its number in the session.
#[derive(Debug, Clone)]
struct ProcessHandle {
    number: u32,
    session: Session,
}

impl LaunchedProcess for ProcessHandle {
    fn id(&self) -> u32 {
        self.number
    }

    /// Waits as specified by [`LaunchedProcess`]. A process has also ended if its session has.
    fn ended(&mut self, within: Duration) -> Option<Exit> {
        let state = &self.session.state;
        let is_running = |processes: &mut Processes| {
            let process = processes.running.get(&self.number);
            processes.ended.is_none() && process.is_none_or(|process| process.ended.is_none())
        };
        let mut processes = state.processes.lock();
        (state.changed).wait_while_for(&mut processes, is_running, within);
        let process = processes.running.get(&self.number);
        let status = process.and_then(|process| process.ended.clone());
        let lost = || Some(Exit::Unknown(processes.ended.as_deref()?.into()));
        status.or_else(lost)
    }

    fn kill(&mut self) -> Option<Exit> {
        let kill = Frame::new(Kind::Kill, self.number, []);
        let sent = self.session.outgoing.send(kill).is_ok();
        // One that cannot be killed there is not waited for here.
        let ended = sent.then(|| self.ended(EXIT_LIMIT)).flatten();
        // Whoever reads its output sees the end.
        let mut processes = self.session.state.processes.lock();
        processes.running.remove(&self.number);
        ended.filter(|exit| *exit == Exit::Stopped)
    }
}

/// Standard input of a process on the host.
#[derive(Debug)]
struct ProcessInput(ProcessHandle);

impl Write for ProcessInput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Session {
            outgoing, state, ..
        } = &self.0.session;
        if let Some(reason) = &state.processes.lock().ended {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, reason.clone()));
        }
        outgoing.send_all(Kind::Input, self.0.number, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ProcessInput {
    fn drop(&mut self) {
        let end = Frame::new(Kind::EndOfInput, self.0.number, []);
        // Fails if the session has ended, and all its processes with it.
        let _ = self.0.session.outgoing.send(end);
    }
}
