//! State of one connection: quiche's own, the packets that wait for the kernel, and the wakers of
//! waiting tasks.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use quiche::{BufFactory, ConnectionId, RecvInfo, Shutdown};

use super::{
    end::{CLOSE_BYTES, CLOSE_PATIENCE, CLOSE_REPEATS, Closing, End, RepeatedClose},
    port::{Filled, Outbox, Port},
    state::{ID_BYTES, Turn},
    tls,
};

/// Application error code of a connection that is closed in good order.
const DONE: u64 = 0;

/// Application error code of a connection, or a stream, that was aborted, by the deadline or from
/// outside.
pub(super) const ABORTED: u64 = 1;

/// Value of BoringSSL's early-data reason when the server has accepted early data.
const EARLY_DATA_ACCEPTED: u32 = 2;

/// Type parameter of a quiche connection for stream data that quiche keeps without a copy.
#[derive(Debug, Clone, Default)]
pub(super) struct Pieces;

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

pub(super) type Quiche = quiche::Connection<Pieces>;

/// Result of a move to another port.
enum Migration {
    /// Migrated to this address after this delay.
    Moved(SocketAddr, Duration),
    /// Not migrated, for this reason.
    Failed(String),
}

/// Adds the context's waker to `wakers` unless it is there already.
fn register(wakers: &mut Vec<Waker>, context: &Context<'_>) {
    if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
        wakers.push(context.waker().clone());
    }
}

fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        waker.wake();
    }
}

/// State of one connection.
pub(super) struct Entry {
    pub quiche: Quiche,
    client: bool,
    outbox: Outbox,
    /// Whether everything that could be sent was sent. Only then is quiche's figure for stream
    /// capacity right: it counts the room in the congestion window, and not the data that quiche
    /// already holds.
    pub flushed: bool,
    readers: HashMap<u64, Waker>,
    writers: HashMap<u64, Waker>,
    /// Wakers of tasks that wait for room to send, other than the writers of streams.
    senders: Vec<Waker>,
    /// Wakers of tasks that wait for anything else.
    watchers: Vec<Waker>,
    /// Streams that the other end opened and the application has not taken.
    pub opened: VecDeque<u64>,
    next_remote: u64,
    next_local: u64,
    /// Streams with an open handle.
    open: BTreeSet<u64>,
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
    /// Whether the connection began with a ticket of an earlier connection.
    pub shows_ticket: bool,
    /// Whether early data could be sent, or was accepted.
    pub early: bool,
    was_established: bool,
    ticket_address: usize,
    migration: Option<Migration>,
    datagrams_taken: usize,
}

impl Entry {
    pub fn new(quiche: Quiche, client: bool, most_segments: usize, paces: bool) -> Self {
        // Two lowest bits of a stream's number: who opened it, and 0 for both directions
        // (RFC 9000 §2.1).
        let (local, remote) = if client { (0, 1) } else { (1, 0) };
        Self {
            quiche,
            client,
            outbox: Outbox::new(most_segments, paces),
            flushed: true,
            readers: HashMap::new(),
            writers: HashMap::new(),
            senders: Vec::new(),
            watchers: Vec::new(),
            opened: VecDeque::new(),
            next_remote: remote,
            next_local: local,
            open: BTreeSet::new(),
            end: None,
            failure: None,
            closing: None,
            repeated_close: None,
            answers: false,
            released: false,
            halted: false,
            shows_ticket: false,
            early: false,
            was_established: false,
            ticket_address: 0,
            migration: None,
            datagrams_taken: 0,
        }
    }

