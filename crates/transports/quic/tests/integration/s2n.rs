//! Properties of `quic-s2n` beyond the contract of every driver.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use regatta_control::{Role, SideReport, TrialOrder};
use regatta_model::{Bytes, Handshake, OptionValue, WorkloadKind};
use regatta_transport::{
    Accepted, ByteStream, Endpoint as _, Executor as _, HandshakeMade, MonotonicTime, Purpose,
    Received, Server as _, Stop, StreamConnection, TransportError,
    stream::{StreamClient, StreamServer},
    testing::{Pair, order_for, run_pair},
};
use regatta_transport_quic_s2n::{DRIVER as S2N, S2nEndpoint, streams};

fn pair(size: u64, message: u64, change: impl Fn(&mut TrialOrder)) -> Pair {
    run_pair(&S2N, size, message, |order| {
        order.path.mtu_bytes = 1500;
        change(order);
    })
    .expect("both ends can be prepared")
}

fn option(order: &mut TrialOrder, name: &str, value: OptionValue) {
    order.transport.options.insert(name.to_owned(), value);
}

fn text(order: &mut TrialOrder, name: &str, value: &str) {
    option(order, name, OptionValue::Text(value.to_owned()));
}

fn reports(pair: Pair) -> (SideReport, SideReport) {
    let report = |side: Result<SideReport, TransportError>, end: &str| {
        side.unwrap_or_else(|error| panic!("{end}: {}", error.reasons().join(": ")))
    };
    (
        report(pair.sender, "sender"),
        report(pair.receiver, "receiver"),
    )
}

regatta_test_contract::test_cases! { stack_settings_are_read_back:
    cubic("cubic")
    bbr("bbr")
}

fn stack_settings_are_read_back(name: &str) {
    let (sender, receiver) = reports(pair(1_000_000, 10_000, |order| {
        text(order, "cc", name);
        option(order, "gso", OptionValue::Flag(name == "cubic"));
    }));
    let facts = sender.measurements.facts;
    assert_eq!(facts["congestion_control.sender"], name);
    assert_eq!(facts["gso.sender"] == "off", name != "cubic");
    assert_eq!(facts["udp_payload_bytes.sender"], "1472");
    assert_eq!(facts["tls.alpn"], "regatta");
    assert_eq!(facts["tls.cipher_suite"], "TLS13_AES_128_GCM_SHA256");
    assert_eq!(
        receiver.measurements.facts["receive_buffer_drops.receiver"],
        "0"
    );
}

mod real_time {
    use super::*;

    /// Checks that random numbers are seeded, which takes some 45 ms of CPU time, before the clock
    /// starts.
    #[test]
    fn random_numbers_are_seeded_before_the_handshake() {
        let (sender, _) = reports(pair(10_000, 10_000, |_| {}));
        let set_up_ns = sender.measurements.metrics["set_up_time_mean_ns"];
        assert!(set_up_ns < 20e6, "{set_up_ns}");
    }
}

#[test]
fn mtu_discovery_runs_when_enabled() {
    let (sender, _) = reports(pair(20_000_000, 10_000, |order| {
        option(order, "mtu_discovery", OptionValue::Flag(true));
    }));
    assert_eq!(
        sender.measurements.facts["packet_payload_bytes"],
        "searched, at most 1472"
    );
    let found = sender.measurements.facts["udp_payload_bytes.sender"].parse();
    let found: u32 = found.expect("a number");
    assert!((1440..=1472).contains(&found), "{found}");
}

#[test]
fn stream_window_below_the_path_is_reported() {
    let (sender, _) = reports(pair(20_000_000, 10_000, |order| {
        text(order, "stream_window", "64KiB");
        order.sample_interval = Duration::from_millis(5);
        // Without a rate the path is no limit, so that another one must be.
        order.path.link_rate_bps = Some(10_000_000_000);
    }));
    let frames = sender.measurements.facts["quic.flow_control_blocked_frames.sender"].parse();
    let frames: u64 = frames.expect("a number");
    assert!(frames > 0);
    assert!(
        sender
            .measurements
            .warnings
            .iter()
            .any(|warning| warning.code == "window_limited"),
        "{:?}",
        sender.measurements.warnings
    );
}

/// Relays packets both ways until `stop`, and counts Retry packets.
fn relay(front: &UdpSocket, server: SocketAddr, retries: &AtomicU32, stop: &AtomicBool) {
    let back = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for socket in [front, &back] {
        let brief = Some(Duration::from_micros(200));
        socket.set_read_timeout(brief).expect("a time");
    }
    let (mut client, mut buffer) = (None, [0; 65_536]);
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = front.recv_from(&mut buffer) {
            client = Some(from);
            let _ = back.send_to(&buffer[..length], server);
        }
        if let (Ok((length, _)), Some(client)) = (back.recv_from(&mut buffer), client) {
            // A long header of type 3; RFC 9000 §17.2.5.
            if buffer[0] & 0xf0 == 0xf0 {
                retries.fetch_add(1, Ordering::Relaxed);
            }
            let _ = front.send_to(&buffer[..length], client);
        }
    }
}

