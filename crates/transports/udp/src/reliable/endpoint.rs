//! Connecting and listening.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    mem::MaybeUninit,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Bytes, Warning};
use regatta_transport::{
    MonotonicTime, Purpose, Stop, StreamEndpoint, TransportError,
    opening::{self, OPENING_BYTES, Token},
    stream::{
        Accepted, block_on_blocking, join_all_with_threads, join_with_threads, sleep_until_blocking,
    },
};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    Settings,
    caretaker::Caretaker,
    connection::{Connection, Link},
    core::Core,
    frame::{DATA_HEADER_BYTES, Frame},
    sender::LONGEST_PART,
    stream::Stream,
};
use crate::socket::{address, fragmentation, headers, set_buffers, set_integer, wait_readable};

/// How often a listening end looks whether it is stopped.
const LOOK: Duration = Duration::from_millis(20);

/// How long a send call may block on a full buffer.
const SEND_TIME: Duration = Duration::from_millis(100);

/// How many sessions are remembered, so that a CONN that comes again does not open another one.
const SESSIONS_REMEMBERED: usize = 4096;

/// One end of a trial over reliable UDP.
pub(crate) struct Endpoint {
    role: Role,
    settings: Settings,
    local: IpAddr,
    peer: IpAddr,
    token: Token,
    mtu: usize,
    /// Size of the workload's messages, where each is to be one datagram.
    message: Option<usize>,
    listener: Option<(Socket, SocketAddr)>,
    /// Sessions that have begun here.
    sessions: Mutex<VecDeque<u32>>,
    caretaker: Caretaker,
}

impl Endpoint {
    /// Makes an endpoint for messages of this size, if each is to be one datagram; at a listening
    /// end it listens when this returns.
    pub(crate) fn new(
        order: &TrialOrder,
        settings: Settings,
        message: Option<usize>,
    ) -> Result<Self, TransportError> {
        let mut endpoint = Self {
            role: order.role,
            settings,
            local: order.local,
            peer: order.peer,
            token: Token::parse(&order.token)?,
            mtu: order.path.mtu_bytes as usize,
            message,
            listener: None,
            sessions: Mutex::default(),
            caretaker: Caretaker::new()?,
        };
        if !order.connects() {
            let opened = endpoint.socket(SocketAddr::new(order.local, 0))?;
            let address = address(&opened.socket)?;
            endpoint.listener = Some((opened.socket, address));
        }
        Ok(endpoint)
    }

    /// Largest datagram that fits one packet of the path, in bytes.
    fn packet_payload(&self) -> usize {
        self.mtu.saturating_sub(headers(self.local))
    }

    /// A bound socket with its buffers and offloads, and what was read back.
    fn socket(&self, local: SocketAddr) -> Result<Opened, TransportError> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))
            .map_err(TransportError::io("cannot open a UDP socket"))?;
        // The sockets of the connections share the port that is listened on.
        socket
            .set_reuse_address(true)
            .map_err(TransportError::io("cannot set SO_REUSEADDR"))?;
        let Settings {
            receive_buffer,
            send_buffer,
            ..
        } = self.settings;
        let (receive, send) = set_buffers(&socket, receive_buffer, send_buffer)
            .map_err(TransportError::io("cannot set the socket's buffers"))?;
        socket
            .set_write_timeout(Some(SEND_TIME))
            .map_err(TransportError::io("cannot set SO_SNDTIMEO"))?;
        // One message at a time gives nothing to put together.
        let offload = self.settings.gso && self.settings.rules.window > 1;
        let gso = offload && set_integer(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let gro = offload && set_integer(&socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        let on = |on: bool| if on { "on" } else { "off" }.to_owned();
        let facts = match self.role {
            Role::Sender => [
                ("gso.sender", on(gso)),
                ("send_buffer_bytes.sender", send.to_string()),
                (
                    "window_messages.sender",
                    self.settings.rules.window.to_string(),
                ),
            ]
            .to_vec(),
            Role::Receiver => [
                ("gro.receiver", on(gro)),
                ("receive_buffer_bytes.receiver", receive.to_string()),
            ]
            .to_vec(),
        };
        socket
            .bind(&local.into())
            .map_err(TransportError::io(format!(
                "cannot bind to `{}`",
                local.ip()
            )))?;
        Ok(Opened {
            socket,
            segment_limit: gso.then(|| self.packet_payload()),
            facts: facts
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        })
    }

    /// A socket of its own for one connection.
    fn link(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        core: Core,
        first: &[u8],
        stop: &Stop,
    ) -> Result<(Arc<Link>, BTreeMap<String, String>), TransportError> {
        let Opened {
            socket,
            segment_limit,
            mut facts,
        } = self.socket(local)?;
        socket
            .connect(&peer.into())
            .map_err(TransportError::io(format!(
                "cannot connect to `{}`",
                peer.ip()
            )))?;
        let link = Link::new(socket, self.settings.rules, core, segment_limit, first);
        stop.on_stop(&link);
        facts.insert(
            format!("congestion_control.{}", self.role.name()),
            link.congestion_control().to_owned(),
        );
        self.caretaker.take(&link);
        Ok((link, facts))
    }

    /// Whether this session has begun here already; it is remembered from now on.
    fn is_known(&self, session: u32) -> bool {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.contains(&session) {
            return true;
        }
        if sessions.len() >= SESSIONS_REMEMBERED {
            sessions.pop_front();
        }
        sessions.push_back(session);
        false
    }

    /// Judges a datagram that came to the listening socket.
    fn knock(
        &self,
        (listener, address): (&Socket, SocketAddr),
        (from, datagram): (SocketAddr, &[u8]),
        stop: &Stop,
        arrived: &mut impl FnMut(),
    ) -> Result<Option<Accepted<Connection>>, TransportError> {
        let mut answer = Vec::new();
        let mut say = |session, frame: Frame<'_>| {
            frame.encode(session, &mut answer);
            // As good as lost on the way.
            let _ = listener.send_to(&answer, &SockAddr::from(from));
        };
        let (session, opening) = match Frame::decode(datagram) {
            Some((session, Frame::Conn { opening })) => (session, opening),
            // There is nothing to close, or to refuse.
            Some((_, Frame::Close | Frame::ConRjt | Frame::ConAcc)) => return Ok(None),
            // Of a connection that is gone.
            Some((session, _)) => {
                say(session, Frame::Close);
                return Ok(None);
            }
            None => {
                return Ok(Some(Accepted::Failed(TransportError::Protocol {
                    what: format!(
                        "a datagram of {} bytes from `{}` is no frame of this protocol",
                        datagram.len(),
                        from.ip()
                    ),
                })));
            }
        };
        let admitted = <&[u8; OPENING_BYTES]>::try_from(opening)
            .ok()
            .and_then(|opening| opening::decode(opening, self.token));
        let known = self.is_known(session);
        if admitted.is_none() {
            say(session, Frame::ConRjt);
            let error = TransportError::Protocol {
                what: format!("a CONN from `{}` has another token", from.ip()),
            };
            return Ok((!known).then_some(Accepted::Failed(error)));
        }
        if known {
            // Its connection answers when it comes again.
            return Ok(None);
        }
        arrived();
        let core = Core::accepting(session, self.settings.rules);
        let (link, facts) = self.link(address, from, core, opening, stop)?;
        link.transmit()?;
        let stream = Stream::new(Arc::clone(&link), None);
        Ok(Some(Accepted::Connection(Connection::new(
            link, stream, facts,
        ))))
    }
}

