//! Carries bytes between a TLS connection and a plain stream of this process.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream},
    sync::OnceLock,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::Connection;

/// Bytes that are read from the plain stream in one call.
const PART: usize = 16 << 10;

/// Longest time for the last bytes to leave once the plain stream has ended.
const CLOSING: Duration = Duration::from_secs(1);

/// Carries bytes both ways until either side ends, or until `deadline`, once there is one. It is looked at whenever
/// something comes, as heartbeats do.
///
/// # Errors
/// Errors of the connection; `TimedOut` at the deadline.
pub fn relay(
    tls: &mut Connection,
    tcp: &TcpStream,
    plain: &UnixStream,
    deadline: &OnceLock<Instant>,
) -> io::Result<()> {
    tcp.set_nonblocking(true)?;
    plain.set_nonblocking(true)?;
    let mut relay = Relay {
        tls,
        tcp,
        plain,
        arrived: Vec::new(),
        peer_closed: false,
    };
    let carried = relay.carry(deadline);
    // Whoever reads the other end of it sees the end.
    let _ = plain.shutdown(Shutdown::Both);
    carried
}

struct Relay<'a> {
    tls: &'a mut Connection,
    tcp: &'a TcpStream,
    plain: &'a UnixStream,
    /// Bytes for the plain stream.
    arrived: Vec<u8>,
    /// Whether the other end has closed the connection.
    peer_closed: bool,
}

impl Relay<'_> {
    fn carry(&mut self, deadline: &OnceLock<Instant>) -> io::Result<()> {
        self.decrypt()?;
        loop {
            if self.peer_closed && self.arrived.is_empty() {
                return Ok(());
            }
            let [tcp, plain] = self.wait(None, !self.tls.wants_write())?;
            if deadline.get().is_some_and(|at| Instant::now() >= *at) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if tcp.contains(PollFlags::POLLOUT) {
                self.send()?;
            }
            if tcp.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
                self.receive()?;
            }
            if plain.contains(PollFlags::POLLOUT) {
                self.deliver()?;
            }
            if plain.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR)
                && !self.tls.wants_write()
                && !self.take()?
            {
                return self.close();
            }
        }
    }

    /// Waits for what can be done, and returns the events of both sockets.
    fn wait(&self, deadline: Option<Instant>, takes: bool) -> io::Result<[PollFlags; 2]> {
        let when = |condition: bool, flag: PollFlags| match condition {
            true => flag,
            false => PollFlags::empty(),
        };
        let has_room = self.arrived.is_empty() && !self.peer_closed;
        let mut tcp_events = when(has_room, PollFlags::POLLIN);
        tcp_events |= when(self.tls.wants_write(), PollFlags::POLLOUT);
        let mut plain_events = when(takes, PollFlags::POLLIN);
        plain_events |= when(!self.arrived.is_empty(), PollFlags::POLLOUT);
        let mut files = [
            PollFd::new(self.tcp.as_fd(), tcp_events),
            PollFd::new(self.plain.as_fd(), plain_events),
        ];
        poll_until(&mut files, deadline)?;
        if deadline.is_some_and(|at| Instant::now() >= at) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(files.map(|file| file.revents().unwrap_or(PollFlags::empty())))
    }

    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() && or_later(self.tls.write_tls(&mut self.tcp))?.is_some() {}
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        match or_later(self.tls.read_tls(&mut self.tcp))? {
            Some(0) => self.peer_closed = true,
            Some(_) => self.decrypt()?,
            None => {}
        }
        Ok(())
    }

    /// Takes what has arrived out of the TLS connection.
    fn decrypt(&mut self) -> io::Result<()> {
        let processed = self.tls.process_new_packets();
        let state = processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.peer_closed |= state.peer_has_closed();
        let length = state.plaintext_bytes_to_read();
        let start = self.arrived.len();
        self.arrived.resize(start + length, 0);
        self.tls.reader().read_exact(&mut self.arrived[start..])
    }

    fn deliver(&mut self) -> io::Result<()> {
        let length = or_later(self.plain.write(&self.arrived))?;
        self.arrived.drain(..length.unwrap_or(0));
        Ok(())
    }

    /// Takes bytes of the plain stream; returns `false` at its end.
    fn take(&mut self) -> io::Result<bool> {
        let mut part = [0; PART];
        let length = or_later(self.plain.read(&mut part))?;
        if let Some(length @ 1..) = length {
            self.tls.writer().write_all(&part[..length])?;
            self.send()?;
        }
        Ok(length != Some(0))
    }

    /// Sends the rest, and that it was the rest.
    fn close(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        let until = Instant::now() + CLOSING;
        while self.tls.wants_write() {
            self.wait(Some(until), false)?;
            self.send()?;
        }
        self.tcp.shutdown(Shutdown::Write)
    }
}

/// Waits until something can be done with one of the files, or until the deadline; also a signal ends the wait.
///
/// # Errors
/// An error of the system.
pub fn poll_until(files: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<()> {
    let timeout = deadline.map_or(PollTimeout::NONE, |at| {
        let remaining = at.saturating_duration_since(Instant::now());
        PollTimeout::try_from(remaining + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    });
    match poll(files, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the number of bytes that were moved; `None` if it can be tried again later.
pub(super) fn or_later(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    use io::ErrorKind::{Interrupted, WouldBlock};
    match moved {
        Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => Ok(None),
        moved => moved.map(Some),
    }
}