/// Creates an order of connections with this handshake.
fn handshakes(role: Role, handshake: Handshake) -> TrialOrder {
    let mut order = order_for(role, "quic-s2n", 1, 1);
    order.path.mtu_bytes = 1500;
    order.workload.kind = WorkloadKind::ShortConnections {
        connections: 1,
        handshake,
        request: Bytes(5),
        response: Bytes(5),
    };
    order
}

/// Sends five bytes and receives them back over a connection of its own.
async fn exchange(client: &impl StreamClient, peer: SocketAddr) {
    let soon = MonotonicTime::now() + Duration::from_secs(5);
    let connection = client
        .connect(peer, Purpose::Transfer, soon, &Stop::new())
        .await
        .expect("a connection");
    assert_eq!(connection.handshake(), Some(HandshakeMade::Full));
    let mut stream = connection.open_stream().await.expect("a stream");
    let request = bytes::Bytes::from_static(b"ahoy!");
    stream.send_message(&[], &request).await.expect("sent");
    stream.flush().await.expect("sent");
    let mut back = Vec::new();
    while back.len() < request.len() {
        let received = stream
            .receive(&mut [], soon, &mut |piece: &[u8]| {
                back.extend_from_slice(piece)
            })
            .await
            .expect("received");
        assert!(matches!(received, Received::Bytes(_)));
    }
    assert_eq!(back, request);
    connection.close(soon).await;
}

/// Receives five bytes and sends them back over the next connection.
async fn answer(server: &impl StreamServer, arrived: &mut u32) {
    let soon = MonotonicTime::now() + Duration::from_secs(5);
    let mut admit = |_: &[u8]| {
        *arrived += 1;
        true
    };
    let connection = match server.accept(soon, &Stop::new(), &mut admit).await {
        Ok(Accepted::Connection(connection)) => connection,
        other => panic!("{:?}", other.err()),
    };
    let mut stream = connection.accept_stream(soon).await.expect("a stream");
    let mut received = Vec::new();
    while received.len() < 5 {
        stream
            .receive(&mut [], soon, &mut |piece: &[u8]| {
                received.extend_from_slice(piece)
            })
            .await
            .expect("received");
    }
    stream
        .send_message(&received, &bytes::Bytes::new())
        .await
        .expect("sent");
    stream.finish().await.expect("sent");
    connection.close(soon).await;
}

/// Number of connections of one test, one after another.
const CONNECTIONS: u32 = 5;

regatta_test_contract::test_cases! { retry_validates_the_address_of_every_connection:
    full(Handshake::Full, 0)
    retry(Handshake::Retry, CONNECTIONS)
}

fn retry_validates_the_address_of_every_connection(handshake: Handshake, expected: u32) {
    let server = S2nEndpoint::server(&handshakes(Role::Receiver, handshake)).expect("a server");
    let client = S2nEndpoint::client(&handshakes(Role::Sender, handshake)).expect("a client");
    let (server, client) = (streams(server), streams(client));
    let listens = server.address();
    let front = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = front.local_addr().expect("an address");
    let (retries, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| relay(&front, listens, &retries, &stop));
        let served = scope.spawn(|| {
            let mut arrived = 0;
            server.executor().block_on(async {
                for _ in 0..CONNECTIONS {
                    answer(&server, &mut arrived).await;
                }
            });
            arrived
        });
        client.executor().block_on(async {
            for _ in 0..CONNECTIONS {
                exchange(&client, address).await;
            }
        });
        assert_eq!(served.join().expect("no panic"), CONNECTIONS);
        stop.store(true, Ordering::Relaxed);
    });
    // One for each, and one more for an Initial packet that was sent again.
    let seen = retries.load(Ordering::Relaxed);
    assert!(seen >= expected && seen <= 2 * expected, "{seen}");
}

#[test]
fn secrets_are_written_only_to_the_ordered_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let keylog = |order: &mut TrialOrder| option(order, "keylog", OptionValue::Flag(true));
    let (sender, _) = reports(pair(1000, 1000, |order| {
        keylog(order);
        order.files = Some(directory.path().to_owned());
    }));
    assert_eq!(sender.measurements.facts["keylog.sender"], "sender.keylog");
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name));
    let (ours, theirs) = (read("sender.keylog"), read("receiver.keylog"));
    let ours = ours.expect("a file");
    assert!(ours.contains("CLIENT_TRAFFIC_SECRET_0 "), "{ours}");
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&ours), sorted(&theirs.expect("a file")));
    // Without a directory nothing is written, with a warning.
    let (sender, _) = reports(pair(1000, 1000, keylog));
    assert!(!sender.measurements.facts.contains_key("keylog.sender"));
    assert!(
        sender
            .measurements
            .warnings
            .iter()
            .any(|warning| warning.code == "no_place_for_files")
    );
}
