//! Messages of our receiver, and their times, with a sender that follows a script.

mod admission;
mod time_outs;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use wdt_protocol::codec::{
    Abort, Allocation, Checkpoint, Command, Decoded, Done, FileHeader, Reply, Settings, footer,
};
use wdt_protocol::crypto::{Cipher, Key, Open, Seal, Secret};
use wdt_protocol::sink::Sink;
use wdt_protocol::status::Status;
use wdt_protocol::{Failure, receiver};

use crate::memory::{MemorySink, MemoryWriter};
use crate::scripted::{abort, bytes, done, file, gcm, ms, path, settings, url};

/// Several ports of a receiver, with the keys and the clock of their sender.
struct Receiving {
    session: Arc<receiver::Session<MemorySink>>,
    sink: MemorySink,
    ports: Vec<receiver::Connection<MemorySink>>,
    opens: Vec<Open>,
    seals: Vec<Seal>,
    secret: Option<Secret>,
    now: Duration,
}

impl Receiving {
    fn new(ports: u16, secret: Option<Secret>) -> Self {
        let sink = MemorySink::new(1 << 20);
        let session = receiver::Session::new(
            sink.clone(),
            &url(ports, secret.clone()),
            receiver::Options::default(),
        );
        let session = Arc::new(session);
        let count = usize::from(ports);
        Self {
            ports: (0..count)
                .map(|index| receiver::Connection::new(session.clone(), index))
                .collect(),
            opens: (0..count).map(|_| Open::new(secret.as_ref())).collect(),
            seals: (0..count)
                .map(|_| Seal::new(secret.as_ref(), 64).unwrap())
                .collect(),
            session,
            sink,
            secret,
            now: Duration::ZERO,
        }
    }

    /// Connects to a port.
    fn connect(&mut self, port: usize) {
        assert!(matches!(
            self.ports[port].step(self.now),
            receiver::Step::Accept(_)
        ));
        self.opens[port] = Open::new(self.secret.as_ref());
        self.seals[port] = Seal::new(self.secret.as_ref(), 64).unwrap();
        self.ports[port].accepted(self.now);
    }

    fn send(&mut self, port: usize, plain: &[u8]) {
        let mut wire = Vec::new();
        self.seals[port].seal(plain, &mut wire).unwrap();
        self.ports[port].received(&mut wire, self.now);
    }

    fn break_off(&mut self, port: usize) {
        self.ports[port].read_failed(&ErrorKind::ConnectionReset.into(), self.now);
    }

    /// Returns the messages that a port has to send now, and its next step.
    fn receive(&mut self, port: usize) -> (Vec<Reply>, receiver::Step) {
        let mut plain = Vec::new();
        loop {
            match self.ports[port].step(self.now) {
                receiver::Step::Write => {
                    let mut wire = self.ports[port].output().to_vec();
                    self.ports[port].written();
                    let mut at = 0;
                    while at < wire.len() {
                        let opened = self.opens[port].open(&mut wire, &mut at, usize::MAX);
                        plain.extend_from_slice(opened.unwrap());
                    }
                }
                receiver::Step::Disconnect => {}
                other => {
                    let mut replies = Vec::new();
                    while !plain.is_empty() {
                        match Reply::decode(&plain).unwrap() {
                            Decoded::Whole { value, length } => {
                                replies.push(value);
                                plain.drain(..length);
                            }
                            Decoded::Needs(_) => panic!("half a message: {plain:?}"),
                        }
                    }
                    return (replies, other);
                }
            }
        }
    }

    fn replies(&mut self, port: usize) -> Vec<Reply> {
        self.receive(port).0
    }

    fn failure(&self) -> Failure {
        self.session.failure().expect("it failed")
    }
}

