//! The sending half of a connection: order of sending, loss detection, retransmission timer.

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;
use regatta_transport::{ProtocolSample, Purpose};

use super::{
    congestion::Cubic,
    frame::{self, DATA_HEADER_BYTES, Frame},
    rtt::RoundTrip,
};

/// Reordering threshold: a message is lost when a datagram sent this many positions later has
/// arrived (RFC 9002 §6.1.1).
const REORDERING_THRESHOLD: u64 = 3;

/// Maximum number of buffers of earlier messages that are kept for later ones.
const SPARE_HEADS: usize = 256;

/// Parameters of a sender, from the options of the transport.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Maximum number of messages in flight; one is stop-and-wait.
    pub window: usize,
    /// Number of first messages that may be in flight together in spite of the window: those of the idle probe.
    pub at_once: u32,
    /// Longest wait before a message without an acknowledgement is sent again; always that for
    /// stop-and-wait.
    pub max_wait: Duration,
    /// Maximum number of retransmission time-outs in a row; the next one ends the connection.
    pub max_retransmits: u32,
    /// Whether CUBIC limits the bytes in flight.
    pub cubic: bool,
}

impl Rules {
    /// Returns the parameters of a connection with this purpose.
    pub(crate) fn of(self, purpose: Purpose) -> Self {
        let at_once = match purpose {
            Purpose::Transfer => 0,
            _ => self.at_once,
        };
        Self { at_once, ..self }
    }

    /// Returns the maximum number of messages in flight of which `number` is the last.
    fn window_of(self, number: u64) -> usize {
        match number < self.at_once.into() {
            true => self.window.max(self.at_once as usize),
            false => self.window,
        }
    }
}

/// Delivery state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageState {
    /// To be sent, for the first time or again.
    Queued,
    /// In flight.
    InFlight,
    /// Arrived.
    Arrived,
}

/// A message that is kept, as it or an earlier one may not have arrived.
#[derive(Debug)]
struct Message {
    /// DATA frame up to the payload, or a whole FIN frame.
    head: Vec<u8>,
    payload: Bytes,
    state: MessageState,
    transmission: u64,
    times: u32,
}

impl Message {
    fn size(&self) -> u64 {
        (self.head.len() + self.payload.len()) as u64
    }
}

/// A datagram that was sent.
#[derive(Debug, Clone, Copy)]
struct Transmission {
    transmission: u64,
    number: u64,
    at: Instant,
}

/// The sending half.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    session: u32,
    rules: Rules,
    /// Messages from the first that is not known to have arrived.
    messages: VecDeque<Message>,
    /// Number of the first of `messages`.
    first: u64,
    /// Number of the first message that was never sent.
    fresh: u64,
    /// Messages that are lost, and not sent again yet.
    lost: BTreeSet<u64>,
    /// Datagrams that may still be found lost, in the order of sending.
    transmissions: VecDeque<Transmission>,
    next_transmission: u64,
    /// Largest transmission that has arrived.
    largest: Option<u64>,
    in_flight: usize,
    in_flight_bytes: u64,
    /// Start of the wait for an acknowledgement.
    waiting_since: Option<Instant>,
    /// Number of such waits in a row that timed out.
    time_outs: u32,
    pub round_trip: RoundTrip,
    /// CUBIC, if that limits the bytes in flight.
    congestion: Option<Cubic>,
    /// Largest datagram until now, in bytes: the unit of the congestion control.
    unit: usize,
    retransmitted: u64,
    spare: Vec<Vec<u8>>,
}

impl Sender {
    pub(crate) fn new(session: u32, rules: Rules) -> Self {
        Self {
            session,
            rules,
            ..Self::default()
        }
    }

    /// Takes over a message, which consists of `prefix` and `payload`.
    pub(crate) fn push(&mut self, prefix: &[u8], payload: Bytes) {
        let mut head = self.spare.pop().unwrap_or_default();
        let frame = Frame::Data {
            number: self.end(),
            transmission: 0,
            payload: prefix,
        };
        frame.encode(self.session, &mut head);
        self.take(head, payload);
    }

    /// Ends the sending direction after everything that was pushed.
    pub(crate) fn push_end(&mut self) {
        let mut head = Vec::new();
        let frame = Frame::Fin {
            number: self.end(),
            transmission: 0,
        };
        frame.encode(self.session, &mut head);
        self.take(head, Bytes::new());
    }

