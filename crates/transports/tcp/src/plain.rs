//! TCP with nothing on top.

use std::{
    io::IoSlice,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use regatta_transport::{ByteStream, HandshakeMade, MonotonicTime, Received, TransportError};

use crate::{
    layer::{Layer, Layered, Opened},
    socket::{Connected, Read},
};

/// The empty layer: a plain socket.
pub struct Plain;

impl Layer for Plain {
    type Stream = PlainStream;

    fn client(
        &self,
        socket: Arc<Connected>,
        holds_back: bool,
        _until: MonotonicTime,
    ) -> Result<Layered<PlainStream>, TransportError> {
        Ok(Layered {
            stream: PlainStream { socket, holds_back },
            opened: Arc::new(OnceLock::from(Opened {
                handshake: Some(HandshakeMade::Full),
                ..Opened::default()
            })),
        })
    }

    fn server(
        &self,
        socket: Arc<Connected>,
        until: MonotonicTime,
    ) -> Result<Layered<PlainStream>, TransportError> {
        self.client(socket, true, until)
    }
}

/// A socket as a stream of bytes.
pub struct PlainStream {
    socket: Arc<Connected>,
    /// Whether Nagle's algorithm is on, so that a flush has something to do.
    holds_back: bool,
}

impl ByteStream for PlainStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        self.socket
            .send_all(&mut [IoSlice::new(header), IoSlice::new(payload)])
    }

    async fn flush(&mut self) -> Result<(), TransportError> {
        if self.holds_back {
            self.socket.push()?;
        }
        Ok(())
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received, TransportError> {
        Ok(match self.socket.receive(scratch, until)? {
            Read::Bytes(received) => {
                consume(&scratch[..received]);
                Received::Bytes(received)
            }
            Read::TimedOut => Received::TimedOut,
            Read::Closed => Received::Closed,
        })
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        self.socket.finish()
    }
}
