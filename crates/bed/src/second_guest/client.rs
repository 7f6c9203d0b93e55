//! Client of the other guest: handles of processes there, for the guest that has the engine.

use std::{
    io::{self, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{ADDRESSES, Answer, NamespaceOf, Opening, PORT, Request, read_line, write_line};
use crate::{error::BedError, guest::CONTROL_WIRE, path_daemon::wire_up};

/// Longest time that the other guest may take until it can be reached: both are started at once.
const THERE_WITHIN: Duration = Duration::from_secs(60);

/// Longest time for a connection to a running guest, and for its answer beyond the time that a
/// request names.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connection to the other guest.
#[derive(Debug)]
pub(crate) struct SecondGuest {
    requests: Arc<Mutex<TcpStream>>,
    last: u32,
}

/// Process in the other guest. Dropping this does nothing to it; the end of its standard input ends
/// it.
#[derive(Debug)]
pub struct SecondGuestProcess {
    number: u32,
    requests: Arc<Mutex<TcpStream>>,
}

/// Standard streams of a process in the other guest.
#[derive(Debug)]
pub struct SecondGuestStreams {
    /// Standard input of the process; dropping it closes it.
    pub input: SecondGuestInput,
    /// Standard output of the process.
    pub output: TcpStream,
    /// Standard error of the process.
    pub errors: TcpStream,
}

/// Standard input of a process in the other guest.
#[derive(Debug)]
pub struct SecondGuestInput(TcpStream);

impl SecondGuest {
    /// Sets up this end of the wire and waits for the other guest.
    pub(crate) fn reach() -> Result<Self, BedError> {
        let wire = wire_up(CONTROL_WIRE, ADDRESSES[0]);
        wire.map_err(|error| BedError::SecondGuest(io::Error::other(error)))?;
        let until = Instant::now() + THERE_WITHIN;
        let stream = loop {
            match open(&Opening::Requests, Duration::from_secs(1)) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() >= until => return Err(BedError::SecondGuest(error)),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        Ok(Self {
            requests: Arc::new(Mutex::new(stream)),
            last: 0,
        })
    }

    /// Starts a path daemon; the stream is its standard input and output.
    pub(crate) fn start_daemon(
        &mut self,
        command: &str,
    ) -> Result<(SecondGuestProcess, TcpStream), BedError> {
        let (process, stream, _) = self.start(command, None, false)?;
        Ok((process, stream))
    }

    /// Starts an agent in a network namespace that a file of `daemon` holds.
    pub(crate) fn start_agent(
        &mut self,
        command: &str,
        daemon: u32,
        file: i32,
    ) -> Result<(SecondGuestProcess, SecondGuestStreams), BedError> {
        let namespace = NamespaceOf {
            number: daemon,
            file,
        };
        let (process, stream, errors) = self.start(command, Some(namespace), true)?;
        let output = stream.try_clone().map_err(BedError::SecondGuest)?;
        let errors = errors.ok_or_else(|| BedError::SecondGuest(io::ErrorKind::NotFound.into()))?;
        let streams = SecondGuestStreams {
            input: SecondGuestInput(stream),
            output,
            errors,
        };
        Ok((process, streams))
    }

    fn start(
        &mut self,
        command: &str,
        namespace: Option<NamespaceOf>,
        with_errors: bool,
    ) -> Result<(SecondGuestProcess, TcpStream, Option<TcpStream>), BedError> {
        self.last += 1;
        let number = self.last;
        // First: connections are taken in the order in which they were made.
        let errors = with_errors
            .then(|| open(&Opening::Errors { number }, PATIENCE))
            .transpose()
            .map_err(BedError::SecondGuest)?;
        let opening = Opening::Start {
            number,
            command: command.to_owned(),
            namespace,
        };
        let stream = open(&opening, PATIENCE).map_err(BedError::SecondGuest)?;
        let process = SecondGuestProcess {
            number,
            requests: Arc::clone(&self.requests),
        };
        Ok((process, stream, errors))
    }
}

fn open(opening: &Opening, within: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((ADDRESSES[1], PORT)), within)?;
    stream.set_nodelay(true)?;
    write_line(&stream, opening)?;
    Ok(stream)
}

impl SecondGuestProcess {
    /// Returns the number of this process among those of its guest that were started from here.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Waits for at most `within` until the process has ended and returns its exit status, in
    /// words. `None` if it still runs, or if its guest does not answer.
    pub fn ended(&mut self, within: Duration) -> Option<String> {
        let request = Request::Ended {
            number: self.number,
            within_ms: within.as_millis() as u64,
        };
        self.ask(&request, within).ok()?.ended
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        let request = Request::Kill {
            number: self.number,
        };
        // A guest that does not answer is soon found out by whoever needs it next.
        let _ = self.ask(&request, Duration::ZERO);
    }

    fn ask(&self, request: &Request, within: Duration) -> io::Result<Answer> {
        let stream = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        stream.set_read_timeout(Some(within + PATIENCE))?;
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
