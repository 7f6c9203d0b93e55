//! Endpoint of `udp-reliable`: connecting and listening.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{BuildHasher, Hasher, RandomState},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Bytes, StackFacts, Warning};
use regatta_transport::{
    Blocking, MonotonicTime, Purpose, Stop, StreamEndpoint, TransportError,
    opening::{self, OPENING_BYTES, Token},
    stream::Accepted,
    wait,
};

use super::{
    Settings,
    congestion::Congestion,
    connection::{Connection, Link},
    core::Core,
    frame::{DATA_HEADER_BYTES, Frame, marks},
    sender::LONGEST_PART,
    stream::Stream,
    timer::TimerThread,
};
use crate::sockets::{self, Listener, Opened, Sockets};

/// Number of sessions that are remembered, so that a repeated CONN does not open another
/// connection.
const SESSIONS_REMEMBERED: usize = 4096;

/// One end of a trial over reliable UDP.
pub(crate) struct Endpoint {
    role: Role,
    settings: Settings,
    token: Token,
    /// Size of the workload's messages in bytes, where each is to be one datagram.
    message: Option<usize>,
    sockets: Sockets,
    listener: Option<Listener>,
    /// Sessions that have begun here.
    sessions: Mutex<VecDeque<u32>>,
    timer_thread: TimerThread,
}

impl Endpoint {
    /// Makes an endpoint for messages of `message` bytes, if each is to be one datagram; at a
    /// listening end it listens when this returns.
    pub(crate) fn new(
        order: &TrialOrder,
        settings: Settings,
        message: Option<usize>,
    ) -> Result<Self, TransportError> {
        // One message at a time gives nothing to put together.
        let offload = settings.gso && settings.rules.window > 1;
        let sockets = Sockets::new(
            order,
            settings.receive_buffer,
            settings.send_buffer,
            offload,
        );
        let listener = if order.connects() {
            None
        } else {
            Some(sockets.listen()?)
        };
        Ok(Self {
            role: order.role,
            settings,
            token: Token::parse(&order.token)?,
            message,
            sockets,
            listener,
            sessions: Mutex::default(),
            timer_thread: TimerThread::new()?,
        })
    }

    /// Opens a socket for one connection; returns its link and facts.
    fn link(
        &self,
        from: Option<&Listener>,
        peer: SocketAddr,
        core: Core,
        first: &[u8],
        stop: &Stop,
    ) -> Result<(Arc<Link>, BTreeMap<String, String>), TransportError> {
        let Opened {
            socket,
            segment_limit,
            mut facts,
        } = self.sockets.connect(from, peer)?;
        facts.extend(marks(core.session()));
        facts.extend(self.stack_facts(&facts).of_end(self.role.name()));
        let wake = self.timer_thread.wake();
        let link = Link::new(
            socket,
            self.settings.rules,
            core,
            segment_limit,
            first,
            wake,
        );
        stop.on_stop(&link);
        facts.insert(
            format!("congestion_control.{}", self.role.name()),
            link.congestion_control().to_owned(),
        );
        if self.role == Role::Sender {
            let window = self.settings.rules.window.to_string();
            facts.insert("window_messages.sender".to_owned(), window);
        }
        self.timer_thread.take(&link);
        Ok((link, facts))
    }

    /// Returns the initial window of CUBIC, whose unit is the largest datagram, in words: of a
    /// packet, unless IP has to fragment it.
    fn initial_window(&self) -> String {
        let datagram =
            self.message.map_or(0, |message| message.min(LONGEST_PART)) + DATA_HEADER_BYTES;
        match Congestion::cubic(datagram).window() {
            Some(window) if window < 10 * datagram as u64 => {
                format!("{:.1} messages", window as f64 / datagram as f64)
            }
            _ => "10 packets".to_owned(),
        }
    }

    /// Returns the properties of this protocol for the comparison of stacks.
    fn stack_facts(&self, facts: &BTreeMap<String, String>) -> StackFacts {
        let rules = &self.settings.rules;
        let window = match rules.window {
            1 => "1 message (stop-and-wait)".to_owned(),
            window => format!("{window} messages"),
        };
        StackFacts {
            initial_window: match (rules.window, rules.cubic) {
                (1, _) | (_, false) => window.clone().into(),
                (_, true) => self.initial_window().into(),
            },
            slow_start_exit: match (rules.window, rules.cubic) {
                (1, _) | (_, false) => "no slow start".into(),
                (_, true) => "loss".into(),
            },
            pacing: "none".into(),
            packet_size: "a datagram for each message".into(),
            cipher: "none".into(),
            crypto: "none".into(),
            threads: "1 and 1 for timers, protocol in them".into(),
            offloads: sockets::offloads(facts).into(),
            acknowledgements: "each batch of packets that the socket gives, at once".into(),
            flow_control: window.into(),
        }
    }

    /// Whether this session has begun here already; remembers it.
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

    /// Handles a datagram that came to the listening socket.
    fn knock(
        &self,
        listener: &Listener,
        (from, datagram): (SocketAddr, &[u8]),
        stop: &Stop,
        arrived: &mut impl FnMut(),
    ) -> Result<Option<Accepted<Connection>>, TransportError> {
        let mut answer = Vec::new();
        let mut say = |session, frame: Frame<'_>| {
            frame.encode(session, &mut answer);
            listener.answer(from, &answer);
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
        let (link, facts) = self.link(Some(listener), from, core, opening, stop)?;
        link.transmit()?;
        let stream = Stream::new(Arc::clone(&link), None);
        Ok(Some(Accepted::Connection(Connection::new(
            link, stream, facts,
        ))))
    }
}

impl StreamEndpoint for Endpoint {
    type Connection = Connection;
    type Executor = Blocking;

    fn executor(&self) -> &Blocking {
        &Blocking
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Listener::address)
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
        let (link, facts) = self.link(None, peer, core, &[], stop)?;
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
        let Some(listener) = &self.listener else {
            return Err(TransportError::Protocol {
                what: "this end connects, and does not listen".to_owned(),
            });
        };
        wait::for_next(listener, "connection", until, stop, &mut || {
            listener.take(|from, datagram| self.knock(listener, (from, datagram), stop, arrived))
        })
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
        warnings.extend(self.sockets.fragmentation(part, DATA_HEADER_BYTES));
        warnings
    }
}
