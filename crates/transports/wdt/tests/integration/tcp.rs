//! Both ends over TCP on the loopback interface.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use wdt_protocol::codec::{Command, FileHeader, Settings};
use wdt_protocol::crypto::{Cipher, Secret};
use wdt_protocol::host::Host;
use wdt_protocol::net::{Listener, send};
use wdt_protocol::path::RelativePath;
use wdt_protocol::sink::Sink;
use wdt_protocol::source::{Source, SourceFile, SourceReader};
use wdt_protocol::status::Status;
use wdt_protocol::url::ConnectionUrl;
use wdt_protocol::{Failure, Report, receiver, sender};

use crate::memory::{MemoryReader, MemorySink, MemorySource, MemoryWriter};

/// Host that leaves all sockets at their defaults.
struct Plain;

impl Host for Plain {}

type Ends = (Result<Report, Failure>, Result<Report, Failure>);

fn path(name: &str) -> RelativePath {
    RelativePath::new(name.as_bytes()).unwrap()
}

fn files(sizes: &[usize]) -> BTreeMap<RelativePath, Vec<u8>> {
    sizes
        .iter()
        .enumerate()
        .map(|(index, size)| {
            let content = (0..*size).map(|byte| (byte * 31 + index) as u8).collect();
            (path(&format!("d{}/f{index}", index % 3)), content)
        })
        .collect()
}

fn source(files: &BTreeMap<RelativePath, Vec<u8>>) -> MemorySource {
    let mut source = MemorySource::new();
    for (path, content) in files {
        source.add(path.clone(), content.clone());
    }
    source
}

fn secret(cipher: Cipher) -> Secret {
    Secret::random(cipher, 3 << 20).unwrap()
}

fn bind(ports: usize, secret: Option<Secret>) -> (Listener, ConnectionUrl) {
    let listener = Listener::bind(&vec![0; ports], &Plain).unwrap();
    let url = ConnectionUrl {
        host: "127.0.0.1".to_owned(),
        ports: listener.ports().to_vec(),
        id: b"1234".to_vec(),
        version: Some(32),
        secret,
        iv_change_bytes: 3 << 20,
        resumption: false,
    };
    (listener, url)
}

/// Runs both ends, the sender with its own URL.
fn transfer<S: Source, K: Sink>(
    source: S,
    sink: K,
    bound: (Listener, ConnectionUrl),
    sender_url: &ConnectionUrl,
    options: sender::Options,
    hosts: (&dyn Host, &dyn Host),
) -> Ends {
    let receiving = receiver::Options {
        // As long as a receiver waits that has the URL of another sender.
        first_connection: if bound.1.id == sender_url.id && bound.1.secret == sender_url.secret {
            Duration::from_secs(10)
        } else {
            Duration::from_secs(3)
        },
        ..receiver::Options::default()
    };
    let (listener, url) = bound;
    let receiver = Arc::new(receiver::Session::new(sink, &url, receiving));
    let sender = Arc::new(sender::Session::new(source, sender_url, options).unwrap());
    std::thread::scope(|scope| {
        let received = scope.spawn(|| listener.receive(&receiver, hosts.1));
        let sent = send(&sender, sender_url, hosts.0);
        (sent, received.join().unwrap())
    })
}

#[test]
fn a_tree_arrives_in_every_mode() {
    let files = files(&[0, 1, 100, 70_000, 5 << 20, 3_000_001, 16_384, 16_385]);
    for cipher in [None, Some(Cipher::Aes128Ctr), Some(Cipher::Aes128Gcm)] {
        for checksum in [false, true] {
            for ports in [1, 8] {
                let bound = bind(ports, cipher.map(secret));
                let url = bound.1.clone();
                let sink = MemorySink::new(1 << 30);
                let options = sender::Options {
                    checksum,
                    block_bytes: 1 << 20,
                    tag_interval_bytes: 1 << 20,
                    ..sender::Options::default()
                };
                let what = format!("{cipher:?}, checksum {checksum}, {ports} ports");
                let began = Instant::now();
                let (sent, received) = transfer(
                    source(&files),
                    sink.clone(),
                    bound,
                    &url,
                    options,
                    (&Plain, &Plain),
                );
                let (sent, received) = (sent.expect(&what), received.expect(&what));
                assert!(sink.contents() == files, "{what}");
                assert_eq!(
                    (sent.blocks, sent.bytes),
                    (received.blocks, received.bytes),
                    "{what}"
                );
                assert_eq!(
                    received.payload_bytes, received.bytes,
                    "{what}: nothing went twice"
                );
                // No wait of the protocol is met; the slowest is the receiver's WAIT, each second.
                assert!(
                    began.elapsed() < Duration::from_secs(10),
                    "{what}: {:?}",
                    began.elapsed()
                );
            }
        }
    }
}

