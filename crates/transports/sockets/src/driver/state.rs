//! All connections of one end and its sockets, under one lock: the work of the end's task and of the
//! application's calls.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use parking_lot::Mutex;
use regatta_model::reason;
use regatta_transport::TransportError;
use tokio::sync::Notify;

use super::{
    Connection, Number, Protocol, Wakers,
    outbox::{Outbox, Segmentation},
    port::{Inbox, Port},
};
use crate::timer::Timer;

/// Maximum number of receive calls before the next batch is sent, and of batches sent before the next receive call.
const BATCHES: usize = 8;

/// Maximum number of connections that wait to be accepted.
const MAX_WAITING: usize = 64;

/// Event at a listening end.
#[derive(Debug)]
pub enum Incoming {
    /// The other end opens a connection, which has this number.
    Connection(Number),
    /// An attempt that was refused.
    Refused(TransportError),
}

struct Slot<C> {
    connection: C,
    outbox: Outbox,
    released: bool,
    /// Whether [`State::poll_closed`] waits for the packet that closes the connection to be sent.
    is_awaited: bool,
}

/// The connections of one end.
pub struct Connections<C> {
    slots: BTreeMap<Number, Slot<C>>,
    segmentation: Segmentation,
    incoming: VecDeque<Incoming>,
    /// Packets outside of any connection: local address, peer, packet.
    replies: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// Tasks that wait for connections to come, or to end.
    waiting: Wakers,
}

impl<C> Default for Connections<C> {
    /// Makes an end without connections, whose packets are sent one by one.
    fn default() -> Self {
        Self::new(Segmentation {
            packets: 1,
            packet_bytes: usize::MAX,
        })
    }
}

impl<C> Connections<C> {
    fn new(segmentation: Segmentation) -> Self {
        Self {
            slots: BTreeMap::new(),
            segmentation,
            incoming: VecDeque::new(),
            replies: Vec::new(),
            waiting: Wakers::default(),
        }
    }
}

impl<C: Connection> Connections<C> {
    /// Adds a connection under a number that no other one has.
    pub fn insert(&mut self, number: Number, connection: C) {
        let slot = Slot {
            connection,
            outbox: Outbox::new(self.segmentation, C::LONGEST_PACKET_BYTES),
            released: false,
            is_awaited: false,
        };
        self.slots.insert(number, slot);
    }

    /// Returns a connection; `None` once it was dropped.
    pub fn get_mut(&mut self, number: Number) -> Option<&mut C> {
        Some(&mut self.slots.get_mut(&number)?.connection)
    }

    /// Iterates over all connections.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.slots.values().map(|slot| &slot.connection)
    }

    /// Whether another event of the listening end can wait.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.incoming.len() < MAX_WAITING
    }

    /// Adds an event of the listening end.
    pub fn announce(&mut self, incoming: Incoming) {
        self.incoming.push_back(incoming);
        self.waiting.wake();
    }

    /// Sends a packet outside of any connection, from the socket `from`; a failure counts as a loss.
    pub fn reply(&mut self, from: SocketAddr, to: SocketAddr, packet: Vec<u8>) {
        self.replies.push((from, to, packet));
    }
}

/// Reasons to call [`State::turn`] again.
#[derive(Debug, Default)]
struct Turn {
    /// Whether there is more to do at once.
    busy: bool,
    /// Address of a socket for whose packets the kernel has no room.
    blocked: Option<SocketAddr>,
    /// Earliest time at which a timer expires or a paced packet may leave.
    next: Option<Instant>,
}

impl Turn {
    fn at(&mut self, next: Option<Instant>) {
        self.next = [self.next, next].into_iter().flatten().min();
    }
}

/// The protocol, the connections and the sockets of one end.
pub(super) struct State<P: Protocol> {
    pub protocol: P,
    pub connections: Connections<P::Connection>,
    pub ports: Vec<Port>,
    peer: IpAddr,
    /// Whether a socket has failed, so that nothing more is received.
    failed: bool,
}