/// A socket, as it was made.
struct Opened {
    socket: Socket,
    segment_limit: Option<usize>,
    facts: BTreeMap<String, String>,
}

impl StreamEndpoint for Endpoint {
    type Connection = Connection;

    const MULTIPLEXES: bool = false;

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on_blocking(future)
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Connection, TransportError> {
        let opening = opening::encode(self.token, purpose);
        // Keyed anew in every process, and different at each call.
        let session = RandomState::new().build_hasher().finish() as u32;
        let core = Core::connecting(session, self.settings.rules, &opening);
        let local = SocketAddr::new(self.local, 0);
        let (link, facts) = self.link(local, peer, core, &[], stop)?;
        link.opened(until)?;
        let stream = Stream::new(Arc::clone(&link), Some(opening));
        Ok(Connection::new(link, stream, facts))
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<Connection>, TransportError> {
        let Some((listener, address)) = &self.listener else {
            return Err(TransportError::Protocol {
                what: "this end connects, and does not listen".to_owned(),
            });
        };
        let failed = || TransportError::io("cannot receive a CONN");
        let begun = MonotonicTime::now();
        let mut place = [MaybeUninit::uninit(); 2048];
        loop {
            if stop.is_stopped() {
                return Err(TransportError::Cancelled);
            }
            let look = until.min(MonotonicTime::now() + LOOK);
            if !wait_readable(listener, look).map_err(failed())? {
                if until.has_passed() {
                    return Err(TransportError::TimedOut {
                        what: "connection".to_owned(),
                        seconds: MonotonicTime::now().since(begun).as_secs_f64(),
                    });
                }
                continue;
            }
            let received = listener.recv_from_with_flags(&mut place, libc::MSG_DONTWAIT);
            let (length, from) = match received {
                Ok((length, from)) => (length, from.as_socket()),
                // An answer to somebody who is gone.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::Interrupted
                            | io::ErrorKind::ConnectionRefused
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(failed()(error)),
            };
            let Some(from) = from.filter(|from| from.ip() == self.peer) else {
                continue;
            };
            // SAFETY: the kernel has written the first `length` bytes.
            let datagram: &[u8] =
                unsafe { std::slice::from_raw_parts(place.as_ptr().cast(), length) };
            let accepted = self.knock((listener, *address), (from, datagram), stop, arrived)?;
            if let Some(accepted) = accepted {
                return Ok(accepted);
            }
        }
    }

    async fn join<A, B, FA, FB>(&self, a: A, b: B) -> (FA::Output, FB::Output)
    where
        A: FnOnce() -> FA + Send,
        B: FnOnce() -> FB + Send,
        FA: Future<Output: Send>,
        FB: Future<Output: Send>,
    {
        join_with_threads(a, b)
    }

    async fn join_all<T, F>(&self, tasks: Vec<T>) -> Vec<F::Output>
    where
        T: FnOnce() -> F + Send,
        F: Future<Output: Send>,
    {
        join_all_with_threads(tasks)
    }

    async fn sleep_until(&self, moment: MonotonicTime) {
        sleep_until_blocking(moment);
    }

    fn warnings(&self) -> Vec<Warning> {
        let Some(message) = self.message.filter(|_| self.role == Role::Sender) else {
            return Vec::new();
        };
        let mut warnings = Vec::new();
        if message > LONGEST_PART {
            warnings.push(Warning {
                code: "message_split".to_owned(),
                message: format!(
                    "each message of {} travels as two datagrams: one carries {LONGEST_PART} B \
                     besides its header",
                    Bytes(message as u64)
                ),
                hint: format!("use messages of at most {LONGEST_PART} B"),
            });
        }
        let part = message.min(LONGEST_PART);
        warnings.extend(fragmentation(part, DATA_HEADER_BYTES, self.mtu, self.local));
        warnings
    }
}