    fn take(&mut self, head: Vec<u8>, payload: Bytes) {
        let message = Message {
            head,
            payload,
            state: MessageState::Queued,
            transmission: 0,
            times: 0,
        };
        let size = message.size() as usize;
        if self.rules.cubic && self.unit == 0 {
            self.congestion = Some(Cubic::new(size));
        }
        self.unit = self.unit.max(size);
        self.messages.push_back(message);
    }

    /// Returns the number after that of the last message.
    fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// Returns the maximum number of messages in flight when the next message is sent.
    pub(crate) fn window(&self) -> usize {
        self.rules.window_of(self.end())
    }

    /// Returns the number of messages that were never sent.
    pub(crate) fn unsent(&self) -> usize {
        (self.end() - self.fresh) as usize
    }

    /// Returns the number of messages that are kept, as they or an earlier one may not have
    /// arrived.
    pub(crate) fn held(&self) -> usize {
        self.messages.len()
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Message> {
        let index = self.index(number)?;
        self.messages.get_mut(index)
    }

    /// Returns the datagram of a message: two parts, one after the other.
    pub(crate) fn datagram(&self, number: u64) -> Option<(&[u8], &[u8])> {
        let message = self.messages.get(self.index(number)?)?;
        Some((&message.head, &message.payload))
    }

    /// Takes the next message that is to be sent now, if any may be; it counts as sent.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<u64> {
        let again = self.lost.first().copied();
        let number = again.or_else(|| (self.fresh < self.end()).then_some(self.fresh))?;
        if self.in_flight >= self.rules.window_of(number) {
            return None;
        }
        let window = self.congestion.as_ref().map(Cubic::window);
        let in_flight_bytes = self.in_flight_bytes;
        let transmission = self.next_transmission;
        let message = self.get_mut(number)?;
        let size = message.size();
        // One may always be under way, however long it is.
        if in_flight_bytes > 0 && window.is_some_and(|window| in_flight_bytes + size > window) {
            return None;
        }
        frame::set_transmission(&mut message.head, transmission);
        message.transmission = transmission;
        message.state = MessageState::InFlight;
        message.times += 1;
        if message.times > 1 {
            self.retransmitted += 1;
        }
        if again.is_some() {
            self.lost.remove(&number);
        } else {
            self.fresh += 1;
        }
        self.next_transmission += 1;
        self.in_flight += 1;
        self.in_flight_bytes += size;
        self.transmissions.push_back(Transmission {
            transmission,
            number,
            at: now,
        });
        self.waiting_since.get_or_insert(now);
        Some(number)
    }

    /// Notes that a message has arrived; returns its size in bytes, or 0 if that was known.
    fn arrived(&mut self, number: u64) -> u64 {
        let Some(message) = self.get_mut(number) else {
            return 0;
        };
        let (before, size) = (message.state, message.size());
        message.state = MessageState::Arrived;
        match before {
            MessageState::Arrived => return 0,
            MessageState::InFlight => {
                self.in_flight -= 1;
                self.in_flight_bytes -= size;
            }
            MessageState::Queued => {
                // It was taken for lost, and is not.
                self.lost.remove(&number);
            }
        }
        size
    }

    /// Handles an acknowledgement. One of messages that were never sent is ignored.
    pub(crate) fn on_acknowledgement(
        &mut self,
        now: Instant,
        next: u64,
        largest: u64,
        bitmap: &[u8],
    ) {
        let largest = (largest != u64::MAX).then_some(largest);
        if next > self.fresh || largest.is_some_and(|largest| largest >= self.next_transmission) {
            return;
        }
        let before = self.in_flight_bytes;
        let mut bytes = 0;
        while self.first < next {
            bytes += self.arrived(self.first);
            self.first += 1;
            if let Some(message) = self.messages.pop_front()
                && self.spare.len() < SPARE_HEADS
            {
                self.spare.push(message.head);
            }
        }
        for (index, byte) in bitmap.iter().enumerate() {
            for bit in (0..8).filter(|bit| byte & (1 << bit) != 0) {
                let number = next.saturating_add(1 + index as u64 * 8 + bit);
                if number < self.fresh {
                    bytes += self.arrived(number);
                }
            }
        }
        if let Some(largest) = largest.filter(|new| self.largest.is_none_or(|old| *new > old)) {
            self.largest = Some(largest);
            let found = self
                .transmissions
                .binary_search_by_key(&largest, |sent| sent.transmission);
            if let Some(sent) = found.ok().and_then(|index| self.transmissions.get(index)) {
                self.round_trip.sample(now.duration_since(sent.at));
            }
        }
        if bytes > 0 {
            self.time_outs = 0;
            let round_trip = self.round_trip.smoothed.unwrap_or(self.rules.max_wait);
            if let Some(cubic) = &mut self.congestion {
                cubic.on_acknowledged(now, bytes, before, self.unit, round_trip);
            }
        }
        self.find_lost(now);
        if bytes > 0 {
            self.waiting_since = (self.in_flight > 0).then_some(now);
        }
    }

