//! A connection of the common I/O loop.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use regatta_model::reason;
use regatta_transport::{Received, Result, TransportError, opening::OPENING_BYTES};
use regatta_transport_sockets::driver::{self, Transmit, Wakers};

use super::{
    core::{CloseReason, Core},
    frame::Frame,
    sender::Rules,
};
use crate::batch::LONGEST_PAYLOAD;

/// Maximum of unread bytes for an application that does not receive; further messages are ignored
/// and sent again later.
const UNREAD_LIMIT: usize = 64 << 20;

/// Number of new messages that are collected to share a system call.
const TOGETHER: usize = 32;

/// Number of copies of CLOSE, as it is not acknowledged.
const CLOSE_COPIES: u32 = 3;

/// State of one connection.
pub(crate) struct Connection {
    pub core: Core,
    peer: SocketAddr,
    /// Opening that CONN carries, at the connecting end.
    pub opening: Option<[u8; OPENING_BYTES]>,
    /// Bytes of messages that have arrived and were not read.
    unread: Vec<u8>,
    /// Tasks that wait for any change.
    waiting: Wakers,
    stopped: bool,
    /// Reason for which the socket has failed.
    socket_error: Option<String>,
    /// Number of CLOSE that are to be sent, once the owner has dropped the connection.
    closes: Option<u32>,
    frame: Vec<u8>,
}

impl Connection {
    /// Returns the connecting end of a connection, whose CONN carries `opening`.
    pub(crate) fn connecting(
        session: u32,
        rules: Rules,
        peer: SocketAddr,
        opening: [u8; OPENING_BYTES],
    ) -> Self {
        let core = Core::connecting(session, rules, &opening);
        Self {
            opening: Some(opening),
            ..Self::new(core, peer)
        }
    }

    /// Returns the listening end of a connection, whose application first receives `opening`.
    pub(crate) fn accepting(
        now: Instant,
        session: u32,
        rules: Rules,
        peer: SocketAddr,
        opening: &[u8],
    ) -> Self {
        let mut core = Core::accepting(session, rules);
        // From now on the silence of the other end counts.
        core.on_time(now);
        Self {
            unread: opening.to_vec(),
            ..Self::new(core, peer)
        }
    }

    fn new(core: Core, peer: SocketAddr) -> Self {
        Self {
            core,
            peer,
            opening: None,
            unread: Vec::new(),
            waiting: Wakers::default(),
            stopped: false,
            socket_error: None,
            closes: None,
            frame: Vec::new(),
        }
    }

    /// Handles a datagram of this session.
    pub(crate) fn handle(&mut self, now: Instant, datagram: &[u8]) {
        let Self { core, unread, .. } = self;
        let room = unread.len() < UNREAD_LIMIT;
        core.handle(now, datagram, room, &mut |message| {
            unread.extend_from_slice(message);
        });
        self.waiting.wake();
    }

    /// Returns the reason why the connection cannot go on, if there is one.
    fn error(&self) -> Option<TransportError> {
        if self.stopped {
            return Some(TransportError::Cancelled);
        }
        if let Some(reason) = &self.socket_error {
            let error = TransportError::stack(reason::cannot_send_or_receive());
            return Some(error(reason.clone()));
        }
        let most = self.core.rules.max_retransmits;
        let waits = most.saturating_add(1);
        Some(match self.core.close_reason()? {
            CloseReason::Closed => TransportError::Closed { flow: "connection" },
            CloseReason::Refused => TransportError::protocol(reason::another_token()),
            CloseReason::NoAnswer => TransportError::timed_out(
                reason::answer_to_conn(waits.into()),
                self.core.rules.max_wait.saturating_mul(waits),
            ),
            CloseReason::GaveUp => TransportError::protocol(reason::gave_up(u64::from(most))),
        })
    }

    /// Checks that the connection can go on.
    fn check(&self) -> Result<()> {
        self.error().map_or(Ok(()), Err)
    }

