//! One association: its socket, the data received on its streams, and the wakers of waiting tasks.
//!
//! All streams share the socket's one queue, so each reader receives for all: data of its own
//! stream goes straight from the kernel into its buffer, data of another stream into that stream's
//! inbox. All tasks of an end run on one thread, so this wakes no other thread; aborts and samples
//! come from other threads.

mod handle;
mod receiving;
mod sending;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use parking_lot::Mutex;
use regatta_control::TrialOrder;
use regatta_model::reason;
use regatta_transport::{Abort, Result, TransportError, socket_option::Plain};

use socket2::Socket;
use tokio::io::{Interest, unix::AsyncFd};

use self::receiving::Partial;
use super::{
    options::Options,
    paths::Paths,
    socket::{self, Piece},
    uapi::{self, AssocStats, PeerAddrInfo, Status},
};
use crate::{
    association::{Ending, number},
    session::DeliveryOptions,
};

/// Payload protocol identifier of the one-byte message that ends a direction of a stream: `WebRTC
/// Binary Empty`. SCTP has no half-closed streams.
pub(crate) const FINISHED: u32 = 57;

/// Size of the fallback receive buffer for readers with less than [`MIN_SCRATCH_BYTES`], in
/// bytes. An eighth of it is a slot.
const SCRATCH_BYTES: usize = 128 << 10;

/// Number of slots that a buffer is cut into when several pieces are received at once.
const SLOTS: usize = 8;

/// Maximum number of receive calls when closing: the kernel aborts an association with unread data
/// instead of shutting it down.
const LAST_READS: usize = 64;

