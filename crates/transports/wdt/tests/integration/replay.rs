//! The recorded sender against our receiver, and the recorded receiver against our sender.
//!
//! Random parts are left out of the comparison: IVs, the padding, the number of WAITs on each port,
//! and with several ports their assignment of messages.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use regatta_transport_wdt::codec::{Command, Reply};
use regatta_transport_wdt::crypto::Secret;
use regatta_transport_wdt::path::RelativePath;
use regatta_transport_wdt::url::ConnectionUrl;
use regatta_transport_wdt::{receiver, sender};

use crate::memory::{MemorySink, MemorySource};
use crate::recorded::plain::Plain;
use crate::recorded::{Direction, NAMES, Recorded, RecordedConnection, content};

const TICK: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(120);

/// Returns the messages of a receiver, without those that are only keep-alives.
fn significant(wire: &[u8], secret: Option<&Secret>) -> Vec<Reply> {
    let mut plain = Plain::new(wire.to_vec(), secret);
    let mut replies = Vec::new();
    while let Some(reply) = plain.next(Reply::decode) {
        let last = matches!(reply, Reply::Done | Reply::Abort(_));
        if !matches!(reply, Reply::Wait | Reply::Heartbeat) {
            replies.push(reply);
        }
        if last {
            break;
        }
    }
    replies
}

fn files(recorded: &Recorded) -> BTreeMap<RelativePath, Vec<u8>> {
    recorded
        .files
        .iter()
        .map(|file| {
            let path = RelativePath::new(file.path.as_bytes()).unwrap();
            (path, content(0, file.size as usize).collect())
        })
        .collect()
}

/// One port of our receiver, with the recorded sender's connections to it.
struct ReceiverPort<'a> {
    connection: receiver::Connection<MemorySink>,
    recorded: VecDeque<&'a RecordedConnection>,
    /// The open connection, the index of its next event, and our answers so far.
    open: Option<(&'a RecordedConnection, usize, Vec<u8>)>,
    ended: bool,
}

impl ReceiverPort<'_> {
    /// Whether our receiver has sent what the recorded one had sent before its sender went on.
    fn may_go_on(&self, secret: Option<&Secret>) -> bool {
        let Some((connection, next, answered)) = &self.open else {
            return false;
        };
        let before: Vec<u8> = connection.events[..*next]
            .iter()
            .filter(|event| event.dir == Direction::R2s)
            .flat_map(|event| event.bytes())
            .collect();
        significant(answered, secret).len() >= significant(&before, secret).len()
    }

    /// Takes steps until there is nothing to do before the clock advances.
    fn turn(&mut self, secret: Option<&Secret>, now: Duration) {
        while !self.ended {
            match self.connection.step(now) {
                receiver::Step::Accept(_) => match self.recorded.pop_front() {
                    Some(next) => {
                        self.open = Some((next, 0, Vec::new()));
                        self.connection.accepted(now);
                    }
                    None => return,
                },
                receiver::Step::Write => {
                    let out = self.connection.output().to_vec();
                    self.open.as_mut().expect("open").2.extend(out);
                    self.connection.written();
                }
                receiver::Step::Read(_) => {
                    if !self.may_go_on(secret) {
                        return;
                    }
                    let (connection, next, _) = self.open.as_mut().expect("open");
                    let event = connection.events.get(*next);
                    *next += 1;
                    match event {
                        Some(event) if event.dir == Direction::S2r => {
                            self.connection.received(&mut event.bytes(), now);
                        }
                        Some(_) => {}
                        None => {
                            self.connection
                                .read_failed(&ErrorKind::UnexpectedEof.into(), now);
                        }
                    }
                }
                receiver::Step::Wait(_) => return,
                receiver::Step::Shutdown => {}
                receiver::Step::Disconnect => {
                    let (connection, _, answered) = self.open.take().expect("open");
                    let theirs = connection.stream(Direction::R2s);
                    assert_eq!(significant(&answered, secret), significant(&theirs, secret));
                }
                receiver::Step::End => self.ended = true,
            }
        }
    }
}

