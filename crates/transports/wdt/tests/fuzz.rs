//! Bytes of recorded sessions, damaged in ways that a seed chooses: nothing panics or hangs, and no
//! memory is allocated because of a length field alone.
//!
//! Each target runs for `REGATTA_FUZZ_SECONDS`, 5 unless that is set, from the seed
//! `REGATTA_FUZZ_SEED` on; a failure names its seed. `make fuzz` runs each for ten minutes.

#[allow(dead_code, reason = "each test uses a part of it")]
mod fuzzed;
#[allow(dead_code, reason = "each test uses a part of it")]
mod memory;
mod random;
#[allow(dead_code, reason = "each test uses a part of it")]
mod recorded;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use fuzzed::{damaged, for_many_seeds, peak_bytes};
use memory::{MemorySink, MemorySource};
use random::Random;
use recorded::{Direction, NAMES, Recorded};
use wdt_protocol::codec::{Command, Decoded, Malformed, Reply};
use wdt_protocol::crypto::{Cipher, Key, Open, Seal, Secret};
use wdt_protocol::path::RelativePath;
use wdt_protocol::url::ConnectionUrl;
use wdt_protocol::{receiver, sender};

/// Maximum memory for decoding one command, reading one URL or opening one stream, in bytes. The
/// largest is a list of checkpoints, which is a few times as long in memory as on the wire.
const MAX_BYTES: usize = 1 << 20;
/// Maximum memory of a port's state machine on top of the sink's limit, in bytes.
const MAX_SESSION_BYTES: usize = 4 << 20;

/// Returns the streams of the recorded sessions, without the longest files, which make slow seeds
/// and show nothing more.
fn streams(direction: Direction) -> Vec<(Recorded, Vec<Vec<u8>>)> {
    NAMES
        .into_iter()
        .map(Recorded::load)
        .filter(|recorded| recorded.files.iter().all(|file| file.size < 10_000))
        .map(|recorded| {
            let streams = recorded
                .connections
                .iter()
                .map(|c| c.stream(direction))
                .collect();
            (recorded, streams)
        })
        .collect()
}

#[test]
fn codec() {
    /// Checks that a decoded message survives encoding and decoding.
    fn round<T: PartialEq + std::fmt::Debug>(
        bytes: &[u8],
        decode: impl Fn(&[u8]) -> Result<Decoded<T>, Malformed>,
        encode: impl Fn(&T, &mut Vec<u8>),
    ) {
        let (decoded, peak) = peak_bytes(|| decode(bytes));
        assert!(
            peak < MAX_BYTES,
            "{peak} bytes of memory for {} of input",
            bytes.len()
        );
        if let Ok(Decoded::Whole { value, length }) = decoded {
            assert!(length <= bytes.len());
            let mut again = Vec::new();
            encode(&value, &mut again);
            let length = again.len();
            assert_eq!(decode(&again), Ok(Decoded::Whole { value, length }));
        }
    }
    // The starts of commands in what is not encrypted.
    let seeds: Vec<Vec<u8>> = [Direction::S2r, Direction::R2s]
        .into_iter()
        .flat_map(streams)
        .filter(|(recorded, _)| !recorded.url.contains("Enc="))
        .flat_map(|(_, streams)| streams)
        .flat_map(|stream| {
            let starts: Vec<usize> = (0..stream.len())
                .filter(|at| {
                    matches!(
                        stream[*at..],
                        [b'S' | b'Z' | b'D' | b'E' | b'A' | 1, ..]
                            | [b'L', 0, _, 0, ..]
                            | [b'F', ..]
                    )
                })
                .take(300)
                .collect();
            starts
                .into_iter()
                .map(move |at| stream[at..stream.len().min(at + 300)].to_vec())
        })
        .collect();
    for_many_seeds("codec", |random| {
        let bytes = damaged(&seeds, random);
        round(&bytes, Command::decode, Command::encode);
        round(&bytes, Reply::decode, Reply::encode);
    });
}

#[test]
fn connection_url() {
    let mut seeds: Vec<Vec<u8>> = NAMES
        .into_iter()
        .map(|name| Recorded::load(name).url.into_bytes())
        .collect();
    seeds.push(b"wdt://[fe80::1%25eth0]:22356?num_ports=64&id=a%2fb&dr=0&start_port=1".to_vec());
    seeds.push(b"wdt://h?ports=1,2,65535&Enc=2:00112233445566778899aabbccddeeff".to_vec());
    for_many_seeds("connection_url", |random| {
        let bytes = damaged(&seeds, random);
        let text = String::from_utf8_lossy(&bytes);
        let (url, peak) = peak_bytes(|| ConnectionUrl::parse(&text));
        assert!(
            peak < MAX_BYTES,
            "{peak} bytes of memory for {} of input",
            bytes.len()
        );
        if let Ok(url) = url {
            assert!(!url.ports.is_empty() && url.ports.iter().all(|port| *port > 0));
            let again = ConnectionUrl::parse(&url.to_secret_string()).expect("what is written");
            assert!(again.ports == url.ports && again.id == url.id && again.secret == url.secret);
        }
    });
}

