//! One association: the stack's state, the messages received on its streams, and the wakers of
//! waiting tasks.

mod liveness;
mod sending;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    net::SocketAddr,
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use regatta_model::{Problem, reason};
use regatta_transport::{Result, TransportError};
use regatta_transport_sockets::driver::{Admission, Connection, Transmit, Wakers};
use sctp_proto::{
    AssociationError, AssociationEvent, Event, PayloadProtocolIdentifier, ReliabilityType,
    StreamEvent, StreamId,
};

use self::liveness::{Liveness, MAX_SILENCE, Silence};
use super::wire::{self, Chunk, Route};
use crate::association::{Ending, MESSAGES, number};

/// User message in the pieces in which it arrived.
pub(crate) type Message = sctp_proto::Chunks;

/// Payload protocol identifier of user messages: `WebRTC Binary` (RFC 8831 §8).
const BINARY: PayloadProtocolIdentifier = PayloadProtocolIdentifier::Binary;

/// Payload protocol identifier of the one-byte message that ends a direction of a stream: `WebRTC
/// Binary Empty`. SCTP has no half-closed streams.
const FINISHED: PayloadProtocolIdentifier = PayloadProtocolIdentifier::BinaryEmpty;

/// Maximum number of streams each way.
pub(crate) const MAX_STREAMS: u16 = 32_767;

/// Maximum limit on chunks handed over and not acknowledged: sequence numbers of a stream have 16
/// bits and are compared in serial arithmetic.
pub(crate) const MAX_OUTSTANDING_CHUNKS: u64 = 30_000;

/// Stream of the datagrams of both ends, between those of the connecting end and those of the listening end.
pub(crate) const DATAGRAMS: u16 = MAX_STREAMS;

/// Maximum delay of a receiver's acknowledgement; the stack's own value, RFC 9260 §6.2.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_millis(200);

/// Number of copies of an ABORT, as it is not acknowledged.
const ABORT_COPIES: u32 = 3;

/// Number of streams each way, of which the last is the listening end's first.
const STREAMS: u16 = 65_535;

/// Limits of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum user data of one DATA chunk, in bytes.
    pub chunk_bytes: usize,
    /// Maximum number of DATA chunks handed over and not acknowledged.
    pub outstanding_chunks: u64,
    /// Maximum number of DATA chunks that wait in the stack to be sent, if fewer are in flight.
    pub waiting_chunks: u64,
    /// Maximum number of received bytes that are not taken; above it the receive window closes.
    pub arrived_bytes: usize,
    /// Maximum number of streams that this end opens.
    pub streams: u16,
    /// Whether user messages are delivered in order.
    pub ordered: bool,
    /// Maximum time to wait for the packets that close it.
    pub linger: Duration,
}

/// Passes a message to `consume`, through `scratch` if it fits there: the stack gives access to the
/// bytes only as a copy.
pub(crate) fn pass_on(mut message: Message, scratch: &mut [u8], mut consume: impl FnMut(&[u8])) {
    let length = message.len();
    if let Some(buffer) = scratch.get_mut(..length)
        && message.read(buffer).is_ok()
    {
        consume(buffer);
        return;
    }
    if let Some(piece) = message.next(length) {
        consume(&piece.bytes);
    }
}

/// Counters that this driver derives from the packets, since the stack has few of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets sent, of all kinds.
    pub packets_sent: u64,
    /// DATA chunks that were retransmitted.
    pub retransmitted_chunks: u64,
    /// Packets with a retransmitted chunk.
    pub retransmitted_packets: u64,
    /// Acknowledgements that arrived.
    pub acknowledgements: u64,
    /// Retransmission timers that expired (T3-rtx).
    pub timeouts: u64,
    /// Chunks that were retransmitted before a timer expired.
    pub fast_retransmits: u64,
    /// Maximum number of bytes of user data sent and not acknowledged.
    pub in_flight_bytes: u64,
}

