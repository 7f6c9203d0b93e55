//! TLS 1.3 over a TCP socket, with rustls's unbuffered interface.
//!
//! It reads and writes many records with one system call and encrypts and decrypts them in buffers
//! of this module; the buffered interface reads 4 kB at a time.

use std::{
    io::IoSlice,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use regatta_model::reason;
use regatta_transport::{ByteStream, MonotonicTime, Received, Result, TransportError};
use rustls::{
    CommonState,
    client::UnbufferedClientConnection,
    server::UnbufferedServerConnection,
    unbuffered::{ConnectionState, UnbufferedStatus},
};

use super::{
    End, Incoming, RECORD_BYTES, RECORD_OVERHEAD, cannot_begin, facts, failed, unfinished,
};
use crate::{layered::Opened, socket::Connected};

/// Maximum number of full records that are encrypted before they are sent.
const OUTGOING_RECORDS: usize = 16;

/// Size of the buffer for incoming records, in bytes.
const INCOMING_BYTES: usize = 256 << 10;

/// The state machine of the protocol at either end.
enum Machine {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// Next action that the protocol needs after a step.
enum Next {
    /// Take another step.
    Again,
    /// Send the bytes in `outgoing`, then take another step.
    Send,
    /// Receive more; this end can send already.
    ReceiveOpen,
    /// Receive more, to finish the handshake.
    ReceiveHandshake,
    /// Nothing more: the other end has finished.
    Closed,
}

/// Handles one state of the protocol; returns the number of incoming bytes to discard, and the next
/// action.
fn step<D>(
    status: UnbufferedStatus<'_, '_, D>,
    outgoing: &mut Outgoing,
    consume: &mut impl FnMut(&[u8]),
) -> Result<(usize, Next)> {
    let UnbufferedStatus { mut discard, state } = status;
    let next = match state.map_err(failed)? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(failed)?;
                discard += record.discard;
                consume(record.payload);
            }
            Next::Again
        }
        ConnectionState::EncodeTlsData(mut data) => {
            // A handshake message fits; certificates of the run are below 1 kB.
            let failed = TransportError::stack(reason::cannot_encode_handshake());
            outgoing.end += data.encode(outgoing.free_space(64 << 10)).map_err(failed)?;
            Next::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            // Sent by the caller before the next step.
            data.done();
            Next::Send
        }
        ConnectionState::BlockedHandshake => Next::ReceiveHandshake,
        ConnectionState::WriteTraffic(_) => Next::ReceiveOpen,
        ConnectionState::PeerClosed | ConnectionState::Closed => Next::Closed,
        other => {
            return Err(TransportError::protocol(reason::tls_state(&format!(
                "{other:?}"
            ))));
        }
    };
    Ok((discard, next))
}

/// Buffer of records that are not sent yet. What was sent is overwritten, not zeroed again.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    end: usize,
}

impl Outgoing {
    /// Returns `length` bytes of free space after the records; `end` moves over what is written.
    fn free_space(&mut self, length: usize) -> &mut [u8] {
        let end = self.end + length;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.end..end]
    }
}

/// A TLS connection whose handshake is done.
pub struct RecordStream {
    machine: Machine,
    socket: Arc<Connected>,
    holds_back: bool,
    incoming: Incoming,
    outgoing: Outgoing,
    /// A message's header with the beginning of its payload.
    first_record: Vec<u8>,
    /// Data that arrived in one read with the end of the handshake.
    with_handshake: Vec<u8>,
}

impl RecordStream {
    /// Returns rustls's state of the connection.
    fn state(&self) -> &CommonState {
        match &self.machine {
            Machine::Client(client) => client,
            Machine::Server(server) => server,
        }
    }

    /// Takes steps until the protocol needs bytes from the other end, or has ended.
    fn advance(&mut self, consume: &mut impl FnMut(&[u8])) -> Result<Next> {
        loop {
            let incoming = self.incoming.rest();
            let to = &mut self.outgoing;
            let (discard, next) = match &mut self.machine {
                Machine::Client(client) => step(client.process_tls_records(incoming), to, consume)?,
                Machine::Server(server) => step(server.process_tls_records(incoming), to, consume)?,
            };
            self.incoming.start += discard;
            match next {
                Next::Again => {}
                Next::Send => self.send_outgoing()?,
                Next::ReceiveOpen | Next::ReceiveHandshake | Next::Closed => return Ok(next),
            }
        }
    }

    fn send_outgoing(&mut self) -> Result<()> {
        let records = &self.outgoing.bytes[..self.outgoing.end];
        self.socket.send_all(&mut [IoSlice::new(records)])?;
        self.outgoing.end = 0;
        Ok(())
    }