#[test]
fn compatible_versions_are_adopted_and_others_refused() {
    for (version, answer) in [
        (32, vec![]),
        (31, vec![]),
        (30, vec![]),
        (33, abort(32, Status::VersionMismatch)),
        (29, abort(32, Status::VersionIncompatible)),
        (9, abort(32, Status::VersionIncompatible)),
    ] {
        let mut receiving = Receiving::new(1, None);
        receiving.connect(0);
        receiving.send(
            0,
            &bytes(&[Command::Settings(Settings {
                version,
                ..settings()
            })]),
        );
        assert_eq!(receiving.replies(0), answer, "version {version}");
        assert_eq!(
            receiving.session.failure().is_some(),
            version < 30,
            "version {version}"
        );
    }
}

#[test]
fn newer_sender_may_reconnect_with_the_supported_version() {
    let mut receiving = Receiving::new(1, None);
    receiving.connect(0);
    receiving.send(
        0,
        &bytes(&[Command::Settings(Settings {
            version: 40,
            ..settings()
        })]),
    );
    assert_eq!(receiving.replies(0), abort(32, Status::VersionMismatch));
    receiving.break_off(0);
    assert!(
        matches!(receiving.receive(0), (replies, receiver::Step::Accept(_)) if replies.is_empty())
    );
    receiving.connect(0);
    receiving.send(0, &bytes(&[Command::Settings(settings()), done(0, 0)]));
    assert_eq!(
        receiving.replies(0),
        [Reply::Done],
        "and no checkpoint, as nothing was lost"
    );
}

#[test]
fn invalid_commands_end_the_transfer_with_their_code() {
    let header = |change: fn(&mut FileHeader)| {
        let Command::File(mut header) = file("a", 1, 4) else {
            unreachable!()
        };
        change(&mut header);
        Command::File(header)
    };
    let climbing = {
        let mut wire = bytes(&[file("ab/c", 1, 4)]);
        let at = wire.windows(4).position(|four| four == b"ab/c").unwrap();
        wire[at..at + 2].copy_from_slice(b"..");
        wire
    };
    let block = |commands: &[Command]| {
        let mut wire = bytes(&[file("a", 1, 4)]);
        wire.extend_from_slice(b"data");
        wire.extend(bytes(commands));
        wire
    };
    let twice = [bytes(&[done(1, 4)]), b"D".to_vec()].concat();
    for (what, wire, status) in [
        ("a path that climbs", climbing, Status::Protocol),
        (
            "SETTINGS twice",
            bytes(&[Command::Settings(settings())]),
            Status::Protocol,
        ),
        ("an unknown command", b"x".to_vec(), Status::Protocol),
        (
            "a footer without a block",
            bytes(&[Command::Footer(1)]),
            Status::Protocol,
        ),
        (
            "bytes after DONE",
            [bytes(&[done(1, 4)]), b"x".to_vec()].concat(),
            Status::Protocol,
        ),
        ("an early end", twice, Status::Protocol),
        ("too few blocks", block(&[done(2, 4)]), Status::Protocol),
        ("too few bytes", block(&[done(1, 5)]), Status::Protocol),
        (
            "a file too large for the sink",
            bytes(&[file("a", 1, 1 << 40)]),
            Status::FileWrite,
        ),
        (
            "bytes of a file that is to be deleted",
            bytes(&[header(|header| header.allocation = Allocation::Delete)]),
            Status::Protocol,
        ),
        (
            "a sender that failed",
            bytes(&[header(|header| header.status = 7)]),
            Status::SourceRead,
        ),
        (
            "DONE of a sender that failed",
            bytes(&[Command::Done(Done {
                status: 7,
                blocks: 0,
                bytes: 0,
            })]),
            Status::SourceRead,
        ),
    ] {
        let mut receiving = Receiving::new(1, None);
        receiving.connect(0);
        receiving.send(0, &bytes(&[Command::Settings(settings())]));
        receiving.send(0, &wire);
        let replies = receiving.replies(0);
        let code = match replies.last() {
            Some(Reply::Abort(abort)) => abort.code,
            other => panic!("{what}: {other:?}"),
        };
        assert_eq!(code, status.code(), "{what}");
        assert_eq!(
            receiving.failure().status,
            status,
            "{what}: {}",
            receiving.failure()
        );
    }
}