/// Messages received on a stream and not taken yet.
#[derive(Default)]
struct Inbox {
    messages: VecDeque<Message>,
    finished: bool,
    waiting: Wakers,
}

/// State of one association.
pub(crate) struct Association {
    inner: sctp_proto::Association,
    peer: SocketAddr,
    connects: bool,
    /// Initiate tag of the INIT chunk that the other end sent.
    pub initiate_tag: Option<u32>,
    limits: Limits,
    /// Whether the handshake is done.
    open: bool,
    ended: Option<Ending>,
    /// Whether the stack may have something to send.
    dirty: bool,
    /// Packets that the stack has given and that were not sent.
    packets: VecDeque<Bytes>,
    closing: bool,
    shut_down: bool,
    /// Whether the other end has sent an ABORT.
    pub(crate) peer_aborted: bool,
    liveness: Liveness,
    route: Option<Route>,
    inboxes: BTreeMap<StreamId, Inbox>,
    arrived_bytes: usize,
    /// Readable streams that were not read because enough has arrived.
    left: BTreeSet<StreamId>,
    opened_by_peer: BTreeSet<StreamId>,
    accepted_streams: u16,
    opened_streams: u16,
    waiting: Wakers,
    /// Streams that wait to write, in order of their turns.
    writers: VecDeque<(StreamId, Waker)>,
    written_chunks: u64,
    acknowledged_chunks: u64,
    /// Transmission sequence numbers of the sent chunks; `None` before the first.
    tsn: Option<Tsn>,
    counts: Counts,
}

#[derive(Debug, Clone, Copy)]
struct Tsn {
    first: u32,
    /// Highest TSN sent.
    sent: u32,
}

/// Whether `a` comes before `b` in serial arithmetic (RFC 1982).
const fn before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