#[test]
fn another_transfer_is_refused_at_both_ends() {
    let bound = bind(1, None);
    let url = ConnectionUrl {
        id: b"other".to_vec(),
        ..bound.1.clone()
    };
    let sink = MemorySink::new(1 << 20);
    let (sent, received) = transfer(
        source(&files(&[10_000_000])),
        sink.clone(),
        bound,
        &url,
        sender::Options::default(),
        (&Plain, &Plain),
    );
    assert_eq!(sent.unwrap_err().status, Status::IdMismatch);
    assert_eq!(received.unwrap_err().status, Status::IdMismatch);
    assert!(sink.contents().is_empty());
}

#[test]
fn plain_bytes_are_refused_where_encryption_is_on() {
    let bound = bind(2, Some(secret(Cipher::Aes128Gcm)));
    let url = ConnectionUrl {
        secret: None,
        ..bound.1.clone()
    };
    let sink = MemorySink::new(1 << 20);
    let (sent, received) = transfer(
        source(&files(&[100_000])),
        sink.clone(),
        bound,
        &url,
        sender::Options::default(),
        (&Plain, &Plain),
    );
    assert_eq!(sent.unwrap_err().status, Status::Encryption);
    assert_eq!(received.unwrap_err().status, Status::Encryption);
    assert!(sink.contents().is_empty());
}

#[test]
fn different_key_is_reported_at_both_ends() {
    for cipher in [Cipher::Aes128Ctr, Cipher::Aes128Gcm] {
        let bound = bind(2, Some(secret(cipher)));
        let url = ConnectionUrl {
            secret: Some(secret(cipher)),
            ..bound.1.clone()
        };
        let (sent, received) = transfer(
            source(&files(&[10_000_000])),
            MemorySink::new(1 << 24),
            bound,
            &url,
            sender::Options::default(),
            (&Plain, &Plain),
        );
        let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
        assert_eq!(
            (sent.status, received.status),
            (Status::Encryption, Status::Protocol)
        );
        for failure in [sent, received] {
            assert!(failure.detail.contains("another key"), "{failure}");
        }
    }
}

/// Checks that two files arrive while strangers connect to every port and send `greeting` before their
/// sender.
#[track_caller]
fn strangers_change_nothing(secret: Option<Secret>, greeting: &[u8]) {
    let files = files(&[100_000, 200_000]);
    let bound = bind(2, secret);
    let url = bound.1.clone();
    let strangers: Vec<TcpStream> = (0..20)
        .flat_map(|_| url.ports.iter())
        .map(|port| {
            let mut stranger = TcpStream::connect(("127.0.0.1", *port)).unwrap();
            stranger.write_all(greeting).unwrap();
            stranger
        })
        .collect();
    let sink = MemorySink::new(1 << 20);
    let began = Instant::now();
    let (sent, received) = transfer(
        source(&files),
        sink.clone(),
        bound,
        &url,
        sender::Options::default(),
        (&Plain, &Plain),
    );
    sent.unwrap();
    received.unwrap();
    assert!(sink.contents() == files);
    // Each of them by itself would have kept a port for a second at least.
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    drop(strangers);
}

#[test]
fn silent_strangers_do_not_delay_the_transfer() {
    strangers_change_nothing(None, b"");
}

#[test]
fn strangers_in_clear_do_not_end_an_encrypted_transfer() {
    strangers_change_nothing(Some(secret(Cipher::Aes128Gcm)), b"S");
}

#[test]
fn senders_of_another_transfer_do_not_end_this_one() {
    let mut settings = Vec::new();
    let other = Settings {
        version: 32,
        read_timeout_ms: 5000,
        write_timeout_ms: 5000,
        transfer_id: b"other".to_vec(),
        checksum: false,
        request_chunks: false,
        whole_files: false,
        heartbeats: false,
    };
    Command::Settings(other).encode(&mut settings);
    strangers_change_nothing(None, &settings);
}

