//! Client of the other guest: handles of processes there, for the guest that has the engine.

use std::{
    io::{self, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{ADDRESSES, Answer, NamespaceOf, Opening, PORT, Request, read_line, write_line};
use crate::{
    error::BedError,
    guest::CONTROL_WIRE,
    launch::{Errors, Launched, LaunchedProcess, Launcher},
    path_daemon::wire_up,
};

/// Longest time that the other guest may take until it can be reached: both are started at once.
const BOOT_WITHIN: Duration = Duration::from_secs(60);

/// Longest time for a connection to a running guest, and for its answer beyond the time that a
/// request names.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Connection to the other guest, and the network namespace there in which processes are started.
#[derive(Debug, Clone)]
pub(crate) struct SecondGuest {
    requests: Arc<Mutex<TcpStream>>,
    /// Number of processes that were started.
    count: Arc<AtomicU32>,
    namespace: Option<NamespaceOf>,
}

/// Process in the other guest, by its number among those that were started from here.
#[derive(Debug)]
struct SecondGuestProcess {
    number: u32,
    requests: Arc<Mutex<TcpStream>>,
}

/// Standard input of a process in the other guest.
#[derive(Debug)]
struct SecondGuestInput(TcpStream);

impl SecondGuest {
    /// Sets up this end of the wire and waits for the other guest.
    pub(crate) fn reach() -> Result<Self, BedError> {
        let wire = wire_up(CONTROL_WIRE, ADDRESSES[0]);
        wire.map_err(|error| BedError::SecondGuest(io::Error::other(error)))?;
        let until = Instant::now() + BOOT_WITHIN;
        let stream = loop {
            match open(&Opening::Requests, Duration::from_secs(1)) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() >= until => return Err(BedError::SecondGuest(error)),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        Ok(Self {
            requests: Arc::new(Mutex::new(stream)),
            count: Arc::default(),
            namespace: None,
        })
    }

    /// Returns a launcher of processes in a network namespace there, which a file of the process
    /// `daemon` holds.
    pub(crate) fn within(&self, daemon: u32, file: i32) -> Self {
        let number = daemon;
        Self {
            namespace: Some(NamespaceOf { number, file }),
            ..self.clone()
        }
    }

    fn start(&self, command: &str, errors: Errors) -> io::Result<Launched> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        // First: connections are taken in the order in which they were made.
        let errors = (errors == Errors::Pipe)
            .then(|| open(&Opening::Errors { number }, ANSWER_WITHIN))
            .transpose()?;
        let opening = Opening::Start {
            number,
            command: command.to_owned(),
            namespace: self.namespace,
        };
        let stream = open(&opening, ANSWER_WITHIN)?;
        Ok(Launched {
            output: stream.try_clone()?.into(),
            input: Box::new(SecondGuestInput(stream)),
            errors: errors.map(Into::into),
            process: Box::new(SecondGuestProcess {
                number,
                requests: Arc::clone(&self.requests),
            }),
        })
    }
}

impl Launcher for SecondGuest {
    fn launch(&mut self, command: &str, errors: Errors) -> Result<Launched, BedError> {
        self.start(command, errors).map_err(BedError::SecondGuest)
    }

    fn daemon_error(&self, error: BedError) -> BedError {
        match error {
            BedError::TimedOut(within) => BedError::SecondGuest(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("its path daemon gave no answer within {within:?}"),
            )),
            BedError::Gone { source, .. } => BedError::SecondGuest(source),
            other => other,
        }
    }
}

fn open(opening: &Opening, within: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((ADDRESSES[1], PORT)), within)?;
    stream.set_nodelay(true)?;
    write_line(&stream, opening)?;
    Ok(stream)
}

impl LaunchedProcess for SecondGuestProcess {
    fn id(&self) -> u32 {
        self.number
    }

    /// Also `None` if the guest does not answer.
    fn ended(&mut self, within: Duration) -> Option<String> {
        let request = Request::Ended {
            number: self.number,
            within_ms: within.as_millis() as u64,
        };
        self.ask(&request, within).ok()?.ended
    }

    fn kill(&mut self) {
        let request = Request::Kill {
            number: self.number,
        };
        // A guest that does not answer is soon found out by whoever needs it next.
        let _ = self.ask(&request, Duration::ZERO);
    }
}

impl SecondGuestProcess {
    fn ask(&self, request: &Request, within: Duration) -> io::Result<Answer> {
        let stream = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        stream.set_read_timeout(Some(within + ANSWER_WITHIN))?;
        let asked = write_line(&*stream, request).and_then(|()| read_line(&*stream));
        if asked.is_err() {
            // An answer that comes late would be taken for that to the next request.
            let _ = stream.shutdown(Shutdown::Both);
        }
        asked
    }
}

impl Write for SecondGuestInput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for SecondGuestInput {
    fn drop(&mut self) {
        // Not by closing it: the output is the same connection. Fails for one that has ended.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}
