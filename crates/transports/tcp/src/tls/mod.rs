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
use regatta_model::Handshake;
use regatta_transport::{ByteStream, HandshakeMade, MonotonicTime, Received, TransportError};
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

enum End {
    Connecting {
        config: Arc<ClientConfig>,
        server_name: ServerName<'static>,
    },
    Listening {
        config: Arc<ServerConfig>,
    },
}

impl Tls {
    pub(crate) fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let resumption = match order.workload.kind.handshake() {
            Handshake::Full | Handshake::Retry => Resumption::Off,
            Handshake::Resumed => Resumption::Tickets,
            Handshake::EarlyData => Resumption::EarlyData,
        };
        let crypto = Crypto::read(&CRYPTO, &order.transport.options);
        let early = resumption == Resumption::EarlyData;
        let end = if order.connects() {
            let config = tls::client(&order.tls, None, resumption, crypto)?;
            let server_name = ServerName::try_from(order.tls.server_name.clone())
                .map_err(TransportError::stack("cannot use the server's name"))?;
            End::Connecting {
                config: Arc::new(config),
                server_name,
            }
        } else {
            let mut config = tls::server(&order.tls, None, resumption, crypto)?;
            if early {
                early::answer_at_once(&mut config);
            }
            End::Listening {
                config: Arc::new(config),
            }
        };
        Ok(Self { end, crypto, early })
    }
}

impl Layer for Tls {
    type Stream = TlsStream;

    fn crypto(&self) -> Option<&'static str> {
        Some(self.crypto.name())
    }

    fn client(
        &self,
        socket: Arc<Connected>,
        holds_back: bool,
        until: MonotonicTime,
    ) -> Result<Layered<TlsStream>, TransportError> {
        let End::Connecting {
            config,
            server_name,
        } = &self.end
        else {
            return Err(wrong_end());
        };
        let opened = Arc::new(OnceLock::new());
        let (config, name) = (Arc::clone(config), server_name.clone());
        let stream = if self.early {
            let to = Arc::clone(&opened);
            let stream = EarlyStream::connect((config, name), socket, holds_back, to, until)?;
            TlsStream::Early(Box::new(stream))
        } else {
            let stream = RecordStream::connect(config, name, socket, holds_back, until)?;
            let _ = opened.set(facts(stream.state()));
            TlsStream::Records(Box::new(stream))
        };
        Ok(Layered { stream, opened })
    }

    fn server(
        &self,
        socket: Arc<Connected>,
        until: MonotonicTime,
    ) -> Result<Layered<TlsStream>, TransportError> {
        let End::Listening { config } = &self.end else {
            return Err(wrong_end());
        };
        let opened = Arc::new(OnceLock::new());
        let config = Arc::clone(config);
        let stream = if self.early {
            let stream = EarlyStream::accept(config, socket, Arc::clone(&opened), until)?;
            TlsStream::Early(Box::new(stream))
        } else {
            let stream = RecordStream::accept(config, socket, until)?;
            let _ = opened.set(facts(stream.state()));
            TlsStream::Records(Box::new(stream))
        };
        Ok(Layered { stream, opened })
    }
}

fn wrong_end() -> TransportError {
    TransportError::Protocol {
        what: "a sender's TLS cannot listen, nor a receiver's connect".to_owned(),
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

fn failed(error: rustls::Error) -> TransportError {
    TransportError::stack("TLS failed")(error)
}

/// Returns the error of a connection that the other end closed, or on which it was silent, during
/// the handshake.
fn unfinished(closed: bool, begun: MonotonicTime) -> TransportError {
    if closed {
        return TransportError::Closed { flow: "handshake" };
    }
    TransportError::TimedOut {
        what: "end of the TLS handshake".to_owned(),
        seconds: MonotonicTime::now().since(begun).as_secs_f64(),
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
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<(), TransportError> {
        match self {
            Self::Records(stream) => stream.send_message(header, payload),
            Self::Early(stream) => stream.send_message(header, payload),
        }
    }

    async fn flush(&mut self) -> Result<(), TransportError> {
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
    ) -> Result<Received, TransportError> {
        match self {
            Self::Records(stream) => stream.receive(until, consume),
            Self::Early(stream) => stream.receive(scratch, until, consume),
        }
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        match self {
            Self::Records(stream) => stream.finish(),
            Self::Early(stream) => stream.finish(),
        }
    }
}

#[cfg(test)]
mod tests;
