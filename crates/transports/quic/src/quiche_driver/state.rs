//! All connections of one end, without a clock or a task of their own: the operations of the end's
//! task and of the application's calls, under one lock.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Instant,
};

use quiche::{ConnectionId, Header, RecvInfo};
use regatta_transport::TransportError;
use tokio::sync::Notify;

use super::{
    entry::{Entry, Quiche},
    files::Files,
    port::{Inbox, Port},
    tls::{self, RetryTokens},
};

/// Length of this end's connection identifiers, in bytes.
pub(super) const ID_BYTES: usize = 16;

/// Maximum number of batches of received packets that are taken before something is sent, and of
/// batches that are sent before something is received.
const BATCHES: usize = 8;

/// Maximum number of connections that wait to be accepted, and of packets kept for each.
const MOST_ATTEMPTS: usize = 64;
const MOST_ATTEMPT_PACKETS: usize = 16;

/// Connection attempt that has not been accepted: only its first packets are kept.
struct Attempt {
    first: Vec<u8>,
    retry: Option<Vec<u8>>,
    way: RecvInfo,
    packets: Vec<Vec<u8>>,
}

/// State of an end that its task, the application's calls and other threads share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Notified when there may be something to send.
    pub changed: Notify,
}

impl Shared {
    pub fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Result of [`State::turn`]: reasons to call it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// Whether there is more to do at once.
    pub busy: bool,
    /// Address of a port for whose packets the kernel has no room.
    pub blocked: Option<SocketAddr>,
    /// Earliest time at which a timer of a connection expires.
    pub timer: Option<Instant>,
    /// Earliest time at which a paced packet may leave.
    pub release: Option<Instant>,
}

impl Turn {
    /// Returns the time of the next call if nothing happens before.
    pub fn next(&self) -> Option<Instant> {
        [self.timer, self.release].into_iter().flatten().min()
    }
}

/// The connections of one end.
pub(super) struct State {
    config: quiche::Config,
    /// Whether connection attempts of the peer are accepted.
    listens: bool,
    /// Maker of Retry tokens if the peer must prove its address first.
    retry: Option<RetryTokens>,
    peer: IpAddr,
    server_name: String,
    most_segments: usize,
    /// Whether packets wait for the time that the congestion control sets (pacing).
    paces: bool,
    /// Whether the peer is given connection identifiers for a second path.
    spare_ids: bool,
    pub ports: Vec<Arc<Port>>,
    connections: HashMap<u64, Entry>,
    next_connection: u64,
    /// Connections by the destination connection identifiers that the peer uses.
    routes: HashMap<Vec<u8>, u64>,
    attempts: VecDeque<Attempt>,
    pub acceptor: Option<Waker>,
    keeps_tickets: bool,
    /// Most recent ticket from the peer.
    ticket: Option<Vec<u8>>,
    files: Files,
}

/// Parameters of a new [`State`].
pub(super) struct Setup {
    pub config: quiche::Config,
    pub listens: bool,
    pub retry: Option<RetryTokens>,
    pub peer: IpAddr,
    pub server_name: String,
    pub most_segments: usize,
    pub paces: bool,
    pub spare_ids: bool,
    pub keeps_tickets: bool,
    pub port: Port,
    pub files: Files,
}

/// Returns the destination connection identifier of a packet.
fn destination(packet: &mut [u8]) -> Option<Vec<u8>> {
    const LONG_HEADER: u8 = 0x80;
    if packet.first()? & LONG_HEADER == 0 {
        return packet.get(1..=ID_BYTES).map(<[u8]>::to_vec);
    }
    let header = Header::from_slice(packet, ID_BYTES).ok()?;
    Some(header.dcid.to_vec())
}

impl State {
    pub fn new(setup: Setup) -> Self {
        Self {
            config: setup.config,
            listens: setup.listens,
            retry: setup.retry,
            peer: setup.peer,
            server_name: setup.server_name,
            most_segments: setup.most_segments,
            paces: setup.paces,
            spare_ids: setup.spare_ids,
            ports: vec![Arc::new(setup.port)],
            connections: HashMap::new(),
            next_connection: 0,
            routes: HashMap::new(),
            attempts: VecDeque::new(),
            acceptor: None,
            keeps_tickets: setup.keeps_tickets,
            ticket: None,
            files: setup.files,
        }
    }

