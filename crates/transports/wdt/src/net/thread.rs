//! State of one port of a receiver, which its thread and its candidates share.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use socket2::Socket;

use super::socket::Connected;
use super::stopped;
use crate::host::Host;
use crate::receiver::{Connection, Session};
use crate::sink::Sink;
use crate::waker::Waker;

/// One listening port of a receiver.
pub(super) struct Thread<'a, K> {
    pub(super) session: &'a Arc<Session<K>>,
    pub(super) index: usize,
    pub(super) port: u16,
    pub(super) listener: Socket,
    pub(super) host: &'a dyn Host,
    pub(super) waker: Arc<Waker>,
    /// Time at which the transfer began at this end.
    pub(super) began: Instant,
}

impl<K: Sink> Thread<'_, K> {
    /// Returns the time that is left until this time of the transfer.
    pub(super) fn left(&self, until: Duration) -> Duration {
        until.saturating_sub(self.began.elapsed())
    }

    pub(super) fn write(&self, connection: &mut Connection<K>, socket: &Connected<'_>) {
        match self.write_all(connection.output(), socket) {
            Ok(()) => connection.written(),
            Err(error) => connection.write_failed(&error, self.began.elapsed()),
        }
    }

    fn write_all(&self, mut rest: &[u8], socket: &Connected<'_>) -> io::Result<()> {
        let until = self.began.elapsed() + self.session.options().write_timeout;
        while !rest.is_empty() {
            match socket.write(rest, &[])? {
                Some(count) => rest = &rest[count..],
                None if self.began.elapsed() >= until => return Err(io::ErrorKind::TimedOut.into()),
                None if self.host.stopped() => {
                    self.session.fail(stopped());
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                None => {
                    let (file, left) = (socket.descriptor(), self.left(until));
                    self.waker.ready(file, PollFlags::POLLOUT, left);
                }
            }
        }
        Ok(())
    }
}