    /// Waits until `ready` has a result, or the connection cannot go on.
    fn poll<T>(
        &mut self,
        context: &Context<'_>,
        ready: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Poll<Result<T>> {
        if self.stopped {
            return Poll::Ready(Err(TransportError::Cancelled));
        }
        if let Some(result) = ready(self) {
            return Poll::Ready(Ok(result));
        }
        self.check()?;
        self.waiting.register(context);
        Poll::Pending
    }

    /// Waits until there is room for another message. Behind a lost message others wait that have
    /// arrived, so that the window needs room twice; who has to wait waits for several.
    pub(crate) fn poll_room(
        &mut self,
        context: &Context<'_>,
        waited: &mut bool,
    ) -> Poll<Result<()>> {
        let most = match (self.core.rules.window, *waited) {
            (1, _) => self.core.sender.window(),
            (window, false) => 2 * window + TOGETHER,
            (window, true) => 2 * window,
        };
        let polled = self.poll(context, |one| (one.core.sender.held() < most).then_some(()));
        *waited |= polled.is_pending();
        polled
    }

    /// Waits until every message is acknowledged.
    pub(crate) fn poll_acknowledged(&mut self, context: &Context<'_>) -> Poll<Result<()>> {
        self.poll(context, |one| (one.core.sender.held() == 0).then_some(()))
    }

    /// Whether the window has room for another message now.
    pub(crate) fn sends_at_once(&self) -> bool {
        self.core.sender.held() < self.core.sender.window()
    }

    /// Takes over one message that fits a datagram; returns whether it is to be sent now.
    pub(crate) fn push(&mut self, prefix: &[u8], payload: Bytes) -> Result<bool> {
        self.check()?;
        self.core.sender.push(prefix, payload);
        Ok(self.core.rules.window == 1 || self.core.sender.unsent().is_multiple_of(TOGETHER))
    }

    /// Ends the sending direction.
    pub(crate) fn push_end(&mut self) -> Result<()> {
        self.core.sender.push_end();
        self.check()
    }

    /// Waits for bytes, and exchanges them for the empty `bytes`.
    pub(crate) fn poll_read(
        &mut self,
        bytes: &mut Vec<u8>,
        context: &Context<'_>,
    ) -> Poll<Result<Received>> {
        self.poll(context, |one| {
            if !one.unread.is_empty() {
                std::mem::swap(bytes, &mut one.unread);
                return Some(Received::Bytes(bytes.len()));
            }
            let closed =
                one.core.receiver.finished || one.core.close_reason() == Some(CloseReason::Closed);
            closed.then_some(Received::Closed)
        })
    }
}

impl driver::Connection for Connection {
    const LONGEST_PACKET_BYTES: usize = LONGEST_PAYLOAD;

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        let parts = if let Some(closes) = &mut self.closes {
            *closes = closes.checked_sub(1)?;
            Frame::Close.encode(self.core.session, &mut self.frame);
            (self.frame.as_slice(), [].as_slice())
        } else if self.stopped || self.socket_error.is_some() {
            return None;
        } else if self.core.poll_frame(now, &mut self.frame) {
            (self.frame.as_slice(), [].as_slice())
        } else {
            let number = self.core.poll_message(now)?;
            self.core.sender.datagram(number)?
        };
        let bytes = parts.0.len() + parts.1.len();
        buffer[..parts.0.len()].copy_from_slice(parts.0);
        buffer[parts.0.len()..bytes].copy_from_slice(parts.1);
        Some(Transmit {
            bytes,
            from: None,
            to: self.peer,
            at: None,
        })
    }

    fn next_timeout(&self) -> Option<Instant> {
        let waits = self.error().is_none() && self.closes.is_none();
        self.core.next_time().filter(|_| waits)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.core.on_time(now);
        self.waiting.wake();
    }

    fn update(&mut self, _flushed: bool) {}

    fn poll_open(&mut self, context: &Context<'_>) -> Poll<Result<()>> {
        self.poll(context, |one| one.core.is_open().then_some(()))
    }

    fn abort(&mut self) {
        self.stopped = true;
        self.waiting.wake();
    }

    fn release(&mut self) {
        let peer_knows = matches!(
            self.core.close_reason(),
            Some(CloseReason::Closed | CloseReason::Refused)
        );
        self.closes = Some(if peer_knows { 0 } else { CLOSE_COPIES });
    }

    fn fail(&mut self, error: &io::Error) {
        self.socket_error.get_or_insert_with(|| error.to_string());
        self.waiting.wake();
    }

    fn waits_to_close(&self) -> bool {
        self.closes.is_some_and(|left| left > 0)
    }

    fn is_over(&self) -> bool {
        self.closes == Some(0)
    }
}
