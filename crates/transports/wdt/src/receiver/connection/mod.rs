//! State machine of one port of a receiver, over all connections to it.

mod commands;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use self::commands::Arriving;
use super::session::Session;
use crate::VERSION;
use crate::codec::{Checkpoint, FileHeader, Reply, Settings, encode_frames};
use crate::crypto::Seal;
use crate::failure::Failure;
use crate::inbox::Inbox;
use crate::sink::Sink;
use crate::status::Status;

/// Time to read on after ABORT, since closing a socket with unread bytes could discard it.
const LINGER: Duration = Duration::from_secs(1);
/// Time in which a sender that could not read ABORT may come back for it. The reference looks for
/// ABORT in one byte, once it cannot write any more; where a heartbeat stands before ABORT it
/// connects again.
const ABORT_AGAIN: Duration = Duration::from_millis(1500);
/// Number of WAIT or HEARTBEAT messages within the sender's read time-out.
const KEEP_ALIVES_PER_TIMEOUT: u32 = 5;

/// Next action that a [`Connection`] asks for; the caller does it and reports the result.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Accept a connection; call [`Connection::accepted`], or come back at this time, or when
    /// another connection [has changed something](Session::wakers), which may shorten it.
    Accept(Duration),
    /// Write [`Connection::output`]; call [`Connection::written`] or [`Connection::write_failed`].
    Write,
    /// Wait for bytes until this time; call [`Connection::received`] or
    /// [`Connection::read_failed`], or come back at that time, or when another connection has
    /// changed something. Coming back earlier does no harm.
    Read(Duration),
    /// Come back at this time, or when another connection [has changed
    /// something](Session::wakers).
    Wait(Duration),
    /// Shut down the sending direction of the connection.
    Shutdown,
    /// Close the connection.
    Disconnect,
    /// This port has no more work.
    End,
}

/// One port of the transfer.
pub struct Connection<K: Sink> {
    session: Arc<Session<K>>,
    index: usize,
    port: u16,
    state: State<K::Writer>,
    /// Deadline for a reconnection of the sender; absent before the first connection broke.
    accept_until: Option<Duration>,
    /// Whether a connection broke, perhaps the sender's, so that the next begins with a checkpoint.
    again: bool,
    /// Whether heartbeats were sent on this connection.
    heartbeats: bool,
    /// Deadline for the sender to come back for ABORT, once the transfer has failed.
    abort_again_until: Option<Duration>,
    /// Reason for which a connection that never belonged to the transfer was refused.
    refusal: Option<Failure>,
    inbox: Inbox,
    seal: Seal,
    /// Bytes to write next; empty once they are written.
    out: Vec<u8>,
    settings: Option<Settings>,
    last_received: Duration,
    /// Time of the last heartbeat; until the first one, that at which the receiver began to listen.
    last_heartbeat: Duration,
    /// Time of the next WAIT.
    next_keep_alive: Duration,
    /// Whole blocks after the last tag, with the position of their end in the stream.
    unverified: VecDeque<(u64, FileHeader)>,
    /// End of the blocks that were acknowledged before a tag verified them, as a position in the
    /// stream.
    trusted_until: u64,
    last_fault: Failure,
}

enum State<W> {
    Accepting,
    /// SETTINGS of this transfer must come by `until`; before they do, the connection has no effect
    /// on the session.
    Opening {
        until: Duration,
    },
    /// The sender asks for the chunks held from an earlier transfer.
    Listing {
        sent: bool,
    },
    Commands,
    Payload(Arriving<W>),
    /// The footer must come.
    Footer(Arriving<W>),
    /// DONE has arrived.
    Waiting,
    /// `D` was sent; the sender's `D` must come.
    Confirming,
    /// The sender's last tag must come.
    Ending,
    /// The sender's direction has ended; the last tag of this one is sent.
    Answering,
    /// ABORT was sent; further bytes are discarded.
    Aborting {
        /// Time until which to read on, once the sending direction is shut down.
        until: Option<Duration>,
        then: After,
    },
    Dropping(After),
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Accept,
    End,
}