#[test]
fn receiver_accepts_the_recorded_sender() {
    for name in NAMES {
        let recorded = Recorded::load(name);
        let url = ConnectionUrl::parse(&recorded.url).unwrap();
        let sink = MemorySink::new(1 << 30);
        let session = receiver::Session::new(sink.clone(), &url, receiver::Options::default());
        let session = Arc::new(session);
        let mut ports: Vec<_> = url
            .ports
            .iter()
            .enumerate()
            .map(|(index, port)| ReceiverPort {
                connection: receiver::Connection::new(session.clone(), index),
                recorded: recorded
                    .connections
                    .iter()
                    .filter(|c| c.port == *port)
                    .collect(),
                open: None,
                ended: false,
            })
            .collect();
        let mut now = Duration::ZERO;
        while ports.iter().any(|port| !port.ended) {
            ports
                .iter_mut()
                .for_each(|port| port.turn(url.secret.as_ref(), now));
            now += TICK;
            assert!(now < LONGEST, "{name} hangs");
        }
        let exit = session
            .finish()
            .map_or_else(|failure| failure.status.code(), |_| 0);
        assert_eq!(
            exit,
            recorded.outcome.receiver_exit,
            "{name}: {:?}",
            session.finish()
        );
        if recorded.outcome.files_arrived {
            assert!(sink.contents() == files(&recorded), "{name}");
        } else {
            assert!(sink.contents().is_empty(), "{name}");
        }
    }
}

/// One port of our sender, with the recorded receiver's connections to it.
struct SenderPort<'a> {
    connection: sender::Connection<MemorySource>,
    recorded: VecDeque<&'a RecordedConnection>,
    /// The open connection, the number of its answers that arrived, and the bytes we have sent.
    open: Option<(&'a RecordedConnection, usize, Vec<u8>)>,
    sent: Vec<(&'a RecordedConnection, Vec<u8>)>,
    ended: bool,
}

impl SenderPort<'_> {
    fn turn(&mut self, now: Duration) {
        while !self.ended {
            match self.connection.step(now) {
                sender::Step::Connect => match self.recorded.pop_front() {
                    Some(next) => {
                        self.open = Some((next, 0, Vec::new()));
                        self.connection.connected(now);
                    }
                    None => {
                        self.connection
                            .connect_failed(&ErrorKind::ConnectionRefused.into(), now);
                    }
                },
                sender::Step::Sleep(until) if now < until => return,
                sender::Step::Sleep(_) => {}
                sender::Step::Write => {
                    let output = self.connection.output().expect("memory can be read");
                    let (connection, _, sent) = self.open.as_mut().expect("open");
                    sent.extend_from_slice(output.head);
                    sent.extend_from_slice(output.body);
                    let room = connection.stream(Direction::S2r).len();
                    if connection.was_cut() && sent.len() >= room {
                        sent.truncate(room);
                        self.connection
                            .write_failed(&ErrorKind::ConnectionReset.into());
                    } else {
                        self.connection.written();
                    }
                }
                sender::Step::Read(_) => {
                    let (connection, next, _) = self.open.as_mut().expect("open");
                    let mut answers = connection
                        .events
                        .iter()
                        .filter(|event| event.dir == Direction::R2s);
                    let answer = answers.nth(*next);
                    *next += 1;
                    match answer {
                        Some(event) => self.connection.received(&mut event.bytes(), now),
                        None => self
                            .connection
                            .read_failed(&ErrorKind::UnexpectedEof.into()),
                    }
                }
                sender::Step::Shutdown => {}
                sender::Step::Disconnect => {
                    let (connection, _, sent) = self.open.take().expect("open");
                    self.sent.push((connection, sent));
                }
                sender::Step::End => self.ended = true,
            }
        }
    }
}

