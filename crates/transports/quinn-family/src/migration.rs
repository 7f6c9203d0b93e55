//! Moving the connecting end to another local port in mid-transfer (RFC 9000 §9).

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use regatta_model::{reason, units::format_duration};
use regatta_transport::{MonotonicTime, Result, TransportError};

use regatta_transport_quic_common::path::Sizes;
use regatta_transport_sockets::socket::{self, Counters};

use crate::{
    drops::Drops,
    stack::{self, quic::Endpoint},
};

/// Migration of one end, which happens once.
#[derive(Debug)]
pub(crate) struct Migration {
    after: Duration,
    local: IpAddr,
    sizes: Sizes,
    /// Whether packets are ECN-capable.
    ecn: bool,
    drops: Arc<Drops>,
    begun: AtomicBool,
    done: OnceLock<Result<(), String>>,
}

impl Migration {
    pub(crate) fn new(
        after: Duration,
        local: IpAddr,
        (sizes, ecn): (Sizes, bool),
        drops: Arc<Drops>,
    ) -> Self {
        Self {
            after,
            local,
            sizes,
            ecn,
            drops,
            begun: AtomicBool::new(false),
            done: OnceLock::new(),
        }
    }

    /// Returns the time of the migration at the first call, which is made when the first transfer's
    /// connection is established; `None` at later calls.
    pub(crate) fn due(&self) -> Option<MonotonicTime> {
        let first = !self.begun.swap(true, Ordering::Relaxed);
        first.then(|| MonotonicTime::now() + self.after)
    }

    /// Migrates all connections of the endpoint to another local port.
    pub(crate) fn make(&self, endpoint: &Endpoint) {
        let done = self
            .rebind(endpoint)
            .map_err(|error| error.reasons().join(": "));
        // It is made once.
        let _ = self.done.set(done);
    }

    fn rebind(&self, endpoint: &Endpoint) -> Result<()> {
        let (receive, send) = self.sizes.socket_buffers_bytes;
        let (socket, _) = socket::bind(self.local, None, receive, send)?;
        let moved = || -> io::Result<()> {
            let counters = Counters::of(&socket)?;
            let (socket, ..) = stack::wrap(socket, (self.sizes.most_segments(), self.ecn))?;
            endpoint.rebind_abstract(socket)?;
            self.drops.moved_to(counters);
            Ok(())
        };
        moved().map_err(TransportError::io(reason::cannot_move_port()))
    }

    /// Describes the result, for a fact.
    pub(crate) fn describe(&self) -> String {
        let after = format_duration(self.after);
        match self.done.get() {
            Some(Ok(())) => format!("to another local port after {after}"),
            Some(Err(reason)) => format!("failed after {after}: {reason}"),
            None => format!("not made: the transfer was over before {after}"),
        }
    }
}
