//! TLS 1.3 over a TCP socket, with rustls.
//!
//! - `records` is a stream over rustls's unbuffered interface, for bulk data.
//! - `early` is a stream over its buffered interface, which alone reports whether early data was
//!   accepted, for workloads that ask for early data.

mod early;
mod records;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use regatta_control::TrialOrder;
use regatta_transport::{
    ByteStream, HandshakeMade, MonotonicTime, Received, Result, TransportError,
};
use regatta_transport_tls::{self as tls, Crypto, Resumption};
use rustls::{ClientConfig, CommonState, HandshakeKind, ServerConfig};
use rustls_pki_types::ServerName;

use self::{early::EarlyStream, records::RecordStream};
use crate::{
    driver::CRYPTO,
    layer::{Layer, Layered, Opened},
    socket::Connected,
};

/// Largest part of a message that goes into one record (RFC 8446 §5.1).
const RECORD_BYTES: usize = 16_384;

/// Maximum overhead of a record: header, content type, tag.
const RECORD_OVERHEAD: usize = 5 + 1 + 16;

/// TLS with the certificate that was made for the run.
pub(crate) struct Tls {
    end: End,
    crypto: Crypto,
    /// Whether connections begin with early data where there is a ticket.
    early: bool,
}

#[derive(Clone)]
enum End {
    Connecting(Arc<ClientConfig>, ServerName<'static>),
    Listening(Arc<ServerConfig>),
}

impl Tls {
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        let resumption = Resumption::from(order.workload.kind.handshake());
        let crypto = Crypto::read(&CRYPTO, &order.transport.options);
        let early = resumption == Resumption::EarlyData;
        let end = if order.connects() {
            let config = tls::client(&order.tls, None, resumption, crypto)?;
            let server_name = ServerName::try_from(order.tls.server_name.clone())
                .map_err(TransportError::stack("cannot use the server's name"))?;
            End::Connecting(Arc::new(config), server_name)
        } else {
            let mut config = tls::server(&order.tls, None, resumption, crypto)?;
            if early {
                early::answer_at_once(&mut config);
            }
            End::Listening(Arc::new(config))
        };
        Ok(Self { end, crypto, early })
    }
}

impl Layer for Tls {
    type Stream = TlsStream;

    fn crypto(&self) -> Option<&'static str> {
        Some(self.crypto.name())
    }

    fn open(
        &self,
        socket: Arc<Connected>,
        holds_back: bool,
        until: MonotonicTime,
    ) -> Result<Layered<TlsStream>> {
        // The listening end sends each record at once.
        let holds_back = holds_back && matches!(self.end, End::Connecting(..));
        let end = self.end.clone();
        let opened = Arc::new(OnceLock::new());
        let stream = if self.early {
            let to = Arc::clone(&opened);
            let stream = EarlyStream::open(end, socket, holds_back, to, until)?;
            TlsStream::Early(Box::new(stream))
        } else {
            let stream = RecordStream::open(end, socket, holds_back, until)?;
            let _ = opened.set(facts(stream.state()));
            TlsStream::Records(Box::new(stream))
        };
        Ok(Layered { stream, opened })
    }
}

/// Returns the parameters of a connection whose handshake is done.
fn facts(state: &CommonState) -> Opened {
    let mut facts = BTreeMap::new();
    if let Some(suite) = state.negotiated_cipher_suite() {
        facts.insert("tls.cipher_suite".to_owned(), name(&suite.suite()));
    }
    if let Some(version) = state.protocol_version() {
        // As QUIC's facts have it, which knows one version only.
        let version = name(&version).replace("TLSv", "").replace('_', ".");
        facts.insert("tls.version".to_owned(), version);
    }
    if let Some(group) = state.negotiated_key_exchange_group() {
        facts.insert("tls.key_exchange".to_owned(), name(&group.name()));
    }
    let handshake = state.handshake_kind().map(|kind| match kind {
        HandshakeKind::Resumed => HandshakeMade::Resumed,
        HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest => HandshakeMade::Full,
    });
    Opened { facts, handshake }
}

/// Returns the name of one of the protocol's constants, as its library spells it.
fn name(constant: &impl Debug) -> String {
    format!("{constant:?}")
}

fn cannot_begin(error: rustls::Error) -> TransportError {
    TransportError::stack("cannot begin TLS")(error)
}

fn failed(error: rustls::Error) -> TransportError {
    TransportError::stack("TLS failed")(error)
}

/// Returns the error of a connection that the other end closed, or on which it was silent, during
/// the handshake.
fn unfinished(over: Received, begun: MonotonicTime) -> TransportError {
    match over {
        Received::Closed => TransportError::Closed { flow: "handshake" },
        _ => TransportError::timed_out_since("end of the TLS handshake", begun),
    }
}

/// Buffer of received records that are not read yet.
struct Incoming {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Incoming {
    /// Returns an empty buffer of `room` bytes.
    fn new(room: usize) -> Self {
        Self {
            bytes: vec![0; room],
            start: 0,
            end: 0,
        }
    }

    /// Returns the unread bytes.
    fn rest(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Moves the unread bytes to the front; returns the free space after them.
    fn place(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }
}

/// A TLS connection as a stream of bytes.
pub(crate) enum TlsStream {
    Records(Box<RecordStream>),
    Early(Box<EarlyStream>),
}

impl ByteStream for TlsStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        match self {
            Self::Records(stream) => stream.send_message(header, payload),
            Self::Early(stream) => stream.send_message(header, payload),
        }
    }

    async fn flush(&mut self) -> Result<()> {
        match self {
            Self::Records(stream) => stream.flush(),
            Self::Early(stream) => stream.flush(),
        }
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
        match self {
            Self::Records(stream) => stream.receive(until, consume),
            Self::Early(stream) => stream.receive(scratch, until, consume),
        }
    }

    async fn finish(&mut self) -> Result<()> {
        match self {
            Self::Records(stream) => stream.finish(),
            Self::Early(stream) => stream.finish(),
        }
    }
}

#[cfg(test)]
mod tests;
