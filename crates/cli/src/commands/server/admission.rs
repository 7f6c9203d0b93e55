//! Admission of connections by their first message, before the server computes anything for them.

use std::{
    collections::{HashSet, VecDeque},
    io::{self, Read},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags};

use crate::pinned_tls::{
    poll_until,
    token::{FIRST_MESSAGE_BYTES, NONCE_BYTES, SECRET_BYTES, first_message_nonce},
};

/// Longest time for the first message of a connection, some of whose packets may have to be sent again.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);

/// Connections that may be without their first message at once; a further one closes the oldest.
pub const MAX_PENDING: usize = 256;

/// First messages that are remembered, so that nobody can repeat them: the newest ones.
const MAX_NONCES: usize = 1 << 16;

/// Pause after the system had no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Listeners, and connections whose first message is incomplete.
pub struct Admission<'a> {
    listeners: &'a [TcpListener],
    secret: [u8; SECRET_BYTES],
    /// Maximum number of connections without their first message.
    max_pending: usize,
    pending: VecDeque<PendingConnection>,
    seen: Nonces,
}

/// Nonces of the first messages that were accepted, the oldest first.
#[derive(Default)]
struct Nonces {
    order: VecDeque<[u8; NONCE_BYTES]>,
    all: HashSet<[u8; NONCE_BYTES]>,
}

impl Nonces {
    /// Adds a nonce; returns `false` for one that was added before.
    fn add(&mut self, nonce: [u8; NONCE_BYTES]) -> bool {
        if !self.all.insert(nonce) {
            return false;
        }
        self.order.push_back(nonce);
        if self.order.len() > MAX_NONCES
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
        true
    }
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
    /// Begins with listeners that do not block, and at most `max_pending` connections without their first message.
    pub fn new(
        listeners: &'a [TcpListener],
        secret: [u8; SECRET_BYTES],
        max_pending: usize,
    ) -> Self {
        Self {
            listeners,
            secret,
            max_pending,
            pending: VecDeque::new(),
            seen: Nonces::default(),
        }
    }

    /// Waits for connections, and returns those that have shown that they know the secret. Others are closed without
    /// an answer, also those that repeat the first message of another one.
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
                    if first_message_nonce(&self.secret, &connection.message)
                        .is_some_and(|nonce| self.seen.add(nonce)) =>
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

    /// Accepts connections, and not more than what can be read from once before the oldest are closed.
    fn accept(&mut self, listener: &TcpListener) {
        for _ in 0..self.max_pending.div_ceil(2) {
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
            if self.pending.len() >= self.max_pending {
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
        let mut admission = Admission::new(&listeners, [1; SECRET_BYTES], MAX_PENDING);
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
    fn a_first_message_is_accepted_once() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a flag");
        let address = listener.local_addr().expect("an address");
        let listeners = [listener];
        let mut admission = Admission::new(&listeners, [1; SECRET_BYTES], MAX_PENDING);
        let mut sent_by = |nonce| {
            let mut connection = TcpStream::connect(address).expect("it listens");
            let message = first_message(&[1; SECRET_BYTES], [nonce; NONCE_BYTES]);
            connection.write_all(&message).expect("sent");
            let from = connection.local_addr().expect("an address");
            // One that is closed is pending no longer.
            let mut admitted = admission.next().expect("it waits");
            while admitted.is_empty() && !admission.pending.is_empty() {
                admitted = admission.next().expect("it waits");
            }
            (
                connection,
                admitted.iter().any(|(_, address)| *address == from),
            )
        };
        assert!(sent_by(1).1);
        assert!(sent_by(2).1);
        let (mut repeated, is_admitted) = sent_by(1);
        assert!(!is_admitted);
        assert!(!matches!(repeated.read(&mut [0; 1]), Ok(1..)));
    }

    #[test]
    fn nonces_are_remembered_up_to_a_limit() {
        let mut nonces = Nonces::default();
        let nonce = |number: usize| (number as u128).to_le_bytes();
        assert!((0..=MAX_NONCES).all(|number| nonces.add(nonce(number))));
        assert!(!nonces.add(nonce(MAX_NONCES)));
        assert_eq!(nonces.all.len(), MAX_NONCES);
    }

    #[test]
    fn oldest_pending_connection_is_closed_at_the_limit() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a flag");
        let address = listener.local_addr().expect("an address");
        let listeners = [listener];
        let mut admission = Admission::new(&listeners, [1; SECRET_BYTES], MAX_PENDING);
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
