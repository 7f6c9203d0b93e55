//! What the program around a transfer has to say about its sockets, and learns of them.
//!
//! A test bench sets a congestion control and buffers, lets one peer in alone, samples every
//! connection and can end all of them at once; a tool needs nothing of this: [`Plain`].

use std::{
    io,
    net::{IpAddr, TcpStream},
    os::fd::BorrowedFd,
    sync::Arc,
    time::Duration,
};

use crate::failure::Failure;

/// The program around a transfer. Called from the threads of the connections, so it must be quick.
pub trait Host: Send + Sync {
    /// A socket was opened; it is not connected, bound or listening yet.
    ///
    /// # Errors
    /// Why the transfer cannot use it; it fails then.
    fn opened(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let _ = socket;
        Ok(())
    }

    /// Where the receiver listens; without it, on every address.
    fn local(&self) -> Option<IpAddr> {
        None
    }

    /// Whether a connection from there may come in. One that may not is closed unread, and the port
    /// goes on waiting.
    fn admits(&self, peer: IpAddr) -> bool {
        let _ = peer;
        true
    }

    /// A connection has come in that is admitted, before any work for it.
    fn arrived(&self) {}

    /// A connection of the transfer is there, to this port of the receiver, where it has proved that it
    /// belongs to the transfer; `took` from its own connect call, at the sender. It may be kept, to look at its statistics or to shut it down, which ends the calls
    /// that block in it.
    fn connected(&self, port: u16, socket: &Arc<TcpStream>, took: Option<Duration>) {
        let _ = (port, socket, took);
    }

    /// A connection from there was refused: its sender has the URL of another transfer, or another key.
    /// The transfer goes on.
    fn refused(&self, peer: IpAddr, why: &Failure) {
        let _ = (peer, why);
    }

    /// A connection of the transfer is about to be closed by this end: the last look at it.
    fn closing(&self, port: u16, socket: &Arc<TcpStream>) {
        let _ = (port, socket);
    }

    /// Whether the transfer is to end now, in whatever state; asked at least every 200 ms.
    fn stopped(&self) -> bool {
        false
    }

    /// Whether the sender is to give the transfer up and to tell the receiver, for which it has a few
    /// seconds; asked as often. It goes over [`Host::stopped`].
    fn gives_up(&self) -> bool {
        false
    }
}

/// Nothing special about any socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Host for Plain {}