impl<K: Sink> Connection<K> {
    /// Returns the state machine of the port at `index` of the connection URL, which is listening
    /// from now on.
    pub fn new(session: Arc<Session<K>>, index: usize) -> Self {
        let port = session.url.ports[index];
        let never = format!("no sender connected to port {port} in time");
        Self {
            inbox: Inbox::new(session.url.secret.as_ref()),
            session,
            index,
            port,
            state: State::Accepting,
            accept_until: None,
            again: false,
            heartbeats: false,
            abort_again_until: None,
            refusal: None,
            seal: Seal::default(),
            out: Vec::new(),
            settings: None,
            last_received: Duration::ZERO,
            last_heartbeat: Duration::ZERO,
            next_keep_alive: Duration::ZERO,
            unverified: VecDeque::new(),
            trusted_until: 0,
            last_fault: Failure::new(Status::Connection, never),
        }
    }

    /// Returns the next action.
    pub fn step(&mut self, now: Duration) -> Step {
        if self.session.failed() {
            self.abort_if_open(now);
        }
        if !self.out.is_empty() && !matches!(self.state, State::Dropping(_) | State::Ended) {
            return Step::Write;
        }
        let read_until = self.last_received + self.session.options().read_timeout;
        match &mut self.state {
            State::Accepting => self.accept(now),
            State::Waiting => self.wait(now),
            State::Opening { until } if now < *until => Step::Read(*until),
            State::Opening { .. } if self.inbox.open.position() > 0 => {
                self.disagree(Status::Protocol, commands::OTHER_KEY);
                self.step(now)
            }
            State::Opening { .. } => {
                let detail = format!("a connection to port {} said nothing", self.port);
                self.timed_out(detail, now)
            }
            State::Listing { sent: false } => self.list(now),
            State::Listing { .. }
            | State::Commands
            | State::Payload(_)
            | State::Footer(_)
            | State::Confirming
            | State::Ending
                if now < read_until =>
            {
                Step::Read(read_until)
            }
            State::Confirming | State::Ending => {
                let detail = format!("the sender did not end port {}", self.port);
                self.timed_out(detail, now)
            }
            State::Listing { .. } | State::Commands | State::Payload(_) | State::Footer(_) => {
                let detail = format!("the sender was silent on port {}", self.port);
                self.timed_out(detail, now)
            }
            State::Answering => {
                self.end();
                Step::Shutdown
            }
            State::Aborting { until, .. } if until.is_none() => {
                *until = Some(now + LINGER);
                Step::Shutdown
            }
            State::Aborting {
                until: Some(until), ..
            } if now < *until => Step::Read(*until),
            State::Aborting { then, .. } => {
                let then = *then;
                self.aborted(then, now);
                self.step(now)
            }
            State::Dropping(after) => {
                self.state = match after {
                    After::Accept => State::Accepting,
                    After::End => State::Ended,
                };
                self.out.clear();
                Step::Disconnect
            }
            State::Ended => Step::End,
        }
    }

    /// Returns the state machine of one of several connections to this port that are open at once
    /// while the step is [`Step::Accept`]. The first that [is admitted](Self::is_admitted) takes
    /// the place of this one; each of the others ends in [`Connection::turned_away`].
    #[must_use]
    pub fn candidate(&self, now: Duration) -> Self {
        let mut candidate = Self::new(self.session.clone(), self.index);
        candidate.accept_until = self.accept_until;
        candidate.again = self.again;
        candidate.last_heartbeat = self.last_heartbeat;
        candidate.last_fault = self.last_fault.clone();
        candidate.accepted(now);
        candidate
    }

