//! The sender's threads.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use socket2::{Domain, Socket, Type};

use super::socket::Connected;
use super::{no_waker, run_all, stopped, with_port};
use crate::failure::{Failure, Report};
use crate::host::Host;
use crate::sender::{Connection, Output, Session, Step};
use crate::source::Source;
use crate::status::Status;
use crate::url::ConnectionUrl;
use crate::waker::Waker;

/// Time for which a sender that is stopped tries to send the receiver its status.
const ABORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Size of the receive buffer, in bytes: replies are short.
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
    let addresses: Vec<SocketAddr> = (url.host.as_str(), first)
        .to_socket_addrs()
        .map_err(|error| {
            let detail = format!("cannot find the host `{}` ({error})", url.host);
            Failure::new(Status::Connection, detail)
        })?
        .collect();
    let began = Instant::now();
    let wakers = session.wakers();
    host.begins(wakers);
    let ports = url.ports.iter().copied().enumerate();
    let threads = ports.map(|(index, port)| {
        Ok(Thread {
            session,
            index,
            port,
            addresses: &addresses,
            host,
            waker: wakers.add()?,
            began,
            held_back: false,
            gave_up: None,
            called: None,
        })
    });
    let threads: Vec<_> = threads.collect::<io::Result<_>>().map_err(no_waker)?;
    let jobs = threads.into_iter().map(|thread| move || thread.run());
    run_all("wdt-send", jobs, |failure| session.fail(failure));
    session.finish()
}

struct Thread<'a, S> {
    session: &'a Arc<Session<S>>,
    index: usize,
    port: u16,
    addresses: &'a [SocketAddr],
    host: &'a dyn Host,
    waker: Arc<Waker>,
    /// Time at which the transfer began at this end.
    began: Instant,
    /// Whether the kernel may hold back the end of the bytes written.
    held_back: bool,
    /// Time at which it was stopped.
    gave_up: Option<Duration>,
    /// First of the connect calls for the connection that is not established yet.
    called: Option<Instant>,
}

/// Write without room in the send buffer.
#[derive(Clone, Copy)]
struct Stuck {
    since: Duration,
    /// Bytes that the receiver's system has not acknowledged.
    undelivered: u64,
    /// Bytes of the receiver, such as its heartbeats, that were not read meanwhile.
    unread: u64,
}

impl Stuck {
    fn new(socket: &Connected<'_>, now: Duration) -> Self {
        Self {
            since: now,
            undelivered: socket.undelivered(),
            unread: socket.unread(),
        }
    }

