//! Interface between a transfer and the program around it: control and observation of its sockets.
//!
//! A test bench sets a congestion control and buffers, admits one peer only, samples every
//! connection and can end all of them at once; a tool needs none of this and leaves the defaults.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream},
    os::fd::BorrowedFd,
    sync::Arc,
    time::Duration,
};

use crate::{failure::Failure, waker::Wakers};

/// The program around a transfer. Called from the threads of the connections, so it must be quick.
pub trait Host: Send + Sync {
    /// Called before the threads of the transfer start. The program calls [`Wakers::wake`] whenever the answer of
    /// [`Host::stopped`] or [`Host::gives_up`] has changed: the threads ask again then.
    fn begins(&self, _wakers: &Wakers) {}

    /// Called when a socket was opened; it is not connected, bound or listening yet.
    ///
    /// # Errors
    /// Reason why the transfer cannot use the socket; the transfer fails then.
    fn opened(&self, _socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Returns the address that the receiver listens on, and from which the sender connects, with the scope of a link-local one
    /// and any port; `None` for every address, and for the one that the kernel chooses.
    fn local(&self) -> Option<SocketAddr> {
        None
    }

    /// Whether a connection from `peer` is admitted. A refused one is closed unread, and the port
    /// goes on waiting.
    fn admits(&self, _peer: IpAddr) -> bool {
        true
    }

    /// Called when an admitted connection has come in, before any work for it.
    fn arrived(&self) {}

    /// Called when a connection of the transfer to `port` of the receiver is established; at the
    /// receiver, once it has proved that it belongs to the transfer. `took` is the time from the
    /// first of its connect calls, those included that failed, at the sender only. The socket may be kept, to read its statistics or to shut
    /// it down, which ends the calls that block in it.
    fn connected(&self, _port: u16, _socket: &Arc<TcpStream>, _took: Option<Duration>) {}

    /// Called when a connection from `peer` was refused: its sender has the URL of another
    /// transfer, or another key. The transfer goes on.
    fn refused(&self, _peer: IpAddr, _why: &Failure) {}

    /// Called before this end closes a connection of the transfer: the last chance to read its
    /// statistics.
    fn closing(&self, _port: u16, _socket: &Arc<TcpStream>) {}

    /// Whether the transfer shall end now, in whatever state.
    fn stopped(&self) -> bool {
        false
    }

    /// Whether the sender is to give the transfer up and to notify the receiver, for which it has a few
    /// seconds. It goes over [`Host::stopped`].
    fn gives_up(&self) -> bool {
        false
    }
}
