//! The recorded receiver against our sender.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use wdt_protocol::codec::{Command, Reply};
use wdt_protocol::crypto::Secret;
use wdt_protocol::path::RelativePath;
use wdt_protocol::sender::{Connection, Options, Session, Step};
use wdt_protocol::url::ConnectionUrl;

use super::{Said, recordings, sent_content, significant};
use crate::memory::MemorySource;
use crate::recorded::plain::Plain;
use crate::recorded::{Direction, Recorded, RecordedConnection};
use crate::scripted::ms;

const TICK: Duration = ms(50);
const LONGEST: Duration = Duration::from_secs(120);

/// One port of our sender, with the recorded receiver's connections to it.
struct Port<'a> {
    connection: Connection<MemorySource>,
    recorded: VecDeque<&'a RecordedConnection>,
    /// The open connection, the number of its answers that arrived, and the bytes we have sent.
    open: Option<(&'a RecordedConnection, usize, Vec<u8>)>,
    sent: Vec<(&'a RecordedConnection, Vec<u8>)>,
    ended: bool,
}

/// Whether the recorded receiver, whose bytes this secret encrypts, neither confirmed nor refused anything at the end.
fn broke(connection: &RecordedConnection, secret: Option<&Secret>) -> bool {
    let replies = connection.stream(Direction::R2s);
    let last = significant(&replies, secret).pop();
    !matches!(last, Some(Said::Reply(Reply::Done | Reply::Abort(_))))
}

impl Port<'_> {
    fn turn(&mut self, secret: Option<&Secret>, now: Duration) {
        while !self.ended {
            match self.connection.step(now) {
                Step::Connect => match self.recorded.pop_front() {
                    Some(next) => {
                        self.open = Some((next, 0, Vec::new()));
                        self.connection.connected(now);
                    }
                    None => {
                        (self.connection).connect_failed(&ErrorKind::ConnectionRefused.into(), now);
                    }
                },
                Step::Sleep(until) if now < until => return,
                Step::Sleep(_) => {}
                Step::Write => {
                    let output = self.connection.output().expect("memory can be read");
                    let (connection, _, sent) = self.open.as_mut().expect("open");
                    sent.extend_from_slice(output.head);
                    sent.extend_from_slice(output.body);
                    let room = connection.stream(Direction::S2r).len();
                    if broke(connection, secret) && sent.len() >= room {
                        sent.truncate(room);
                        (self.connection).write_failed(&ErrorKind::ConnectionReset.into());
                    } else {
                        self.connection.written();
                    }
                }
                Step::Read(_) => {
                    let (connection, next, _) = self.open.as_mut().expect("open");
                    let mut answers =
                        (connection.events.iter()).filter(|event| event.dir == Direction::R2s);
                    let answer = answers.nth(*next);
                    *next += 1;
                    match answer {
                        Some(event) => self.connection.received(&mut event.bytes(), now),
                        None => {
                            (self.connection).read_failed(&ErrorKind::UnexpectedEof.into());
                        }
                    }
                }
                Step::Shutdown => {}
                Step::Disconnect => {
                    let (connection, _, sent) = self.open.take().expect("open");
                    self.sent.push((connection, sent));
                }
                Step::End => self.ended = true,
            }
        }
    }
}

/// Returns the commands of a sender on a connection, without SIZE, which comes when the files are known.
fn commands(name: &str, wire: &[u8], secret: Option<&Secret>) -> Vec<Command> {
    let mut plain = Plain::new(wire.to_vec(), secret);
    let mut commands = Vec::new();
    while let Some(command) = plain.next(Command::decode) {
        match &command {
            Command::Size(_) => continue,
            Command::File(header) => {
                let length = header.length as usize;
                let expected = sent_content(name, &header.path.to_string(), header.offset, length);
                commands.push(command);
                match plain.take(length) {
                    Some(payload) => assert!(expected == payload, "the payload"),
                    None => return commands,
                }
            }
            // After DONE there are blocks again, or one byte, which is no command by itself.
            _ => commands.push(command),
        }
    }
    commands
}

