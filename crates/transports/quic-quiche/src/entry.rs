//! State of one connection: quiche's own, the packets that wait for the kernel, and the wakers of
//! waiting tasks.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    io,
    net::SocketAddr,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use quiche::{BufFactory, ConnectionId, RecvInfo, Shutdown};
use regatta_model::reason;
use regatta_transport::{Result, TransportError};
use regatta_transport_sockets::driver::{Admission, Connection, Transmit, Wakers};

use crate::{
    end::{CLOSE_BYTES, CLOSE_PATIENCE, CLOSE_REPEATS, Closing, End, RepeatedClose},
    migration::Migration,
    tls,
};

/// Length of this end's connection identifiers, in bytes.
pub(crate) const ID_BYTES: usize = 16;

/// Longest packet that quiche writes, in bytes: the largest value of a two-byte length.
pub(crate) const LONGEST_PACKET_BYTES: usize = 16_383;

/// Maximum number of packets that are kept for a connection that is not accepted.
const MAX_HELD: usize = 16;

/// Application error code of a connection that is closed in good order.
const DONE: u64 = 0;

/// Application error code of a connection, or a stream, that was aborted, by the deadline or from
/// outside.
pub(crate) const ABORTED: u64 = 1;

/// Value of BoringSSL's early-data reason when the server has accepted early data.
const EARLY_DATA_ACCEPTED: u32 = 2;

/// Type parameter of a quiche connection for stream data that quiche keeps without a copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces;

impl BufFactory for Pieces {
    type Buf = Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(slice: &[u8]) -> Bytes {
        Bytes::copy_from_slice(slice)
    }

    fn dgram_buf_from_slice(slice: &[u8]) -> Vec<u8> {
        slice.to_vec()
    }
}

pub(crate) type Quiche = quiche::Connection<Pieces>;

/// Properties of a connection that its end gives it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// Whether this end opens the connection.
    pub client: bool,
    /// Whether the connection carries datagrams instead of streams. Queued datagrams are still sent when it is stopped.
    pub carries_datagrams: bool,
    /// Whether packets wait for the time that the congestion control sets (pacing).
    pub paces: bool,
}

/// State of one connection.
pub(crate) struct Entry {
    pub quiche: Quiche,
    pub kind: Kind,
    peer: SocketAddr,
    /// First packets of a connection that was not accepted, so that its handshake has not begun.
    held: Option<Vec<(Vec<u8>, RecvInfo)>>,
    /// Whether everything that could be sent was sent. Only then is quiche's figure for stream
    /// capacity right: it counts the room in the congestion window, and not the data that quiche
    /// already holds.
    pub flushed: bool,
    /// Wakers of the tasks that read from streams, and of those that write to them.
    pub readers: HashMap<u64, Waker>,
    pub writers: HashMap<u64, Waker>,
    /// Wakers of tasks that wait for room to send, other than the writers of streams.
    pub senders: Wakers,
    /// Wakers of tasks that wait for anything else.
    pub watchers: Wakers,
    /// Streams that the other end opened and the application has not taken.
    pub opened: VecDeque<u64>,
    next_remote: u64,
    next_local: u64,
    /// Streams with an open handle.
    pub open_streams: BTreeSet<u64>,
    pub end: Option<End>,
    /// Error that quiche returned when it failed.
    failure: Option<quiche::Error>,
    closing: Option<Closing>,
    repeated_close: Option<RepeatedClose>,
    answers: bool,
    /// Whether the connection's owner was dropped.
    released: bool,
    /// Whether the flow of datagrams is stopped: no more are taken, and queued ones are sent.
    pub halted: bool,
    /// Whether early data could be sent, or was accepted.
    pub early: bool,
    was_established: bool,
    ticket_address: usize,
    /// Result of the migration, if one was tried.
    pub migration: Option<Migration>,
    datagrams_taken: usize,
}

impl Entry {
    pub fn new(quiche: Quiche, peer: SocketAddr, kind: Kind) -> Self {
        Self {
            quiche,
            kind,
            peer,
            held: (!kind.client).then(Vec::new),
            flushed: true,
            readers: HashMap::new(),
            writers: HashMap::new(),
            senders: Wakers::default(),
            watchers: Wakers::default(),
            opened: VecDeque::new(),
            // Two lowest bits of a stream's number: who opened it, and 0 for both directions
            // (RFC 9000 §2.1).
            next_remote: kind.client.into(),
            next_local: (!kind.client).into(),
            open_streams: BTreeSet::new(),
            end: None,
            failure: None,
            closing: None,
            repeated_close: None,
            answers: false,
            released: false,
            halted: false,
            early: false,
            was_established: false,
            ticket_address: 0,
            migration: None,
            datagrams_taken: 0,
        }
    }