    /// Declares messages lost by the reordering threshold, and forgets datagrams that need no
    /// watching any more.
    fn find_lost(&mut self, now: Instant) {
        let Some(largest) = self.largest else { return };
        while let Some(sent) = self.transmissions.front().copied() {
            let message = self.get_mut(sent.number);
            let current = message.filter(|message| {
                message.state == MessageState::InFlight && message.transmission == sent.transmission
            });
            if let Some(message) = current {
                if sent.transmission + REORDERING_THRESHOLD > largest {
                    break;
                }
                message.state = MessageState::Queued;
                let size = message.size();
                self.in_flight -= 1;
                self.in_flight_bytes -= size;
                self.lost.insert(sent.number);
                if let Some(cubic) = &mut self.congestion {
                    cubic.on_lost(now, sent.at, self.unit);
                }
            } else if sent.transmission >= largest {
                // The round trip of this one may still be needed.
                break;
            }
            self.transmissions.pop_front();
        }
    }

    /// Returns the duration of the current wait.
    fn wait(&self) -> Duration {
        let max_wait = self.rules.max_wait;
        if self.rules.window == 1 {
            return max_wait;
        }
        let time = self.round_trip.retransmission_time(max_wait);
        // RFC 6298 §5.5: twice as long each time; never longer than `max_wait`, unless the path is.
        let doubled = time.saturating_mul(1 << self.time_outs.min(16));
        doubled.min(max_wait.max(time))
    }

    /// Returns the time of the next call of [`Sender::on_time`].
    pub(crate) fn next_time(&self) -> Option<Instant> {
        Some(self.waiting_since? + self.wait())
    }

    /// Ends a wait that is due: all messages in flight are lost. Returns false if that was the last
    /// wait for a message.
    #[must_use]
    pub(crate) fn on_time(&mut self, now: Instant) -> bool {
        if self.next_time().is_none_or(|time| time > now) {
            return true;
        }
        self.time_outs += 1;
        if self.time_outs > self.rules.max_retransmits {
            return false;
        }
        self.waiting_since = None;
        for (index, message) in self.messages.iter_mut().enumerate() {
            if message.state == MessageState::InFlight {
                message.state = MessageState::Queued;
                self.lost.insert(self.first + index as u64);
            }
        }
        // An acknowledgement that comes now may be for either copy, so it gives no round trip.
        self.transmissions.clear();
        (self.in_flight, self.in_flight_bytes) = (0, 0);
        if let Some(cubic) = &mut self.congestion {
            cubic.on_time_out(now, self.unit);
        }
        true
    }

    /// Returns the current statistics.
    pub(crate) fn sample(&self) -> ProtocolSample {
        let fixed = (self.rules.window * self.unit) as u64;
        let cubic = self.congestion.as_ref();
        ProtocolSample {
            smoothed_rtt: self.round_trip.smoothed,
            min_rtt: self.round_trip.least,
            congestion_window_bytes: Some(cubic.map_or(fixed, |cubic| cubic.window().min(fixed))),
            bytes_in_flight: Some(self.in_flight_bytes),
            packets_sent: Some(self.next_transmission),
            retransmitted_packets: Some(self.retransmitted),
            congestion_events: Some(cubic.map_or(0, |cubic| cubic.events)),
            window_limited: None,
        }
    }
}

/// Longest part of a message that one datagram carries, in bytes.
pub(crate) const LONGEST_PART: usize = crate::batch::LONGEST_PAYLOAD - DATA_HEADER_BYTES;
