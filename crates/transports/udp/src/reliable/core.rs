//! One end of a connection as a pure state machine, without socket or clock: its inputs are
//! datagrams and times, its outputs datagrams and messages.

use std::time::{Duration, Instant};

use super::{
    frame::Frame,
    receiver::Receiver,
    sender::{Rules, Sender},
};

/// Silence of the other end, in multiples of `max_wait`, after which this end sends an
/// acknowledgement, so that an end that has forgotten the connection can answer with CLOSE.
const SILENCE_IN_WAITS: u32 = 3;

/// Reason why a connection carries nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The other end refused it.
    Refused,
    /// The other end closed it, or has vanished.
    Closed,
    /// The connecting end got no answer to any of its CONN.
    NoAnswer,
    /// A message was sent as often as is allowed, and not acknowledged.
    GaveUp,
}

/// State of a connection.
#[derive(Debug)]
enum State {
    /// CONN is to be sent, or its answer must come.
    Opening {
        opening: Vec<u8>,
        sent: u32,
        first: Option<Instant>,
        again_at: Option<Instant>,
    },
    Open,
    Closed(CloseReason),
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Core {
    pub session: u32,
    pub rules: Rules,
    state: State,
    pub sender: Sender,
    pub receiver: Receiver,
    accept_due: bool,
    acknowledgement_due: bool,
    /// Time of the last frame of the other end, or of the acknowledgement that was sent because of its silence.
    last_received: Option<Instant>,
}

impl Core {
    fn new(session: u32, rules: Rules, state: State) -> Self {
        Self {
            session,
            rules,
            accept_due: matches!(state, State::Open),
            state,
            sender: Sender::new(session, rules),
            receiver: Receiver::default(),
            acknowledgement_due: false,
            last_received: None,
        }
    }

    /// Returns the connecting end, whose CONN carries `opening`.
    pub(crate) fn connecting(session: u32, rules: Rules, opening: &[u8]) -> Self {
        let state = State::Opening {
            opening: opening.to_vec(),
            sent: 0,
            first: None,
            again_at: None,
        };
        Self::new(session, rules, state)
    }

    /// Returns the listening end, which has received a CONN of this session.
    pub(crate) fn accepting(session: u32, rules: Rules) -> Self {
        Self::new(session, rules, State::Open)
    }

    /// Handles a datagram, and delivers the messages that are due with it. Without `room` for more,
    /// messages are ignored, and the other end sends them again.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        datagram: &[u8],
        room: bool,
        deliver: &mut impl FnMut(&[u8]),
    ) {
        let Some((session, frame)) = Frame::decode(datagram) else {
            return;
        };
        if session != self.session {
            // The other end has begun again from the same port.
            if matches!(frame, Frame::Conn { .. }) {
                self.end(CloseReason::Closed);
            }
            return;
        }
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        self.last_received = Some(now);
        match frame {
            // It comes again because the answer was lost.
            Frame::Conn { .. } => self.accept_due = matches!(self.state, State::Open),
            Frame::ConAcc => self.open(now),
            Frame::ConRjt => self.end(CloseReason::Refused),
            Frame::Close => self.end(CloseReason::Closed),
            Frame::Data {
                number,
                transmission,
                payload,
            } => {
                // Whoever sends data has accepted: the answer was lost, or is late.
                self.open(now);
                if room {
                    self.acknowledgement_due = true;
                    let payload = Some(payload);
                    (self.receiver).on_message(number, transmission, payload, deliver);
                }
            }
            Frame::Fin {
                number,
                transmission,
            } => {
                self.open(now);
                self.acknowledgement_due = true;
                (self.receiver).on_message(number, transmission, None, deliver);
            }
            Frame::Acc {
                next,
                largest,
                bitmap,
            } => {
                self.open(now);
                self.sender.on_acknowledgement(now, next, largest, bitmap);
            }
        }
    }

    fn open(&mut self, now: Instant) {
        if let State::Opening { sent, first, .. } = self.state {
            // Of one that was sent several times it is not known which was answered.
            if let (1, Some(first)) = (sent, first) {
                self.sender.round_trip.sample(now.duration_since(first));
            }
            self.state = State::Open;
        }
    }

    fn end(&mut self, over: CloseReason) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(over);
        }
    }

    /// Handles timers that are due by `now`.
    pub(crate) fn on_time(&mut self, now: Instant) {
        match &mut self.state {
            State::Opening { sent, again_at, .. } => {
                if again_at.is_some_and(|time| time <= now) {
                    *again_at = None;
                    if *sent > self.rules.max_retransmits {
                        self.end(CloseReason::NoAnswer);
                    }
                }
            }
            State::Open => {
                if !self.sender.on_time(now) {
                    self.end(CloseReason::GaveUp);
                }
                let last_received = *self.last_received.get_or_insert(now);
                if last_received + self.silence_limit() <= now {
                    self.last_received = Some(now);
                    self.acknowledgement_due = true;
                }
            }
            State::Closed(_) => {}
        }
    }

    fn silence_limit(&self) -> Duration {
        self.rules.max_wait.saturating_mul(SILENCE_IN_WAITS)
    }

    /// Returns the time of the next call of [`Core::on_time`]; `None` if there is none.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        match self.state {
            State::Opening { again_at, .. } => again_at,
            State::Open => {
                let silent_at = self.last_received.map(|at| at + self.silence_limit());
                let times = [self.sender.next_time(), silent_at];
                times.into_iter().flatten().min()
            }
            State::Closed(_) => None,
        }
    }

    /// Writes the next frame without a message that is to be sent now; returns false if there is
    /// none. To be called until then, before [`Core::poll_message`].
    pub(crate) fn poll_frame(&mut self, now: Instant, buffer: &mut Vec<u8>) -> bool {
        match &mut self.state {
            State::Opening {
                opening,
                sent,
                first,
                again_at,
            } if again_at.is_none() => {
                *sent += 1;
                first.get_or_insert(now);
                *again_at = Some(now + self.rules.max_wait);
                Frame::Conn { opening }.encode(self.session, buffer);
                return true;
            }
            State::Open => {}
            State::Opening { .. } | State::Closed(_) => return false,
        }
        if std::mem::take(&mut self.accept_due) {
            Frame::ConAcc.encode(self.session, buffer);
            return true;
        }
        if std::mem::take(&mut self.acknowledgement_due) {
            self.receiver.acknowledgement().encode(self.session, buffer);
            return true;
        }
        false
    }

    /// Returns the number of the next message that is to be sent now; `None` if none may be.
    pub(crate) fn poll_message(&mut self, now: Instant) -> Option<u64> {
        match self.state {
            State::Open => self.sender.poll(now),
            _ => None,
        }
    }

    /// Whether messages can be sent.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Returns the reason why nothing more can be sent or received, if there is one.
    pub(crate) const fn close_reason(&self) -> Option<CloseReason> {
        match self.state {
            State::Closed(over) => Some(over),
            _ => None,
        }
    }
}