impl<C: Connection> Slot<C> {
    /// Sends what the connection has to send now; returns whether all of it has left.
    fn transmit(&mut self, now: Instant, ports: &[Port], turn: &mut Turn) -> io::Result<bool> {
        let mut more = true;
        for _ in 0..BATCHES {
            // One that is held back by the kernel, or until its time, is not followed by others.
            if !self.outbox.send(ports)? || self.outbox.waiting().is_some() {
                break;
            }
            more = self
                .outbox
                .fill(|buffer| self.connection.poll_transmit(now, buffer));
            if !more && self.outbox.is_empty() {
                break;
            }
        }
        if !self.outbox.send(ports)? {
            let from = self.outbox.waiting().and_then(|(from, _)| from);
            turn.blocked = from.or(Some(ports[0].address));
        }
        let flushed = !more && self.outbox.is_empty();
        match self.outbox.waiting() {
            Some((_, at)) => turn.at(at.filter(|at| *at > now)),
            None => turn.busy |= !flushed,
        }
        Ok(flushed)
    }

    fn is_over(&self) -> bool {
        self.released && self.outbox.is_empty() && self.connection.is_over()
    }

    /// Whether the packet that closes the connection was not handed to the kernel yet.
    fn waits_to_close(&self) -> bool {
        let is_written = self.connection.is_over() && !self.outbox.is_empty();
        is_written || self.connection.waits_to_close()
    }
}

impl<P: Protocol> State<P> {
    /// Returns the local address that connections begin from.
    pub fn local(&self) -> SocketAddr {
        self.ports[0].address
    }

    /// Returns the next event of the listening end.
    pub fn poll_incoming(&mut self, context: &Context<'_>) -> Poll<Incoming> {
        let Some(incoming) = self.connections.incoming.pop_front() else {
            self.connections.waiting.register(context);
            return Poll::Pending;
        };
        Poll::Ready(incoming)
    }

    /// Closes a connection whose owner was dropped; it is dropped when the other end knows.
    pub fn release(&mut self, number: Number) {
        if let Some(slot) = self.connections.slots.get_mut(&number)
            && !slot.released
        {
            slot.released = true;
            slot.connection.release();
        }
    }

    /// Closes all connections.
    pub fn release_all(&mut self) {
        for number in self.numbers() {
            self.release(number);
            self.send(number);
        }
    }

    /// Waits until the packets that close the connections have been handed to the kernel, once: the other end learns over
    /// control as well that the trial is over.
    pub fn poll_closed(&mut self, context: &Context<'_>) -> Poll<()> {
        for slot in self.connections.slots.values_mut() {
            slot.is_awaited = slot.waits_to_close();
        }
        if !self.connections.slots.values().any(|slot| slot.is_awaited) {
            return Poll::Ready(());
        }
        self.connections.waiting.register(context);
        Poll::Pending
    }

    /// Aborts all connections that are not closed.
    pub fn abort_all(&mut self) {
        for number in self.numbers() {
            if let Some(connection) = self.connections.get_mut(number) {
                connection.abort();
            }
            self.send(number);
        }
    }

    /// Drops all connections.
    pub fn drop_all(&mut self) {
        for number in self.numbers() {
            self.connections.slots.remove(&number);
            self.protocol.forget(number);
        }
    }

    fn numbers(&self) -> Vec<Number> {
        self.connections.slots.keys().copied().collect()
    }

    /// Sends the packets that a connection has now, until the kernel takes no more.
    pub fn send(&mut self, number: Number) {
        if let Some(slot) = self.connections.slots.get_mut(&number)
            && let Err(error) = slot.transmit(Instant::now(), &self.ports, &mut Turn::default())
        {
            slot.connection.fail(&error);
        }
    }

    /// Receives packets, handles expired timers, sends packets, and wakes the tasks that wait for a
    /// change.
    fn turn(&mut self, inbox: &mut Inbox) -> Turn {
        let mut turn = Turn::default();
        match self.receive(inbox) {
            Ok(busy) => turn.busy = busy,
            Err(error) => self.fail(&error),
        }
        for (from, to, packet) in self.connections.replies.drain(..) {
            if let Some(port) = self.ports.iter().find(|port| port.address == from) {
                let _ = port.send(to, &packet, packet.len());
            }
        }
        let now = Instant::now();
        let mut over = Vec::new();
        for (number, slot) in &mut self.connections.slots {
            if slot.connection.next_timeout().is_some_and(|at| at <= now) {
                slot.connection.handle_timeout(now);
            }
            let flushed = slot.transmit(now, &self.ports, &mut turn);
            let flushed = flushed.unwrap_or_else(|error| {
                slot.connection.fail(&error);
                true
            });
            slot.connection.update(flushed);
            self.protocol.updated(*number, &mut slot.connection);
            // Once: a task that is woken may ask for another turn.
            if slot.is_awaited && !slot.waits_to_close() {
                slot.is_awaited = false;
                self.connections.waiting.wake();
            }
            if slot.is_over() {
                over.push(*number);
            } else {
                // What an expired timer has to send goes after a packet that is held back: waiting for the timer would
                // be no wait, which a virtual clock never passes.
                let held_back = slot.outbox.waiting().is_some();
                let next = slot.connection.next_timeout();
                turn.at(next.filter(|at| !held_back || *at > now));
            }
        }
        for number in over {
            self.connections.slots.remove(&number);
            self.protocol.forget(number);
            self.connections.waiting.wake();
        }
        turn
    }