    /// Whether the receiver has taken in bytes, or sent some, until `later`.
    fn moved(&self, later: &Self) -> bool {
        later.undelivered < self.undelivered || later.unread > self.unread
    }
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
            self.apply_host_requests(&mut connection);
            let step = connection.step(self.began.elapsed());
            match (step, &socket) {
                (Step::Connect, _) => match self.connect() {
                    Ok(connected) => {
                        socket = Some(connected);
                        connection.connected(self.began.elapsed());
                    }
                    Err(error) => connection.connect_failed(&error, self.began.elapsed()),
                },
                (Step::Sleep(until), _) => self.waker.sleep(self.left(until)),
                (Step::Write, Some(socket)) => self.write(&mut connection, socket, &mut replies),
                (Step::Read(_), Some(socket)) if self.held_back => {
                    self.held_back = false;
                    socket.push();
                }
                (Step::Read(until), Some(socket)) => {
                    let file = socket.descriptor();
                    (self.waker).ready(file, PollFlags::POLLIN, self.left(until));
                    match socket.read_now(&mut replies) {
                        Ok(Some(count)) => {
                            connection.received(&mut replies[..count], self.began.elapsed());
                        }
                        Ok(None) if self.began.elapsed() >= until => {
                            connection.read_timed_out(socket.undelivered(), self.began.elapsed());
                        }
                        Ok(None) => {}
                        Err(error) => connection.read_failed(&error),
                    }
                }
                (Step::Shutdown, Some(socket)) => socket.shutdown(),
                (Step::Disconnect, _) => socket = None,
                (Step::End, _) => return,
                (Step::Write | Step::Read(_) | Step::Shutdown, None) => {
                    connection.read_failed(&io::ErrorKind::NotConnected.into());
                }
            }
        }
    }

    /// Returns the time that is left until this time of the transfer, or until the sender's status is
    /// no longer sent.
    fn left(&self, until: Duration) -> Duration {
        let abort_until = self.gave_up.map(|since| since + ABORT_TIMEOUT);
        let until = abort_until.map_or(until, |abort_until| until.min(abort_until));
        until.saturating_sub(self.began.elapsed())
    }

    /// Ends the transfer if the program around it requests that.
    fn apply_host_requests(&mut self, connection: &mut Connection<S>) {
        if self.gave_up.is_none() && self.host.gives_up() {
            self.gave_up = Some(self.began.elapsed());
            connection.stop(stopped());
        }
        self.fail_if_stopped();
    }

    /// Fails the transfer if it is stopped, or was given up and the receiver could not be notified.
    fn fail_if_stopped(&self) {
        let is_over = match self.gave_up {
            None => self.host.stopped(),
            Some(since) => self.began.elapsed() >= since + ABORT_TIMEOUT,
        };
        if is_over {
            self.session.fail(stopped());
        }
    }

    fn connect(&mut self) -> io::Result<Connected<'a>> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in self.addresses {
            match self.connect_to(with_port(*address, self.port)) {
                Ok(connected) => return Ok(connected),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connect_to(&mut self, address: SocketAddr) -> io::Result<Connected<'a>> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        self.host.opened(socket.as_fd())?;
        let local = self.host.local();
        if let Some(local) = local.filter(|local| local.is_ipv4() == address.is_ipv4()) {
            socket.bind(&with_port(local, 0).into())?;
        }
        let called = *self.called.get_or_insert_with(Instant::now);
        socket.connect_timeout(&address.into(), self.session.options().connect_timeout)?;
        let took = called.elapsed();
        self.called = None;
        let mut connected = Connected::new(socket, self.port, self.host)?;
        connected.announce(Some(took));
        Ok(connected)
    }

    /// Writes the pending output, unless messages of the receiver make it pointless.
    fn write(
        &mut self,
        connection: &mut Connection<S>,
        socket: &Connected<'_>,
        replies: &mut [u8],
    ) {
        self.listen(connection, socket, replies);
        if connection.is_over() {
            return;
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
                // The receiver may have sent its reason before it broke the connection.
                self.listen(connection, socket, replies);
                connection.write_failed(&error);
            }
        }
    }

    fn listen(&self, connection: &mut Connection<S>, socket: &Connected<'_>, replies: &mut [u8]) {
        // A reset connection shows in writing, too.
        while let Ok(Some(count)) = socket.read_now(replies) {
            connection.received(&mut replies[..count], self.began.elapsed());
        }
    }

    /// Writes the pending output; returns false if the transfer failed before all of it was
    /// written.
    fn write_output(&self, output: Output<'_>, socket: &Connected<'_>) -> io::Result<bool> {
        let session = self.session;
        let Output { mut head, mut body } = output;
        let mut stuck: Option<Stuck> = None;
        while !head.is_empty() || !body.is_empty() {
            if self.gave_up.is_none() && self.host.gives_up() {
                return Ok(false);
            }
            match socket.write(head, body)? {
                Some(count) => {
                    let of_head = count.min(head.len());
                    head = &head[of_head..];
                    body = &body[count - of_head..];
                    stuck = None;
                }
                None => {
                    let now = self.began.elapsed();
                    self.fail_if_stopped();
                    if session.failure().is_some() {
                        return Ok(false);
                    }
                    let timeout = session.options().write_timeout;
                    let mut since = stuck.get_or_insert_with(|| Stuck::new(socket, now)).since;
                    if now >= since + timeout {
                        let progress = Stuck::new(socket, now);
                        if stuck
                            .replace(progress)
                            .is_none_or(|before| !before.moved(&progress))
                        {
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                        since = now;
                    }
                    let until = since + timeout;
                    (self.waker).ready(socket.descriptor(), PollFlags::POLLOUT, self.left(until));
                }
            }
        }
        Ok(true)
    }
}
