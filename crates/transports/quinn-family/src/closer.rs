//! State of a connection and of its end that its streams, its statistics and the connection itself use.

use std::sync::Arc;

use regatta_transport::stop::Abort;
use regatta_transport_quic_common::{files::Files, path::Sizes};

use crate::{
    drops::Drops,
    migration::Migration,
    stack::quic::{Connection, VarInt},
    watch::Watch,
};

/// Application error code of a connection that is closed in good order.
pub(crate) const DONE: VarInt = VarInt::from_u32(0);

/// Application error code of a connection, or a stream, that was aborted, by the deadline or from
/// outside.
pub(crate) const ABORTED: VarInt = VarInt::from_u32(1);

/// State that all connections of one end share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// `sender` or `receiver`.
    pub(crate) end: &'static str,
    pub(crate) drops: Arc<Drops>,
    pub(crate) files: Files,
    /// Whether every connection begins with a Retry packet.
    pub(crate) retries: bool,
    pub(crate) sizes: Sizes,
    /// Migration, at an end that migrates.
    pub(crate) migration: Option<Migration>,
}

/// A connection and the state of its controller; closed when the trial, or the transfer, is stopped.
pub(crate) struct Closer {
    pub(crate) connection: Connection,
    pub(crate) watch: Arc<Watch>,
}

impl Closer {
    pub(crate) fn new(connection: Connection, watch: Arc<Watch>) -> Arc<Self> {
        Arc::new(Self { connection, watch })
    }

    pub(crate) fn close(&self, code: VarInt, reason: &[u8]) {
        self.watch.close();
        self.connection.close(code, reason);
    }
}

impl Abort for Closer {
    fn abort(&self) {
        self.close(ABORTED, b"stopped");
    }
}
