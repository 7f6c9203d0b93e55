//! Both ends over real connections that a relay breaks. The relay has the receiver's ports at
//! another address, as checkpoints name ports.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use wdt_protocol::crypto::{Cipher, Secret};
use wdt_protocol::host::Host;
use wdt_protocol::net::{Listener, send};
use wdt_protocol::path::RelativePath;
use wdt_protocol::url::ConnectionUrl;
use wdt_protocol::{receiver, sender};

use crate::memory::{MemorySink, MemorySource};

/// Host that leaves all sockets at their defaults.
struct Plain;

impl Host for Plain {}

const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
const RELAY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Host that listens at the receiver's own address only, so that the relay can have its ports at
/// another.
struct AtReceiver;

impl Host for AtReceiver {
    fn local(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(RECEIVER, 0))
    }
}

/// Relay of one port, which breaks connections.
struct Relay {
    port: u16,
    /// Number of the sender's bytes after which each connection breaks, in turn; further
    /// connections stay whole.
    cuts: Vec<i64>,
    /// Whether every connection after those that were cut is refused.
    refuses: bool,
}

impl Relay {
    fn run(self, over: &AtomicBool) {
        let Ok(listener) = TcpListener::bind(SocketAddr::new(RELAY, self.port)) else {
            panic!("the relay cannot have port {}", self.port);
        };
        listener.set_nonblocking(true).unwrap();
        let mut cuts = self.cuts.into_iter();
        std::thread::scope(|scope| {
            while !over.load(Ordering::Relaxed) {
                let Ok((client, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                client.set_nonblocking(false).unwrap();
                let cut = cuts.next();
                if cut.is_none() && self.refuses {
                    // The nearest that a listening socket comes to a refusal.
                    return;
                }
                let Ok(server) = TcpStream::connect(SocketAddr::new(RECEIVER, self.port)) else {
                    continue;
                };
                let left = Arc::new(AtomicI64::new(cut.unwrap_or(i64::MAX)));
                let (client_back, server_back) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                scope.spawn(move || hand_on(client, server, &left));
                let uncut = Arc::new(AtomicI64::new(i64::MAX));
                scope.spawn(move || hand_on(server_back, client_back, &uncut));
            }
        });
    }
}

/// Relays one direction; breaks both once `left` bytes have passed.
fn hand_on(mut from: TcpStream, mut to: TcpStream, left: &AtomicI64) {
    let mut buffer = [0; 8192];
    loop {
        let room = left.load(Ordering::Relaxed).clamp(0, buffer.len() as i64) as usize;
        if room == 0 {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            return;
        }
        match from.read(&mut buffer[..room]) {
            Ok(count @ 1..) => {
                if to.write_all(&buffer[..count]).is_err() {
                    let _ = from.shutdown(Shutdown::Both);
                    return;
                }
                left.fetch_sub(count as i64, Ordering::Relaxed);
            }
            _ => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
        }
    }
}

fn files() -> BTreeMap<RelativePath, Vec<u8>> {
    (0..6_usize)
        .map(|index| {
            let path = RelativePath::new(format!("t/f{index}").as_bytes()).unwrap();
            (
                path,
                (0..index * 150_000)
                    .map(|byte| (byte * 31 + index) as u8)
                    .collect(),
            )
        })
        .collect()
}

/// Runs a transfer of two ports over relays.
fn through(relay: impl Fn(usize, u16) -> Relay, cipher: Option<Cipher>, checksum: bool) {
    let listener = Listener::bind(&[0, 0], &AtReceiver).unwrap();
    let url = ConnectionUrl {
        host: RELAY.to_string(),
        ports: listener.ports().to_vec(),
        id: b"7".to_vec(),
        version: Some(32),
        secret: cipher.map(|cipher| Secret::random(cipher, 300_000).unwrap()),
        iv_change_bytes: 300_000,
        resumption: false,
    };
    let files = files();
    let mut source = MemorySource::new();
    for (path, content) in &files {
        source.add(path.clone(), content.clone());
    }
    let sink = MemorySink::new(1 << 20);
    let options = sender::Options {
        block_bytes: 100_000,
        checksum,
        tag_interval_bytes: 50_000,
        ..sender::Options::default()
    };
    let receiver = receiver::Session::new(sink.clone(), &url, receiver::Options::default());
    let receiver = Arc::new(receiver);
    let sender = Arc::new(sender::Session::new(source, &url, options).unwrap());
    let over = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| {
        for (index, port) in url.ports.iter().enumerate() {
            let relay = relay(index, *port);
            scope.spawn(|| relay.run(&over));
        }
        let received = scope.spawn(|| listener.receive(&receiver, &AtReceiver));
        let sent = send(&sender, &url, &Plain);
        let received = received.join().unwrap();
        over.store(true, Ordering::Relaxed);
        (sent, received)
    });
    let what = format!("{cipher:?}, checksum {checksum}");
    sent.unwrap_or_else(|failure| panic!("{what}: the sender: {failure}"));
    received.unwrap_or_else(|failure| panic!("{what}: the receiver: {failure}"));
    assert!(sink.contents() == files, "{what}");
}

/// Runs transfers with cuts in a block, between two, and in SETTINGS; each with progress in
/// between.
#[track_caller]
fn reconnects(cipher: Option<Cipher>, checksum: bool) {
    let cuts = |index: usize| vec![160_000 + 40_000 * index as i64, 7, 330_000];
    let relay = |index, port| Relay {
        port,
        cuts: cuts(index),
        refuses: false,
    };
    through(relay, cipher, checksum);
}

#[test]
fn lost_connections_are_reconnected() {
    reconnects(None, false);
}

#[test]
fn lost_connections_are_reconnected_with_checksums() {
    reconnects(None, true);
}

#[test]
fn lost_connections_are_reconnected_with_ctr() {
    reconnects(Some(Cipher::Aes128Ctr), false);
}

#[test]
fn lost_connections_are_reconnected_with_gcm() {
    reconnects(Some(Cipher::Aes128Gcm), false);
}

#[test]
fn work_of_a_lost_port_moves_to_the_other() {
    let relay = |index, port| Relay {
        port,
        cuts: vec![250_000; index],
        refuses: index == 1,
    };
    through(relay, None, false);
}
