//! Server in the other guest: starts processes and reports their exit status.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    net::{TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    process::{Child, ExitCode, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::sched::CloneFlags;
use regatta_process::{Executable, Preparation, await_end, end_within};

use super::{ADDRESSES, Answer, NamespaceOf, Opening, PORT, Request, read_line, write_line};
use crate::{
    guest::{CONTROL_WIRE, is_guest},
    launch::{self, LaunchedProcess as _},
    path_daemon::wire_up,
};

/// Longest time that a connection may take to send its first line.
const OPENING_WITHIN: Duration = Duration::from_secs(5);

/// Processes by number.
type Children = Arc<Mutex<BTreeMap<u32, Result<Child, String>>>>;

/// Serves the engine in the first guest until the guest ends or the engine goes. The body of `regatta
/// guest-second`.
#[must_use]
pub fn main() -> ExitCode {
    if !is_guest() {
        eprintln!("error: this is not a guest");
        return ExitCode::FAILURE;
    }
    match serve() {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("error: the second guest cannot serve the first: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<std::convert::Infallible, Box<dyn std::error::Error>> {
    wire_up(CONTROL_WIRE, ADDRESSES[1])?;
    let listener = TcpListener::bind((ADDRESSES[1], PORT))?;
    let executable = launch::open(&std::env::current_exe()?)?;
    let children = Children::default();
    let mut errors = BTreeMap::new();
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(OPENING_WITHIN))?;
        let opening = read_line(&stream);
        stream.set_read_timeout(None)?;
        // One that says nothing sensible is closed, which is what the other side sees.
        let Ok(opening) = opening else { continue };
        match opening {
            Opening::Requests => {
                let children = Arc::clone(&children);
                thread::Builder::new()
                    .name("requests".into())
                    .spawn(move || {
                        while answer(&stream, &children).is_ok() {}
                        // The engine has gone, and nobody is left to serve; what was started goes
                        // with this process.
                        std::process::exit(0);
                    })?;
            }
            Opening::Errors { number } => {
                errors.insert(number, stream);
            }
            Opening::Start {
                number,
                command,
                namespace,
            } => {
                // On this thread, with whose end the kernel ends what it started.
                let started = start(
                    &executable,
                    &command,
                    stream,
                    errors.remove(&number),
                    namespace.map(|place| namespace_of(place, &children)),
                );
                let started = started.map_err(|error| error.to_string());
                if let Err(error) = &started {
                    eprintln!("error: {error}");
                }
                locked(&children).insert(number, started);
            }
        }
    }
}

fn start(
    executable: &Executable,
    command: &str,
    stream: TcpStream,
    errors: Option<TcpStream>,
    namespace: Option<io::Result<File>>,
) -> Result<Child, Box<dyn std::error::Error>> {
    let namespace = namespace.transpose()?;
    let namespaces = namespace
        .iter()
        .map(|file| (file.as_raw_fd(), CloneFlags::CLONE_NEWNET))
        .collect();
    let stdio = |stream: TcpStream| Stdio::from(OwnedFd::from(stream));
    let streams = [
        stdio(stream.try_clone()?),
        stdio(stream),
        errors.map_or_else(Stdio::inherit, stdio),
    ];
    let preparation = Preparation {
        namespaces,
        ..Preparation::default()
    };
    Ok(launch::spawn(executable, command, streams, preparation)?)
}

fn namespace_of(place: NamespaceOf, children: &Children) -> io::Result<File> {
    let id = running(place.number, children).ok_or(io::ErrorKind::NotFound)?;
    File::open(Path::new("/proc").join(format!("{id}/fd/{}", place.file)))
}

/// Answers one request.
fn answer(stream: &TcpStream, children: &Children) -> io::Result<()> {
    let number = match read_line(stream)? {
        Request::Ended { number, within_ms } => {
            let until = Instant::now() + Duration::from_millis(within_ms);
            // The lock is not held while waiting: others are started meanwhile.
            while let Some(process) = running(number, children) {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                await_end(process, left)?;
            }
            number
        }
        Request::Kill { number } => {
            if let Some(Ok(child)) = locked(children).get_mut(&number) {
                end_within(child, Duration::ZERO);
            }
            number
        }
    };
    let ended = match locked(children).get_mut(&number) {
        Some(Ok(child)) => child.ended(Duration::ZERO),
        Some(Err(error)) => Some(error.clone()),
        None => Some("it was never started".to_owned()),
    };
    write_line(stream, &Answer { ended })
}

/// Returns the identifier of a child that has not ended.
fn running(number: u32, children: &Children) -> Option<u32> {
    let mut children = locked(children);
    let child = children.get_mut(&number)?.as_mut().ok()?;
    child.ended(Duration::ZERO).is_none().then(|| child.id())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
