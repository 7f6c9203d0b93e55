//! State of one port of a receiver, which its thread and its candidates share.

use std::io;
use std::sync::Arc;

use socket2::Socket;

use super::socket::Connected;
use super::{Clock, stopped};
use crate::host::Host;
use crate::receiver::{Connection, Session};
use crate::sink::Sink;

/// One listening port of a receiver.
pub(super) struct Thread<'a, K> {
    pub(super) session: &'a Arc<Session<K>>,
    pub(super) index: usize,
    pub(super) port: u16,
    pub(super) listener: Socket,
    pub(super) host: &'a dyn Host,
    pub(super) clock: Clock,
}

impl<K: Sink> Thread<'_, K> {
    pub(super) fn has_failed(&self) -> bool {
        self.session.failure().is_some()
    }

    pub(super) fn write(&self, connection: &mut Connection<K>, socket: &Connected<'_>) {
        let began = self.clock.now();
        let mut rest = connection.output();
        let mut failed = None;
        while !rest.is_empty() && failed.is_none() {
            match socket.write(rest, &[]) {
                Ok(Some(count)) => rest = &rest[count..],
                Ok(None) if self.clock.now() < began + self.session.options().write_timeout => {
                    if self.host.stopped() {
                        self.session.fail(stopped());
                        failed = Some(io::ErrorKind::ConnectionAborted.into());
                    }
                }
                Ok(None) => failed = Some(io::ErrorKind::TimedOut.into()),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None => connection.written(),
            Some(error) => connection.write_failed(&error, self.clock.now()),
        }
    }
}