impl Association {
    pub(crate) fn new(
        inner: sctp_proto::Association,
        peer: SocketAddr,
        connects: bool,
        initiate_tag: Option<u32>,
        limits: Limits,
    ) -> Self {
        Self {
            inner,
            peer,
            connects,
            initiate_tag,
            limits,
            open: false,
            ended: None,
            dirty: true,
            packets: VecDeque::new(),
            closing: false,
            shut_down: false,
            peer_aborted: false,
            liveness: Liveness::default(),
            route: None,
            inboxes: BTreeMap::new(),
            arrived_bytes: 0,
            left: BTreeSet::new(),
            opened_by_peer: BTreeSet::new(),
            accepted_streams: 0,
            opened_streams: 0,
            waiting: Wakers::default(),
            writers: VecDeque::new(),
            written_chunks: 0,
            acknowledged_chunks: 0,
            tsn: None,
            counts: Counts::default(),
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        !self.open && self.ended.is_none()
    }

    pub(crate) fn counts(&mut self) -> Counts {
        let mut stats = self.inner.stats();
        let timeouts = stats.get_num_t3timeouts();
        let fast_retransmits = stats.get_num_fast_retrans();
        let in_flight_bytes = self.in_flight() * self.limits.chunk_bytes as u64;
        Counts {
            timeouts,
            fast_retransmits,
            in_flight_bytes,
            ..self.counts
        }
    }

    // What arrives.

    /// Processes a packet of this association.
    pub(crate) fn handle_packet(&mut self, now: Instant, packet: &[u8], event: AssociationEvent) {
        self.liveness.heard(now);
        if wire::is_heartbeat_ack(packet) {
            // The stack, which sends no HEARTBEAT, knows no such chunk.
            return;
        }
        for chunk in wire::chunks(packet) {
            match chunk {
                Chunk::Sack(tsn) => self.acknowledged(tsn),
                Chunk::Abort => self.peer_aborted = true,
                Chunk::Data(_) | Chunk::ShutdownComplete => {}
            }
        }
        self.dirty = true;
        self.inner.handle_event(event);
        if self.inner.is_closing() {
            self.begin_to_close();
        }
    }

    fn begin_to_close(&mut self) {
        if !std::mem::replace(&mut self.shut_down, true) {
            self.waiting.wake();
        }
    }

    fn acknowledged(&mut self, tsn: u32) {
        self.counts.acknowledgements += 1;
        let Some(known) = self.tsn else { return };
        // It only grows, and never beyond what was sent.
        let last = self.last_acknowledged(known);
        if before(last, tsn) && !before(known.sent, tsn) {
            self.acknowledged_chunks += u64::from(tsn.wrapping_sub(last));
        }
    }

    /// Returns the highest TSN up to which everything is acknowledged. Serial numbers wrap.
    const fn last_acknowledged(&self, tsn: Tsn) -> u32 {
        tsn.first
            .wrapping_sub(1)
            .wrapping_add(self.acknowledged_chunks as u32)
    }

    /// Handles the events of the stack about the association.
    pub(crate) fn take_events(&mut self) {
        while let Some(event) = self.inner.poll() {
            match event {
                Event::Connected => self.open(),
                Event::Stream(StreamEvent::Opened { id }) => self.stream_opened(id),
                Event::Stream(StreamEvent::Readable { id }) => self.readable(id),
                Event::HandshakeFailed { reason } => {
                    self.end(Ending::Failed(reason.to_string().into()))
                }
                Event::AssociationLost { reason } => self.lost(&reason),
                _ => {}
            }
        }
    }

    fn open(&mut self) {
        if self.is_handshaking() {
            self.open = true;
            self.wake_all();
        }
    }

    fn stream_opened(&mut self, id: StreamId) {
        // Its own queue of streams is kept empty; they are counted here.
        while self.inner.accept_stream().is_some() {}
        self.opened_by_peer.insert(id);
        self.waiting.wake();
    }

    /// Takes whole messages from the stack, so that its receive window stays open.
    fn readable(&mut self, id: StreamId) {
        let inbox = self.inboxes.entry(id).or_default();
        let Ok(mut stream) = self.inner.stream(id) else {
            return;
        };
        loop {
            if self.arrived_bytes > self.limits.arrived_bytes {
                self.left.insert(id);
                break;
            }
            match stream.read() {
                Ok(Some(message)) if message.ppi == FINISHED => inbox.finished = true,
                Ok(Some(message)) => {
                    self.arrived_bytes += message.len();
                    inbox.messages.push_back(message);
                }
                Ok(None) | Err(_) => break,
            }
        }
        inbox.waiting.wake();
    }

    fn lost(&mut self, error: &AssociationError) {
        // One that gives up on the last packets of an association that is being closed has
        // nothing more to send.
        let ending = if self.shut_down {
            Ending::Done
        } else if self.peer_aborted {
            Ending::Failed(reason::aborted_by_peer().into())
        } else {
            // The stack sends the other end nothing.
            self.send_abort();
            Ending::Failed(match error {
                AssociationError::AssociationClosed => reason::stack_gave_up().into(),
                other => other.to_string().into(),
            })
        };
        self.end(ending);
    }

    /// Handles the silence of the other end.
    fn check_silence(&mut self, now: Instant) {
        if !self.open || self.ended.is_some() {
            return;
        }
        match self.liveness.on_time(now) {
            None => {}
            Some(Silence::Heartbeat) => {
                if let Some(route) = self.route {
                    self.send(route.heartbeat());
                }
            }
            // What the close was to achieve is done.
            Some(Silence::Lost) if self.shut_down => self.end(Ending::Done),
            Some(Silence::Lost) => {
                self.send_abort();
                let silent = reason::peer_silent(MAX_SILENCE);
                self.end(Ending::Failed(silent.into()));
            }
        }
    }

    fn end(&mut self, ending: Ending) {
        self.ended.get_or_insert(ending);
        self.wake_all();
    }

    fn wake_all(&mut self) {
        self.waiting.wake();
        self.writers.drain(..).for_each(|(_, waker)| waker.wake());
        for inbox in self.inboxes.values_mut() {
            inbox.waiting.wake();
        }
    }

    // How it ends.

    /// Closes in good order once everything is acknowledged; returns for how long to wait for the
    /// packets that do.
    pub(crate) fn close(&mut self) -> Duration {
        if self.is_handshaking() {
            self.end(Ending::Stopped);
        }
        if self.ended.is_some() {
            return self.limits.linger;
        }
        self.closing = true;
        self.dirty = true;
        // The other end closes too, and waits for the acknowledgement that is being delayed.
        if let Some(timer) = self.inner.poll_timeout()
            && timer <= Instant::now() + ACKNOWLEDGEMENT_TIMEOUT
        {
            self.inner.handle_timeout(timer);
        }
        self.limits.linger
    }

    fn send_abort(&mut self) {
        // What waits to be sent is of no use to the other end any more.
        self.counts.packets_sent -= self.packets.len() as u64;
        self.packets.clear();
        for _ in 0..ABORT_COPIES {
            if let Some(route) = self.route {
                self.send(route.abort());
            }
        }
    }

    fn send(&mut self, packet: Vec<u8>) {
        self.counts.packets_sent += 1;
        self.packets.push_back(packet.into());
    }

    // Who waits.

    /// Waits until either end has begun to close, with everything acknowledged.
    pub(crate) fn poll_shut_down(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.shut_down {
            return Poll::Ready(());
        }
        self.poll_ended(context)
    }

    pub(crate) fn poll_ended(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.ended.is_some() {
            return Poll::Ready(());
        }
        self.waiting.register(context);
        Poll::Pending
    }

    /// Checks that the association has not ended.
    fn check(&self) -> Result<()> {
        let ended = self.ended.as_ref();
        ended.map_or(Ok(()), |ending| Err(ending.error()))
    }

    /// Opens the next stream of this end.
    pub(crate) fn open_stream(&mut self) -> Result<StreamId> {
        self.check()?;
        let streams = self.limits.streams;
        if self.opened_streams >= streams {
            let why = Problem::failed(reason::streams_each_way(streams.into()), "");
            return Err(TransportError::stack(reason::cannot_open_sctp_stream())(
                why,
            ));
        }
        let id = number(self.connects, self.opened_streams, STREAMS);
        self.make_stream(id)?;
        self.opened_streams += 1;
        Ok(id)
    }

    fn make_stream(&mut self, id: StreamId) -> Result<()> {
        if self.inner.stream(id).is_err() {
            let opened = self.inner.open_stream(id, BINARY);
            opened.map_err(TransportError::stack(reason::cannot_open_sctp_stream()))?;
        }
        self.prepare_stream(id)
    }

    fn prepare_stream(&mut self, id: StreamId) -> Result<()> {
        let failed = || TransportError::stack(reason::cannot_set_up_sctp_stream());
        let (ordered, reliability) = match id {
            DATAGRAMS => (false, ReliabilityType::Rexmit),
            _ => (self.limits.ordered, ReliabilityType::Reliable),
        };
        let mut stream = self.inner.stream(id).map_err(failed())?;
        stream.set_default_payload_type(BINARY).map_err(failed())?;
        let set = stream.set_reliability_params(!ordered, reliability, 0);
        set.map_err(failed())?;
        self.inboxes.entry(id).or_default();
        Ok(())
    }

    /// Takes the next stream that the other end opened, in the order of its opening. A stream that was opened before another
    /// whose data has arrived is there as well.
    pub(crate) fn poll_accept_stream(&mut self, context: &Context<'_>) -> Poll<Result<StreamId>> {
        let of_peer = |index| number(!self.connects, index, STREAMS);
        let mut opened = (self.accepted_streams..self.limits.streams).map(of_peer);
        if opened.any(|id| self.opened_by_peer.contains(&id)) {
            let next = of_peer(self.accepted_streams);
            self.accepted_streams += 1;
            if self.ended.is_none() {
                self.make_stream(next)?;
            }
            return Poll::Ready(Ok(next));
        }
        self.check()?;
        self.waiting.register(context);
        Poll::Pending
    }

    /// Reads what was left in the stack, as there is room again for this many bytes.
    fn taken(&mut self, bytes: usize) {
        self.arrived_bytes = self.arrived_bytes.saturating_sub(bytes);
        for id in std::mem::take(&mut self.left) {
            self.readable(id);
        }
    }

    /// Returns the messages received on a stream; `false` if no more will come.
    pub(crate) fn poll_read(
        &mut self,
        id: StreamId,
        messages: &mut VecDeque<Message>,
        context: &Context<'_>,
    ) -> Poll<Result<bool>> {
        let inbox = self.inboxes.entry(id).or_default();
        if !inbox.messages.is_empty() {
            std::mem::swap(messages, &mut inbox.messages);
            self.taken(messages.iter().map(Message::len).sum());
            return Poll::Ready(Ok(true));
        }
        if inbox.finished {
            return Poll::Ready(Ok(false));
        }
        if let Some(ending) = &self.ended {
            return Poll::Ready(ending.of_reading().map(|()| false));
        }
        inbox.waiting.register(context);
        Poll::Pending
    }
}

impl Connection for Association {
    const LONGEST_PACKET_BYTES: usize = 16_384;

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        if self.packets.is_empty() && std::mem::take(&mut self.dirty) {
            self.collect(now);
        }
        let packet = self.packets.pop_front()?;
        buffer.get_mut(..packet.len())?.copy_from_slice(&packet);
        Some(Transmit {
            bytes: packet.len(),
            from: None,
            to: self.peer,
            at: None,
        })
    }

