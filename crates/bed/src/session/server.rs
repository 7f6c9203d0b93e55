//! Server of a session: starts processes and carries their standard streams.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    process::{Child, ChildStdin, ExitCode, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nix::sched::CloneFlags;
use parking_lot::Mutex;
use regatta_model::shell::printable;
use regatta_path_daemon::INTERFACE_GUARD_COMMAND;
use regatta_process::{
    Executable, Preparation, await_end, become_subreaper, descendants, ended_within, is_stopped,
    kill_descendants, kill_descendants_but, on_end, out_of_memory_kills,
};

use super::{
    GREETING, SESSION_PROTOCOL_VERSION,
    frame::{Frame, Incoming, Kind, NamespaceOf, Outgoing, Start},
    guard::{Guard, end_start_guard},
};
use crate::{
    exit::Exit,
    launch::{self, AGENT},
};

/// Hidden subcommand of `regatta` that serves a session on a host.
pub const COMMAND: &str = "host-server";

/// Time that processes have to end by themselves once the session has ended.
const EXIT_LIMIT: Duration = Duration::from_secs(1);

/// Longest time that the guard of an interface may take to restore it.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a session over standard input and output until it ends. The body of `regatta host-server
/// [SILENCE [GUARD]]`, with the longest silence of the other side in milliseconds, and the number of the guard of its start.
#[must_use]
pub fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let silence = arguments.next().and_then(|text| text.parse().ok());
    let silence = silence.map_or(super::SILENCE, Duration::from_millis);
    regatta_process::set_name(c"regatta");
    let _ = become_subreaper();
    // The streams of this process carry the session: whatever it starts has others.
    let served = own_streams().and_then(|[input, output]| {
        // First: without it, a server that is stopped stays.
        let executable = Executable::running()?;
        let guard = Guard::start(&executable, silence)?;
        end_start_guard(arguments.next().as_deref());
        let mut output = File::from(output);
        // The newline ends what a login script may have left unfinished.
        let version = env!("CARGO_PKG_VERSION");
        writeln!(
            output,
            "\n{GREETING} {SESSION_PROTOCOL_VERSION} {version} {}",
            std::process::id()
        )?;
        let serving = Serving {
            executable,
            silence,
            guard: Some(guard),
            client: None,
        };
        serve(input, output, serving)
    });
    end_all();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends all processes that this one has started. Guards of shaped interfaces end by themselves once they have restored
/// them, and are killed only if they do not.
fn end_all() {
    kill_descendants_but(is_interface_guard);
    for process in descendants(std::process::id().cast_signed()) {
        let _ = await_end(process.cast_unsigned(), RESTORE_TIMEOUT);
    }
    kill_descendants();
}

fn is_interface_guard(process: i32) -> bool {
    let arguments = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).nth(1) == Some(INTERFACE_GUARD_COMMAND.as_bytes())
}

fn own_streams() -> io::Result<[OwnedFd; 2]> {
    Ok([
        io::stdin().as_fd().try_clone_to_owned()?,
        io::stdout().as_fd().try_clone_to_owned()?,
    ])
}

/// Settings of a server.
pub(crate) struct Serving {
    /// Program of the processes.
    pub(crate) executable: Executable,
    /// Longest silence of the other side.
    pub(crate) silence: Duration,
    /// Guard that receives the server's heartbeats.
    pub(crate) guard: Option<Guard>,
    /// Limits of a session with somebody else's controller.
    pub(crate) client: Option<ClientLimits>,
}

/// Limits of a session with the controller of another person: it can start agents, and nothing else.
pub(crate) struct ClientLimits {
    /// Arguments of the program that is started as the agent.
    pub(crate) agent: Vec<String>,
    /// Maximum number of agents of a session, one after another.
    pub(crate) agents: u32,
    /// Called with each line for whoever runs the server.
    pub(crate) on_line: Box<dyn FnMut(&str) + Send>,
}

impl ClientLimits {
    /// Replaces the order to start an agent by the one that is allowed.
    ///
    /// # Errors
    /// Any other order, and one agent too many.
    fn admit(&mut self, order: &Start) -> io::Result<Start> {
        if order.arguments != [AGENT] || order.namespace.is_some() {
            return Err(io::Error::other("a server starts agents only"));
        }
        self.agents = (self.agents.checked_sub(1))
            .ok_or_else(|| io::Error::other("the agents of this client have ended too often"))?;
        Ok(Start {
            arguments: self.agent.clone(),
            namespace: None,
            has_errors: order.has_errors,
            environment: Vec::new(),
        })
    }
}

/// Process of a session.
struct Served {
    child: Child,
    /// [`out_of_memory_kills`] before it was started.
    kills_before: u64,
    /// Whether somebody else had stopped it when it was killed.
    was_stopped: bool,
}

impl Served {
    /// Waits for the end of the process and returns it.
    fn wait(mut self) -> Exit {
        match self.child.wait() {
            Ok(_) if self.was_stopped => Exit::Stopped,
            Ok(status) => Exit::new(status, self.kills_before),
            Err(error) => Exit::Unknown(error.to_string().into()),
        }
    }
}

/// Returns the frame about the end of a process.
fn ended_frame(number: u32, exit: &Exit) -> Frame {
    let content = serde_json::to_vec(exit).expect("an exit is JSON");
    Frame::new(Kind::Ended, number, content)
}

/// Processes by number, those that have not been reaped.
type Children = Arc<Mutex<BTreeMap<u32, Served>>>;

