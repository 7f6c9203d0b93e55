//! TLS 1.3 over a TCP socket, with rustls.
//!
//! - `records` is a stream over rustls's unbuffered interface, for bulk data.
//! - `early` is a stream over its buffered interface, which alone reports whether early data was
//!   accepted, for workloads that ask for early data.

mod early;
mod records;

use std::{
    fmt::Debug,
    sync::{Arc, OnceLock},
};

use regatta_control::TrialOrder;
use regatta_model::{Facts, Handshake, Text, reason};
use regatta_transport::{HandshakeMade, MonotonicTime, Received, Result, TransportError};
use regatta_transport_tls::{self as tls, Crypto};
use rustls::{ClientConfig, CommonState, HandshakeKind, ServerConfig};
use rustls_pki_types::ServerName;

pub(crate) use self::{early::EarlyStream, records::RecordStream};
use crate::{
    layered::{Layered, Opened},
    settings::TlsOptions,
    socket::Connected,
};

/// Largest part of a message that goes into one record (RFC 8446 §5.1).
const RECORD_BYTES: usize = 16_384;

/// Maximum overhead of a record: header, content type, tag.
const RECORD_OVERHEAD: usize = 5 + 1 + 16;

/// Opens a TLS connection as a stream of bytes, at this end, until this moment at the latest; the cell is set when the
/// handshake is done. The flag is [`Tls::open`]'s `holds_back`.
type Open<S> = fn(End, Arc<Connected>, bool, &Arc<OnceLock<Opened>>, MonotonicTime) -> Result<S>;

/// TLS with the certificate that was made for the run, over streams of type `S`.
pub struct Tls<S> {
    end: End,
    crypto: Crypto,
    /// Fact of the certificate.
    certificate: Text,
    open: Open<S>,
}

/// Configuration of this end.
#[derive(Clone)]
pub(crate) enum End {
    Connecting(Arc<ClientConfig>, ServerName<'static>),
    Listening(Arc<ServerConfig>),
}

impl<S> Tls<S> {
    pub(crate) fn new(order: &TrialOrder, open: Open<S>) -> Result<Self> {
        let handshake = order.workload.kind.handshake();
        let TlsOptions { crypto } = TlsOptions::read(&order.transport.options);
        let end = if order.connects() {
            let config = tls::client(&order.tls, None, handshake, crypto)?;
            let server_name = ServerName::try_from(order.tls.server_name.clone())
                .map_err(TransportError::stack(reason::cannot_use_server_name()))?;
            End::Connecting(Arc::new(config), server_name)
        } else {
            let mut config = tls::server(&order.tls, None, handshake, crypto)?;
            if handshake == Handshake::EarlyData {
                early::answer_at_once(&mut config);
            }
            End::Listening(Arc::new(config))
        };
        Ok(Self {
            end,
            crypto,
            certificate: tls::certificate_fact(&order.tls),
            open,
        })
    }
}

impl<S> Tls<S> {
    /// Returns the facts that are known before a handshake, at `end`, `sender` or `receiver`.
    pub(crate) fn facts(&self, end: &str) -> Facts {
        let of_both = [
            ("tls.key_exchange", tls::KEY_EXCHANGE),
            ("tls.certificate", &self.certificate),
        ];
        let of_sender = ("crypto.sender", self.crypto.name());
        (of_both.into_iter())
            .chain((end == "sender").then_some(of_sender))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Opens a stream at this end. `holds_back` is true if Nagle's algorithm may be on.
    pub(crate) fn open(
        &self,
        socket: Arc<Connected>,
        holds_back: bool,
        until: MonotonicTime,
    ) -> Result<Layered<S>> {
        // The listening end sends each record at once.
        let holds_back = holds_back && matches!(self.end, End::Connecting(..));
        let opened = Arc::new(OnceLock::new());
        let stream = (self.open)(self.end.clone(), socket, holds_back, &opened, until)?;
        Ok(Layered { stream, opened })
    }
}

/// Returns the parameters of a connection whose handshake is done.
fn facts(state: &CommonState) -> Opened {
    let mut facts = Facts::default();
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
    TransportError::stack(reason::cannot_begin_tls())(error)
}

fn failed(error: rustls::Error) -> TransportError {
    TransportError::stack(reason::tls_failed())(error)
}

/// Returns the error of a connection that the other end closed, or on which it was silent, during
/// the handshake.
fn unfinished(over: Received, begun: MonotonicTime) -> TransportError {
    match over {
        Received::Closed => TransportError::Closed { flow: "handshake" },
        _ => TransportError::timed_out_since(reason::end_of_tls_handshake(), begun),
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
    fn free_space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }
}

#[cfg(test)]
mod tests;
