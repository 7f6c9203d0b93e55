//! What stands between a socket and the workload.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use regatta_transport::{ByteStream, HandshakeMade, MonotonicTime, TransportError};

use crate::socket::Connected;

/// Makes streams of connected sockets.
pub trait Layer: Send + Sync + 'static {
    /// What they are.
    type Stream: ByteStream + 'static;

    /// Opens it at the connecting end. `holds_back`: whether Nagle's algorithm is on.
    fn client(
        &self,
        socket: Arc<Connected>,
        holds_back: bool,
        until: MonotonicTime,
    ) -> Result<Layered<Self::Stream>, TransportError>;

    /// Opens it at the listening end.
    fn server(
        &self,
        socket: Arc<Connected>,
        until: MonotonicTime,
    ) -> Result<Layered<Self::Stream>, TransportError>;
}

/// A layer that can carry data.
pub struct Layered<S> {
    /// The stream.
    pub stream: S,
    /// What its handshake brought, as soon as that is done: data may be under way before.
    pub opened: Arc<OnceLock<Opened>>,
}

/// What a handshake brought.
#[derive(Default)]
pub struct Opened {
    /// What was agreed.
    pub facts: BTreeMap<String, String>,
    /// Which handshake it was, if the layer tells.
    pub handshake: Option<HandshakeMade>,
}