    /// Whether streams can be opened: the handshake is done, or early data can be sent or read.
    pub fn is_usable(&self) -> bool {
        self.quiche.is_established() || self.early
    }

    /// Returns the kind of handshake that the connection made.
    pub fn handshake(&self) -> regatta_transport::HandshakeMade {
        use regatta_transport::HandshakeMade as Made;
        let taken = self.quiche.early_data_reason() == EARLY_DATA_ACCEPTED;
        match (self.early, taken, self.quiche.is_resumed()) {
            (true, true, _) => Made::EarlyDataTaken,
            (true, false, _) => Made::EarlyDataRefused,
            (false, _, true) => Made::Resumed,
            (false, _, false) => Made::Full,
        }
    }

    /// Records that this stream has no open handle any more.
    pub fn forget_stream(&mut self, stream: u64) {
        self.open_streams.remove(&stream);
        self.readers.remove(&stream);
        self.writers.remove(&stream);
    }

    /// Returns the next stream of this end, if the other end allows one more.
    pub fn open(&mut self) -> Option<u64> {
        let stream = self.next_local;
        // Creates it, with quiche's own priority.
        const URGENCY: u8 = 127;
        self.quiche.stream_priority(stream, URGENCY, true).ok()?;
        self.next_local += 4;
        Some(stream)
    }

    /// Processes a received packet.
    pub fn receive(&mut self, packet: &mut [u8], recv_info: RecvInfo) {
        if let Some(held) = &mut self.held {
            if held.len() < MAX_HELD {
                held.push((packet.to_vec(), recv_info));
            }
            return;
        }
        if self.repeated_close.is_some() {
            // RFC 9000, 10.2.1: a peer that still sends has not got the close.
            self.answers = true;
        }
        if let Err(error) = self.quiche.recv(packet, recv_info) {
            self.failure.get_or_insert(error);
        }
    }

    /// Begins the handshake of a connection that is accepted.
    fn accept(&mut self) {
        for (mut packet, recv_info) in self.held.take().into_iter().flatten() {
            self.receive(&mut packet, recv_info);
        }
    }

    /// Keeps the closing packet for repetition, if this end closed the connection.
    fn keep_close(&mut self, now: Instant, packet: &[u8], transmit: Transmit) {
        if self.quiche.local_error().is_none() {
            return;
        }
        let draining = self
            .quiche
            .timeout_instant()
            .map_or(Duration::ZERO, |end| end.saturating_duration_since(now));
        let every = draining / (CLOSE_REPEATS + 1);
        self.repeated_close = Some(RepeatedClose {
            packet: packet.to_vec(),
            transmit,
            every,
            next: now + every,
            left: CLOSE_REPEATS,
        });
    }

    /// Writes the closing packet again if it is due, or the other end still sends.
    fn repeat_close(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        let answers = std::mem::take(&mut self.answers);
        let repeated = self.repeated_close.as_mut()?;
        let due = repeated.next <= now;
        if !due && !answers {
            return None;
        }
        let transmit = repeated.transmit;
        buffer[..transmit.bytes].copy_from_slice(&repeated.packet);
        if due {
            repeated.left -= 1;
            repeated.next = now + repeated.every;
            if repeated.left == 0 {
                self.repeated_close = None;
            }
        }
        Some(transmit)
    }

    /// Whether the closing packet is still to be sent.
    pub fn is_closing(&self) -> bool {
        let closed = self.quiche.is_draining() || self.quiche.is_closed();
        !self.flushed
            || (!closed && (self.closing.is_some() || self.quiche.local_error().is_some()))
    }

    /// Stops the flow of datagrams: no more are taken, and queued ones are sent.
    fn halt(&mut self) {
        self.halted = true;
        self.wake_everybody();
    }

    /// Whether no datagrams wait to be sent, or the connection has ended.
    pub fn has_sent_datagrams(&self) -> bool {
        let waiting = self.quiche.dgram_send_queue_len();
        self.end.is_some() || (waiting == 0 && self.flushed)
    }

    /// Discards the datagrams that wait to be sent, and returns their number.
    pub fn give_up_datagrams(&mut self) -> usize {
        let waiting = self.quiche.dgram_send_queue_len();
        self.quiche.dgram_purge_outgoing(|_| true);
        waiting
    }

