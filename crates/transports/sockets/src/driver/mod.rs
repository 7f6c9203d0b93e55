//! One I/O loop for protocols that do no input or output themselves and have no clock (sans-IO).
//!
//! A protocol is a [`Protocol`] with its [`Connection`]s: packets and times go in, packets and wake-ups
//! come out. [`End`] is one end of a trial over it: the UDP sockets with their offloads, a runtime of one
//! thread, timers, connecting, accepting, stop, and closing. [`Handle`] is one connection;
//! [`StreamEnd`](crate::endpoints::StreamEnd) and [`MessageEnd`](crate::endpoints::MessageEnd) make an
//! end of it for the workloads.

mod end;
mod handle;
mod outbox;
mod port;
mod state;
#[cfg(test)]
mod tests;

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll, Waker},
    time::Instant,
};

use regatta_transport::{Purpose, TransportError};

pub use end::{End, Settings};
pub use handle::{Dropped, Handle};
pub use state::{Connections, Incoming};

/// Number of a connection at its end, chosen by the protocol.
pub type Number = u64;

/// Packets of one size, the last of which may be shorter, that came from one address.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Address of the socket that has received them.
    pub to: SocketAddr,
    /// The packets, one after another.
    pub bytes: &'a mut [u8],
    /// Size of each packet but the last, in bytes.
    pub segment: usize,
}

/// Packet that a connection has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Size of the packet, in bytes.
    pub bytes: usize,
    /// Address of the socket to send from; the first socket of the end if absent.
    pub from: Option<SocketAddr>,
    /// Address to send to.
    pub to: SocketAddr,
    /// Earliest time to send it (pacing); at once if absent.
    pub at: Option<Instant>,
}

/// A protocol of one end: what its connections share.
pub trait Protocol: Send + Sized + 'static {
    /// One connection.
    type Connection: Connection;

    /// Name in error messages.
    const NAME: &'static str;

    /// Number of packets that are processed before they are answered, if that many have arrived.
    const PACKETS_AT_ONCE: usize = usize::MAX;

    /// Begins a connection from the socket `local` to the announced peer.
    ///
    /// # Errors
    /// The error of the stack.
    fn connect(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
        purpose: Purpose,
        connections: &mut Connections<Self::Connection>,
    ) -> Result<Number, TransportError>;

    /// Processes packets of the announced peer's host.
    fn handle(
        &mut self,
        now: Instant,
        arrived: Arrived<'_>,
        connections: &mut Connections<Self::Connection>,
    );

    /// Takes over what a connection has for its end; called after each [`Connection::update`].
    fn updated(&mut self, _number: Number, _connection: &mut Self::Connection) {}

    /// Forgets a connection that was dropped.
    fn forget(&mut self, _number: Number) {}
}

/// One connection of a [`Protocol`].
pub trait Connection: Send + 'static {
    /// Size of the longest packet, in bytes.
    const LONGEST_PACKET_BYTES: usize;

    /// Writes the next packet that is to be sent now to `buffer`, which has room for the longest one;
    /// `None` if there is none.
    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit>;

    /// Returns the time of the next call of [`Connection::handle_timeout`].
    fn next_timeout(&self) -> Option<Instant>;

    /// Handles the timers that have expired at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// Wakes the tasks that wait for a change; called after packets were processed and sent. `flushed`
    /// is whether everything that could be sent was handed to the kernel.
    fn update(&mut self, flushed: bool);

    /// Waits until the connection can carry data. The first call at a listening end accepts it.
    fn poll_open(&mut self, context: &Context<'_>) -> Poll<Result<(), TransportError>>;

    /// Ends the connection at once, as its stop was raised.
    fn abort(&mut self);

    /// Begins to close the connection in good order, as its owner was dropped.
    fn release(&mut self);

    /// Ends the connection, as the socket has failed.
    fn fail(&mut self, error: &io::Error);

    /// Whether the packet that closes the connection, or aborts it, is not written yet: the end waits for room for it
    /// before it is dropped.
    fn waits_to_close(&self) -> bool;

    /// Whether the connection has ended, and the other end needs no further packet.
    fn is_over(&self) -> bool;
}

/// A connection whose first message decides whether it belongs to the trial.
pub trait Admission: Connection {
    /// Waits for the next message. The first call at a listening end accepts the connection.
    ///
    /// # Errors
    /// The reason for which the connection has ended before.
    fn poll_message(&mut self, context: &Context<'_>) -> Poll<Result<Vec<u8>, TransportError>>;
}

/// Wakers of tasks that wait for one thing.
#[derive(Debug, Default)]
pub struct Wakers(Vec<Waker>);

impl Wakers {
    /// Adds the waker of the polling task, unless it is registered already.
    pub fn register(&mut self, context: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(context.waker())) {
            self.0.push(context.waker().clone());
        }
    }

    /// Wakes all tasks.
    pub fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}
