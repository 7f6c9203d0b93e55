//! Every recorded session decodes without a remainder; tags and footers verify; what the receiver
//! acknowledged adds up to the files and to the totals of DONE.

use std::collections::BTreeMap;
use std::path::Path;

use wdt_protocol::codec::{
    Checkpoint, Command, Done, FileHeader, Reply, Settings, decode_frame, footer,
};
use wdt_protocol::crypto::{Cipher, Secret};
use wdt_protocol::url::ConnectionUrl;

use crate::recorded::plain::Plain;
use crate::recorded::{Direction, NAMES, Recorded, RecordedConnection, content};

/// Messages of one connection.
#[derive(Default)]
struct Seen {
    settings: Option<Settings>,
    size: Option<u64>,
    blocks: Vec<(FileHeader, Vec<u8>)>,
    done: Option<Done>,
    replies: Vec<Reply>,
}

fn read(connection: &RecordedConnection, secret: Option<&Secret>, aborted: bool) -> Seen {
    let mut seen = Seen::default();
    let mut replies = Plain::new(connection.stream(Direction::R2s), secret);
    while let Some(reply) = replies.next(Reply::decode) {
        let last = matches!(reply, Reply::Done | Reply::Abort(_));
        seen.replies.push(reply);
        if last {
            break;
        }
    }
    replies.ends();
    let confirmed = seen.replies.contains(&Reply::Done);
    let mut commands = Plain::new(connection.stream(Direction::S2r), secret);
    let expected_dones = 1 + seen
        .replies
        .iter()
        .filter(|reply| matches!(reply, Reply::Errors(_)))
        .count();
    let mut dones = 0;
    while dones < expected_dones {
        let Some(command) = commands.next(Command::decode) else {
            assert!(connection.was_cut(), "only what was cut ends early");
            return seen;
        };
        match command {
            Command::Settings(settings) => seen.settings = Some(settings),
            Command::Size(size) => seen.size = Some(size),
            Command::File(header) => {
                let Some(payload) = commands.take(header.length as usize) else {
                    assert!(connection.was_cut());
                    return seen;
                };
                assert!(
                    content(header.offset, payload.len()).eq(payload.iter().copied()),
                    "the content of {:?}",
                    header.path
                );
                let settings = seen.settings.as_ref().expect("SETTINGS come first");
                if settings.checksum {
                    let footed = commands.next(Command::decode);
                    if footed.is_none() {
                        assert!(connection.was_cut());
                        return seen;
                    }
                    assert_eq!(footed, Some(Command::Footer(footer(0, &payload))));
                }
                seen.blocks.push((header, payload));
            }
            Command::Footer(_) | Command::Ack => panic!("a footer or ACK that belongs to nothing"),
            Command::Done(done) => {
                dones += 1;
                assert!(
                    seen.done.is_none_or(|before| before == done),
                    "the same each time"
                );
                seen.done = Some(done);
            }
        }
    }
    if confirmed {
        assert_eq!(
            commands.take(1).as_deref(),
            Some(&b"D"[..]),
            "the acknowledgement"
        );
        commands.ends();
    } else {
        assert!(aborted, "only an abort ends otherwise");
        assert_eq!(commands.left(), 0);
    }
    seen
}

