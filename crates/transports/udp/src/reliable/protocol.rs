//! The connections of one end: which of them a datagram is for, and which may begin.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hasher, RandomState},
    net::SocketAddr,
    time::Instant,
};

use regatta_model::{Phrase, reason};
use regatta_transport::{
    Purpose, Result, TransportError,
    opening::{self, OPENING_BYTES, Token},
};
use regatta_transport_sockets::driver::{self, Arrived, Connections, Incoming, Number, Protocol};

use super::{connection::Connection, frame::Frame, sender::Rules};

/// Number of sessions that are remembered, so that a repeated CONN does not open another
/// connection.
const SESSIONS_REMEMBERED: usize = 4096;

/// Reliable UDP at one end.
pub(crate) struct Reliable {
    rules: Rules,
    token: Token,
    listens: bool,
    /// Sessions that have begun here.
    sessions: VecDeque<u32>,
}

/// Handle to a connection.
pub(crate) type Handle = driver::Handle<Reliable>;

impl Reliable {
    pub(crate) const fn new(rules: Rules, token: Token, listens: bool) -> Self {
        Self {
            rules,
            token,
            listens,
            sessions: VecDeque::new(),
        }
    }

    /// Whether this session has begun here already; remembers it.
    fn is_known(&mut self, session: u32) -> bool {
        if self.sessions.contains(&session) {
            return true;
        }
        if self.sessions.len() >= SESSIONS_REMEMBERED {
            self.sessions.pop_front();
        }
        self.sessions.push_back(session);
        false
    }

    /// Handles a datagram of no connection.
    fn handle_unknown(
        &mut self,
        now: Instant,
        (from, to): (SocketAddr, SocketAddr),
        datagram: &[u8],
        connections: &mut Connections<Connection>,
    ) {
        let answer = |session, frame: Frame<'_>| {
            let mut answer = Vec::new();
            frame.encode(session, &mut answer);
            answer
        };
        let refuse = |connections: &mut Connections<Connection>, what: Phrase| {
            connections.announce(Incoming::Refused(TransportError::protocol(what)));
        };
        let (session, opening) = match Frame::decode(datagram) {
            Some((session, Frame::Conn { opening })) if self.listens => (session, opening),
            // There is nothing to close, or to refuse.
            Some((_, Frame::Conn { .. } | Frame::Close | Frame::ConRjt | Frame::ConAcc)) => return,
            // Of a connection that has ended.
            Some((session, _)) => {
                connections.reply(to, from, answer(session, Frame::Close));
                return;
            }
            None if self.listens && connections.has_room() => {
                let what = reason::no_frame(datagram.len() as u64, &from.ip().to_string());
                return refuse(connections, what);
            }
            None => return,
        };
        let purpose = <&[u8; OPENING_BYTES]>::try_from(opening)
            .ok()
            .and_then(|opening| opening::decode(opening, self.token));
        if !connections.has_room() {
            // It comes again.
            return;
        }
        // The connection of one that is known answers when it comes again, or has ended.
        let known = self.is_known(session);
        let Some(purpose) = purpose else {
            connections.reply(to, from, answer(session, Frame::ConRjt));
            if !known {
                let what = reason::conn_of_other_token(&from.ip().to_string());
                refuse(connections, what);
            }
            return;
        };
        if !known {
            let rules = self.rules.of(purpose);
            let connection = Connection::accepting(now, session, rules, from, opening);
            connections.insert(session.into(), connection);
            connections.announce(Incoming::Connection(session.into()));
        }
    }
}

impl Protocol for Reliable {
    type Connection = Connection;

    const NAME: &'static str = "reliable UDP";

    fn connect(
        &mut self,
        _local: SocketAddr,
        peer: SocketAddr,
        purpose: Purpose,
        connections: &mut Connections<Connection>,
    ) -> Result<Number> {
        let opening = opening::encode(self.token, purpose);
        // Keyed anew in every process, and different at each call.
        let session = RandomState::new().build_hasher().finish() as u32;
        let connection = Connection::connecting(session, self.rules.of(purpose), peer, opening);
        connections.insert(session.into(), connection);
        Ok(session.into())
    }

    fn handle(
        &mut self,
        now: Instant,
        arrived: Arrived<'_>,
        connections: &mut Connections<Connection>,
    ) {
        let Arrived { from, to, .. } = arrived;
        for datagram in arrived.bytes.chunks(arrived.segment) {
            let session = datagram.get(1..5).and_then(|bytes| bytes.try_into().ok());
            let number = session.map(u32::from_le_bytes).map(Number::from);
            match number.and_then(|number| connections.get_mut(number)) {
                Some(connection) => connection.handle(now, datagram),
                None => self.handle_unknown(now, (from, to), datagram, connections),
            }
        }
    }
}