#[test]
fn encryption_layer() {
    for_many_seeds("encryption_layer", |random| {
        let secret = Secret {
            cipher: if random.below(4) == 0 {
                Cipher::Aes128Ctr
            } else {
                Cipher::Aes128Gcm
            },
            key: Key::new([3; 16]),
            iv_change_bytes: random.below(3) * 200,
        };
        let interval = random.below(200) as u32;
        let plain: Vec<u8> = (0..random.below(1500) + 1).map(|byte| byte as u8).collect();
        let mut wire = Vec::new();
        let mut seal = Seal::new(Some(&secret), interval).expect("a cipher");
        seal.seal(&plain, &mut wire).expect("it encrypts");
        seal.finish(&mut wire).expect("it ends");
        let mut damaged = damaged(&[wire.clone()], random);
        let same = damaged == wire;
        let ((opened, ended), peak) = peak_bytes(|| {
            let mut open = Open::new(Some(&secret));
            let mut opened: Vec<u8> = Vec::new();
            let mut ended = Ok(false);
            let mut rest = &mut damaged[..];
            while !rest.is_empty() {
                let cut = (random.below(100) as usize + 1).min(rest.len());
                let (piece, after) = rest.split_at_mut(cut);
                rest = after;
                let mut at = 0;
                while at < piece.len() {
                    let want = plain.len() - opened.len();
                    if want == 0 {
                        ended = open.finish(piece, &mut at);
                        break;
                    }
                    match open.open(piece, &mut at, want) {
                        Ok(part) => {
                            assert!(part.len() <= at);
                            opened.extend_from_slice(part);
                        }
                        Err(error) => return (opened, Err(error)),
                    }
                }
            }
            (opened, ended)
        });
        assert!(peak < MAX_BYTES, "{peak} bytes of memory");
        if same {
            assert_eq!(opened, plain);
        }
        // What the last tag covers is what was sent.
        if ended == Ok(true) && secret.cipher == Cipher::Aes128Gcm && interval == 0 {
            assert_eq!(opened, plain);
        }
    });
}

#[test]
fn sessions() {
    let from_sender = streams(Direction::S2r);
    let from_receiver = streams(Direction::R2s);
    for_many_seeds("sessions", |random| {
        let index = random.below(from_sender.len() as u64) as usize;
        let (recorded, streams) = &from_sender[index];
        let mut bytes = damaged(streams, random);
        let url = ConnectionUrl::parse(&recorded.url).expect("a URL");
        let ((), peak) = peak_bytes(|| receive(&url, &mut bytes, random));
        assert!(
            peak < MAX_SESSION_BYTES,
            "{peak} bytes of memory at the receiver"
        );
        let (_, replies) = &from_receiver[index];
        let mut bytes = damaged(replies, random);
        let ((), peak) = peak_bytes(|| answer(&url, &mut bytes, random));
        assert!(
            peak < MAX_SESSION_BYTES,
            "{peak} bytes of memory at the sender"
        );
    });
}

/// Runs our receiver with a sender that sends these bytes on its first port and closes.
fn receive(url: &ConnectionUrl, bytes: &mut [u8], random: &mut Random) {
    let sink = MemorySink::new(200_000);
    let session = Arc::new(receiver::Session::new(
        sink,
        url,
        receiver::Options::default(),
    ));
    let mut connection = receiver::Connection::new(session, 0);
    let mut now = Duration::ZERO;
    let mut accepted = false;
    let mut at = 0;
    for _ in 0..10_000 {
        now += Duration::from_millis(10);
        match connection.step(now) {
            receiver::Step::Accept(until) if accepted => now = now.max(until),
            receiver::Step::Accept(_) => {
                accepted = true;
                connection.accepted(now);
            }
            receiver::Step::Write => connection.written(),
            receiver::Step::Read(_) if at < bytes.len() => {
                let end = bytes.len().min(at + random.below(5000) as usize + 1);
                connection.received(&mut bytes[at..end], now);
                at = end;
            }
            receiver::Step::Read(_) => {
                connection.read_failed(&ErrorKind::UnexpectedEof.into(), now);
            }
            receiver::Step::Wait(until) => now = now.max(until.min(now + Duration::from_secs(1))),
            receiver::Step::Shutdown | receiver::Step::Disconnect => {}
            receiver::Step::End => return,
        }
        // A receiver of several ports waits for the others, which never come here.
        if now > Duration::from_secs(300) {
            return;
        }
    }
    panic!("the receiver does not end");
}

/// Runs our sender with a receiver that answers with these bytes on its first port.
fn answer(url: &ConnectionUrl, bytes: &mut [u8], random: &mut Random) {
    let mut source = MemorySource::new();
    for index in 0..4_usize {
        let path = format!("r/f{index}");
        let content = vec![index as u8; index * 2000];
        source.add(RelativePath::new(path.as_bytes()).expect("a path"), content);
    }
    let Ok(session) = sender::Session::new(source, url, sender::Options::default()) else {
        return;
    };
    let mut connection = sender::Connection::new(Arc::new(session), 0).expect("a connection");
    let mut now = Duration::ZERO;
    let mut at = 0;
    for _ in 0..10_000 {
        now += Duration::from_millis(10);
        match connection.step(now) {
            sender::Step::Connect => connection.connected(now),
            sender::Step::Sleep(until) => now = now.max(until),
            sender::Step::Write => {
                connection.output().expect("memory can be read");
                if random.below(20) == 0 {
                    connection.write_failed(&ErrorKind::BrokenPipe.into());
                } else {
                    connection.written();
                }
            }
            sender::Step::Read(_) if at < bytes.len() => {
                let end = bytes.len().min(at + random.below(100) as usize + 1);
                connection.received(&mut bytes[at..end], now);
                at = end;
            }
            sender::Step::Read(_) => connection.read_failed(&ErrorKind::UnexpectedEof.into()),
            sender::Step::Shutdown | sender::Step::Disconnect => {}
            sender::Step::End => return,
        }
    }
    panic!("the sender does not end");
}