#[test]
fn recorded_sessions_are_consistent() {
    for name in NAMES {
        let recorded = Recorded::load(name);
        let url = ConnectionUrl::parse(&recorded.url).expect("the URL is valid");
        assert_eq!(url.to_secret_string(), recorded.url, "{name}");
        let sender_url = recorded.sender_url.as_deref().unwrap_or(&recorded.url);
        let sender_url = ConnectionUrl::parse(sender_url).expect("the URL is valid");
        let aborted = recorded.outcome.sender_exit != 0;
        let mut ports: BTreeMap<u16, Vec<(FileHeader, Vec<u8>)>> = BTreeMap::new();
        let mut part_bytes = 0;
        let mut done = None;
        for connection in &recorded.connections {
            assert!(url.ports.contains(&connection.port), "{name}");
            let seen = read(connection, url.secret.as_ref(), aborted);
            let settings = seen.settings.as_ref().expect("SETTINGS");
            assert_eq!(settings.version, 32);
            assert_eq!(settings.transfer_id, sender_url.id, "{name}");
            let total: u64 = recorded.files.iter().map(|file| file.size).sum();
            assert!(seen.size.is_none_or(|size| size == total), "{name}");
            done = done.or(seen.done);
            let held = ports.entry(connection.port).or_default();
            for reply in &seen.replies {
                if let Reply::LocalCheckpoint(checkpoint) = reply {
                    assert_eq!(checkpoint.port, connection.port);
                    assert!(checkpoint.blocks as usize <= held.len(), "{name}");
                    part_bytes += checkpoint.partial_bytes;
                    held.truncate(checkpoint.blocks as usize);
                }
            }
            held.extend(seen.blocks);
            for reply in &seen.replies {
                if let Reply::Errors(list) = reply {
                    for checkpoint in list {
                        ports
                            .get_mut(&checkpoint.port)
                            .expect("a port of this transfer")
                            .truncate(checkpoint.blocks as usize);
                    }
                }
            }
        }
        let Some(done) = done.filter(|_| !aborted) else {
            assert_eq!((name, recorded.outcome.sender_exit), ("08-wrong-id", 12));
            assert_eq!(recorded.outcome.receiver_exit, 12);
            assert!(!recorded.outcome.files_arrived);
            continue;
        };
        let blocks: Vec<_> = ports.into_values().flatten().collect();
        let bytes: u64 = blocks.iter().map(|(header, _)| header.length).sum();
        assert_eq!(done.blocks, blocks.len() as u64, "{name}");
        assert_eq!(done.bytes, bytes + part_bytes, "{name}");
        // What stands of every file is the whole of it, but for what a checkpoint credited.
        let mut left: BTreeMap<String, u64> = recorded
            .files
            .iter()
            .map(|file| (file.path.clone(), file.size))
            .collect();
        for (header, payload) in &blocks {
            *left.get_mut(&header.path.to_string()).expect("a file") -= payload.len() as u64;
        }
        assert_eq!(left.values().sum::<u64>(), part_bytes, "{name}");
    }
}

#[test]
fn recordings_match_their_description() {
    let iv_change = Recorded::load("06-gcm-iv-change");
    let url = ConnectionUrl::parse(&iv_change.url).unwrap();
    let secret = url.secret.unwrap();
    assert_eq!(
        (secret.cipher, secret.iv_change_bytes),
        (Cipher::Aes128Gcm, 1 << 20)
    );
    let replies = read(&Recorded::load("03-four-ports").connections[0], None, false).replies;
    assert_eq!(replies, [Reply::Wait, Reply::Wait, Reply::Done]);
    let credited = read(
        &Recorded::load("07-reconnect-plain").connections[1],
        None,
        false,
    );
    let Some(Reply::LocalCheckpoint(checkpoint)) = credited.replies.first() else {
        panic!("a connection that is made again begins with a checkpoint");
    };
    assert_eq!((checkpoint.blocks, checkpoint.partial_bytes), (1, 2048));
    let global = Recorded::load("09-global-checkpoint");
    let replies = read(&global.connections[1], None, false).replies;
    let lost = Checkpoint {
        port: 36379,
        blocks: 1,
        ..Checkpoint::default()
    };
    assert!(replies.contains(&Reply::Errors(vec![lost])), "{replies:?}");
}

#[test]
fn recorded_resumptions_decode_without_a_remainder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/resumption");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("readable") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".json.gz"));
        let recorded = Recorded::load(name.expect("a recording"));
        let (name, parse) = (&recorded.name, |url: &str| {
            ConnectionUrl::parse(url).expect("a URL")
        });
        let url = parse(&recorded.url);
        assert_eq!(url.to_secret_string(), recorded.url, "{name}");
        let sender_secret = match &recorded.sender_url {
            Some(url) => parse(url).secret,
            None => url.secret.clone(),
        };
        for connection in &recorded.connections {
            // A receiver that gets bytes in clear answers in clear.
            let secret = sender_secret.as_ref().and(url.secret.as_ref());
            let mut replies = Plain::new(connection.stream(Direction::R2s), secret);
            while let Some(reply) = replies.next(Reply::decode) {
                if let Reply::Chunks { files } = reply {
                    let mut listed = 0;
                    while listed < files {
                        let frame = replies.next(decode_frame).expect("as many as announced");
                        listed += frame.len() as u64;
                    }
                }
                if reply == Reply::Done {
                    replies.ends();
                    break;
                }
            }
            let sent = connection.stream(Direction::S2r);
            let mut commands = Plain::new(sent, sender_secret.as_ref());
            while let Some(command) = commands.next(Command::decode) {
                match command {
                    Command::File(header) if commands.take(header.length as usize).is_none() => {
                        break;
                    }
                    Command::Done(_) => break,
                    _ => {}
                }
            }
        }
        count += 1;
    }
    assert_eq!(count, 54);
}
