//! The sender's threads.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::socket::Connected;
use super::{SLICE, run_all, stopped};
use crate::failure::{Failure, Report};
use crate::host::Host;
use crate::sender::{Connection, Output, Session, Step};
use crate::source::Source;
use crate::status::Status;
use crate::url::ConnectionUrl;

/// Interval at which a thread that writes checks for messages of the receiver.
const LISTEN_EVERY: Duration = Duration::from_millis(100);
/// How long a sender that was told to stop tries to tell the receiver.
const TELL_WITHIN: Duration = Duration::from_secs(3);
/// The receiver says little.
const REPLY_BYTES: usize = 4096;

/// Sends everything; returns when every connection has ended.
///
/// # Errors
/// The reason why the receiver does not have everything, or never confirmed it.
pub fn send<S: Source>(
    session: &Arc<Session<S>>,
    url: &ConnectionUrl,
    host: &dyn Host,
) -> Result<Report, Failure> {
    let first = url.ports.first().copied().unwrap_or(0);
    let addresses: Vec<IpAddr> = (url.host.as_str(), first)
        .to_socket_addrs()
        .map_err(|error| {
            let detail = format!("cannot find the host `{}` ({error})", url.host);
            Failure::new(Status::Connection, detail)
        })?
        .map(|address| address.ip())
        .collect();
    let began = Instant::now();
    let ports = url.ports.iter().copied().enumerate();
    let threads = ports.map(|(index, port)| Thread {
        session,
        index,
        port,
        addresses: &addresses,
        host,
        began,
        heard: Duration::ZERO,
        held_back: false,
        gave_up: None,
    });
    let jobs = threads.map(|thread| move || thread.run());
    run_all("wdt-send", jobs, |failure| session.fail(failure));
    session.finish()
}

struct Thread<'a, S> {
    session: &'a Arc<Session<S>>,
    index: usize,
    port: u16,
    addresses: &'a [IpAddr],
    host: &'a dyn Host,
    /// When the transfer began at this end.
    began: Instant,
    /// Time of the last check for messages of the receiver.
    heard: Duration,
    /// Whether the kernel may hold back the end of the bytes written.
    held_back: bool,
    /// When it was told to stop.
    gave_up: Option<Duration>,
}

impl<'a, S: Source> Thread<'a, S> {
    fn run(mut self) {
        let mut connection = match Connection::new(self.session.clone(), self.index) {
            Ok(connection) => connection,
            Err(failure) => return self.session.fail(failure),
        };
        let mut socket: Option<Connected<'a>> = None;
        let mut replies = [0; REPLY_BYTES];
        loop {
            self.obey(&mut connection);
            let step = connection.step(self.began.elapsed());
            match (step, &socket) {
                (Step::Connect, _) => match self.connect() {
                    Ok(connected) => {
                        socket = Some(connected);
                        connection.connected(self.began.elapsed());
                    }
                    Err(error) => connection.connect_failed(&error, self.began.elapsed()),
                },
                (Step::Sleep(until), _) => {
                    let rest = until.saturating_sub(self.began.elapsed());
                    std::thread::sleep(rest.min(SLICE));
                }
                (Step::Write, Some(socket)) => self.write(&mut connection, socket, &mut replies),
                (Step::Read(_), Some(socket)) if self.held_back => {
                    self.held_back = false;
                    socket.push();
                }
                (Step::Read(until), Some(socket)) => match socket.read(&mut replies) {
                    Ok(Some(count)) => {
                        connection.received(&mut replies[..count], self.began.elapsed());
                    }
                    Ok(None) if self.began.elapsed() >= until => {
                        connection.read_timed_out(socket.undelivered(), self.began.elapsed());
                    }
                    Ok(None) => {}
                    Err(error) => connection.read_failed(&error),
                },
                (Step::Shutdown, Some(socket)) => socket.shutdown(),
                (Step::Disconnect, _) => socket = None,
                (Step::End, _) => return,
                (Step::Write | Step::Read(_) | Step::Shutdown, None) => {
                    connection.read_failed(&io::ErrorKind::NotConnected.into());
                }
            }
        }
    }

    /// Ends the transfer if the program around it says so.
    fn obey(&mut self, connection: &mut Connection<S>) {
        if !self.host.gives_up() {
            if self.host.stopped() {
                self.session.fail(stopped());
            }
            return;
        }
        let now = self.began.elapsed();
        match self.gave_up {
            None => {
                self.gave_up = Some(now);
                connection.stop(stopped());
            }
            Some(since) if now >= since + TELL_WITHIN => self.session.fail(stopped()),
            Some(_) => {}
        }
    }

    fn connect(&self) -> io::Result<Connected<'a>> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in self.addresses {
            match self.connect_to(SocketAddr::new(*address, self.port)) {
                Ok(connected) => return Ok(connected),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connect_to(&self, address: SocketAddr) -> io::Result<Connected<'a>> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        self.host.opened(socket.as_fd())?;
        let called = Instant::now();
        socket.connect_timeout(&address.into(), self.session.options().connect_timeout)?;
        let took = called.elapsed();
        let mut connected = Connected::new(socket, self.port, self.host)?;
        connected.announce(Some(took));
        Ok(connected)
    }

    /// Writes the pending output, and checks now and then for messages of the receiver that make it
    /// pointless.
    fn write(
        &mut self,
        connection: &mut Connection<S>,
        socket: &Connected<'_>,
        replies: &mut [u8],
    ) {
        let now = self.began.elapsed();
        if now >= self.heard + LISTEN_EVERY {
            self.heard = now;
            self.listen(connection, socket, replies);
            if connection.is_over() {
                return;
            }
        }
        let written = match connection.output() {
            Ok(output) => self.write_output(output, socket),
            Err(error) => return connection.source_failed(&error),
        };
        match written {
            Ok(true) => {
                self.held_back = true;
                connection.written();
            }
            Ok(false) => self.listen(connection, socket, replies),
            Err(error) => {
                // Why the receiver broke the connection it may have said before.
                self.listen(connection, socket, replies);
                connection.write_failed(&error);
            }
        }
    }

    fn listen(&self, connection: &mut Connection<S>, socket: &Connected<'_>, replies: &mut [u8]) {
        // That the connection is broken shows in writing, too.
        while let Ok(Some(count)) = socket.read_now(replies) {
            connection.received(&mut replies[..count], self.began.elapsed());
        }
    }

    /// Writes the pending output; returns false if the transfer failed before all of it was
    /// written.
    fn write_output(&self, output: Output<'_>, socket: &Connected<'_>) -> io::Result<bool> {
        let session = self.session;
        let Output { mut head, mut body } = output;
        let mut last_progress = None;
        while !head.is_empty() || !body.is_empty() {
            if self.gave_up.is_none() && self.host.gives_up() {
                return Ok(false);
            }
            match socket.write(head, body)? {
                Some(count) => {
                    let of_head = count.min(head.len());
                    head = &head[of_head..];
                    body = &body[count - of_head..];
                    last_progress = None;
                }
                None => {
                    let now = self.began.elapsed();
                    if self.host.stopped() {
                        session.fail(stopped());
                    }
                    if session.failure().is_some() {
                        return Ok(false);
                    }
                    // The first slice without progress began before it was noticed.
                    let since = *last_progress.get_or_insert(now.saturating_sub(SLICE));
                    if now.saturating_sub(since) >= session.options().write_timeout {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
            }
        }
        Ok(true)
    }
}