    fn fail(&mut self, error: &io::Error) {
        self.failed = true;
        for slot in self.connections.slots.values_mut() {
            slot.connection.fail(error);
        }
        let error = io::Error::new(error.kind(), error.to_string());
        let error = TransportError::io(reason::cannot_receive())(error);
        self.connections.announce(Incoming::Refused(error));
    }

    /// Receives packets from all sockets; returns whether there may be more.
    fn receive(&mut self, inbox: &mut Inbox) -> io::Result<bool> {
        let mut more = false;
        for port in self.ports.iter().filter(|_| !self.failed) {
            let (mut calls, mut packets) = (0, 0);
            let mut waiting = true;
            while waiting && calls < BATCHES && packets < P::PACKETS_AT_ONCE {
                let mut now = None;
                waiting = inbox.receive(port, |arrived| {
                    // Taken when the call has returned: before it, a round trip would seem shorter than it
                    // was whenever this thread had to wait for its core.
                    let now = *now.get_or_insert_with(Instant::now);
                    packets += arrived.bytes.len().div_ceil(arrived.segment);
                    if arrived.from.ip().to_canonical() == self.peer {
                        self.protocol.handle(now, arrived, &mut self.connections);
                    }
                })?;
                calls += 1;
            }
            more |= waiting;
        }
        Ok(more)
    }

    /// Waits until there is something to receive, or room for the packets of a socket that had none.
    fn poll_ready(&self, blocked: Option<SocketAddr>, context: &mut Context<'_>) -> Poll<()> {
        let ready = |port: &Port, context: &mut Context<'_>| {
            let readable = !self.failed && port.socket.poll_recv_ready(context).is_ready();
            readable
                || (blocked == Some(port.address)
                    && port.socket.poll_send_ready(context).is_ready())
        };
        // All are polled, so that each of them wakes this task.
        let ready = self.ports.iter().filter(|port| ready(port, context));
        match ready.count() {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}

/// State of an end that its task, the application's calls and other threads share.
pub(super) struct Driver<P: Protocol> {
    pub state: Mutex<State<P>>,
    /// Notified when there may be something to send.
    pub changed: Notify,
}

impl<P: Protocol> Driver<P> {
    pub fn new(protocol: P, port: Port, segmentation: Segmentation, peer: IpAddr) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                protocol,
                connections: Connections::new(segmentation),
                ports: vec![port],
                peer: peer.to_canonical(),
                failed: false,
            }),
            changed: Notify::new(),
        })
    }

    /// Serves the connections for as long as the runtime lives.
    pub async fn run(self: Arc<Self>) {
        let mut inbox = Inbox::new();
        let mut timer = Timer::new().ok();
        loop {
            let turn = self.state.lock().turn(&mut inbox);
            if turn.busy {
                tokio::task::yield_now().await;
                continue;
            }
            let ready = std::future::poll_fn(|context: &mut Context<'_>| {
                self.state.lock().poll_ready(turn.blocked, context)
            });
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = ready => {}
                () = sleep_until(timer.as_mut(), turn.next) => {}
            }
            // Whatever is ready all the time, the application has its turn.
            tokio::task::consume_budget().await;
        }
    }
}

/// Waits until `at`, or forever without one. Uses the timer descriptor if the process has one,
/// because paced packets are less than a millisecond apart.
async fn sleep_until(timer: Option<&mut Timer>, at: Option<Instant>) {
    let Some(at) = at else {
        return std::future::pending().await;
    };
    let exact = match timer {
        Some(timer) => timer.sleep_until(at).await.is_ok(),
        None => false,
    };
    if !exact {
        tokio::time::sleep_until(at.into()).await;
    }
}
