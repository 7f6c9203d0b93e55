//! One association: its socket, the data received on its streams, and the wakers of waiting tasks.
//!
//! All streams share the socket's one queue, so each reader receives for all: data of its own
//! stream goes straight from the kernel into its buffer, data of another stream into that stream's
//! inbox. All tasks of an end run on one thread, so this wakes no other thread; aborts and samples
//! come from other threads.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use regatta_transport::{Abort, TransportError};
use socket2::Socket;
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    paths::Paths,
    socket::{self, After, Piece},
    uapi::{self, AssocStats, PeerAddrInfo, Status},
};

/// Payload protocol identifier of user messages: `WebRTC Binary` (RFC 8831 §8), the same as in the
/// user-space driver.
const BINARY: u32 = 53;

/// Payload protocol identifier of the one-byte message that ends a direction of a stream: `WebRTC
/// Binary Empty`. SCTP has no half-closed streams.
const FINISHED: u32 = 57;

/// Size of the fallback receive buffer for readers with less than [`LEAST_SCRATCH_BYTES`], in
/// bytes. An eighth of it is a slot.
const SCRATCH_BYTES: usize = 128 << 10;

/// Minimum size of a reader's own receive buffer, in bytes: with less, a large message would arrive
/// in many pieces.
const LEAST_SCRATCH_BYTES: usize = 16 << 10;

/// Number of slots that a buffer is cut into when several pieces are received at once.
const SLOTS: usize = 8;

/// Maximum number of bytes in inboxes. Above it, the socket's own window holds the peer back.
const MOST_WAITING_BYTES: usize = 16 << 20;

/// Maximum number of receive calls when closing: the kernel aborts an association with unread data
/// instead of shutting it down.
const LAST_READS: usize = 64;

/// Reason for which an association ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Closed in good order.
    Done,
    /// Stopped by this end.
    Stopped,
    /// Failed, according to the kernel, with this error.
    Broken(io::ErrorKind, String),
}

impl Ending {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            // What is written or asked for after the end.
            Some(libc::EPIPE | libc::ENOTCONN | libc::ESHUTDOWN) => Self::Done,
            _ => Self::Broken(error.kind(), error.to_string()),
        }
    }

    pub(crate) fn error(&self) -> TransportError {
        match self {
            Self::Done => TransportError::Closed {
                flow: "association",
            },
            Self::Stopped => TransportError::Cancelled,
            Self::Broken(kind, text) => TransportError::io("the SCTP association broke")(
                io::Error::new(*kind, text.clone()),
            ),
        }
    }
}

/// Task that waits to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reader {
    /// Reader of a stream.
    Stream(u16),
    /// Acceptor of a stream that the other end opens.
    Streams,
}

/// Data received on a stream and not taken yet.
#[derive(Default)]
struct Inbox {
    pieces: VecDeque<Vec<u8>>,
    finished: bool,
}

#[derive(Default)]
struct State {
    ended: Option<Ending>,
    /// Whether the handshake is done.
    open: bool,
    /// Number of streams each way, once the handshake is done.
    streams: u16,
    inboxes: BTreeMap<u16, Inbox>,
    waiting_bytes: usize,
    readers: BTreeMap<Reader, Waker>,
    /// Readers that were held back because too much waits in the inboxes.
    held_up: BTreeSet<Reader>,
    /// Streams that wait to write, in order of their turns.
    writers: VecDeque<(u16, Waker)>,
    opened_here: u16,
    opened_there: u16,
    accepted: u16,
    /// Whether the socket had more data after the last receive call.
    more: bool,
    pieces: Vec<Piece>,
    scratch: Vec<u8>,
}

impl State {
    fn end(&mut self, ending: Ending) {
        self.ended.get_or_insert(ending);
        std::mem::take(&mut self.readers)
            .into_values()
            .for_each(Waker::wake);
        self.writers.drain(..).for_each(|(_, waker)| waker.wake());
    }