    pub const fn is_client(&self) -> bool {
        self.client
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

    pub fn wait(&mut self, context: &Context<'_>) {
        register(&mut self.watchers, context);
    }

    pub fn wait_to_send(&mut self, context: &Context<'_>) {
        register(&mut self.senders, context);
    }

    pub fn wait_to_read(&mut self, stream: u64, context: &Context<'_>) {
        self.readers.insert(stream, context.waker().clone());
    }

    pub fn wait_to_write(&mut self, stream: u64, context: &Context<'_>) {
        self.writers.insert(stream, context.waker().clone());
    }

    /// Records that this stream has an open handle.
    pub fn hold_stream(&mut self, stream: u64) {
        self.open.insert(stream);
    }

    /// Records that this stream has no open handle any more.
    pub fn forget_stream(&mut self, stream: u64) {
        self.open.remove(&stream);
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
    pub fn receive(&mut self, packet: &mut [u8], way: RecvInfo) {
        if self.repeated_close.is_some() {
            // RFC 9000, 10.2.1: who still speaks has not heard that it is closed.
            self.answers = true;
        }
        if let Err(error) = self.quiche.recv(packet, way) {
            self.failure.get_or_insert(error);
        }
    }

    /// Handles the timers that have expired at `now`.
    pub fn expire(&mut self, now: Instant) {
        if self.quiche.timeout_instant().is_some_and(|at| at <= now) {
            self.quiche.on_timeout();
        }
    }

    /// Sends waiting packets, at most `batches` batches.
    pub fn send(&mut self, now: Instant, ports: &[Arc<Port>], batches: usize, turn: &mut Turn) {
        self.close_with_room(now);
        let was_draining = self.quiche.is_draining();
        let mut more = true;
        for _ in 0..batches {
            if !self.outbox.send(ports) {
                turn.blocked = self.outbox.from();
                break;
            }
            if self.outbox.due().is_some() {
                // Its time has not come.
                break;
            }
            match self.outbox.fill(|place| self.quiche.send(place)) {
                Ok(Filled::More) => {}
                Ok(Filled::Done) => more = false,
                Err(error) => {
                    self.failure.get_or_insert(error);
                    // quiche has noted why, and says so in its next packet.
                    let _ = self.quiche.close(false, 0x1, b"");
                    continue;
                }
            }
            if !was_draining && self.quiche.is_draining() && self.repeated_close.is_none() {
                self.keep_close(now);
            }
            if !more && self.outbox.is_empty() {
                break;
            }
        }
        if !self.outbox.send(ports) {
            turn.blocked = self.outbox.from();
        }
        self.flushed = !more && self.outbox.is_empty();
        if let Some(at) = self.outbox.due() {
            if at > now {
                turn.release = Some(turn.release.map_or(at, |other| other.min(at)));
            }
        } else if !self.flushed {
            turn.busy = true;
        }
        self.repeat_close(now, ports);
        let timers = [
            self.quiche.timeout_instant(),
            self.repeated_close
                .as_ref()
                .map(|repeated_close| repeated_close.next),
            self.closing
                .as_ref()
                .map(|closing| closing.since + CLOSE_PATIENCE),
            turn.timer,
        ];
        turn.timer = timers.into_iter().flatten().min();
    }

    /// Keeps the closing packet for repetition, if this end closed the connection.
    fn keep_close(&mut self, now: Instant) {
        if self.quiche.local_error().is_none() {
            return;
        }
        let draining = self
            .quiche
            .timeout_instant()
            .map_or(Duration::ZERO, |end| end.saturating_duration_since(now));
        let every = draining / (CLOSE_REPEATS + 1);
        self.repeated_close = self
            .outbox
            .last_packet()
            .map(|(packet, way)| RepeatedClose {
                packet: packet.to_vec(),
                way,
                every,
                next: now + every,
                left: CLOSE_REPEATS,
            });
    }

    fn repeat_close(&mut self, now: Instant, ports: &[Arc<Port>]) {
        let Some(repeated_close) = &mut self.repeated_close else {
            return;
        };
        let due = repeated_close.next <= now;
        if due || self.answers {
            repeated_close.send(ports);
        }
        if due {
            repeated_close.left -= 1;
            repeated_close.next = now + repeated_close.every;
        }
        self.answers = false;
        if repeated_close.left == 0 {
            self.repeated_close = None;
        }
    }

    /// Whether the closing packet is still to be sent.
    pub fn is_closing(&self) -> bool {
        let closed = self.quiche.is_draining() || self.quiche.is_closed();
        !self.outbox.is_empty()
            || (!closed && (self.closing.is_some() || self.quiche.local_error().is_some()))
    }

    /// Whether the other end may have to be told once more that the connection is closed.
    pub fn has_last_words(&self) -> bool {
        self.is_closing() || self.repeated_close.is_some() || (self.released && self.end.is_none())
    }

    /// Whether the connection can be forgotten.
    pub fn is_over(&self) -> bool {
        self.released
            && !self.has_last_words()
            && (self.quiche.is_closed() || self.quiche.is_draining())
    }

    /// Records that the connection's owner was dropped: the connection closes when its queued
    /// datagrams are sent.
    pub fn release(&mut self) {
        self.released = true;
        if self.quiche.dgram_send_queue_len() == 0 || self.end.is_some() {
            self.close(End::Done);
        }
    }

    /// Stops the flow of datagrams: no more are taken, and queued ones are sent.
    pub fn halt(&mut self) {
        self.halted = true;
        self.wake_everybody();
    }

    /// Whether no datagrams wait to be sent, or the connection has ended.
    pub fn has_sent_datagrams(&self) -> bool {
        let waiting = self.quiche.dgram_send_queue_len();
        self.end.is_some() || (waiting == 0 && self.outbox.is_empty())
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
                for stream in std::mem::take(&mut self.open) {
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
            // One that has ended already says so.
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
        wake_all(self.readers.drain().map(|(_, waker)| waker));
        wake_all(self.writers.drain().map(|(_, waker)| waker));
        wake_all(self.senders.drain(..));
        wake_all(self.watchers.drain(..));
    }

    /// Returns the reason for which the connection has ended, according to quiche; `None` while it
    /// is open.
    fn ended(&self) -> Option<End> {
        if let Some(error) = self.quiche.peer_error() {
            return Some(match (error.is_app, error.error_code) {
                (true, DONE) => End::Done,
                (application, code) => End::Told {
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
                code => End::Gave(code, self.failure),
            });
        }
        self.quiche.is_closed().then_some(End::Gone)
    }

    /// Updates the state after packets were processed, and wakes the tasks that wait for a change.
    pub fn notice(&mut self) {
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
                // A stream that has broken is looked at too.
                let waits = matches!(quiche.stream_capacity(*stream), Ok(0));
                if !waits {
                    waker.wake_by_ref();
                }
                waits
            });
            wake_all(self.senders.drain(..));
        }
        if changed || self.quiche.dgram_recv_queue_len() > 0 {
            wake_all(self.watchers.drain(..));
        }
    }

    const fn is_remote(&self, stream: u64) -> bool {
        // 1 for those of the server, 2 for those of one direction.
        stream & 3 == self.client as u64
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

    /// Migrates the connection to another local port.
    pub fn migrate(&mut self, local: SocketAddr, after: Duration) {
        if self.end.is_some() {
            return;
        }
        let peer = self.quiche.path_stats().find(|path| path.active);
        // quiche does not ask for it by itself: RFC 9000, 9 has every new path validated.
        let moved = peer
            .ok_or(quiche::Error::InvalidState)
            .and_then(|path| self.quiche.probe_path(local, path.peer_addr))
            .and_then(|_| self.quiche.migrate_source(local));
        self.migration = Some(match moved {
            Ok(_) => Migration::Moved(local, after),
            Err(error) => Migration::Failed(format!("quiche refused with `{error:?}`")),
        });
    }

    /// Records the reason for which the connection does not migrate.
    pub fn not_migrated(&mut self, why: &str) {
        self.migration = Some(Migration::Failed(why.to_owned()));
    }

    /// Returns the result of the migration, in words; `None` if none was tried.
    pub fn migration(&self) -> Option<String> {
        Some(match self.migration.as_ref()? {
            Migration::Failed(why) => format!("failed: {why}"),
            Migration::Moved(local, after) => {
                let path = self
                    .quiche
                    .path_stats()
                    .find(|path| path.local_addr == *local);
                let after = after.as_secs_f64();
                match path {
                    Some(path) if path.active => {
                        let validated = self
                            .quiche
                            .is_path_validated(*local, path.peer_addr)
                            .unwrap_or(false);
                        let state = if validated {
                            "validated"
                        } else {
                            "not validated"
                        };
                        format!(
                            "to another port after {after} s, {state}, {} packets sent from there",
                            path.sent
                        )
                    }
                    _ => format!("to another port after {after} s, and back as it did not answer"),
                }
            }
        })
    }

    /// Returns a ticket that arrived since the last call, if there is one.
    pub fn new_ticket(&mut self) -> Option<Vec<u8>> {
        let ticket = self.quiche.session()?;
        // The address of quiche's copy tells a new ticket from an old one.
        let address = ticket.as_ptr() as usize;
        if address == self.ticket_address {
            return None;
        }
        self.ticket_address = address;
        Some(ticket.to_vec())
    }

    /// Issues spare connection identifiers to the other end; returns the new ones.
    pub fn give_ids(&mut self) -> Vec<Vec<u8>> {
        let mut given = Vec::new();
        while self.quiche.is_established() && self.end.is_none() && self.quiche.scids_left() > 0 {
            let (Ok(own), Ok(token)) = (tls::random::<ID_BYTES>(), tls::random::<16>()) else {
                break;
            };
            let id = ConnectionId::from_ref(&own);
            let token = u128::from_be_bytes(token);
            if self.quiche.new_scid(&id, token, false).is_err() {
                break;
            }
            given.push(own.to_vec());
        }
        given
    }
}