    fn next_timeout(&self) -> Option<Instant> {
        let silence = self.liveness.next_time().filter(|_| self.open);
        let timers = [self.inner.poll_timeout(), silence];
        let next = timers.into_iter().flatten().min();
        next.filter(|_| self.ended.is_none())
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
        self.dirty = true;
        self.take_events();
        self.check_silence(now);
    }

    fn update(&mut self, _flushed: bool) {
        self.wake_writers();
    }

    fn poll_open(&mut self, context: &Context<'_>) -> Poll<Result<()>> {
        if let Some(ending) = &self.ended {
            // One that was closed may have brought data.
            return Poll::Ready(ending.of_reading());
        }
        if self.open {
            return Poll::Ready(Ok(()));
        }
        self.waiting.register(context);
        Poll::Pending
    }

    fn abort(&mut self) {
        if self.ended.is_none() {
            self.send_abort();
            self.end(Ending::Stopped);
        }
    }

    fn release(&mut self) {
        self.close();
    }

    fn fail(&mut self, error: &io::Error) {
        self.packets.clear();
        self.end(Ending::Failed(error.to_string().into()));
    }

    fn waits_to_close(&self) -> bool {
        self.ended.is_some() && !self.packets.is_empty()
    }

    fn is_over(&self) -> bool {
        self.ended.is_some() && self.packets.is_empty()
    }
}

impl Admission for Association {
    fn poll_message(&mut self, context: &Context<'_>) -> Poll<Result<Vec<u8>>> {
        if self.accepted_streams == 0 {
            ready!(self.poll_accept_stream(context))?;
        }
        let inbox = self.inboxes.entry(MESSAGES).or_default();
        if let Some(message) = inbox.messages.pop_front() {
            self.taken(message.len());
            let mut data = Vec::new();
            pass_on(message, &mut [], |piece| data.extend_from_slice(piece));
            return Poll::Ready(Ok(data));
        }
        // Nothing to read is left, so that this registers the waker, or returns why no more comes.
        let more = ready!(self.poll_read(MESSAGES, &mut VecDeque::new(), context))?;
        debug_assert!(!more, "all messages were looked at");
        Poll::Ready(Err(Ending::Done.error()))
    }
}