/// Returns the recorded files in the order of their recorded numbers, so that ours are the same.
fn by_number(recorded: &Recorded, secret: Option<&Secret>) -> MemorySource {
    let mut numbers = BTreeMap::new();
    for connection in &recorded.connections {
        let sent = connection.stream(Direction::S2r);
        for command in commands(&recorded.name, &sent, secret) {
            if let Command::File(header) = command {
                numbers.insert(header.path, header.sequence);
            }
        }
    }
    // Files that were not sent any more had the numbers in between.
    let known: BTreeSet<u64> = numbers.values().copied().collect();
    let first = known.first().copied().unwrap_or(0);
    let mut others = (first..).filter(|number| !known.contains(number));
    let mut files: Vec<_> = (recorded.files.iter())
        .map(|file| {
            let path = RelativePath::new(file.path.as_bytes()).expect("a path");
            let content = sent_content(&recorded.name, &file.path, 0, file.size as usize);
            let number = numbers.get(&path).copied().or_else(|| others.next());
            (number, path, content)
        })
        .collect();
    files.sort();
    let mut source = MemorySource::new();
    for (_, path, content) in files {
        source.add(path, content);
    }
    source
}

/// Returns the value of an option of the recorded sender.
fn option<'a>(recorded: &'a Recorded, name: &str) -> Option<&'a str> {
    let mut options = recorded.sender_args_summary.split([' ', ',', ';']);
    options.find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
}

fn options(recorded: &Recorded) -> Options {
    let number = |name| option(recorded, name).map(|value| value.parse::<i64>().expect("a number"));
    let defaults = Options::default();
    let block_mbytes = number("-block_size_mbytes").unwrap_or(16);
    let read_timeout = number("-read_timeout_millis").map(|value| ms(value as u64));
    let interval = number("-encryption_tag_interval_bytes").map(|value| value as u32);
    Options {
        checksum: recorded.sender_args_summary.contains("-enable_checksum"),
        block_bytes: (block_mbytes.max(0) as u64) << 20,
        tag_interval_bytes: interval.unwrap_or(defaults.tag_interval_bytes),
        read_timeout: read_timeout.unwrap_or(defaults.read_timeout),
        heartbeats: option(recorded, "-enable_heart_beat") != Some("false"),
        ..defaults
    }
}

/// Plays the recorded receiver to our sender, and compares what it sends on each connection. Its exit code is one of
/// these. Returns the text of its failure, which is empty for a success.
fn replayed(name: &str, exits: &[u8]) -> String {
    let recorded = Recorded::load(name);
    let url = recorded.sender_url.as_deref().unwrap_or(&recorded.url);
    let url = ConnectionUrl::parse(url).expect("a URL");
    let secret = url.secret.as_ref();
    let source = by_number(&recorded, secret);
    let session = Session::new(source, &url, options(&recorded)).expect("a session");
    let session = Arc::new(session);
    let ports = url.ports.iter().enumerate();
    let mut ports: Vec<_> = ports
        .map(|(index, port)| Port {
            connection: Connection::new(session.clone(), index).expect("a connection"),
            recorded: (recorded.connections.iter())
                .filter(|connection| connection.port == *port)
                .collect(),
            open: None,
            sent: Vec::new(),
            ended: false,
        })
        .collect();
    // Both sides of a recorded checkpoint must be there when it is sent, so the ports that are cut go first; and the
    // port that got the list goes before one that got ACK in its place.
    let is_later = |port: &Port<'_>| {
        let mut connections = port.recorded.iter();
        let was_cut = connections.any(|connection| connection.was_cut());
        (
            !was_cut,
            port.recorded.front().map(|connection| connection.ms),
        )
    };
    ports.sort_by_key(is_later);
    let mut now = Duration::ZERO;
    while ports.iter().any(|port| !port.ended) {
        for port in &mut ports {
            port.turn(secret, now);
        }
        now += TICK;
        assert!(now < LONGEST, "{name} hangs");
    }
    let outcome = session.finish();
    let exit = outcome
        .as_ref()
        .err()
        .map_or(0, |failure| failure.status.code());
    assert!(exits.contains(&exit), "{name}: {outcome:?}");
    let failure = (outcome.err()).map_or_else(String::new, |failure| failure.to_string());
    if ports.len() > 1 || name == "08-wrong-id" {
        return failure;
    }
    assert_eq!(ports[0].sent.len(), recorded.connections.len(), "{name}");
    for (connection, sent) in &ports[0].sent {
        let theirs = connection.stream(Direction::S2r);
        let (ours, theirs) = (
            commands(name, sent, secret),
            commands(name, &theirs, secret),
        );
        assert_eq!(ours, theirs, "{name}");
    }
    failure
}

/// Plays a recording whose sender had exited with the same code.
fn sender(name: &str) {
    replayed(name, &[Recorded::load(name).outcome.sender_exit]);
}

