//! Player of the recorded sender, against our receiver.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use wdt_protocol::codec::{Command, Reply};
use wdt_protocol::crypto::{PROLOGUE, Secret};
use wdt_protocol::receiver::{Connection, Options, Session, Step};
use wdt_protocol::sink::Sink;
use wdt_protocol::url::ConnectionUrl;
use wdt_protocol::{Failure, Report};

use super::{Said, said, significant};
use crate::recorded::plain::Plain;
use crate::recorded::{Direction, Recorded, RecordedConnection};
use crate::scripted::ms;

const TICK: Duration = ms(1);
const LONGEST: Duration = Duration::from_secs(120);

/// Result of a played session.
pub struct Played {
    /// Our messages and the recorded ones on each connection, without keep-alives.
    pub connections: Vec<(Vec<Said>, Vec<Said>)>,
    /// Number of heartbeats, ours and the recorded ones.
    pub heartbeats: (usize, usize),
    /// Outcome of our receiver; absent where the recorded one was killed.
    pub outcome: Option<Result<Report, Failure>>,
    /// Time since the first connection.
    pub took: Duration,
}

/// One port of our receiver, with the recorded sender's connections to it.
struct Port<'a, K: Sink> {
    connection: Connection<K>,
    recorded: VecDeque<&'a RecordedConnection>,
    open: Option<Open<'a>>,
    /// Whether events have times; without them, their order counts.
    is_timed: bool,
    is_killed: bool,
    has_ended: bool,
}

/// Open connection.
struct Open<'a> {
    recorded: &'a RecordedConnection,
    /// Index of the next event.
    next: usize,
    /// Our bytes so far.
    answered: Vec<u8>,
    /// Bytes of events that have happened, and were not delivered.
    pending: Vec<u8>,
    /// Bytes delivered so far.
    delivered: usize,
    gates: VecDeque<(usize, Gate)>,
}

/// Message of the receiver without which the sender cannot have sent what follows. Which of two events at one
/// millisecond was first, a recording does not say.
#[derive(Clone, Copy)]
enum Gate {
    /// The list of files, or ACK in its place.
    List,
    Done,
}

impl Gate {
    fn is_open(self, said: &[Said]) -> bool {
        said.iter().any(|said| match self {
            Gate::List => matches!(said, Said::List(_) | Said::Reply(Reply::Ack)),
            Gate::Done => *said == Said::Reply(Reply::Done),
        })
    }
}

/// Returns the gates of a sender's bytes, by their offsets; none for bytes under another key.
fn gates(recorded: &RecordedConnection, secret: Option<&Secret>) -> VecDeque<(usize, Gate)> {
    let wire = recorded.stream(Direction::S2r);
    let length = wire.len();
    let is_sealed = wire.first() == Some(&PROLOGUE);
    let mut gates = VecDeque::new();
    let has_answers = !recorded.stream(Direction::R2s).is_empty();
    if is_sealed != secret.is_some() || !has_answers {
        return gates;
    }
    let mut plain = Plain::new(wire, secret);
    while let Some(command) = plain.next_or_none(Command::decode) {
        let gate = match command {
            Command::Settings(settings) if settings.request_chunks => Gate::List,
            Command::Done(_) => Gate::Done,
            Command::File(header) if plain.take(header.length as usize).is_none() => break,
            _ => continue,
        };
        gates.push_back((length - plain.left(), gate));
    }
    gates
}

impl Open<'_> {
    /// Takes the events that have happened by now.
    fn arrive(&mut self, is_timed: bool, secret: Option<&Secret>, now_ms: u64) {
        while let Some(event) = self.recorded.events.get(self.next) {
            if event.dir == Direction::S2r {
                let is_early = event.ms > now_ms || !is_timed && !self.may_go_on(secret);
                if is_early || !is_timed && !self.pending.is_empty() {
                    return;
                }
                self.pending.extend(event.bytes());
            }
            self.next += 1;
        }
    }

    /// Takes the bytes up to the first gate that is not open.
    fn deliverable(&mut self, secret: Option<&Secret>) -> Vec<u8> {
        let said = significant(&self.answered, secret);
        while self
            .gates
            .pop_front_if(|(_, gate)| gate.is_open(&said))
            .is_some()
        {}
        let room = self
            .gates
            .front()
            .map_or(usize::MAX, |(at, _)| at - self.delivered);
        let bytes: Vec<u8> = self.pending.drain(..room.min(self.pending.len())).collect();
        self.delivered += bytes.len();
        bytes
    }

    /// Whether our receiver has sent what the recorded one had sent before its sender went on.
    fn may_go_on(&self, secret: Option<&Secret>) -> bool {
        let events = self.recorded.events[..self.next].iter();
        let theirs = events.filter(|event| event.dir == Direction::R2s);
        let theirs: Vec<u8> = theirs.flat_map(|event| event.bytes()).collect();
        significant(&self.answered, secret).len() >= significant(&theirs, secret).len()
    }
}