    /// Ends the connection, if it has not ended yet.
    pub fn close(&mut self, end: End) {
        let (code, reason): (_, &[u8]) = match end {
            End::Done => (DONE, b"done"),
            _ => (ABORTED, b"stopped"),
        };
        if self.end.is_none() && self.quiche.is_established() {
            if end == End::Stopped {
                // What waits to be sent is not wanted any more, and would take the room.
                for stream in std::mem::take(&mut self.open_streams) {
                    let _ = self
                        .quiche
                        .stream_shutdown(stream, Shutdown::Write, ABORTED);
                }
            }
            self.closing = self.open().map(|gauge| Closing {
                code,
                reason,
                since: Instant::now(),
                gauge,
            });
        }
        if self.closing.is_none() {
            // One that has ended already is reported as such.
            let _ = self.quiche.close(true, code, reason);
        }
        if self.end.is_none() {
            self.end = Some(end);
        }
        self.wake_everybody();
    }

    /// Closes the connection once there is room for the closing packet, or [`CLOSE_PATIENCE`] has
    /// passed.
    fn close_with_room(&mut self, now: Instant) {
        let Some(closing) = &self.closing else {
            return;
        };
        let room = self.quiche.stream_capacity(closing.gauge);
        let late = now.saturating_duration_since(closing.since) >= CLOSE_PATIENCE;
        if late || room.is_ok_and(|room| room >= CLOSE_BYTES) {
            let _ = self.quiche.close(true, closing.code, closing.reason);
            self.closing = None;
        }
    }

    fn wake_everybody(&mut self) {
        self.readers.drain().for_each(|(_, waker)| waker.wake());
        self.writers.drain().for_each(|(_, waker)| waker.wake());
        self.senders.wake();
        self.watchers.wake();
    }

    /// Returns the reason for which the connection has ended, according to quiche; `None` while it
    /// is open.
    fn ended(&self) -> Option<End> {
        if let Some(error) = self.quiche.peer_error() {
            return Some(match (error.is_app, error.error_code) {
                (true, DONE) => End::Done,
                (application, code) => End::ClosedByPeer {
                    application,
                    code,
                    reason: String::from_utf8_lossy(&error.reason).into_owned(),
                },
            });
        }
        if self.quiche.is_timed_out() {
            return Some(End::Idle);
        }
        if let Some(error) = self.quiche.local_error() {
            return Some(match error.error_code {
                tls::BAD_CERTIFICATE if !error.is_app => End::Certificate,
                code => End::ClosedByStack(code, self.failure),
            });
        }
        self.quiche.is_closed().then_some(End::Unknown)
    }

    /// Takes over the new state of quiche, and wakes the tasks that wait for a change.
    fn notice(&mut self) {
        if self.end.is_none() {
            self.end = self.ended();
            if self.end.is_some() {
                self.wake_everybody();
            }
        }
        if self.released && self.end.is_none() {
            self.release();
        }
        let mut changed = false;
        self.early |= self.quiche.is_in_early_data();
        if self.is_usable() && !self.was_established {
            self.was_established = true;
            changed = true;
        }
        while let Some(stream) = self.quiche.stream_readable_next() {
            while self.is_remote(stream) && self.next_remote <= stream {
                self.opened.push_back(self.next_remote);
                self.next_remote += 4;
                changed = true;
            }
            if let Some(waker) = self.readers.remove(&stream) {
                waker.wake();
            }
        }
        // quiche acts on them by itself.
        while self.quiche.path_event_next().is_some() {}
        if self.flushed {
            let quiche = &mut self.quiche;
            self.writers.retain(|stream, waker| {
                // A stream that has failed is included.
                let waits = matches!(quiche.stream_capacity(*stream), Ok(0));
                if !waits {
                    waker.wake_by_ref();
                }
                waits
            });
            self.senders.wake();
        }
        if changed || self.quiche.dgram_recv_queue_len() > 0 {
            self.watchers.wake();
        }
    }

    const fn is_remote(&self, stream: u64) -> bool {
        // 1 for those of the server, 2 for those of one direction.
        stream & 3 == self.kind.client as u64
    }

    /// Returns the next datagram that has arrived.
    pub fn take_datagram(&mut self) -> Option<Vec<u8>> {
        let datagram = self.quiche.dgram_recv_buf().ok()?;
        self.datagrams_taken += 1;
        Some(datagram)
    }

    /// Returns the number of datagrams that arrived and were not taken by the application: quiche
    /// drops the oldest of a full queue.
    pub fn datagrams_not_taken(&self) -> usize {
        let arrived = self.quiche.stats().dgram_recv;
        let known = self.datagrams_taken + self.quiche.dgram_recv_queue_len();
        arrived.saturating_sub(known)
    }

