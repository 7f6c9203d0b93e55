//! Layer between a socket and the workload.

use std::sync::Arc;

use bytes::Bytes;
use regatta_model::Facts;
use regatta_transport::{ByteStream, MonotonicTime, Received, Result};

use crate::{
    layered::Layered,
    plain::{self, PlainStream},
    socket::Connected,
    tls::{EarlyStream, RecordStream, Tls},
};

/// Layer of an endpoint between its sockets and its streams. All layers are one type, because everything that runs a
/// trial is compiled once for each type of streams.
pub enum Layer {
    /// Nothing.
    Plain {
        /// Whether messages that repeat are sent without a copy.
        zero_copy: bool,
    },
    /// TLS for bulk data.
    Records(Tls<RecordStream>),
    /// TLS that may begin with early data.
    Early(Tls<EarlyStream>),
}

impl Layer {
    /// Returns the facts of TLS that are known before a handshake, keyed by their full names, at `end`, `sender` or
    /// `receiver`; none if nothing is encrypted.
    pub(crate) fn facts(&self, end: &str) -> Facts {
        match self {
            Self::Plain { .. } => Facts::default(),
            Self::Records(tls) => tls.facts(end),
            Self::Early(tls) => tls.facts(end),
        }
    }

    /// Opens a stream at the layer's end. `holds_back` is true if Nagle's algorithm may be on.
    pub(crate) fn open(
        &self,
        socket: Arc<Connected>,
        holds_back: bool,
        until: MonotonicTime,
    ) -> Result<Layered<Stream>> {
        Ok(match self {
            Self::Plain { zero_copy } => {
                plain::open(socket, holds_back, *zero_copy).map(Stream::Plain)
            }
            Self::Records(tls) => tls.open(socket, holds_back, until)?.map(Stream::Records),
            Self::Early(tls) => tls.open(socket, holds_back, until)?.map(Stream::Early),
        })
    }
}

/// Stream of a [`Layer`].
pub enum Stream {
    Plain(PlainStream),
    Records(RecordStream),
    Early(EarlyStream),
}

/// Calls a method of the stream, whichever it is.
macro_rules! of_any {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Plain($inner) => $call,
            Stream::Records($inner) => $call,
            Stream::Early($inner) => $call,
        }
    };
}

impl ByteStream for Stream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        of_any!(self, inner => inner.send_message(header, payload).await)
    }

    async fn flush(&mut self) -> Result<()> {
        of_any!(self, inner => inner.flush().await)
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
        of_any!(self, inner => inner.receive(scratch, until, consume).await)
    }

    async fn discard(
        &mut self,
        scratch: &mut [u8],
        most: u64,
        until: MonotonicTime,
    ) -> Result<Received> {
        of_any!(self, inner => inner.discard(scratch, most, until).await)
    }

    async fn finish(&mut self) -> Result<()> {
        of_any!(self, inner => inner.finish().await)
    }
}