/// Returns the commands of a sender on a connection, without those that differ for good reasons:
/// our settings ask for no heartbeats, and SIZE comes when the files are known.
fn commands(wire: &[u8], secret: Option<&Secret>) -> Vec<Command> {
    let mut plain = Plain::new(wire.to_vec(), secret);
    let mut commands = Vec::new();
    while let Some(command) = plain.next(Command::decode) {
        match &command {
            Command::Settings(_) | Command::Size(_) | Command::Ack => continue,
            Command::File(header) => {
                let length = header.length as usize;
                commands.push(command.clone());
                match plain.take(length) {
                    Some(payload) => {
                        assert!(content(header.offset, length).eq(payload), "the payload");
                    }
                    None => return commands,
                }
            }
            // After DONE there are blocks again, or one byte, which is no command by itself.
            Command::Footer(_) | Command::Done(_) => commands.push(command),
        }
    }
    commands
}

/// Returns the recorded files in the order of their recorded numbers, so that ours are the same.
fn by_number(recorded: &Recorded, secret: Option<&Secret>) -> MemorySource {
    let mut numbers = BTreeMap::new();
    for connection in &recorded.connections {
        for command in commands(&connection.stream(Direction::S2r), secret) {
            if let Command::File(header) = command {
                numbers.insert(header.sequence, header.path);
            }
        }
    }
    let contents = files(recorded);
    let mut source = MemorySource::new();
    assert_eq!(numbers.len(), contents.len());
    for path in numbers.into_values() {
        let content = contents[&path].clone();
        source.add(path, content);
    }
    source
}

#[test]
fn sender_replays_the_recorded_sender() {
    for name in NAMES {
        let recorded = Recorded::load(name);
        let url = recorded.sender_url.as_deref().unwrap_or(&recorded.url);
        let url = ConnectionUrl::parse(url).unwrap();
        let secret = url.secret.as_ref();
        let interval = match name {
            "05-gcm-tags" => 4096,
            "06-gcm-iv-change" => 350_000,
            _ => 2048,
        };
        let options = sender::Options {
            checksum: ["02", "03", "07b", "09"].contains(&name.split('-').next().unwrap()),
            block_bytes: if name == "03-four-ports" {
                1 << 20
            } else {
                16 << 20
            },
            tag_interval_bytes: interval,
            ..sender::Options::default()
        };
        let session = sender::Session::new(by_number(&recorded, secret), &url, options);
        let session = Arc::new(session.unwrap());
        let mut ports: Vec<_> = url
            .ports
            .iter()
            .enumerate()
            .map(|(index, port)| SenderPort {
                connection: sender::Connection::new(session.clone(), index).unwrap(),
                recorded: recorded
                    .connections
                    .iter()
                    .filter(|c| c.port == *port)
                    .collect(),
                open: None,
                sent: Vec::new(),
                ended: false,
            })
            .collect();
        // Both sides of a recorded checkpoint must be there when it is sent, so the ports that are
        // cut go first.
        ports.sort_by_key(|port| !port.recorded.iter().any(|connection| connection.was_cut()));
        let mut now = Duration::ZERO;
        while ports.iter().any(|port| !port.ended) {
            ports.iter_mut().for_each(|port| port.turn(now));
            now += TICK;
            assert!(now < LONGEST, "{name} hangs");
        }
        let exit = session
            .finish()
            .map_or_else(|failure| failure.status.code(), |_| 0);
        assert_eq!(
            exit,
            recorded.outcome.sender_exit,
            "{name}: {:?}",
            session.finish()
        );
        if ports.len() > 1 || name == "08-wrong-id" {
            continue;
        }
        assert_eq!(ports[0].sent.len(), recorded.connections.len(), "{name}");
        for (connection, sent) in &ports[0].sent {
            let theirs = connection.stream(Direction::S2r);
            let (ours, theirs) = (commands(sent, secret), commands(&theirs, secret));
            assert_eq!(ours, theirs, "{name}");
        }
    }
}
