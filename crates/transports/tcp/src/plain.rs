//! TCP with nothing on top.

use std::{
    io::IoSlice,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use regatta_transport::{ByteStream, HandshakeMade, MonotonicTime, Received, Result};

use crate::{
    layered::{Layered, Opened},
    socket::Connected,
};

/// Makes a stream of a connected socket. `holds_back` is true if Nagle's algorithm may be on.
pub(crate) fn open(socket: Arc<Connected>, holds_back: bool) -> Layered<PlainStream> {
    Layered {
        stream: PlainStream { socket, holds_back },
        opened: Arc::new(OnceLock::from(Opened {
            handshake: Some(HandshakeMade::Full),
            ..Opened::default()
        })),
    }
}

/// A socket as a stream of bytes.
pub struct PlainStream {
    socket: Arc<Connected>,
    /// Whether Nagle's algorithm is on, so that a flush has something to do.
    holds_back: bool,
}

impl ByteStream for PlainStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        self.socket
            .send_all(&mut [IoSlice::new(header), IoSlice::new(payload)])
    }

    async fn flush(&mut self) -> Result<()> {
        self.socket.flush(self.holds_back)
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
        let received = self.socket.receive(scratch, until)?;
        if let Received::Bytes(bytes) = received {
            consume(&scratch[..bytes]);
        }
        Ok(received)
    }

    async fn finish(&mut self) -> Result<()> {
        self.socket.finish()
    }
}
