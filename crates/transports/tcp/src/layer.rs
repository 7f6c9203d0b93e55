//! Layer between a socket and the workload.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use regatta_transport::{ByteStream, HandshakeMade, MonotonicTime, Result};

use crate::socket::Connected;

/// Makes streams of connected sockets.
pub trait Layer: Send + Sync + 'static {
    /// Type of the streams.
    type Stream: ByteStream + 'static;

    /// Returns the name of the library that encrypts; `None` if nothing is encrypted.
    fn crypto(&self) -> Option<&'static str> {
        None
    }

    /// Opens a stream at the layer's end. `holds_back` is true if Nagle's algorithm may be on.
    fn open(
        &self,
        socket: Arc<Connected>,
        holds_back: bool,
        until: MonotonicTime,
    ) -> Result<Layered<Self::Stream>>;
}

/// A stream that can carry data.
pub struct Layered<S> {
    /// The stream.
    pub stream: S,
    /// Result of its handshake, set when that is done: data may be under way before.
    pub opened: Arc<OnceLock<Opened>>,
}

/// Result of a handshake.
#[derive(Default)]
pub struct Opened {
    /// Negotiated parameters.
    pub facts: BTreeMap<String, String>,
    /// Kind of the handshake, if the layer knows it.
    pub handshake: Option<HandshakeMade>,
}
