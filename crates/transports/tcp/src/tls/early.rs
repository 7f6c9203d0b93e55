//! TLS with data in the first flight (RFC 8446 §2.3), over rustls's buffered interface.
//!
//! The ClientHello is sent with the first data, in one packet where both fit. Early data is kept
//! until the other end has accepted it, and sent again if it is refused.

use std::{
    io::{self, IoSlice, Read as _, Write},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use regatta_model::reason;
use regatta_transport::{
    ByteStream, HandshakeMade, MonotonicTime, Received, Result, TransportError,
};
use rustls::{ClientConnection, CommonState, Connection, ServerConfig, ServerConnection};

use super::{End, Incoming, RECORD_OVERHEAD, cannot_begin, facts, failed, unfinished};
use crate::{layered::Opened, socket::Connected};

/// Maximum early data of a connecting end, in bytes including the records' overhead: with a
/// ClientHello before it they fill TCP's initial window of ten packets (RFC 6928), so that more
/// would not arrive any sooner. rustls holds what it refuses in a buffer of one record of the
/// largest size.
const SENT_BYTES: usize = 13 << 10;

/// Maximum early data that a listening end accepts, in bytes.
///
/// As much is skipped when early data is refused, and rustls then counts each record again whenever
/// anything arrives, until the handshake goes on: a thousand times the data sent is out of reach.
const TAKEN_BYTES: u32 = 1000 * SENT_BYTES as u32;

/// Size of the buffer for incoming records, in bytes.
const INCOMING_BYTES: usize = 32 << 10;

/// Configures a listening end to accept early data and answer it before the handshake is done.
///
/// The client is not authenticated by then, and its early data may be a replay. It is enough here
/// that the stack accepts each ticket once, and that the trial's token stands before each request.
pub(super) fn answer_at_once(config: &mut ServerConfig) {
    config.max_early_data_size = TAKEN_BYTES;
    config.send_half_rtt_data = true;
}

/// Early data of a connecting end.
struct Early {
    /// Bytes sent, kept in case they are refused.
    sent: Vec<u8>,
    /// Bytes that may still be sent, including the records' overhead.
    room: usize,
}

impl Early {
    /// Writes as much of a message as may be early data; returns the number of bytes.
    fn take(
        &mut self,
        client: &mut ClientConnection,
        header: &[u8],
        payload: &[u8],
    ) -> Result<usize> {
        let Some(mut writer) = client.early_data() else {
            return Ok(0);
        };
        let room = self.room.min(writer.bytes_left());
        let room = room.saturating_sub(RECORD_OVERHEAD);
        let header = &header[..header.len().min(room)];
        let payload = &payload[..payload.len().min(room - header.len())];
        // One piece, so that it is one record.
        let start = self.sent.len();
        self.sent.extend_from_slice(header);
        self.sent.extend_from_slice(payload);
        let taken = writer
            .write(&self.sent[start..])
            .map_err(TransportError::io(reason::cannot_encrypt_early_data()))?;
        self.sent.truncate(start + taken);
        self.room = self.room.saturating_sub(taken + RECORD_OVERHEAD);
        Ok(taken)
    }
}

/// Writer of records to the socket.
impl Write for &Connected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A TLS connection that may begin with early data.
pub struct EarlyStream {
    tls: Connection,
    socket: Arc<Connected>,
    holds_back: bool,
    incoming: Incoming,
    /// State of early data at a connecting end with a ticket, until its handshake is done.
    early: Option<Early>,
    /// Whether this end sends nothing more.
    finished: bool,
    /// Set when the handshake is done.
    opened: Arc<OnceLock<Opened>>,
}

impl EarlyStream {
    /// Whether this end has accepted early data.
    fn takes_early_data(&mut self) -> bool {
        match &mut self.tls {
            Connection::Server(server) => server.early_data().is_some(),
            Connection::Client(_) => false,
        }
    }

    /// Continues the handshake until this end may send application data. Its own last flight is not
    /// sent yet, so that it can share a packet with data.
    fn shake_hands(&mut self, until: MonotonicTime) -> Result<()> {
        let begun = MonotonicTime::now();
        while self.tls.is_handshaking() && !self.takes_early_data() {
            match self.advance(until)? {
                Received::Bytes(_) => {}
                over => return Err(unfinished(over, begun)),
            }
        }
        Ok(())
    }

    /// Passes received bytes to TLS; sends pending records before it waits for more.
    fn advance(&mut self, until: MonotonicTime) -> Result<Received> {
        if self.incoming.rest().is_empty() {
            self.send_records()?;
            match self.socket.receive(self.incoming.free_space(), until)? {
                Received::Bytes(received) => self.incoming.end += received,
                other => return Ok(other),
            }
        }
        let mut rest: &[u8] = self.incoming.rest();
        let failed_to_take = TransportError::io(reason::cannot_take_records());
        let taken = self.tls.read_tls(&mut rest).map_err(failed_to_take)?;
        if taken == 0 {
            // The other end has ended its direction.
            return Ok(Received::Closed);
        }
        self.incoming.start += taken;
        if let Err(error) = self.tls.process_new_packets() {
            // The alert has the reason for the other end, if it is still there.
            let _ = self.send_records();
            return Err(failed(error));
        }
        if !self.tls.is_handshaking() && self.opened.get().is_none() {
            self.note_handshake()?;
        }
        Ok(Received::Bytes(taken))
    }

    /// Records the kind of the finished handshake, and sends refused early data again.
    fn note_handshake(&mut self) -> Result<()> {
        let early = self.early.take().filter(|early| !early.sent.is_empty());
        let taken = match &self.tls {
            Connection::Client(client) => client.is_early_data_accepted(),
            Connection::Server(_) => false,
        };
        let taken_here = self.takes_early_data();
        let state: &CommonState = &self.tls;
        let mut opened = facts(state);
        if taken_here || (early.is_some() && taken) {
            opened.handshake = Some(HandshakeMade::EarlyDataTaken);
        } else if early.is_some() {
            opened.handshake = Some(HandshakeMade::EarlyDataRefused);
        }
        let _ = self.opened.set(opened);
        let Some(early) = early.filter(|_| !taken) else {
            return Ok(());
        };
        self.write(&mut [IoSlice::new(&early.sent)])?;
        self.socket.flush(self.holds_back)
    }

    /// Encrypts and sends all of the parts; the handshake must allow that.
    fn write(&mut self, parts: &mut [IoSlice<'_>]) -> Result<()> {
        let mut parts = parts;
        // Empty parts at the front would look like a connection that takes nothing.
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let taken = self.tls.writer().write_vectored(parts);
            let taken = taken.map_err(TransportError::io(reason::cannot_encrypt()))?;
            IoSlice::advance_slices(&mut parts, taken);
            self.send_records()?;
        }
        Ok(())
    }

    /// Sends the records that rustls has pending.
    fn send_records(&mut self) -> Result<()> {
        // Behind its own end nothing can be sent any more: tickets that would follow are not.
        while !self.finished && self.tls.wants_write() {
            let written = self.tls.write_tls(&mut &*self.socket);
            written.map_err(TransportError::io(reason::cannot_send()))?;
        }
        Ok(())
    }

    /// Reads decrypted data into `buffer`, in the order in which it was sent; returns the number of
    /// bytes.
    fn decrypted(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let failed = || TransportError::io(reason::cannot_read_decrypted());
        if let Connection::Server(server) = &mut self.tls
            && let Some(mut early) = server.early_data()
        {
            let received = early.read(buffer).map_err(failed())?;
            if received > 0 {
                return Ok(received);
            }
        }
        match self.tls.reader().read(buffer) {
            Ok(received) => Ok(received),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(failed()(error)),
        }
    }

    /// Opens a stream. At a connecting end with a ticket that allows early data this sends nothing and does not wait;
    /// otherwise it returns when the handshake is done or, at a listening end, early data can be read.
    pub(crate) fn open(
        end: End,
        socket: Arc<Connected>,
        holds_back: bool,
        opened: &Arc<OnceLock<Opened>>,
        until: MonotonicTime,
    ) -> Result<Self> {
        let mut early = None;
        let tls: Connection = match end {
            End::Connecting(config, server_name) => {
                let client = ClientConnection::new(config, server_name);
                let mut client = client.map_err(cannot_begin)?;
                early = client.early_data().map(|_| Early {
                    sent: Vec::new(),
                    room: SENT_BYTES,
                });
                client.into()
            }
            End::Listening(config) => ServerConnection::new(config).map_err(cannot_begin)?.into(),
        };
        let mut stream = Self {
            tls,
            socket,
            holds_back,
            incoming: Incoming::new(INCOMING_BYTES),
            early,
            finished: false,
            opened: Arc::clone(opened),
        };
        if stream.early.is_none() {
            stream.shake_hands(until)?;
            stream.send_records()?;
        }
        Ok(stream)
    }
}

impl ByteStream for EarlyStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        let mut taken = 0;
        if let (Some(early), Connection::Client(client)) = (&mut self.early, &mut self.tls) {
            taken = early.take(client, header, payload)?;
            if taken == header.len() + payload.len() {
                return self.send_records();
            }
            // The rest waits for the end of the handshake.
            self.shake_hands(MonotonicTime::NEVER)?;
        }
        let of_header = taken.min(header.len());
        self.write(&mut [
            IoSlice::new(&header[of_header..]),
            IoSlice::new(&payload[taken - of_header..]),
        ])
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
        loop {
            let received = self.decrypted(scratch)?;
            if received > 0 {
                consume(&scratch[..received]);
                // What ends the handshake does not wait for the next call.
                self.send_records()?;
                return Ok(Received::Bytes(received));
            }
            match self.advance(until)? {
                Received::Bytes(_) => {}
                over => return Ok(over),
            }
        }
    }

    async fn finish(&mut self) -> Result<()> {
        if self.early.is_some() {
            // Without the last handshake message the other end would not accept what it got.
            self.shake_hands(MonotonicTime::NEVER)?;
        }
        self.send_records()?;
        self.finished = true;
        self.socket.finish()
    }
}
