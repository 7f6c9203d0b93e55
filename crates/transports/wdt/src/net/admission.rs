//! Connections to a port of the receiver that have not proved yet that they belong to the transfer.
//!
//! Several are open at once, each with a state machine of its own, so that a stranger who connects
//! and sends nothing, or something else, does not keep the sender out.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::socket::{Connected, waits};
use super::thread::Thread;
use crate::receiver::{Connection, Step};
use crate::sink::Sink;
use crate::waker::PAUSE;

/// Maximum number of candidates; the oldest is closed for a new one.
const MAX_CANDIDATES: usize = 32;

/// A connection that has not proved yet that it belongs to the transfer.
pub(super) struct Candidate<'a, K: Sink> {
    connection: Connection<K>,
    socket: Connected<'a>,
    peer: IpAddr,
    /// Time until which it waits for bytes.
    until: Duration,
}

/// All candidates of one port, the oldest first.
pub(super) struct Admission<'a, K: Sink>(pub(super) Vec<Candidate<'a, K>>);

impl<'a, K: Sink> Admission<'a, K> {
    /// Waits for connections and their bytes, until a time at most. Returns the first connection that
    /// belongs to the transfer; `port` then goes on with it, and the others are closed.
    pub(super) fn next(
        &mut self,
        thread: &Thread<'a, K>,
        port: &mut Connection<K>,
        buffer: &mut [u8],
        until: Duration,
    ) -> Option<Connected<'a>> {
        self.wait(thread, Some(thread.listener.as_fd()), until);
        while let Some((socket, peer)) = accept(thread) {
            if self.0.len() == MAX_CANDIDATES {
                port.turned_away(self.0.remove(0).connection);
            }
            self.0.push(Candidate {
                connection: port.candidate(thread.began.elapsed()),
                socket,
                peer,
                until: Duration::ZERO,
            });
        }
        self.turns(thread, port, buffer)
    }

    /// Tells the remaining candidates that the transfer has failed.
    pub(super) fn end(
        mut self,
        thread: &Thread<'a, K>,
        port: &mut Connection<K>,
        buffer: &mut [u8],
    ) {
        while thread.session.failed() {
            self.turns(thread, port, buffer);
            if self.0.is_empty() {
                return;
            }
            self.wait(thread, None, Duration::MAX);
        }
    }

    /// Advances each candidate until it would wait, up to the first that is
    /// admitted.
    fn turns(
        &mut self,
        thread: &Thread<'a, K>,
        port: &mut Connection<K>,
        buffer: &mut [u8],
    ) -> Option<Connected<'a>> {
        let mut index = 0;
        while let Some(candidate) = self.0.get_mut(index) {
            let open = candidate.turn(thread, buffer);
            if candidate.connection.is_admitted() {
                let mut admitted = self.0.swap_remove(index);
                self.0.clear();
                admitted.socket.announce(None);
                *port = admitted.connection;
                return Some(admitted.socket);
            }
            if open {
                index += 1;
                continue;
            }
            let closed = self.0.remove(index);
            if let Some(why) = port.turned_away(closed.connection) {
                thread.host.refused(closed.peer, &why);
            }
        }
        None
    }

    /// Sleeps until a connection comes in on `listener`, if given, or a candidate has sent bytes or
    /// waits no longer for them; until a time at most.
    fn wait(&self, thread: &Thread<'a, K>, listener: Option<BorrowedFd<'_>>, until: Duration) {
        let until = (self.0.iter()).fold(until, |until, candidate| until.min(candidate.until));
        let candidates = self.0.iter().map(|candidate| candidate.socket.descriptor());
        let files = listener.into_iter().chain(candidates);
        thread.waker.wait_for_any(files, thread.left(until));
    }
}

impl<'a, K: Sink> Candidate<'a, K> {
    /// Takes all steps that need no waiting, until it is admitted; returns whether it is open.
    fn turn(&mut self, thread: &Thread<'a, K>, buffer: &mut [u8]) -> bool {
        while !self.connection.is_admitted() {
            match self.connection.step(thread.began.elapsed()) {
                Step::Write => thread.write(&mut self.connection, &self.socket),
                Step::Read(until) => match self.socket.read_now(buffer) {
                    Ok(Some(count)) => self
                        .connection
                        .received(&mut buffer[..count], thread.began.elapsed()),
                    Ok(None) => {
                        self.until = until;
                        return true;
                    }
                    Err(error) => self.connection.read_failed(&error, thread.began.elapsed()),
                },
                Step::Shutdown => self.socket.shutdown(),
                Step::Wait(_) | Step::Accept(_) | Step::Disconnect | Step::End => return false,
            }
        }
        true
    }
}

/// Accepts the next connection whose peer is admitted; `None` if there is none.
fn accept<'a, K: Sink>(thread: &Thread<'a, K>) -> Option<(Connected<'a>, IpAddr)> {
    loop {
        let (socket, peer) = match thread.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                // Short of descriptors, the kernel returns that error at once, and again.
                if !waits(&error) {
                    std::thread::sleep(PAUSE);
                }
                return None;
            }
        };
        // Whatever fails from here is over with that connection; the sender makes another.
        let peer = peer.as_socket().map(|peer| peer.ip().to_canonical());
        if let Some(peer) = peer.filter(|peer| thread.host.admits(*peer)) {
            thread.host.arrived();
            if let Ok(connected) = Connected::new(socket, thread.port, thread.host) {
                return Some((connected, peer));
            }
        }
    }
}
