//! Steps of our sender, and their times, with a receiver that follows a script.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use wdt_protocol::codec::{Checkpoint, Reply};
use wdt_protocol::crypto::Seal;
use wdt_protocol::sender;
use wdt_protocol::status::Status;

use crate::memory::MemorySource;
use crate::scripted::{abort, gcm, ms, path, url};

/// Returns one port of a sender with a file of 10 bytes.
fn sending(
    ports: u16,
) -> (
    Arc<sender::Session<MemorySource>>,
    sender::Connection<MemorySource>,
) {
    let mut source = MemorySource::new();
    source.add(path("a"), *b"0123456789");
    let session = Arc::new(
        sender::Session::new(source, &url(ports, None), sender::Options::default()).unwrap(),
    );
    let connection = sender::Connection::new(session.clone(), 0).unwrap();
    (session, connection)
}

/// Writes until the sender waits for something.
fn write_all(
    connection: &mut sender::Connection<MemorySource>,
    now: Duration,
) -> (Vec<u8>, sender::Step) {
    let mut wire = Vec::new();
    loop {
        match connection.step(now) {
            sender::Step::Write => {
                let output = connection.output().unwrap();
                wire.extend_from_slice(output.head);
                wire.extend_from_slice(output.body);
                connection.written();
            }
            other => return (wire, other),
        }
    }
}

fn reply(reply: &Reply) -> Vec<u8> {
    let mut out = Vec::new();
    reply.encode(&mut out);
    out
}

#[test]
fn sender_waits_for_its_answer_while_bytes_are_in_flight() {
    let (session, mut connection) = sending(1);
    assert_eq!(connection.step(ms(0)), sender::Step::Connect);
    connection.connected(ms(0));
    let (_, step) = write_all(&mut connection, ms(0));
    assert_eq!(step, sender::Step::Read(ms(5000)));
    connection.read_timed_out(100, ms(5000));
    assert_eq!(connection.step(ms(5000)), sender::Step::Read(ms(10_000)));
    connection.read_timed_out(99, ms(10_000));
    assert_eq!(connection.step(ms(10_000)), sender::Step::Read(ms(15_000)));
    connection.read_timed_out(0, ms(15_000));
    assert_eq!(connection.step(ms(15_000)), sender::Step::Read(ms(20_500)));
    connection.read_timed_out(0, ms(20_500));
    assert_eq!(connection.step(ms(20_500)), sender::Step::Disconnect);
    assert_eq!(connection.step(ms(20_500)), sender::Step::Connect);
    connection.connected(ms(20_500));
    assert_eq!(
        connection.step(ms(20_500)),
        sender::Step::Read(ms(25_500)),
        "a checkpoint first"
    );
    let all = Checkpoint {
        port: 1,
        blocks: 1,
        ..Checkpoint::default()
    };
    connection.received(&mut reply(&Reply::LocalCheckpoint(all)), ms(20_600));
    let (wire, _) = write_all(&mut connection, ms(20_600));
    assert!(
        !wire.windows(10).any(|ten| ten == b"0123456789"),
        "nothing goes twice"
    );
    connection.received(&mut reply(&Reply::Done), ms(20_700));
    assert_eq!(
        write_all(&mut connection, ms(20_700)),
        (b"D".to_vec(), sender::Step::Shutdown)
    );
    assert_eq!(session.finish().unwrap().blocks, 1);
}

#[test]
fn paced_sender_pauses_between_parts() {
    let mut source = MemorySource::new();
    source.add(path("a"), vec![7; 100_000]);
    let options = sender::Options {
        rate_limit: Some(sender::RateLimit::average(20_000)),
        ..sender::Options::default()
    };
    let session = Arc::new(sender::Session::new(source, &url(1, None), options).unwrap());
    let mut connection = sender::Connection::new(session.clone(), 0).unwrap();
    connection.step(ms(0));
    connection.connected(ms(0));
    let (mut now, mut waits) = (ms(0), Vec::new());
    loop {
        match write_all(&mut connection, now).1 {
            sender::Step::Sleep(until) => {
                waits.push(until);
                now = until;
            }
            other => {
                assert!(matches!(other, sender::Step::Read(_)), "{other:?}");
                break;
            }
        }
    }
    // Half a second's worth at a time.
    assert_eq!(
        waits,
        (1..=10).map(|part| ms(500 * part)).collect::<Vec<_>>()
    );
    assert_eq!(session.payload_bytes(), 100_000);
}