/// Sink that takes everything, and fails in the final check.
struct Holey(MemorySink);

impl Sink for Holey {
    type Writer = MemoryWriter;

    fn begin(&self, block: &FileHeader) -> io::Result<MemoryWriter> {
        self.0.begin(block)
    }

    fn check(&self, bytes: u64) -> io::Result<()> {
        Err(io::Error::other(format!("a hole in {bytes} bytes")))
    }
}

#[test]
fn incomplete_content_is_refused_at_the_end() {
    let sink = Holey(MemorySink::new(1 << 20));
    let session = receiver::Session::new(sink, &url(1, None), receiver::Options::default());
    let session = Arc::new(session);
    let mut connection = receiver::Connection::new(session.clone(), 0);
    connection.accepted(ms(0));
    let mut wire = bytes(&[Command::Settings(settings()), file("a", 1, 4)]);
    wire.extend_from_slice(b"data");
    wire.extend(bytes(&[done(1, 4)]));
    connection.received(&mut wire, ms(0));
    while !matches!(connection.step(ms(0)), receiver::Step::Write) {}
    assert_eq!(
        Reply::decode(connection.output()),
        Ok(Decoded::Whole {
            value: Reply::Abort(Abort {
                version: 32,
                code: Status::Protocol.code(),
                blocks: 1,
            }),
            length: 14,
        })
    );
    assert!(
        session
            .finish()
            .unwrap_err()
            .detail
            .contains("a hole in 4 bytes")
    );
}

#[test]
fn paths_are_normalised_or_refused_by_name() {
    let spelled = |spelling: &str| {
        let length = spelling.len();
        let mut wire = bytes(&[file(&"x".repeat(length), 1, 4)]);
        let at = wire
            .windows(length)
            .position(|part| part.iter().all(|byte| *byte == b'x'));
        let at = at.expect("the path");
        wire[at..at + length].copy_from_slice(spelling.as_bytes());
        wire
    };
    for (spelling, taken) in [("./x", "x"), ("a//b", "a/b")] {
        let mut receiving = Receiving::new(1, None);
        receiving.connect(0);
        receiving.send(0, &bytes(&[Command::Settings(settings())]));
        receiving.send(0, &spelled(spelling));
        receiving.send(0, b"data");
        receiving.send(0, &bytes(&[done(1, 4)]));
        assert_eq!(receiving.replies(0), [Reply::Done], "{spelling}");
        assert_eq!(receiving.sink.contents()[&path(taken)], b"data");
    }
    for refused in ["../x", "/x/y", "a/b/"] {
        let mut receiving = Receiving::new(1, None);
        receiving.connect(0);
        receiving.send(0, &bytes(&[Command::Settings(settings())]));
        receiving.send(0, &spelled(refused));
        let failure = receiving.failure();
        assert_eq!(failure.status, Status::Protocol);
        assert!(
            failure.detail.contains(&format!("`{refused}`")),
            "{failure}"
        );
    }
}

#[test]
fn resuming_sender_gets_chunks_on_one_connection() {
    let mut receiving = Receiving::new(2, None);
    let resuming = Settings {
        request_chunks: true,
        ..settings()
    };
    for port in [0, 1] {
        receiving.connect(port);
        receiving.send(port, &bytes(&[Command::Settings(resuming.clone())]));
    }
    // Nothing is there; the other port waits, and gets a reply when the sender has answered.
    assert_eq!(receiving.replies(0), [Reply::Chunks { files: 0 }]);
    assert_eq!(receiving.replies(1), [Reply::Wait]);
    receiving.now = ms(999);
    assert_eq!(receiving.replies(1), []);
    receiving.now = ms(1000);
    assert_eq!(receiving.replies(1), [Reply::Wait]);
    receiving.send(0, &bytes(&[Command::Ack, done(0, 0)]));
    assert_eq!(receiving.replies(1), [Reply::Ack]);
    receiving.send(1, &bytes(&[done(0, 0)]));
    assert_eq!(receiving.replies(0), [Reply::Done]);
}