    pub fn entry(&mut self, id: u64) -> Option<&mut Entry> {
        self.connections.get_mut(&id)
    }

    fn insert(&mut self, mut quiche: Quiche, own: &[u8], client: bool) -> u64 {
        let id = self.next_connection;
        self.next_connection += 1;
        self.files.attach(&mut quiche, id);
        self.routes.insert(own.to_vec(), id);
        let entry = Entry::new(quiche, client, self.most_segments, self.paces);
        self.connections.insert(id, entry);
        id
    }

    /// Begins a connection to the peer; nothing is sent yet.
    pub fn connect(&mut self, peer: SocketAddr) -> Result<u64, TransportError> {
        let failed = |error| TransportError::stack("cannot begin a QUIC connection")(error);
        let own = tls::random::<ID_BYTES>()?;
        let local = self.local();
        let mut quiche = quiche::connect_with_buffer_factory(
            Some(&self.server_name),
            &ConnectionId::from_ref(&own),
            local,
            peer,
            &mut self.config,
        )
        .map_err(failed)?;
        // A ticket that cannot be read any more makes a full handshake.
        let resumes = self
            .ticket
            .as_ref()
            .is_some_and(|ticket| quiche.set_session(ticket).is_ok());
        let id = self.insert(quiche, &own, true);
        if let Some(entry) = self.entry(id) {
            entry.shows_ticket = resumes;
        }
        Ok(id)
    }

    /// Returns the local address that connections begin from.
    pub fn local(&self) -> SocketAddr {
        self.ports[0].address
    }

    /// Whether a connection attempt waits to be taken with [`State::accept`].
    pub fn has_attempt(&self) -> bool {
        !self.attempts.is_empty()
    }

    /// Begins the connection of the oldest attempt, and processes its first packets; returns the
    /// peer's address as well.
    pub fn accept(&mut self) -> Option<(IpAddr, Result<u64, TransportError>)> {
        let attempt = self.attempts.pop_front()?;
        Some((attempt.way.from.ip(), self.begin(attempt)))
    }

    fn begin(&mut self, mut attempt: Attempt) -> Result<u64, TransportError> {
        let failed = |error| TransportError::stack("cannot accept a QUIC connection")(error);
        let own = tls::random::<ID_BYTES>()?;
        let own_id = ConnectionId::from_ref(&own);
        let RecvInfo { from, to } = attempt.way;
        let quiche = match &attempt.retry {
            Some(first) => quiche::accept_with_retry(
                &own_id,
                quiche::RetryConnectionIds {
                    original_destination_cid: &ConnectionId::from_ref(first),
                    retry_source_cid: &ConnectionId::from_ref(&attempt.first),
                },
                to,
                from,
                &mut self.config,
            ),
            None => quiche::accept_with_buf_factory(&own_id, None, to, from, &mut self.config),
        }
        .map_err(failed)?;
        let id = self.insert(quiche, &own, false);
        // What the peer sends before it knows the identifier of this end.
        self.routes.insert(std::mem::take(&mut attempt.first), id);
        if let Some(entry) = self.entry(id) {
            for packet in &mut attempt.packets {
                entry.receive(packet, attempt.way);
            }
            entry.notice();
        }
        Ok(id)
    }

    /// Passes a packet of the peer to its connection, or to the attempts.
    fn deliver(&mut self, packet: &mut [u8], way: RecvInfo) {
        if way.from.ip().to_canonical() != self.peer.to_canonical() {
            return;
        }
        let Some(to) = destination(packet) else {
            return;
        };
        if let Some(id) = self.routes.get(&to) {
            if let Some(entry) = self.connections.get_mut(id) {
                entry.receive(packet, way);
            }
            return;
        }
        if !self.listens {
            return;
        }
        if let Some(attempt) = self
            .attempts
            .iter_mut()
            .find(|attempt| attempt.first == to && attempt.way.from == way.from)
        {
            if attempt.packets.len() < MOST_ATTEMPT_PACKETS {
                attempt.packets.push(packet.to_vec());
            }
            return;
        }
        self.consider(packet, to, way);
    }