    fn wake(&mut self, reader: Reader) {
        if let Some(waker) = self.readers.remove(&reader) {
            waker.wake();
        }
    }

    fn wake_all(&mut self) {
        for waker in std::mem::take(&mut self.readers).into_values() {
            waker.wake();
        }
    }

    fn error(&self) -> Option<TransportError> {
        self.ended.as_ref().map(Ending::error)
    }
}

/// Result of a receive call.
enum Came {
    /// Number of bytes received for the reader itself.
    Own(usize),
    /// Data for other readers, or no data.
    Else,
}

/// State of one association.
pub(crate) struct Association {
    socket: AsyncFd<Socket>,
    connects: bool,
    /// Number of streams each way that this end asked for.
    streams_asked: u16,
    known: Arc<Known>,
    state: Mutex<State>,
}

/// Snapshot of the kernel's statistics of an association.
pub(crate) struct Seen {
    pub status: Status,
    pub counts: Option<AssocStats>,
    /// Path states by the peer's address, which is unspecified if there is one path only.
    pub paths: Vec<(IpAddr, PeerAddrInfo)>,
}

/// Statistics of an association, available after it is gone too.
pub(crate) struct Known {
    seen: Mutex<Option<Arc<Seen>>>,
    /// Paths of an association that may have several.
    pub paths: Option<Arc<Paths>>,
}

impl Known {
    /// Returns the most recent snapshot.
    pub(crate) fn seen(&self) -> Option<Arc<Seen>> {
        self.lock().clone()
    }