/// Serves a session until its end, then ends the processes that it started. The kernel ties them to the
/// calling thread.
///
/// # Errors
/// Errors of threads and of the stream; the end of the stream is none.
pub(crate) fn serve(
    input: OwnedFd,
    output: impl Write + Send + 'static,
    mut serving: Serving,
) -> io::Result<()> {
    let mut incoming = Incoming::new(input);
    let outgoing = Outgoing::new(output, serving.silence)?;
    let children = Children::default();
    let mut inputs: BTreeMap<u32, ChildStdin> = BTreeMap::new();
    let ended = loop {
        let frame = match incoming.frame(serving.silence) {
            Ok(frame) => frame,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                break Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("the controller was silent for {:?}", serving.silence),
                ));
            }
            Err(error) => break Err(error),
        };
        if let Some(guard) = &mut serving.guard {
            guard.heartbeat();
        }
        let number = frame.process;
        match frame.kind {
            Kind::Start => match start(&mut serving, &frame, &children, &outgoing) {
                Ok(input) => {
                    inputs.insert(number, input);
                }
                Err(error) => {
                    for kind in [Kind::Output, Kind::Errors] {
                        outgoing.send(Frame::new(kind, number, []))?;
                    }
                    outgoing.send(ended_frame(
                        number,
                        &Exit::Unknown(error.to_string().into()),
                    ))?;
                }
            },
            Kind::Input => {
                // A process that has closed its input is ending, which a frame of its own reports.
                if let Some(input) = inputs.get_mut(&number) {
                    let _ = input.write_all(&frame.content);
                }
            }
            Kind::EndOfInput => {
                inputs.remove(&number);
            }
            Kind::Kill => {
                inputs.remove(&number);
                if let Some(served) = children.lock().get_mut(&number) {
                    served.was_stopped = is_stopped(served.child.id());
                    let _ = served.child.kill();
                }
            }
            Kind::Clock => {
                let mut answer = Frame::new(Kind::Time, number, frame.content);
                answer.stamp();
                outgoing.send(answer)?;
            }
            Kind::Line => {
                if let Some(client) = &mut serving.client {
                    (client.on_line)(&printable(&String::from_utf8_lossy(&frame.content)));
                }
            }
            Kind::Heartbeat | Kind::Output | Kind::Errors | Kind::Ended | Kind::Time => {}
        }
    };
    drop(inputs);
    let until = Instant::now() + EXIT_LIMIT;
    let remaining = std::mem::take(&mut *children.lock());
    for Served { mut child, .. } in remaining.into_values() {
        let _ = ended_within(&mut child, until.saturating_duration_since(Instant::now()));
        let _ = child.kill();
    }
    ended
}

/// Starts a process and the threads that carry its output and its end; returns its standard input.
fn start(
    serving: &mut Serving,
    frame: &Frame,
    children: &Children,
    outgoing: &Outgoing,
) -> io::Result<ChildStdin> {
    let number = frame.process;
    let mut order: Start = serde_json::from_slice(&frame.content)?;
    if let Some(client) = &mut serving.client {
        order = client.admit(&order)?;
    }
    let namespace = order
        .namespace
        .map(|reference| open_namespace(reference, children))
        .transpose()?;
    let namespaces = namespace
        .iter()
        .map(|file| (file.as_raw_fd(), CloneFlags::CLONE_NEWNET))
        .collect();
    let errors = if order.has_errors {
        Stdio::piped()
    } else {
        Stdio::inherit()
    };
    let preparation = Preparation {
        namespaces,
        ..Preparation::default()
    };
    let streams = [Stdio::piped(), Stdio::piped(), errors];
    let environment = &order.environment;
    let kills_before = out_of_memory_kills();
    let mut child = launch::spawn(
        &serving.executable,
        &order.arguments,
        environment,
        streams,
        preparation,
    )
    .map_err(|error| io::Error::other(regatta_process::in_one_line(&error)))?;
    let pid = child.id();
    let no_pipe = "a child with pipes has pipes";
    let input = child.stdin.take().expect(no_pipe);
    let output: OwnedFd = child.stdout.take().expect(no_pipe).into();
    let errors = child.stderr.take().map(OwnedFd::from);
    let served = Served {
        child,
        kills_before,
        was_stopped: false,
    };
    children.lock().insert(number, served);
    carry(output, Kind::Output, number, outgoing)?;
    if let Some(errors) = errors {
        carry(errors, Kind::Errors, number, outgoing)?;
    }
    let (children, outgoing) = (Arc::clone(children), outgoing.clone());
    on_end(pid, move || {
        // Absent once the session is over.
        let served = children.lock().remove(&number);
        if let Some(served) = served {
            let _ = outgoing.send(ended_frame(number, &served.wait()));
        }
    })?;
    Ok(input)
}

/// Starts a thread that sends what a process writes, and its end.
fn carry(from: OwnedFd, kind: Kind, number: u32, outgoing: &Outgoing) -> io::Result<()> {
    let outgoing = outgoing.clone();
    let work = move || {
        let mut from = File::from(from);
        let mut part = vec![0; super::frame::MAX_BYTES];
        loop {
            let length = match from.read(&mut part) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(length) => length,
                Err(_) => 0,
            };
            let sent = outgoing.send(Frame::new(kind, number, &part[..length]));
            if length == 0 || sent.is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("output of child".into())
        .spawn(work)?;
    Ok(())
}

fn open_namespace(reference: NamespaceOf, children: &Children) -> io::Result<File> {
    let children = children.lock();
    let daemon = children.get(&reference.process);
    let id = daemon
        .map(|served| served.child.id())
        .ok_or(io::ErrorKind::NotFound)?;
    File::open(format!("/proc/{id}/fd/{}", reference.file))
}