#[test]
fn a_sender_tries_twenty_times_to_connect() {
    let (session, mut connection) = sending(1);
    let mut now = ms(0);
    let mut attempts = 0;
    loop {
        match connection.step(now) {
            sender::Step::Connect => {
                attempts += 1;
                connection.connect_failed(&ErrorKind::ConnectionRefused.into(), now);
            }
            sender::Step::Sleep(until) => {
                assert_eq!(until, now + ms(50));
                now = until;
            }
            sender::Step::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(attempts, 20);
    assert_eq!(session.finish().unwrap_err().status, Status::Connection);
}

#[test]
fn reconnections_without_progress_come_to_an_end() {
    let (session, mut connection) = sending(1);
    let mut connections = 0;
    loop {
        match connection.step(ms(0)) {
            sender::Step::Connect => {
                connections += 1;
                connection.connected(ms(0));
            }
            sender::Step::Write => {
                connection.output().unwrap();
                connection.write_failed(&ErrorKind::BrokenPipe.into());
            }
            sender::Step::Read(_) => {
                let nothing = Checkpoint {
                    port: 1,
                    ..Checkpoint::default()
                };
                connection.received(&mut reply(&Reply::LocalCheckpoint(nothing)), ms(0));
            }
            sender::Step::Disconnect => {}
            sender::Step::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(connections, 4, "the first, and three again");
    assert_eq!(session.finish().unwrap_err().status, Status::NoProgress);
}

#[test]
fn sender_falls_back_to_the_version_of_the_receiver() {
    let (session, mut connection) = sending(1);
    connection.step(ms(0));
    connection.connected(ms(0));
    let (first, _) = write_all(&mut connection, ms(0));
    assert_eq!(first[1], 32);
    connection.received(&mut reply(&abort(31, Status::VersionMismatch)[0]), ms(1));
    assert_eq!(connection.step(ms(1)), sender::Step::Disconnect);
    assert_eq!(connection.step(ms(1)), sender::Step::Connect);
    connection.connected(ms(1));
    let (second, _) = write_all(&mut connection, ms(1));
    assert_eq!(second[1], 31);
    assert_eq!(first[2..], second[2..], "everything goes again");
    // Once is enough.
    connection.received(&mut reply(&abort(30, Status::VersionMismatch)[0]), ms(2));
    connection.step(ms(2));
    assert_eq!(
        session.finish().unwrap_err().status,
        Status::VersionMismatch
    );
}

#[test]
fn wrong_key_is_reported_as_an_encryption_error() {
    // A prologue with an IV that is always the same, and what another key made of a checkpoint.
    let mut other = vec![b'e', 2, 16];
    other.extend([5; 16]);
    other.extend(64_i32.to_le_bytes());
    other.extend([0; 60]);
    let refusal = &abort(32, Status::Encryption)[0];
    // What another key made of a checkpoint may begin like an ABORT.
    let mut alike = Vec::new();
    let mut seal = Seal::new(Some(&gcm()), 0).unwrap();
    let no_version = &abort(0x5a5a_5a5a, Status::from_code(200))[0];
    seal.seal(&reply(no_version), &mut alike).unwrap();
    for (secret, mut wire) in [
        (Some(gcm()), reply(refusal)),
        (Some(gcm()), alike),
        (Some(gcm()), other.clone()),
        (None, other),
    ] {
        let mut source = MemorySource::new();
        source.add(path("a"), *b"0123456789");
        let url = url(1, secret);
        let session = sender::Session::new(source, &url, sender::Options::default()).unwrap();
        let session = Arc::new(session);
        let mut connection = sender::Connection::new(session.clone(), 0).unwrap();
        connection.step(ms(0));
        connection.connected(ms(0));
        connection.received(&mut wire, ms(1));
        assert_eq!(connection.step(ms(1)), sender::Step::Disconnect);
        assert_eq!(connection.step(ms(1)), sender::Step::End);
        let failure = session.finish().unwrap_err();
        assert_eq!(failure.status, Status::Encryption);
        assert!(failure.detail.contains("key"), "{failure}");
    }
}

#[test]
fn a_receiver_that_is_too_old_is_refused_at_once() {
    let mut old = url(1, None);
    old.version = Some(29);
    let session = sender::Session::new(MemorySource::new(), &old, sender::Options::default());
    assert_eq!(session.err().unwrap().status, Status::VersionIncompatible);
}

#[test]
fn messages_of_a_receiver_that_contradict_what_was_sent_end_the_port() {
    let counts = |port, blocks| Checkpoint {
        port,
        blocks,
        ..Checkpoint::default()
    };
    for (what, answer, status) in [
        (
            "a port of nobody",
            Reply::Errors(vec![counts(9, 1)]),
            Status::InvalidCheckpoint,
        ),
        (
            "too many blocks",
            Reply::Errors(vec![counts(2, 1)]),
            Status::InvalidCheckpoint,
        ),
        (
            "a checkpoint in the middle",
            Reply::LocalCheckpoint(counts(1, 1)),
            Status::Protocol,
        ),
    ] {
        let (session, mut connection) = sending(2);
        connection.step(ms(0));
        connection.connected(ms(0));
        write_all(&mut connection, ms(0));
        connection.received(&mut reply(&answer), ms(0));
        assert_eq!(connection.step(ms(0)), sender::Step::Disconnect, "{what}");
        assert_eq!(connection.step(ms(0)), sender::Step::End, "{what}");
        assert_eq!(session.finish().unwrap_err().status, status, "{what}");
    }
    // The receiver may have seen a connection on which nothing came to it.
    let (_, mut connection) = sending(1);
    connection.step(ms(0));
    connection.connected(ms(0));
    write_all(&mut connection, ms(0));
    connection.received(&mut reply(&Reply::LocalCheckpoint(counts(1, 0))), ms(0));
    assert!(matches!(connection.step(ms(0)), sender::Step::Read(_)));
}