#[test]
fn a_block_with_a_wrong_footer_is_not_counted() {
    let mut receiving = Receiving::new(1, None);
    receiving.connect(0);
    let checked = Command::Settings(Settings {
        checksum: true,
        ..settings()
    });
    receiving.send(0, &bytes(&[checked.clone(), file("a", 1, 4)]));
    receiving.send(0, b"data");
    receiving.send(
        0,
        &bytes(&[Command::Footer(footer(0, b"data")), file("b", 2, 4)]),
    );
    receiving.send(0, b"dbta");
    receiving.send(0, &bytes(&[Command::Footer(footer(0, b"data"))]));
    assert!(matches!(receiving.receive(0).1, receiver::Step::Accept(_)));
    receiving.connect(0);
    let one = Checkpoint {
        port: 1,
        blocks: 1,
        ..Checkpoint::default()
    };
    assert_eq!(receiving.replies(0), [Reply::LocalCheckpoint(one)]);
    receiving.send(0, &bytes(&[checked, file("b", 2, 4)]));
    receiving.send(0, b"data");
    receiving.send(
        0,
        &bytes(&[Command::Footer(footer(0, b"data")), done(2, 8)]),
    );
    assert_eq!(receiving.replies(0), [Reply::Done]);
    assert_eq!(receiving.sink.contents()[&path("b")], b"data");
}

#[test]
fn blocks_without_a_tag_are_neither_counted_nor_acknowledged() {
    let mut receiving = Receiving::new(2, Some(gcm()));
    receiving.connect(0);
    receiving.connect(1);
    receiving.send(1, &bytes(&[Command::Settings(settings()), file("c", 3, 4)]));
    receiving.send(
        0,
        &bytes(&[Command::Settings(settings()), file("a", 1, 40), done(2, 44)])[..20],
    );
    let mut rest = bytes(&[file("a", 1, 40)]);
    let settings_bytes = bytes(&[Command::Settings(settings())]).len();
    rest.drain(..20 - settings_bytes);
    rest.extend([7; 40]);
    rest.extend(bytes(&[done(2, 44)]));
    receiving.send(0, &rest);
    // DONE is 256 bytes, so tags follow the block: it is authentic, and WAIT may be sent.
    receiving.now = ms(1000);
    assert_eq!(receiving.replies(0), [Reply::Wait]);
    // A port whose block ends after its last tag sends heartbeats only.
    let mut receiving = Receiving::new(2, Some(gcm()));
    receiving.connect(0);
    receiving.connect(1);
    receiving.send(1, &bytes(&[Command::Settings(settings())]));
    receiving.seals[0] = Seal::new(Some(&gcm()), 1 << 20).unwrap();
    receiving.send(0, &bytes(&[Command::Settings(settings()), file("a", 1, 4)]));
    receiving.send(0, b"data");
    receiving.send(0, &bytes(&[done(1, 4)]));
    receiving.now = ms(1000);
    assert_eq!(receiving.replies(0), [Reply::Heartbeat]);
    receiving.break_off(0);
    receiving.receive(0);
    receiving.connect(0);
    let nothing = Checkpoint {
        port: 1,
        ..Checkpoint::default()
    };
    assert_eq!(receiving.replies(0), [Reply::LocalCheckpoint(nothing)]);
}

#[test]
fn global_checkpoint_still_requires_verification() {
    let mut receiving = Receiving::new(2, Some(gcm()));
    receiving.connect(0);
    receiving.seals[0] = Seal::new(Some(&gcm()), 1 << 20).unwrap();
    receiving.send(0, &bytes(&[Command::Settings(settings()), file("a", 1, 4)]));
    receiving.send(0, b"data");
    receiving.send(0, &bytes(&[done(1, 4)]));
    receiving.now = ms(2000);
    assert_eq!(receiving.receive(1).1, receiver::Step::End);
    assert!(matches!(receiving.replies(0)[..], [Reply::Errors(_)]));
    receiving.break_off(0);
    assert_eq!(receiving.failure().status, Status::Encryption);
}