    fn see(&self, seen: Seen) {
        if let Some(paths) = &self.paths {
            for (address, info) in &seen.paths {
                paths.seen(*address, info.state);
            }
        }
        *self.lock() = Some(Arc::new(seen));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Seen>>> {
        // Nothing that can panic runs under this lock.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Association {
    /// Wraps a socket that is connected, or about to be. Must be called on the end's runtime.
    pub(crate) fn new(
        socket: Socket,
        connects: bool,
        streams_asked: u16,
        paths: Option<Arc<Paths>>,
    ) -> Result<Self, TransportError> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        // SAFETY: a `Socket` gives the same open descriptor until it is dropped, and it is dropped
        // by the registration alone.
        let socket = unsafe { AsyncFd::register_with_interest(socket, interest) }
            .map_err(|error| TransportError::io("cannot wait for a socket")(error.into()))?;
        Ok(Self {
            socket,
            connects,
            streams_asked,
            known: Arc::new(Known {
                seen: Mutex::default(),
                paths,
            }),
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under this lock ends the trial all the same.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn socket(&self) -> &Socket {
        self.socket.get_ref()
    }

    pub(crate) fn paths(&self) -> Option<&Arc<Paths>> {
        self.known.paths.as_ref()
    }

    /// Returns the statistics of the association, available after it is gone too.
    pub(crate) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// Whether this end connects.
    pub(crate) fn connects(&self) -> bool {
        self.connects
    }

    fn status(&self) -> io::Result<Status> {
        socket::get(self.socket(), uapi::STATUS, socket::Plain::zeroed())
    }

    /// Takes and keeps a snapshot of the kernel's statistics, which are not available after the end
    /// of the association; returns the most recent one.
    pub(crate) fn look(&self) -> Option<Arc<Seen>> {
        if let Ok(status) = self.status() {
            self.known.see(Seen {
                status,
                counts: socket::get(
                    self.socket(),
                    uapi::GET_ASSOC_STATS,
                    socket::Plain::zeroed(),
                )
                .ok(),
                paths: self.path_infos(&status),
            });
        }
        self.known.seen()
    }

    /// Returns the state of each path, by the peer's address.
    fn path_infos(&self, status: &Status) -> Vec<(IpAddr, PeerAddrInfo)> {
        if self.known.paths.is_none() {
            return vec![(IpAddr::V4(Ipv4Addr::UNSPECIFIED), status.primary)];
        }
        let info = |address: SocketAddr| {
            let asked = PeerAddrInfo {
                address: socket::storage(address),
                ..socket::Plain::zeroed()
            };
            let found = socket::get(self.socket(), uapi::GET_PEER_ADDR_INFO, asked).ok()?;
            Some((address.ip(), found))
        };
        let addresses = socket::peer_addresses(self.socket()).unwrap_or_default();
        addresses.into_iter().filter_map(info).collect()
    }

    // Opening.

    /// Waits until the handshake is done.
    pub(crate) fn poll_open<F: FnOnce(io::Error) -> TransportError>(
        &self,
        context: &mut Context<'_>,
        failed: impl Fn() -> F,
    ) -> Poll<Result<(), TransportError>> {
        loop {
            if let Some(error) = self.lock().error() {
                return Poll::Ready(Err(error));
            }
            // A failure can be told as readable, success is told as writable.
            let guards = (
                self.socket.poll_write_ready(context),
                self.socket.poll_read_ready(context),
            );
            if matches!(guards, (Poll::Pending, Poll::Pending)) {
                // To be woken by an abort.
                let waker = context.waker().clone();
                self.lock().readers.insert(Reader::Streams, waker);
                return Poll::Pending;
            }
            if let Some(error) = self.socket().take_error().map_err(failed())? {
                self.lock().end(Ending::of(&error));
                return Poll::Ready(Err(failed()(error)));
            }
            if self
                .status()
                .is_ok_and(|status| status.state >= uapi::ESTABLISHED)
            {
                self.established();
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(guard) = guards.0 {
                guard.map_err(failed())?.clear_ready();
            }
            if let Poll::Ready(guard) = guards.1 {
                guard.map_err(failed())?.clear_ready();
            }
        }
    }

    /// Records that the handshake is done.
    pub(crate) fn established(&self) {
        let seen = self.look();
        let streams = seen.map_or(self.streams_asked, |seen| {
            seen.status.out_streams.min(seen.status.in_streams)
        });
        let mut state = self.lock();
        state.open = true;
        state.streams = streams.max(1);
        drop(state);
        if let Some(paths) = &self.known.paths {
            paths.confirm(self.socket());
        }
    }

    // Streams.

    /// Returns the number of a stream: those of the connecting end rise from zero, those of the
    /// listening end fall from the highest.
    fn number(&self, by_connecting: bool, index: u16, streams: u16) -> u16 {
        if by_connecting {
            index
        } else {
            streams.saturating_sub(1).saturating_sub(index)
        }
    }

    /// Opens a stream of this end.
    pub(crate) fn open_stream(&self) -> Result<u16, TransportError> {
        let mut state = self.lock();
        if let Some(error) = state.error() {
            return Err(error);
        }
        let (index, streams) = (state.opened_here, state.streams);
        if index >= streams {
            return Err(TransportError::Order {
                what: format!(
                    "the association has {streams} streams each way, and all are open; \
                     set the option `streams`"
                ),
            });
        }
        state.opened_here += 1;
        let id = self.number(self.connects, index, streams);
        state.inboxes.entry(id).or_default();
        Ok(id)
    }

    /// Returns the next stream of the other end. A stream that was opened before another whose data
    /// has arrived is there as well.
    pub(crate) fn poll_accept_stream(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Result<u16, TransportError>> {
        let mut scratch = [];
        loop {
            let mut state = self.lock();
            if state.accepted < state.opened_there {
                let index = state.accepted;
                state.accepted += 1;
                let id = self.number(!self.connects, index, state.streams);
                state.inboxes.entry(id).or_default();
                return Poll::Ready(Ok(id));
            }
            if let Some(error) = state.error() {
                return Poll::Ready(Err(error));
            }
            ready!(self.poll_fill(state, Reader::Streams, &mut scratch, context));
        }
    }

    // What arrives.

    /// Receives data of a stream, and passes it to `consume`; zero bytes are the end of its
    /// direction.
    pub(crate) fn poll_read(
        &self,
        id: u16,
        scratch: &mut [u8],
        consume: &mut impl FnMut(&[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, TransportError>> {
        loop {
            let mut state = self.lock();
            if let Some(inbox) = state.inboxes.get_mut(&id) {
                let pieces = std::mem::take(&mut inbox.pieces);
                if !pieces.is_empty() {
                    let bytes: usize = pieces.iter().map(Vec::len).sum();
                    state.waiting_bytes -= bytes;
                    if !state.held_up.is_empty() {
                        state.held_up.clear();
                        state.wake_all();
                    }
                    drop(state);
                    pieces.iter().for_each(|piece| consume(piece));
                    return Poll::Ready(Ok(bytes));
                }
                if inbox.finished {
                    return Poll::Ready(Ok(0));
                }
            }
            match &state.ended {
                Some(Ending::Done) => return Poll::Ready(Ok(0)),
                Some(ending) => return Poll::Ready(Err(ending.error())),
                None => {}
            }
            let reader = Reader::Stream(id);
            match ready!(self.poll_fill(state, reader, scratch, context)) {
                Came::Else => {}
                Came::Own(bytes) => {
                    let mut state = self.lock();
                    let pieces = std::mem::take(&mut state.pieces);
                    // A caller with too little memory finds it in the association's.
                    let memory = if scratch.len() < LEAST_SCRATCH_BYTES {
                        Some(std::mem::take(&mut state.scratch))
                    } else {
                        None
                    };
                    drop(state);
                    let place: &[u8] = memory.as_deref().unwrap_or(scratch);
                    for piece in &pieces {
                        if piece.stream == id && piece.protocol != FINISHED {
                            consume(&place[piece.start..piece.start + piece.length]);
                        }
                    }
                    let mut state = self.lock();
                    state.pieces = pieces;
                    if let Some(memory) = memory {
                        state.scratch = memory;
                    }
                    return Poll::Ready(Ok(bytes));
                }
            }
        }
    }

    /// Makes one receive call, on behalf of all readers.
    fn poll_fill(
        &self,
        mut state: MutexGuard<'_, State>,
        reader: Reader,
        scratch: &mut [u8],
        context: &mut Context<'_>,
    ) -> Poll<Came> {
        state.readers.insert(reader, context.waker().clone());
        if state.waiting_bytes > MOST_WAITING_BYTES {
            state.held_up.insert(reader);
            return Poll::Pending;
        }
        let mut guard = match ready!(self.socket.poll_read_ready(context)) {
            Ok(guard) => guard,
            Err(error) => {
                state.end(Ending::of(&error));
                return Poll::Ready(Came::Else);
            }
        };
        let state = &mut *state;
        let memory = if scratch.len() < LEAST_SCRATCH_BYTES {
            state.scratch.resize(SCRATCH_BYTES, 0);
            &mut state.scratch
        } else {
            &mut *scratch
        };
        let lost;
        let many = state.more;
        let slot_bytes = if many {
            memory.len() / SLOTS
        } else {
            memory.len()
        };
        match socket::receive(self.socket(), memory, slot_bytes, many, &mut state.pieces) {
            Ok(After { more, lost: gone }) => {
                state.more = more;
                lost = gone;
                if let Some(paths) = &self.known.paths {
                    paths.delivered(&state.pieces, memory);
                }
                if !more {
                    // Whatever comes from now on is told anew.
                    guard.clear_ready();
                    self.nothing_left();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.more = false;
                guard.clear_ready();
                self.nothing_left();
                return Poll::Ready(Came::Else);
            }
            Err(error) => {
                state.end(Ending::of(&error));
                return Poll::Ready(Came::Else);
            }
        }
        let came = self.sort(state, reader, scratch);
        if let Some(error) = lost {
            state.end(Ending::of(&io::Error::from_raw_os_error(error)));
        }
        Poll::Ready(came)
    }

    fn nothing_left(&self) {
        if let Some(paths) = &self.known.paths {
            paths.nothing_left();
        }
    }

    /// Receives whole messages of any stream, into slots of `slot_bytes` of `memory`.
    pub(crate) fn poll_messages(
        &self,
        memory: &mut [u8],
        slot_bytes: usize,
        partial: &mut Vec<u8>,
        consume: &mut impl FnMut(&[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, TransportError>> {
        let mut count = 0;
        loop {
            let mut state = self.lock();
            if let Some(error) = state.error() {
                return Poll::Ready(Err(error));
            }
            let waker = context.waker().clone();
            state.readers.insert(Reader::Streams, waker);
            let received = ready!(self.socket.poll_read_ready(context)).and_then(|mut guard| {
                let many = state.more;
                let received =
                    socket::receive(self.socket(), memory, slot_bytes, many, &mut state.pieces);
                state.more = received.as_ref().is_ok_and(|after| after.more);
                if let (Ok(_), Some(paths)) = (&received, &self.known.paths) {
                    paths.delivered(&state.pieces, memory);
                }
                let nothing =
                    matches!(&received, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
                if nothing || (received.is_ok() && !state.more) {
                    guard.clear_ready();
                    self.nothing_left();
                }
                received
            });
            let lost = match received {
                Ok(after) => after.lost,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => {
                    state.end(Ending::of(&error));
                    continue;
                }
            };
            for piece in &state.pieces {
                let data = &memory[piece.start..piece.start + piece.length];
                if !piece.ends || !partial.is_empty() {
                    partial.extend_from_slice(data);
                }
                if !piece.ends {
                    continue;
                }
                count += 1;
                if partial.is_empty() {
                    consume(data);
                } else {
                    consume(partial);
                    partial.clear();
                }
            }
            if state.pieces.iter().any(|piece| piece.length == 0) {
                self.look();
                state.end(Ending::Done);
            }
            if let Some(error) = lost {
                state.end(Ending::of(&io::Error::from_raw_os_error(error)));
            }
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
        }
    }

    /// Assigns received data to its reader.
    fn sort(&self, state: &mut State, reader: Reader, scratch: &[u8]) -> Came {
        let pieces = std::mem::take(&mut state.pieces);
        let mut own = 0;
        for piece in &pieces {
            if piece.length == 0 {
                // The last chance for its figures.
                self.look();
                state.end(Ending::Done);
                break;
            }
            self.note_stream(state, piece.stream);
            let to = Reader::Stream(piece.stream);
            if piece.protocol == FINISHED {
                state.inboxes.entry(piece.stream).or_default().finished = true;
            } else if to == reader {
                own += piece.length;
                continue;
            } else {
                let memory = if scratch.len() < LEAST_SCRATCH_BYTES {
                    &state.scratch
                } else {
                    scratch
                };
                let copy = memory[piece.start..piece.start + piece.length].to_vec();
                state.waiting_bytes += piece.length;
                state
                    .inboxes
                    .entry(piece.stream)
                    .or_default()
                    .pieces
                    .push_back(copy);
            }
            if to != reader {
                state.wake(to);
            }
        }
        state.pieces = pieces;
        if own > 0 { Came::Own(own) } else { Came::Else }
    }

    /// Records a stream that the other end opened.
    fn note_stream(&self, state: &mut State, id: u16) {
        if state.inboxes.contains_key(&id) {
            return;
        }
        let index = if self.connects {
            state.streams.saturating_sub(1).saturating_sub(id)
        } else {
            id
        };
        if index >= state.opened_there {
            state.opened_there = index.saturating_add(1);
            state.wake(Reader::Streams);
        }
    }

    /// Ends a reader's wait: another reader receives for all from now on.
    pub(crate) fn leave(&self, reader: Reader) {
        let mut state = self.lock();
        state.readers.remove(&reader);
        state.held_up.remove(&reader);
        if let Some((_, waker)) = state.readers.pop_first() {
            waker.wake();
        }
    }

    // What is sent.

    /// Hands a user message of a stream to the kernel when it is the stream's turn.
    pub(crate) fn poll_write(
        &self,
        (id, flags): (u16, u16),
        parts: [&[u8]; 2],
        context: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        self.poll_send((id, flags, BINARY), parts, context)
    }

    /// Ends this end's direction of a stream.
    pub(crate) fn poll_finish(
        &self,
        id: u16,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        self.poll_send((id, 0, FINISHED), [&[0], &[]], context)
    }

    fn poll_send(
        &self,
        (id, flags, protocol): (u16, u16, u32),
        parts: [&[u8]; 2],
        context: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        let mut state = self.lock();
        if let Some(error) = state.error() {
            return Poll::Ready(Err(error));
        }
        match state.writers.iter().position(|(writer, _)| *writer == id) {
            Some(place) => state.writers[place].1.clone_from(context.waker()),
            None if state.writers.is_empty() => {}
            None => state.writers.push_back((id, context.waker().clone())),
        }
        if state.writers.front().is_some_and(|(front, _)| *front != id) {
            return Poll::Pending;
        }
        loop {
            let Poll::Ready(guard) = self.socket.poll_write_ready(context) else {
                if state.writers.is_empty() {
                    state.writers.push_back((id, context.waker().clone()));
                }
                return Poll::Pending;
            };
            let sent = guard.and_then(|mut guard| {
                let sent = socket::send(self.socket(), id, flags, protocol, parts);
                if matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                    guard.clear_ready();
                }
                sent
            });
            match sent {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    // Why nothing can be sent any more, the socket tells apart.
                    let error = match error.kind() {
                        io::ErrorKind::BrokenPipe => {
                            self.socket().take_error().ok().flatten().unwrap_or(error)
                        }
                        _ => error,
                    };
                    let ending = Ending::of(&error);
                    // Of a message that is too long the association knows nothing.
                    if error.raw_os_error() != Some(libc::EMSGSIZE) {
                        state.end(ending.clone());
                    }
                    return Poll::Ready(Err(ending.error()));
                }
            }
        }
    }

    /// Ends a stream's wait to write; the next stream has its turn.
    pub(crate) fn leave_turn(&self, id: u16) {
        let mut state = self.lock();
        let was_first = state.writers.front().is_some_and(|(front, _)| *front == id);
        state.writers.retain(|(writer, _)| *writer != id);
        if was_first && let Some((_, next)) = state.writers.front() {
            next.wake_by_ref();
        }
    }

    /// Whether everything sent is acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.lock().ended.is_some()
            || socket::queued_bytes(self.socket()).is_none_or(|queued| queued == 0)
    }

    /// Discards received data that nobody will read, so that closing is a shutdown and not an
    /// abort.
    fn read_the_rest(&self) {
        let mut state = self.lock();
        let state = &mut *state;
        if state.ended.is_some() || !state.open {
            return;
        }
        state.scratch.resize(SCRATCH_BYTES, 0);
        for _ in 0..LAST_READS {
            let slot = SCRATCH_BYTES / SLOTS;
            let received = socket::receive(
                self.socket(),
                &mut state.scratch,
                slot,
                true,
                &mut state.pieces,
            );
            let at_end = state.pieces.iter().any(|piece| piece.length == 0);
            if received.is_err() || at_end {
                return;
            }
        }
    }
}

impl Abort for Association {
    fn abort(&self) {
        self.lock().end(Ending::Stopped);
        // What is in the send buffer must not travel on after the trial, into the next one's path.
        socket::abort(self.socket());
        // Of one that is not established: closing it says no good-bye either.
        let _ = self.socket().set_linger(Some(Duration::ZERO));
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        self.look();
        self.read_the_rest();
    }
}

/// Guard of a reader's wait: ends it when dropped, so that other readers do not wait for this one.
pub(crate) struct Reading<'a>(pub &'a Association, pub Reader);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// Guard of a stream's wait to write: ends it when dropped, so that other streams do not wait for
/// this one.
pub(crate) struct Turn<'a>(pub &'a Association, pub u16);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.leave_turn(self.1);
    }
}