    /// Whether the connection has proved that it belongs to the transfer.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.settings.is_some()
    }

    /// Reports that a [candidate](Self::candidate) was closed. Returns the reason, if it was
    /// refused for one.
    pub fn turned_away(&mut self, candidate: Self) -> Option<Failure> {
        self.again |= candidate.again;
        candidate.refusal
    }

    /// Reports an accepted connection, of the sender or of a stranger.
    pub fn accepted(&mut self, now: Duration) {
        self.inbox = Inbox::new(self.session.url.secret.as_ref());
        self.out.clear();
        self.settings = None;
        self.heartbeats = false;
        self.last_received = now;
        self.state = State::Opening {
            until: now + self.session.options().admission,
        };
        let interval = self.session.options().tag_interval_bytes;
        match Seal::new(self.session.url.secret.as_ref(), interval) {
            Ok(seal) => self.seal = seal,
            Err(error) => return self.session.fail(error.into()),
        }
        if self.again {
            self.reply(&Reply::LocalCheckpoint(self.session.checkpoint(self.index)));
        }
    }

    /// Returns the bytes that [`Step::Write`] writes.
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// Reports that [`Connection::output`] was written.
    pub fn written(&mut self) {
        self.out.clear();
    }

    /// Reports that writing failed.
    pub fn write_failed(&mut self, error: &io::Error, now: Duration) {
        let detail = format!("writing to port {} failed ({error})", self.port);
        self.lost(Status::SocketWrite, detail, now);
    }

    /// Reports that the connection was closed or broke.
    pub fn read_failed(&mut self, error: &io::Error, now: Duration) {
        let detail = format!("reading from port {} failed ({error})", self.port);
        self.lost(Status::SocketRead, detail, now);
    }

    fn accept(&mut self, now: Duration) -> Step {
        let until = self.abort_again_until.or(self.accept_until);
        let until = until.unwrap_or_else(|| self.session.first_connection_until());
        if now < until {
            return Step::Accept(until);
        }
        let mut fault = self.last_fault.clone();
        if let Status::SocketRead | Status::SocketWrite = fault.status {
            // A sender that ended; a connection that broke would have been made again.
            fault.status = Status::Connection;
            fault.detail += ", and the sender did not connect again";
        }
        self.session.ended(self.index, Some(fault));
        self.state = State::Ended;
        Step::End
    }

    /// Sends the chunks held from an earlier transfer, or waits until another port has.
    fn list(&mut self, now: Duration) -> Step {
        let (reply, files) = self.session.listing(self.index);
        if reply != Reply::Wait {
            self.last_received = now;
            self.state = match reply {
                Reply::Ack => State::Commands,
                _ => State::Listing { sent: true },
            };
        } else if !self.keep_alive_is_due(now) {
            return Step::Wait(self.next_keep_alive);
        }
        let mut plain = Vec::new();
        reply.encode(&mut plain);
        encode_frames(&files, &mut plain);
        self.send(&plain);
        Step::Write
    }

    fn wait(&mut self, now: Duration) -> Step {
        let reply = match self.session.due_reply(self.index) {
            Some(reply) => {
                self.last_received = now;
                self.state = State::Confirming;
                if let Reply::Errors(_) = reply {
                    self.acknowledge_unverified();
                    self.state = State::Commands;
                }
                reply
            }
            None if self.session.failed() => return self.step(now),
            None if !self.keep_alive_is_due(now) => return Step::Wait(self.next_keep_alive),
            // WAIT acknowledges; what no tag has authenticated is not acknowledged yet.
            None if self.unverified.is_empty() => Reply::Wait,
            None => Reply::Heartbeat,
        };
        self.reply(&reply);
        Step::Write
    }

    /// Counts all unverified blocks, as a global checkpoint acknowledges everything before it on
    /// its connection; the next tag must verify them.
    fn acknowledge_unverified(&mut self) {
        for (end, block) in self.unverified.drain(..) {
            self.session.count(self.index, 1, block.length);
            self.trusted_until = end;
        }
    }

    fn keep_alive_is_due(&mut self, now: Duration) -> bool {
        let due = now >= self.next_keep_alive;
        if due {
            self.schedule_keep_alive(now);
        }
        due
    }

    fn schedule_keep_alive(&mut self, now: Duration) {
        self.next_keep_alive = now + self.keep_alive_interval();
    }

    /// Returns the time between two messages that only show that the receiver is alive.
    fn keep_alive_interval(&self) -> Duration {
        self.settings.as_ref().map_or(LINGER, |settings| {
            Duration::from_millis(settings.read_timeout_ms.into()) / KEEP_ALIVES_PER_TIMEOUT
        })
    }

    /// Sends a heartbeat if the sender asks for them and none went out for a while; called while a
    /// block is being taken in.
    fn heartbeat(&mut self, now: Duration) {
        let is_due = now > self.last_heartbeat + self.keep_alive_interval();
        if is_due && self.settled(|settings| settings.heartbeats) {
            self.last_heartbeat = now;
            self.heartbeats = true;
            self.reply(&Reply::Heartbeat);
        }
    }

    /// Whether the sender's settings are known and `on` holds for them.
    fn settled(&self, on: fn(&Settings) -> bool) -> bool {
        self.settings.as_ref().is_some_and(on)
    }

    fn reply(&mut self, reply: &Reply) {
        let mut plain = Vec::new();
        reply.encode(&mut plain);
        self.send(&plain);
    }

    fn send(&mut self, plain: &[u8]) {
        if let Err(error) = self.seal.seal(plain, &mut self.out) {
            self.session.fail(error.into());
        }
    }

    /// Ends the port without a failure of its own.
    fn end(&mut self) {
        self.session.ended(self.index, None);
        self.state = State::Dropping(After::End);
    }

    /// Drops a connection whose time is up.
    fn timed_out(&mut self, detail: String, now: Duration) -> Step {
        self.lost(Status::Timeout, detail, now);
        self.step(now)
    }

    /// Sends ABORT where the connection is open, as the transfer has failed.
    fn abort_if_open(&mut self, now: Duration) {
        match self.state {
            State::Accepting if self.abort_again_until.is_some_and(|until| now < until) => {}
            State::Accepting => {
                self.session.ended(self.index, None);
                self.state = State::Ended;
            }
            State::Confirming | State::Ending | State::Answering => self.end(),
            State::Opening { .. }
            | State::Listing { .. }
            | State::Commands
            | State::Payload(_)
            | State::Footer(_)
            | State::Waiting => {
                let failure = self.session.failure();
                self.refuse(failure.map_or(Status::Abort, |failure| failure.status));
            }
            State::Aborting { .. } | State::Dropping(_) | State::Ended => {}
        }
    }

    /// Sends ABORT and takes nothing more on this connection; returns false, as nothing follows.
    fn refuse(&mut self, status: Status) -> bool {
        let over = self.session.failed();
        if over {
            self.session.ended(self.index, None);
        }
        self.reply(&Reply::Abort(self.session.abort(VERSION, status)));
        let then = if over { After::End } else { After::Accept };
        self.state = State::Aborting { until: None, then };
        false
    }

    /// Refuses a connection that does not belong to the transfer, which goes on without it; returns
    /// false, as nothing follows.
    fn turn_away(&mut self, status: Status, detail: &str) -> bool {
        let failure = Failure::new(status, format!("port {}: {detail}", self.port));
        self.session.turned_away(&failure);
        self.refusal = Some(failure);
        // In clear, which a sender with another key can read; not once a checkpoint went out encrypted.
        if status == Status::Encryption && !self.again {
            self.seal = Seal::default();
        }
        self.refuse(status)
    }

    /// Refuses a sender of this transfer that encrypts otherwise than this receiver, as far as can
    /// be known; returns false, as nothing follows. Before the transfer has begun it ends, since that
    /// sender has a wrong URL and comes again with it.
    fn disagree(&mut self, status: Status, detail: &str) -> bool {
        if !self.session.has_begun() {
            let failure = Failure::new(status, format!("port {}: {detail}", self.port));
            self.session.fail(failure);
        }
        self.turn_away(Status::Encryption, detail)
    }

    /// Ends a connection on which ABORT was sent and the sender had time to read it.
    fn aborted(&mut self, then: After, now: Duration) {
        let hidden = then == After::End && self.heartbeats;
        self.state = State::Dropping(if hidden { After::Accept } else { then });
        if hidden {
            self.again = true;
            self.abort_again_until = Some(now + ABORT_AGAIN);
        }
    }

    /// Drops a connection that failed; the sender may make another.
    fn lost(&mut self, status: Status, detail: String, now: Duration) {
        self.verified();
        let partial = match &self.state {
            State::Accepting | State::Dropping(_) | State::Ended => return,
            State::Aborting { then, .. } => {
                let then = *then;
                return self.aborted(then, now);
            }
            State::Opening { .. } => {
                self.again = true;
                self.state = State::Dropping(After::Accept);
                return;
            }
            // Both sides have confirmed that everything arrived.
            State::Answering => return self.end(),
            State::Payload(arriving) if self.parts_count() => Checkpoint {
                partial_bytes: arriving.got,
                partial_sequence: arriving.header.sequence,
                partial_offset: arriving.header.offset,
                ..Checkpoint::default()
            },
            _ => Checkpoint::default(),
        };
        if self.trusted_until > self.inbox.open.verified() {
            let detail =
                format!("{detail}, before blocks that were acknowledged could be verified");
            return self.session.fail(Failure::new(Status::Encryption, detail));
        }
        self.unverified.clear();
        self.trusted_until = 0;
        self.session.disconnected(self.index, partial);
        self.last_fault = Failure::new(status, detail);
        self.again = true;
        let options = self.session.options();
        let window = options.read_timeout.max(options.write_timeout) + options.reconnection_grace;
        self.accept_until = Some(now + window);
        self.state = State::Dropping(After::Accept);
    }

    /// Whether a part of a block can be credited: not with tags or a checksum, which cover whole
    /// blocks.
    fn parts_count(&self) -> bool {
        !self.inbox.open.has_tags() && !self.settled(|settings| settings.checksum)
    }
}