#[test]
fn sending_to_closed_ports_fails_with_its_code() {
    let (_, mut url) = bind(2, None);
    // Sockets that do not listen keep these ports from other tests.
    let unused = [(); 2].map(|()| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket
            .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .unwrap();
        socket
    });
    url.ports = (unused.iter())
        .map(|socket| socket.local_addr().unwrap().as_socket().unwrap().port())
        .collect();
    let session = sender::Session::new(source(&files(&[5])), &url, sender::Options::default());
    let failure = send(&Arc::new(session.unwrap()), &url, &Plain).unwrap_err();
    assert_eq!(failure.status, Status::Connection, "{failure}");
}

/// Sink that takes nothing.
struct Full;

impl Sink for Full {
    type Writer = MemoryWriter;

    fn begin(&self, _block: &FileHeader) -> io::Result<MemoryWriter> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn a_file_that_cannot_be_written_ends_both_ends() {
    let bound = bind(3, None);
    let url = bound.1.clone();
    let options = sender::Options {
        block_bytes: 1 << 20,
        ..sender::Options::default()
    };
    let (sent, received) = transfer(
        source(&files(&[30_000_000, 50])),
        Full,
        bound,
        &url,
        options,
        (&Plain, &Plain),
    );
    assert_eq!(received.unwrap_err().status, Status::FileWrite);
    assert_eq!(sent.unwrap_err().status, Status::FileWrite);
}

/// Sink that panics at its second file.
struct Deadly(MemorySink);

impl Sink for Deadly {
    type Writer = MemoryWriter;

    fn begin(&self, block: &FileHeader) -> io::Result<MemoryWriter> {
        assert!(block.sequence != 2, "this sink dies on purpose");
        self.0.begin(block)
    }
}

#[test]
fn a_thread_that_dies_ends_the_transfer() {
    let bound = bind(2, None);
    let url = bound.1.clone();
    let (sent, received) = transfer(
        source(&files(&[100_000, 50_000, 10])),
        Deadly(MemorySink::new(1 << 20)),
        bound,
        &url,
        sender::Options::default(),
        (&Plain, &Plain),
    );
    assert!(sent.is_err());
    assert_eq!(received.unwrap_err().status, Status::Error);
}

/// Source with a file that cannot be read.
struct Unreadable(MemorySource);

impl Source for Unreadable {
    type Reader = MemoryReader;

    fn files(&self) -> &[SourceFile] {
        self.0.files()
    }

    fn open(&self, file: usize) -> io::Result<MemoryReader> {
        match file {
            1 => Err(io::ErrorKind::PermissionDenied.into()),
            _ => self.0.open(file),
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_ends_both_ends() {
    let bound = bind(2, None);
    let url = bound.1.clone();
    let (sent, received) = transfer(
        Unreadable(source(&files(&[100_000, 50, 10]))),
        MemorySink::new(1 << 20),
        bound,
        &url,
        sender::Options::default(),
        (&Plain, &Plain),
    );
    let failure = sent.unwrap_err();
    assert_eq!(failure.status, Status::SourceRead);
    assert!(failure.detail.contains("d1/f1"), "{failure}");
    assert_eq!(received.unwrap_err().status, Status::SourceRead);
}

/// Source whose second file is another once its last byte was read.
struct Rewritten(MemorySource);

struct RewrittenReader(MemoryReader, bool);

impl SourceReader for RewrittenReader {
    fn read<'a>(
        &'a mut self,
        offset: u64,
        max: usize,
        scratch: &'a mut [u8],
    ) -> io::Result<&'a [u8]> {
        self.0.read(offset, max, scratch)
    }

    fn check_unchanged(&self) -> io::Result<()> {
        match self.1 {
            true => Err(io::Error::other("another time")),
            false => Ok(()),
        }
    }
}

impl Source for Rewritten {
    type Reader = RewrittenReader;

    fn files(&self) -> &[SourceFile] {
        self.0.files()
    }