/// Plays a recording of two ends that differ in key or cipher, of which the failure tells.
fn encryption(name: &str) {
    let failure = replayed(name, &[Recorded::load(name).outcome.sender_exit]);
    let told = "it may have another key or cipher than this sender's connection URL";
    assert!(failure.contains(told), "{name}: {failure}");
}

recordings! { sender:
    plain "01-plain";
    checksum "02-checksum";
    four_ports "03-four-ports";
    ctr "04-ctr";
    gcm_tags "05-gcm-tags";
    gcm_iv_change "06-gcm-iv-change";
    reconnect_plain "07-reconnect-plain";
    reconnect_checksum "07b-reconnect-checksum";
    reconnect_gcm "07c-reconnect-gcm";
    wrong_id "08-wrong-id";
    global_checkpoint "09-global-checkpoint";
    r1_2_resumed "r1-2-resumed";
    r1_3_two_ports "r1-3-two-ports";
    r1_4_reconnect "r1-4-reconnect";
    r1_5_cut_before_ack "r1-5-cut-before-ack";
    r1_7_credited_resumed "r1-7-credited-resumed";
    r1_8_all_there "r1-8-all-there";
    r2_2_checksum_resumed "r2-2-checksum-resumed";
    r2_4_gcm_resumed "r2-4-gcm-resumed";
    r2_6_gcm_default_resumed "r2-6-gcm-default-resumed";
    r2_8_gcm_checksum_resumed "r2-8-gcm-checksum-resumed";
    r3_b_truncated "r3-b-truncated";
    r3_c_log_lost "r3-c-log-lost";
    r3_d_altered_at_receiver "r3-d-altered-at-receiver";
    r3_deleted "r3-deleted";
    r4_2_after "r4-2-after";
    r4_b_grown_partial "r4-b-grown-partial";
    r4_grown "r4-grown";
    r5_2_after "r5-2-after";
    r5_b_shrunk_partial "r5-b-shrunk-partial";
    r5_c_emptied "r5-c-emptied";
    r5_shrunk "r5-shrunk";
    r6_changed "r6-changed";
    r7_2_after "r7-2-after";
    r7_b_gone_delete "r7-b-gone-delete";
    r7_c_not_asked "r7-c-not-asked";
    r7_d_zero "r7-d-zero";
    r7_e_receiver_without "r7-e-receiver-without";
    r7_f_frames "r7-f-frames";
    r7_g_other_address "r7-g-other-address";
    r7_gone "r7-gone";
    r7_h_tree_mode "r7-h-tree-mode";
    r8_1_default "r8-1-default";
    r8_2_slow "r8-2-slow";
    r8_3_fast "r8-3-fast";
    r8_4_two_cuts "r8-4-two-cuts";
    r9_1_slow_path "r9-1-slow-path";
    r9_2_read_timeout_1000 "r9-2-read-timeout-1000";
    r9_3_off "r9-3-off";
    r9_4_slow_receiver "r9-4-slow-receiver";
    r9_5_pause "r9-5-pause";
    r9_6_late_sender "r9-6-late-sender";
    r10_4_sender_plain "r10-4-sender-plain";
}

recordings! { encryption:
    r10_1_wrong_key "r10-1-wrong-key";
    r10_2_wrong_key_ctr "r10-2-wrong-key-ctr";
    r10_3_other_cipher "r10-3-other-cipher";
    r10_5_receiver_plain "r10-5-receiver-plain";
}

/// Plays a recording whose sender exits with one of these codes.
fn ended(name: &str, exits: &[u8]) {
    replayed(name, exits);
}

/// Exit codes of a sender whose receiver is killed: it cannot write, or not connect again.
const KILLED: &[u8] = &[3, 6];

recordings! { ended:
    r1_1_killed "r1-1-killed", KILLED;
    r1_6_credited_killed "r1-6-credited-killed", KILLED;
    r2_1_checksum_killed "r2-1-checksum-killed", KILLED;
    r2_3_gcm_killed "r2-3-gcm-killed", KILLED;
    r2_5_gcm_default_killed "r2-5-gcm-default-killed", KILLED;
    r2_7_gcm_checksum_killed "r2-7-gcm-checksum-killed", KILLED;
    // The recorded sender was interrupted; ours goes on to the end of the recording.
    r10_6_sender_interrupted "r10-6-sender-interrupted", KILLED;
    r10_7_receiver_interrupted "r10-7-receiver-interrupted", KILLED;
}