    fn shake_hands(&mut self, until: MonotonicTime) -> Result<()> {
        let begun = MonotonicTime::now();
        let mut early = Vec::new();
        loop {
            match self.advance(&mut |piece: &[u8]| early.extend_from_slice(piece))? {
                Next::ReceiveOpen => {
                    self.with_handshake = early;
                    return Ok(());
                }
                Next::Closed => return Err(unfinished(Received::Closed, begun)),
                _ => {}
            }
            match self.socket.receive(self.incoming.free_space(), until)? {
                Received::Bytes(received) => self.incoming.end += received,
                over => return Err(unfinished(over, begun)),
            }
        }
    }

    /// Encrypts `plain` and appends it to `outgoing`.
    fn encrypt(&mut self, plain: &[u8]) -> Result<()> {
        let records = plain.len().div_ceil(RECORD_BYTES);
        let buffer = (self.outgoing).free_space(plain.len() + records * RECORD_OVERHEAD);
        self.outgoing.end += match &mut self.machine {
            Machine::Client(client) => encrypt(client.process_tls_records(&mut []), plain, buffer)?,
            Machine::Server(server) => encrypt(server.process_tls_records(&mut []), plain, buffer)?,
        };
        Ok(())
    }

    /// Opens a stream, and completes the handshake.
    pub(crate) fn open(
        end: End,
        socket: Arc<Connected>,
        holds_back: bool,
        opened: &Arc<OnceLock<Opened>>,
        until: MonotonicTime,
    ) -> Result<Self> {
        let machine = match end {
            End::Connecting(config, server_name) => {
                UnbufferedClientConnection::new(config, server_name).map(Machine::Client)
            }
            End::Listening(config) => UnbufferedServerConnection::new(config).map(Machine::Server),
        }
        .map_err(cannot_begin)?;
        let mut stream = Self {
            machine,
            socket,
            holds_back,
            incoming: Incoming::new(INCOMING_BYTES),
            outgoing: Outgoing::default(),
            first_record: Vec::with_capacity(RECORD_BYTES),
            with_handshake: Vec::new(),
        };
        stream.shake_hands(until)?;
        let _ = opened.set(facts(stream.state()));
        Ok(stream)
    }
}

impl ByteStream for RecordStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        let mut rest = &payload[..];
        if !header.is_empty() {
            // A record of its own for a header would cost as much as a full one.
            let with_header = rest.len().min(RECORD_BYTES.saturating_sub(header.len()));
            let mut first = std::mem::take(&mut self.first_record);
            first.clear();
            first.extend_from_slice(header);
            first.extend_from_slice(&rest[..with_header]);
            let encrypted = self.encrypt(&first);
            self.first_record = first;
            encrypted?;
            rest = &rest[with_header..];
        }
        let room = OUTGOING_RECORDS * RECORD_BYTES;
        loop {
            let now = (rest.len()).min(room.saturating_sub(self.outgoing.end).max(1));
            let now = now.next_multiple_of(RECORD_BYTES).min(rest.len());
            if now > 0 {
                self.encrypt(&rest[..now])?;
                rest = &rest[now..];
            }
            self.send_outgoing()?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    async fn flush(&mut self) -> Result<()> {
        self.socket.flush(self.holds_back)
    }

    async fn receive(
        &mut self,
        _scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
        if !self.with_handshake.is_empty() {
            let early = std::mem::take(&mut self.with_handshake);
            consume(&early);
            return Ok(Received::Bytes(early.len()));
        }
        let mut total = 0;
        loop {
            // Whole records may be there from the handshake's last packets.
            let next = self.advance(&mut |piece: &[u8]| {
                total += piece.len();
                consume(piece);
            })?;
            if total > 0 {
                return Ok(Received::Bytes(total));
            }
            if matches!(next, Next::Closed) {
                return Ok(Received::Closed);
            }
            match self.socket.receive(self.incoming.free_space(), until)? {
                Received::Bytes(received) => self.incoming.end += received,
                over => return Ok(over),
            }
        }
    }

    async fn finish(&mut self) -> Result<()> {
        self.socket.finish()
    }
}

/// Encrypts `plain` to `buffer`; returns the number of bytes written.
fn encrypt<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plain: &[u8],
    buffer: &mut [u8],
) -> Result<usize> {
    let ConnectionState::WriteTraffic(mut traffic) = status.state.map_err(failed)? else {
        return Err(TransportError::protocol(reason::tls_not_sending()));
    };
    let written = traffic.encrypt(plain, buffer);
    written.map_err(TransportError::stack(reason::cannot_encrypt()))
}