impl<K: Sink> Port<'_, K> {
    /// Takes steps until there is nothing to do before the clock advances. `since` is the time of the
    /// first connection.
    fn turn(
        &mut self,
        secret: Option<&Secret>,
        now: Duration,
        since: Duration,
        played: &mut Played,
    ) {
        while !self.has_ended {
            let recorded_ms = u64::try_from((now - since).as_millis()).expect("a short test");
            match self.connection.step(now) {
                Step::Accept(_) => {
                    let Some(next) = self.recorded.pop_front_if(|next| next.ms <= recorded_ms)
                    else {
                        return;
                    };
                    self.open = Some(Open {
                        recorded: next,
                        next: 0,
                        answered: Vec::new(),
                        pending: Vec::new(),
                        delivered: 0,
                        gates: match self.is_timed {
                            true => gates(next, secret),
                            false => VecDeque::new(),
                        },
                    });
                    self.connection.accepted(now);
                }
                Step::Write => {
                    let out = self.connection.output().to_vec();
                    self.open.as_mut().expect("open").answered.extend(out);
                    self.connection.written();
                }
                Step::Read(_) => {
                    let open = self.open.as_mut().expect("open");
                    open.arrive(self.is_timed, secret, recorded_ms);
                    let mut bytes = open.deliverable(secret);
                    if !bytes.is_empty() {
                        self.connection.received(&mut bytes, now);
                        continue;
                    }
                    if open.next < open.recorded.events.len() || !open.pending.is_empty() {
                        return;
                    }
                    if self.is_killed && self.recorded.is_empty() {
                        self.has_ended = true;
                        self.closed(secret, played);
                    } else {
                        (self.connection).read_failed(&ErrorKind::UnexpectedEof.into(), now);
                    }
                }
                Step::Wait(_) => return,
                Step::Shutdown => {}
                Step::Disconnect => self.closed(secret, played),
                Step::End => self.has_ended = true,
            }
        }
    }

    /// Notes the messages of the connection that has ended.
    fn closed(&mut self, secret: Option<&Secret>, played: &mut Played) {
        let open = self.open.take().expect("open");
        let theirs = open.recorded.stream(Direction::R2s);
        let heartbeats = |wire: &[u8]| {
            let said = said(wire, secret).into_iter();
            said.filter(|said| *said == Said::Reply(Reply::Heartbeat))
                .count()
        };
        played.heartbeats.0 += heartbeats(&open.answered);
        played.heartbeats.1 += heartbeats(&theirs);
        played.connections.push((
            significant(&open.answered, secret),
            significant(&theirs, secret),
        ));
    }
}

/// Plays the recorded sender to a receiver with this sink, which had listened for `late` before the first connection.
pub fn play<K: Sink>(recorded: &Recorded, sink: K, late: Duration) -> Played {
    let url = ConnectionUrl::parse(&recorded.url).expect("a URL");
    let session = Arc::new(Session::new(sink, &url, Options::default()));
    let is_killed = recorded.outcome.receiver_exit > 128;
    let ports = url.ports.iter().enumerate();
    let mut ports: Vec<_> = ports
        .map(|(index, port)| Port {
            connection: Connection::new(session.clone(), index),
            recorded: (recorded.connections.iter())
                .filter(|connection| connection.port == *port)
                .collect(),
            open: None,
            is_timed: recorded.name.starts_with('r'),
            is_killed,
            has_ended: false,
        })
        .collect();
    let mut played = Played {
        connections: Vec::new(),
        heartbeats: (0, 0),
        outcome: None,
        took: Duration::ZERO,
    };
    let mut now = late;
    while ports.iter().any(|port| !port.has_ended) {
        for port in &mut ports {
            port.turn(url.secret.as_ref(), now, late, &mut played);
        }
        now += TICK;
        assert!(now < LONGEST, "{} hangs", recorded.name);
    }
    played.took = now - late;
    played.outcome = (!is_killed).then(|| session.finish());
    played
}