    /// Processes a packet that belongs to no connection and may begin one.
    fn consider(&mut self, packet: &mut [u8], to: Vec<u8>, way: RecvInfo) {
        let Ok(header) = Header::from_slice(packet, ID_BYTES) else {
            return;
        };
        if header.ty != quiche::Type::Initial
            || !quiche::version_is_supported(header.version)
            || packet.len() < quiche::MIN_CLIENT_INITIAL_LEN
        {
            return;
        }
        let mut retry = None;
        if let Some(tokens) = &self.retry {
            let token = header.token.as_deref().unwrap_or_default();
            match tokens.read(way.from, token, &to) {
                Some(first) => retry = Some(first.to_vec()),
                None => {
                    self.ask_again(&header, way);
                    return;
                }
            }
        }
        if self.attempts.len() >= MOST_ATTEMPTS {
            return;
        }
        self.attempts.push_back(Attempt {
            first: to,
            retry,
            way,
            packets: vec![packet.to_vec()],
        });
        if let Some(waker) = self.acceptor.take() {
            waker.wake();
        }
    }

    /// Sends a Retry packet (RFC 9000 §8.1.2); if it is lost, the peer sends its first packet
    /// again.
    fn ask_again(&self, header: &Header<'_>, way: RecvInfo) {
        let Ok(next) = tls::random::<ID_BYTES>() else {
            return;
        };
        let token = self
            .retry
            .as_ref()
            .and_then(|tokens| tokens.make(way.from, &header.dcid, &next));
        let mut place = [0; quiche::MIN_CLIENT_INITIAL_LEN];
        let Some(token) = token else { return };
        let written = quiche::retry(
            &header.scid,
            &header.dcid,
            &ConnectionId::from_ref(&next),
            &token,
            header.version,
            &mut place,
        );
        if let (Ok(length), Some(port)) = (written, self.port_of(way.to)) {
            port.send(&quinn_udp::Transmit {
                destination: way.from,
                ecn: None,
                contents: &place[..length],
                segment_size: None,
                src_ip: None,
            });
        }
    }

    fn port_of(&self, address: SocketAddr) -> Option<&Arc<Port>> {
        self.ports.iter().find(|port| port.address == address)
    }

    /// Receives packets, handles expired timers, sends packets, and wakes the tasks that wait for a
    /// change.
    pub fn turn(&mut self, inbox: &mut Inbox) -> Turn {
        let mut turn = Turn {
            busy: self.receive(inbox),
            blocked: None,
            timer: None,
            release: None,
        };
        let now = Instant::now();
        let ports = &self.ports;
        let mut over = Vec::new();
        for (id, entry) in &mut self.connections {
            entry.expire(now);
            entry.send(now, ports, BATCHES, &mut turn);
            entry.notice();
            if self.keeps_tickets
                && let Some(ticket) = entry.new_ticket()
            {
                self.ticket = Some(ticket);
            }
            if self.spare_ids {
                for own in entry.give_ids() {
                    self.routes.insert(own, *id);
                }
            }
            if entry.is_over() {
                over.push(*id);
            }
        }
        for id in over {
            self.connections.remove(&id);
            self.routes.retain(|_, routed| *routed != id);
        }
        turn
    }

    /// Receives packets from all ports; returns whether there may be more.
    fn receive(&mut self, inbox: &mut Inbox) -> bool {
        let ports = self.ports.clone();
        let mut more = false;
        for port in &ports {
            let to = port.address;
            let mut batches = 0;
            while batches < BATCHES
                && inbox.receive(port, |packet, from| {
                    self.deliver(packet, RecvInfo { from, to })
                })
            {
                batches += 1;
            }
            more |= batches == BATCHES;
        }
        more
    }

    /// Closes a connection whose owner was dropped; its state is dropped when the other end knows.
    pub fn release(&mut self, id: u64) {
        if let Some(entry) = self.entry(id) {
            entry.release();
        }
    }

    /// Closes all connections and stops listening.
    pub fn release_all(&mut self) {
        self.listens = false;
        self.attempts.clear();
        for entry in self.connections.values_mut() {
            entry.release();
        }
    }

    /// Whether the other end may still have to be told that a connection has ended.
    pub fn has_last_words(&self) -> bool {
        self.connections.values().any(Entry::has_last_words)
    }
}