    fn open(&self, file: usize) -> io::Result<RewrittenReader> {
        Ok(RewrittenReader(self.0.open(file)?, file == 1))
    }
}

#[test]
fn a_file_that_changed_while_it_was_sent_ends_both_ends() {
    for sizes in [[100_000, 50, 10], [10, 3_000_000, 10]] {
        let bound = bind(2, None);
        let url = bound.1.clone();
        let sink = MemorySink::new(1 << 23);
        let (sent, received) = transfer(
            Rewritten(source(&files(&sizes))),
            sink,
            bound,
            &url,
            sender::Options::default(),
            (&Plain, &Plain),
        );
        let failure = sent.unwrap_err();
        assert_eq!(failure.status, Status::SourceRead);
        let prefix = "`d1/f1` may be a mixture of old and new content (another time)";
        assert!(failure.detail.starts_with(prefix), "{failure}");
        assert_eq!(received.unwrap_err().status, Status::SourceRead);
    }
}

#[test]
fn a_sender_that_knows_fewer_ports_than_the_receiver_sends_everything() {
    for cipher in [None, Some(Cipher::Aes128Ctr), Some(Cipher::Aes128Gcm)] {
        let bound = bind(3, cipher.map(secret));
        let mut url = bound.1.clone();
        url.ports.truncate(2);
        let files = files(&[10_000_000, 50, 10]);
        let sink = MemorySink::new(1 << 24);
        let (sent, received) = transfer(
            source(&files),
            sink.clone(),
            bound,
            &url,
            sender::Options::default(),
            (&Plain, &Plain),
        );
        assert_eq!(sent.unwrap().blocks, 3, "{cipher:?}");
        assert_eq!(received.unwrap().blocks, 3, "{cipher:?}");
        assert_eq!(sink.contents(), files, "{cipher:?}");
    }
}

/// Has itself stopped when a file is opened: its connection is in the middle of a block then.
struct Opened(MemorySource, Arc<AtomicBool>);

impl Source for Opened {
    type Reader = MemoryReader;

    fn files(&self) -> &[SourceFile] {
        self.0.files()
    }

    fn open(&self, file: usize) -> io::Result<MemoryReader> {
        self.1.store(true, Ordering::Relaxed);
        self.0.open(file)
    }
}

/// Host with one address, which admits connections from it alone.
struct Local(IpAddr);

impl Host for Local {
    fn local(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.0, 0))
    }

    fn admits(&self, peer: IpAddr) -> bool {
        peer == self.0
    }
}

/// Where both ends are on one host, the kernel would choose the address of the other end.
#[test]
fn the_sender_connects_from_the_address_of_its_host() {
    let bound = bind(2, None);
    let url = bound.1.clone();
    let host = Local(Ipv4Addr::new(127, 0, 0, 9).into());
    let (sent, received) = transfer(
        source(&files(&[1000])),
        MemorySink::new(1 << 30),
        bound,
        &url,
        sender::Options::default(),
        (&host, &host),
    );
    sent.expect("the receiver admits the sender");
    received.expect("everything is there");
}

struct GivesUp(Arc<AtomicBool>);

impl Host for GivesUp {
    fn gives_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn aborting_sender_notifies_the_receiver(cipher: Option<Cipher>) {
    let opened = Arc::new(AtomicBool::new(false));
    let bound = bind(2, cipher.map(secret));
    let url = bound.1.clone();
    let (sent, received) = transfer(
        Opened(
            source(&files(&[50_000_000, 50_000_000])),
            Arc::clone(&opened),
        ),
        MemorySink::new(1 << 30),
        bound,
        &url,
        sender::Options {
            // The receiver is notified before payload that waits for the rate.
            rate_limit: Some(sender::RateLimit::average(100_000)),
            ..sender::Options::default()
        },
        (&GivesUp(opened), &Plain),
    );
    let failure = sent.unwrap_err();
    assert_eq!(failure.status, Status::Abort, "{failure}");
    let failure = received.unwrap_err();
    assert_eq!(failure.status, Status::Abort, "{failure}");
    assert_eq!(failure.detail, "the sender gave up");
}

#[test]
fn aborting_sender_notifies_the_receiver_in_clear() {
    aborting_sender_notifies_the_receiver(None);
}

#[test]
fn aborting_sender_notifies_the_receiver_with_tags() {
    aborting_sender_notifies_the_receiver(Some(Cipher::Aes128Gcm));
}

/// Host that stops the transfer at a request.
#[derive(Default)]
struct Stoppable(AtomicBool);

impl Host for Stoppable {
    fn arrived(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends before any time-out of the protocol.
mod real_time {
    use super::*;

    #[test]
    fn a_transfer_that_is_stopped_ends_soon_at_both_ends() {
        let bound = bind(2, None);
        let url = bound.1.clone();
        let host = Stoppable::default();
        let began = Instant::now();
        let (sent, received) = transfer(
            source(&files(&[50_000_000])),
            MemorySink::new(1 << 30),
            bound,
            &url,
            sender::Options::default(),
            (&Plain, &host),
        );
        assert_eq!(received.unwrap_err().status, Status::Abort);
        assert_eq!(sent.unwrap_err().status, Status::Abort);
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }
}
