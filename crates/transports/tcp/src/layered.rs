//! Streams over a socket, and the results of their handshakes.

use std::sync::{Arc, OnceLock};

use regatta_model::Facts;
use regatta_transport::HandshakeMade;

/// A stream that can carry data.
pub struct Layered<S> {
    /// The stream.
    pub stream: S,
    /// Result of its handshake, set when that is done: data may be under way before.
    pub opened: Arc<OnceLock<Opened>>,
}

impl<S> Layered<S> {
    /// Changes the type of the stream.
    pub(crate) fn map<T>(self, into: impl FnOnce(S) -> T) -> Layered<T> {
        Layered {
            stream: into(self.stream),
            opened: self.opened,
        }
    }
}

/// Result of a handshake.
#[derive(Default)]
pub struct Opened {
    /// Negotiated parameters.
    pub facts: Facts,
    /// Kind of the handshake, if the layer knows it.
    pub handshake: Option<HandshakeMade>,
}
