//! Admission of connections by their first message, before the server computes anything for them.

use std::{
    collections::VecDeque,
    io::{self, Read},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags};

use crate::pinned_tls::{
    poll_until,
    token::{FIRST_MESSAGE_BYTES, SECRET_BYTES, is_first_message},
};

/// Longest time for the first message of a connection.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(3);

/// Connections that may be without their first message at once; a further one closes the oldest.
const MAX_PENDING: usize = 256;

/// Pause after the system had no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Listeners, and connections whose first message is incomplete.
pub struct Admission<'a> {
    listeners: &'a [TcpListener],
    secret: [u8; SECRET_BYTES],
    pending: VecDeque<PendingConnection>,
}

/// Connection that has not shown that it knows the secret.
struct PendingConnection {
    stream: TcpStream,
    address: SocketAddr,
    message: [u8; FIRST_MESSAGE_BYTES],
    length: usize,
    until: Instant,
}

/// State of a connection's first message.
enum HelloState {
    Incomplete,
    Complete,
    Invalid,
}

impl PendingConnection {
    fn receive(&mut self) -> HelloState {
        match self.stream.read(&mut self.message[self.length..]) {
            Ok(0) => HelloState::Invalid,
            Ok(length) => {
                self.length += length;
                match self.length {
                    FIRST_MESSAGE_BYTES => HelloState::Complete,
                    _ => HelloState::Incomplete,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => HelloState::Incomplete,
            Err(_) => HelloState::Invalid,
        }
    }
}

impl<'a> Admission<'a> {
    /// Begins with listeners that do not block.
    pub fn new(listeners: &'a [TcpListener], secret: [u8; SECRET_BYTES]) -> Self {
        Self {
            listeners,
            secret,
            pending: VecDeque::new(),
        }
    }

    /// Waits for connections, and returns those that have shown that they know the secret. Others are closed without
    /// an answer.
    ///
    /// # Errors
    /// An error of the wait.
    pub fn next(&mut self) -> io::Result<Vec<(TcpStream, SocketAddr)>> {
        let (new, readable) = self.wait()?;
        let mut admitted = Vec::new();
        let now = Instant::now();
        let mut incomplete = VecDeque::new();
        for (mut connection, readable) in
            std::mem::take(&mut self.pending).into_iter().zip(readable)
        {
            let state = match readable {
                true => connection.receive(),
                false => HelloState::Incomplete,
            };
            match state {
                HelloState::Incomplete if now < connection.until => {
                    incomplete.push_back(connection)
                }
                HelloState::Complete
                    if is_first_message(&self.secret, &connection.message)
                        && connection.stream.set_nonblocking(false).is_ok() =>
                {
                    admitted.push((connection.stream, connection.address));
                }
                _ => {}
            }
        }
        self.pending = incomplete;
        for (listener, new) in self.listeners.iter().zip(new) {
            if new {
                self.accept(listener);
            }
        }
        Ok(admitted)
    }

    /// Waits for events; returns which listeners and which pending connections are readable.
    fn wait(&self) -> io::Result<(Vec<bool>, Vec<bool>)> {
        let listeners = self.listeners.iter().map(AsFd::as_fd);
        let pending = self.pending.iter().map(|it| it.stream.as_fd());
        let mut files: Vec<PollFd<'_>> = (listeners.chain(pending))
            .map(|file| PollFd::new(file, PollFlags::POLLIN))
            .collect();
        poll_until(&mut files, self.pending.front().map(|first| first.until))?;
        let mut events = files.iter().map(|file| file.any().unwrap_or(false));
        let listeners_ready = events.by_ref().take(self.listeners.len()).collect();
        Ok((listeners_ready, events.collect()))
    }

    fn accept(&mut self, listener: &TcpListener) {
        loop {
            let (stream, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    // Without a descriptor nothing can be accepted until one is free.
                    self.pending.pop_front();
                    std::thread::sleep(PAUSE);
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.pending.len() == MAX_PENDING {
                self.pending.pop_front();
            }
            self.pending.push_back(PendingConnection {
                stream,
                address,
                message: [0; FIRST_MESSAGE_BYTES],
                length: 0,
                until: Instant::now() + FIRST_MESSAGE_TIMEOUT,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::pinned_tls::token::first_message;

    #[test]
    fn connections_without_the_secret_are_closed_and_block_nobody() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a flag");
        let address = listener.local_addr().expect("an address");
        let listeners = [listener];
        let mut admission = Admission::new(&listeners, [1; SECRET_BYTES]);
        let connect = || TcpStream::connect(address).expect("it listens");
        let _silent = connect();
        let mut wrong = connect();
        wrong.write_all(&[b'x'; FIRST_MESSAGE_BYTES]).expect("sent");
        let mut other = connect();
        let message = first_message(&[2; SECRET_BYTES], [0; 16]);
        other.write_all(&message).expect("sent");
        let mut right = connect();
        let message = first_message(&[1; SECRET_BYTES], [0; 16]);
        let (head, tail) = message.split_at(10);
        right.write_all(head).expect("sent");
        right.write_all(tail).expect("sent");
        let admitted = loop {
            let admitted = admission.next().expect("it waits");
            if !admitted.is_empty() {
                break admitted;
            }
        };
        assert_eq!(admitted.len(), 1);
        assert_eq!(admitted[0].1, right.local_addr().expect("an address"));
        for mut connection in [wrong, other] {
            let mut answer = [0; 1];
            // Closed with data unread: a reset, or an end.
            assert!(!matches!(connection.read(&mut answer), Ok(1..)));
        }
    }

    #[test]
    fn oldest_pending_connection_is_closed_at_the_limit() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a flag");
        let address = listener.local_addr().expect("an address");
        let listeners = [listener];
        let mut admission = Admission::new(&listeners, [1; SECRET_BYTES]);
        let mut pending = Vec::new();
        for _ in 0..=MAX_PENDING {
            pending.push(TcpStream::connect(address).expect("it listens"));
            admission.next().expect("it waits");
        }
        assert_eq!(admission.pending.len(), MAX_PENDING);
        let mut answer = [0; 1];
        assert_eq!(pending[0].read(&mut answer).expect("an end"), 0);
    }
}