    /// Returns a ticket that arrived since the last call, if there is one.
    pub fn new_ticket(&mut self) -> Option<Vec<u8>> {
        let ticket = self.quiche.session()?;
        // The address of quiche's copy distinguishes a new ticket from an old one.
        let address = ticket.as_ptr() as usize;
        if address == self.ticket_address {
            return None;
        }
        self.ticket_address = address;
        Some(ticket.to_vec())
    }

    /// Issues spare connection identifiers to the other end; returns the new ones.
    pub fn issue_ids(&mut self) -> Vec<Vec<u8>> {
        let mut issued = Vec::new();
        while self.quiche.is_established() && self.end.is_none() && self.quiche.scids_left() > 0 {
            let (Ok(own), Ok(token)) = (tls::random::<ID_BYTES>(), tls::random::<16>()) else {
                break;
            };
            let id = ConnectionId::from_ref(&own);
            let token = u128::from_be_bytes(token);
            if self.quiche.new_scid(&id, token, false).is_err() {
                break;
            }
            issued.push(own.to_vec());
        }
        issued
    }
}

impl Connection for Entry {
    const LONGEST_PACKET_BYTES: usize = LONGEST_PACKET_BYTES;

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        self.close_with_room(now);
        let was_draining = self.quiche.is_draining();
        // Once more after an error: quiche sends it in its next packet.
        for _ in 0..2 {
            match self.quiche.send(buffer) {
                Ok((bytes, info)) => {
                    let transmit = Transmit {
                        bytes,
                        from: Some(info.from),
                        to: info.to,
                        at: self.kind.paces.then_some(info.at),
                    };
                    let closes = !was_draining && self.quiche.is_draining();
                    if closes && self.repeated_close.is_none() {
                        self.keep_close(now, &buffer[..bytes], transmit);
                    }
                    return Some(transmit);
                }
                Err(quiche::Error::Done) => break,
                Err(error) => {
                    self.failure.get_or_insert(error);
                    let _ = self.quiche.close(false, 0x1, b"");
                }
            }
        }
        self.repeat_close(now, buffer)
    }

    fn next_timeout(&self) -> Option<Instant> {
        let repeated = self.repeated_close.as_ref().map(|repeated| repeated.next);
        let closing = self.closing.as_ref();
        let closing = closing.map(|closing| closing.since + CLOSE_PATIENCE);
        let timers = [self.quiche.timeout_instant(), repeated, closing];
        timers.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.quiche.timeout_instant().is_some_and(|at| at <= now) {
            self.quiche.on_timeout();
        }
    }

    fn update(&mut self, flushed: bool) {
        self.flushed = flushed;
        self.notice();
    }

    fn poll_open(&mut self, context: &Context<'_>) -> Poll<Result<()>> {
        self.accept();
        if let Some(end) = &self.end {
            let peer = self.peer.ip().to_string();
            let what = if self.kind.client {
                reason::cannot_connect(&peer)
            } else {
                reason::quic_handshake_failed(&peer)
            };
            return Poll::Ready(Err(match end {
                End::Stopped => TransportError::Cancelled,
                end => end.error(what),
            }));
        }
        if self.is_usable() {
            return Poll::Ready(Ok(()));
        }
        self.watchers.register(context);
        Poll::Pending
    }

    fn abort(&mut self) {
        if self.kind.carries_datagrams && self.end.is_none() {
            // What stops the flow does not close the connection: what waits is sent first.
            self.halt();
        } else {
            self.close(End::Stopped);
        }
    }

    fn release(&mut self) {
        self.released = true;
        if self.held.is_some() {
            self.end = Some(End::Done);
        } else if self.quiche.dgram_send_queue_len() == 0 || self.end.is_some() {
            self.close(End::Done);
        }
    }

    fn fail(&mut self, _error: &io::Error) {
        // The packets are lost, and sent again until the idle timeout ends the connection.
    }

    fn waits_to_close(&self) -> bool {
        // Datagrams that wait to be sent go first.
        self.held.is_none() && (self.is_closing() || (self.released && self.end.is_none()))
    }

    fn is_over(&self) -> bool {
        let closed = self.quiche.is_closed() || self.quiche.is_draining();
        let close_done = !self.waits_to_close() && self.repeated_close.is_none();
        self.held.is_some() || (closed && close_done)
    }
}

impl Admission for Entry {
    fn poll_message(&mut self, context: &Context<'_>) -> Poll<Result<Vec<u8>>> {
        self.accept();
        if let Some(message) = self.take_datagram() {
            return Poll::Ready(Ok(message));
        }
        if let Some(end) = &self.end {
            return Poll::Ready(Err(end.error(reason::quic_connection_broke())));
        }
        self.watchers.register(context);
        Poll::Pending
    }
}