/// Returns the reason for which an association ended with an error of the socket.
fn ending(error: &io::Error) -> Ending {
    match error.raw_os_error() {
        // Writes and requests after the end.
        Some(libc::EPIPE | libc::ENOTCONN | libc::ESHUTDOWN) => Ending::Done,
        _ => Ending::System(error.kind(), error.to_string()),
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
    /// Message of a flow of which not all pieces have arrived.
    partial: Partial,
    /// Messages that arrived together with the first one.
    early: VecDeque<Vec<u8>>,
}

impl State {
    fn end(&mut self, ending: Ending) {
        self.ended.get_or_insert(ending);
        self.wake_all();
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

    /// Checks that the association has not ended.
    fn check(&self) -> Result<()> {
        let ended = self.ended.as_ref();
        ended.map_or(Ok(()), |ending| Err(ending.error()))
    }
}

/// State of one association.
pub(crate) struct Association {
    socket: AsyncFd<Socket>,
    connects: bool,
    /// Flags of sent messages.
    flags: u16,
    /// Number of streams in each direction that this end requested.
    requested_streams: u16,
    cache: Arc<StatisticsCache>,
    state: Mutex<State>,
}

/// Snapshot of the kernel's statistics of an association.
pub(crate) struct StatisticsSnapshot {
    pub status: Status,
    pub counts: Option<AssocStats>,
    /// Path states by the peer's address, which is unspecified if there is one path only.
    pub paths: Vec<(IpAddr, PeerAddrInfo)>,
}

/// Statistics of an association, available after its end too.
pub(crate) struct StatisticsCache {
    latest: Mutex<Option<Arc<StatisticsSnapshot>>>,
    /// Paths of an association that may have several.
    pub paths: Option<Arc<Paths>>,
}

impl StatisticsCache {
    /// Returns the most recent snapshot.
    pub(crate) fn latest(&self) -> Option<Arc<StatisticsSnapshot>> {
        self.latest.lock().clone()
    }

    fn store(&self, snapshot: StatisticsSnapshot) {
        if let Some(paths) = &self.paths {
            for (address, info) in &snapshot.paths {
                paths.seen(*address, info.state);
            }
        }
        *self.latest.lock() = Some(Arc::new(snapshot));
    }
}

impl Association {
    /// Wraps a socket that is connected, or about to be. Must be called on the end's runtime.
    pub(crate) fn new(
        socket: Socket,
        order: &TrialOrder,
        paths: Option<Arc<Paths>>,
    ) -> Result<Self> {
        let values = &order.transport.options;
        let interest = Interest::READABLE | Interest::WRITABLE;
        // SAFETY: a `Socket` gives the same open descriptor until it is dropped, and it is dropped
        // by the registration alone.
        let socket = unsafe { AsyncFd::register_with_interest(socket, interest) }
            .map_err(|error| TransportError::io(reason::cannot_wait_for_socket())(error.into()))?;
        Ok(Self {
            socket,
            connects: order.connects(),
            flags: match DeliveryOptions::ordered.read(values) {
                true => 0,
                false => libc::SCTP_UNORDERED as u16,
            },
            requested_streams: Options::streams.read(values),
            cache: Arc::new(StatisticsCache {
                latest: Mutex::default(),
                paths,
            }),
            state: Mutex::default(),
        })
    }

    fn socket(&self) -> &Socket {
        self.socket.get_ref()
    }

    pub(crate) fn paths(&self) -> Option<&Arc<Paths>> {
        self.cache.paths.as_ref()
    }

    /// Returns the statistics of the association, available after its end too.
    pub(crate) fn cache(&self) -> &Arc<StatisticsCache> {
        &self.cache
    }

    fn status(&self) -> io::Result<Status> {
        socket::get(self.socket(), libc::SCTP_STATUS)
    }

    /// Takes and keeps a snapshot of the kernel's statistics, which are not available after the end
    /// of the association; returns the most recent one.
    pub(crate) fn snapshot(&self) -> Option<Arc<StatisticsSnapshot>> {
        if let Ok(status) = self.status() {
            let counts = socket::get(self.socket(), uapi::GET_ASSOC_STATS).ok();
            let paths = self.path_infos(&status);
            self.cache.store(StatisticsSnapshot {
                status,
                counts,
                paths,
            });
        }
        self.cache.latest()
    }

    /// Returns the state of each path, by the peer's address.
    fn path_infos(&self, status: &Status) -> Vec<(IpAddr, PeerAddrInfo)> {
        if self.cache.paths.is_none() {
            return vec![(IpAddr::V4(Ipv4Addr::UNSPECIFIED), status.primary)];
        }
        let info = |address: SocketAddr| {
            let request = PeerAddrInfo {
                address: socket::storage(address),
                ..Plain::zeroed()
            };
            let found =
                socket::get_with(self.socket(), libc::SCTP_GET_PEER_ADDR_INFO, request).ok()?;
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
    ) -> Poll<Result<()>> {
        loop {
            self.state.lock().check()?;
            // A failure can make the socket readable, success makes it writable.
            let guards = (
                self.socket.poll_write_ready(context),
                self.socket.poll_read_ready(context),
            );
            if matches!(guards, (Poll::Pending, Poll::Pending)) {
                // To be woken by an abort.
                let waker = context.waker().clone();
                self.state.lock().readers.insert(Reader::Streams, waker);
                return Poll::Pending;
            }
            if let Some(error) = self.socket().take_error().map_err(failed())? {
                self.state.lock().end(ending(&error));
                return Poll::Ready(Err(failed()(error)));
            }
            let established = |status: Status| status.state >= uapi::ESTABLISHED;
            if self.status().is_ok_and(established) {
                self.established();
                return Poll::Ready(Ok(()));
            }
            for guard in [guards.0, guards.1] {
                if let Poll::Ready(guard) = guard {
                    guard.map_err(failed())?.clear_ready();
                }
            }
        }
    }

    /// Records that the handshake is done.
    pub(crate) fn established(&self) {
        let snapshot = self.snapshot();
        let streams = snapshot.map_or(self.requested_streams, |snapshot| {
            snapshot.status.out_streams.min(snapshot.status.in_streams)
        });
        let mut state = self.state.lock();
        state.open = true;
        state.streams = streams.max(1);
        drop(state);
        if let Some(paths) = &self.cache.paths {
            paths.confirm(self.socket());
        }
    }

    // Streams.

    /// Returns the next stream that the other end opened. Data of a later stream implies that all earlier ones are
    /// open.
    pub(crate) fn poll_accept_stream(&self, context: &mut Context<'_>) -> Poll<Result<u16>> {
        loop {
            let mut state = self.state.lock();
            if state.accepted < state.opened_there {
                let index = state.accepted;
                state.accepted += 1;
                let id = number(!self.connects, index, state.streams);
                state.inboxes.entry(id).or_default();
                return Poll::Ready(Ok(id));
            }
            state.check()?;
            ready!(self.poll_fill(state, Reader::Streams, &mut [], &mut |_| {}, context));
        }
    }

    /// Discards received data that will not be read, so that closing is a shutdown and not an
    /// abort.
    fn read_the_rest(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.ended.is_some() || !state.open {
            return;
        }
        state.scratch.resize(SCRATCH_BYTES, 0);
        let slot = SCRATCH_BYTES / SLOTS;
        for _ in 0..LAST_READS {
            let (memory, pieces) = (&mut state.scratch, &mut state.pieces);
            let received = socket::receive(self.socket(), memory, slot, true, pieces);
            let at_end = pieces.iter().any(|piece| piece.length == 0);
            if received.is_err() || at_end {
                return;
            }
        }
    }
}

impl AsRef<Socket> for Association {
    fn as_ref(&self) -> &Socket {
        self.socket()
    }
}

impl Abort for Association {
    fn abort(&self) {
        self.state.lock().end(Ending::Stopped);
        // What is in the send buffer must not travel on after the trial, into the next one's path.
        socket::abort(self.socket());
        // Of one that is not established: closing it sends the other end nothing either.
        let _ = self.socket().set_linger(Some(Duration::ZERO));
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        self.snapshot();
        self.read_the_rest();
    }
}
