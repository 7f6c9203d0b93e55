//! Player of the recorded sender, against our receiver.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use regatta_transport_wdt::codec::Reply;
use regatta_transport_wdt::crypto::Secret;
use regatta_transport_wdt::receiver::{Connection, Options, Session, Step};
use regatta_transport_wdt::sink::Sink;
use regatta_transport_wdt::url::ConnectionUrl;
use regatta_transport_wdt::{Failure, Report};

use super::{Said, said, significant};
use crate::recorded::{Direction, Recorded, RecordedConnection};
use crate::scripted::ms;

const TICK: Duration = ms(10);
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
}

impl Open<'_> {
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
    fn turn(&mut self, secret: Option<&Secret>, now: Duration, since: Duration, played: &mut Played) {
        while !self.has_ended {
            let recorded_ms = u64::try_from((now - since).as_millis()).expect("a short test");
            match self.connection.step(now) {
                Step::Accept(_) => {
                    let Some(next) = self.recorded.pop_front_if(|next| next.ms <= recorded_ms) else {
                        return;
                    };
                    self.open = Some(Open {
                        recorded: next,
                        next: 0,
                        answered: Vec::new(),
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
                    match open.recorded.events.get(open.next) {
                        Some(event) if event.dir == Direction::R2s => open.next += 1,
                        Some(event) => {
                            if event.ms > recorded_ms || !open.may_go_on(secret) {
                                return;
                            }
                            open.next += 1;
                            self.connection.received(&mut event.bytes(), now);
                        }
                        None if self.is_killed && self.recorded.is_empty() => {
                            self.has_ended = true;
                            self.closed(secret, played);
                        }
                        None => self.connection.read_failed(&ErrorKind::UnexpectedEof.into(), now),
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
            said.filter(|said| *said == Said::Reply(Reply::Heartbeat)).count()
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
