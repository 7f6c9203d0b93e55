//! What `quic-quiche` promises beside the contract of every driver.

use std::{fs, net::UdpSocket, thread, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use regatta_control::{FailureKind, Role, TrialOrder};
use regatta_model::{Bytes, Handshake, OptionValue, WorkloadKind};
use regatta_transport::{
    Carries, Driver, TransportError,
    testing::{Pair, SERVER_NAME, order_for, run_pair, trial_context},
};
use regatta_transport_quic::quiche_driver::QuicQuiche;

fn pair_of(size: u64, message: u64, change: impl Fn(&mut TrialOrder)) -> Pair {
    run_pair(&QuicQuiche, size, message, |order| {
        order.path.mtu_bytes = 1500;
        change(order);
    })
    .expect("both ends can be prepared")
}

fn pair(size: u64, change: impl Fn(&mut TrialOrder)) -> Pair {
    pair_of(size, 10_000, change)
}

fn option(order: &mut TrialOrder, name: &str, value: OptionValue) {
    order.transport.options.insert(name.to_owned(), value);
}

fn text(order: &mut TrialOrder, name: &str, value: &str) {
    option(order, name, OptionValue::Text(value.to_owned()));
}

#[test]
fn another_certificate_with_the_same_name_is_refused() {
    let other = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).expect("made");
    let mut order = order_for(Role::Sender, "quic-quiche", 1000, 1000);
    order.tls.certificate_der_base64 = BASE64.encode(other.cert.der());
    let (context, _) = trial_context();
    let sender = QuicQuiche.prepare(&order, context).expect("a sender");
    let order = order_for(Role::Receiver, "quic-quiche", 1000, 1000);
    let (context, _) = trial_context();
    let receiver = QuicQuiche
        .prepare(&order, context.clone())
        .expect("a receiver");
    let peer = receiver.listen_address();
    let error = thread::scope(|scope| {
        let receiver = scope.spawn(move || receiver.run(None));
        let error = sender.run(peer).expect_err("it is not the pinned one");
        // The receiver waits on for the right sender until it is told not to.
        context.stop.stop();
        let receiver = receiver.join().expect("no panic");
        assert!(matches!(receiver, Err(TransportError::Cancelled)));
        error
    });
    let reasons = error.reasons().join(": ");
    assert!(reasons.contains("invalid peer certificate"), "{reasons}");
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let other = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).expect("made");
    let mut order = order_for(Role::Receiver, "quic-quiche", 1000, 1000);
    order.tls.key_der_base64 = Some(BASE64.encode(other.signing_key.serialize_der()));
    let (context, _) = trial_context();
    assert!(QuicQuiche.prepare(&order, context.clone()).is_err());
    order.tls.key_der_base64 = None;
    assert!(matches!(
        QuicQuiche.prepare(&order, context),
        Err(TransportError::Order { .. })
    ));
}

#[test]
fn what_runs_is_read_back() {
    for name in ["cubic", "reno", "bbr2"] {
        let pair = pair(1_000_000, |order| {
            text(order, "cc", name);
            option(order, "gso", OptionValue::Flag(name == "cubic"));
        });
        let facts = pair.sender.expect("a report").facts;
        assert_eq!(facts["congestion_control.sender"], name);
        assert_eq!(facts["pacing.sender"].starts_with("on"), name == "bbr2");
        assert_eq!(facts["gso.sender"] == "off", name != "cubic");
        assert_eq!(facts["udp_payload_bytes.sender"], "1472");
        assert_eq!(facts["tls.alpn"], "regatta");
        assert!(facts["tls.cipher_suite"].starts_with("TLS"));
        assert_eq!(facts["quic.handshake.sender"], "full");
        let receiver = pair.receiver.expect("a report").facts;
        assert_eq!(receiver["receive_buffer_drops.receiver"], "0");
    }
}

#[test]
fn a_stream_window_below_the_path_is_seen() {
    let pair = pair(20_000_000, |order| {
        text(order, "stream_window", "64KiB");
        order.sample_interval = Duration::from_millis(5);
        // Without a rate the path is no limit, so that another one must be.
        order.path.link_rate_bps = Some(10_000_000_000);
    });
    let report = pair.sender.expect("a report");
    let frames: u64 = report.facts["quic.flow_control_blocked_frames.sender"]
        .parse()
        .expect("a number");
    assert!(frames > 0);
    assert!(
        report
            .warnings
            .iter()
            .any(|warning| warning.code == "window_limited"),
        "{:?}",
        report.warnings
    );
}

#[test]
fn handshakes_are_what_is_asked_for() {
    for (handshake, made) in [
        (Handshake::Full, "full"),
        (Handshake::Resumed, "resumed"),
        (Handshake::EarlyData, "0-RTT"),
        (Handshake::Retry, "full"),
    ] {
        let pair = pair(0, |order| {
            order.workload.kind = WorkloadKind::ShortConnections {
                connections: 10,
                handshake,
                request: Bytes(100),
                response: Bytes(1000),
            };
        });
        let report = pair.sender.expect("a report");
        assert_eq!(report.metrics["connections_completed"], 10.0, "{made}");
        assert!(report.warnings.is_empty(), "{made}: {:?}", report.warnings);
    }
}

#[test]
fn datagrams_arrive_and_the_longest_is_known() {
    let datagrams = |order: &mut TrialOrder| {
        text(order, "mode", "datagram");
        order.workload.probe.idle_messages = 3;
        order.workload.probe.under_load = true;
    };
    for message in [1, 64, 1000, 1432] {
        let pair = pair_of(2000 * message, message, datagrams);
        let sender = pair.sender.expect("a report");
        let receiver = pair.receiver.expect("a report");
        assert_eq!(sender.metrics["messages_sent"], 2000.0);
        assert_eq!(receiver.metrics["messages_corrupted"], 0.0);
        // Loopback loses none; what the receiving application is too slow for is dropped.
        let lost = sender.metrics["messages_lost"];
        assert_eq!(receiver.metrics["messages_delivered"] + lost, 2000.0);
        assert_eq!(lost, 0.0, "{:?}", receiver.facts);
    }
    let refused = run_pair(&QuicQuiche, 10_000, 1433, |order| {
        order.path.mtu_bytes = 1500;
        datagrams(order);
    });
    let error = refused.err().expect("it does not fit a packet");
    assert_eq!(error.kind(), FailureKind::Unsupported);
    let told = format!("{} {}", error.reasons().join(": "), error.hint());
    assert!(told.contains("1432"), "{told}");
    let order = order_for(Role::Sender, "quic-quiche", 1, 1);
    assert_eq!(
        QuicQuiche.carries(&order.transport.options),
        Carries::Streams
    );
}

#[test]
fn a_datagram_transfer_keeps_its_deadline() {
    let pair = pair_of(1 << 40, 1000, |order| {
        text(order, "mode", "datagram");
        order.deadline = Duration::from_millis(300);
    });
    let sender = pair.sender.expect("a report");
    assert_eq!(sender.metrics["transfer_time_ns"], 300e6);
    assert!(pair.receiver.expect("a report").metrics["bytes_delivered"] > 0.0);
}

#[test]
fn a_transfer_goes_on_from_another_port() {
    let pair = pair(1 << 40, |order| {
        text(order, "migrate_after", "200ms");
        order.deadline = Duration::from_millis(1500);
        // Slow enough that a busy machine has processor time left for both ends.
        text(order, "stream_window", "256KiB");
    });
    let sender = pair.sender.expect("a report");
    let told = &sender.facts["migration"];
    assert!(
        told.starts_with("to another port after 0.2 s, validated"),
        "{told}"
    );
    let sent = told.split_whitespace().rev().nth(4).expect("a number");
    assert!(sent.parse::<u64>().expect("a number") > 100, "{told}");
}

#[test]
fn files_are_left_where_the_order_says_and_nowhere_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let ask = |order: &mut TrialOrder| {
        option(order, "keylog", OptionValue::Flag(true));
        option(order, "qlog", OptionValue::Flag(true));
    };
    let pair = pair(100_000, |order| {
        ask(order);
        order.files = Some(directory.path().to_owned());
    });
    let facts = pair.sender.expect("a report").facts;
    let keys = fs::read_to_string(directory.path().join(&facts["keylog.sender"])).expect("keys");
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
    let events = directory.path().join("receiver.sqlog");
    let events = fs::read_to_string(events).expect("events");
    assert!(
        events.contains("transport:packet_received") || events.contains("quic:packet_received")
    );

    let without = self::pair(100_000, ask);
    let facts = without.sender.expect("a report").facts;
    assert!(facts["keylog.sender"].starts_with("not written"));
    assert!(facts["qlog.sender"].starts_with("not written"));
}

#[test]
fn a_peer_that_never_answers_is_timed_out() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for mode in ["stream", "datagram"] {
        let mut order = order_for(Role::Sender, "quic-quiche", 1000, 1000);
        order.deadline = Duration::from_millis(400);
        text(&mut order, "mode", mode);
        let (context, _) = trial_context();
        let sender = QuicQuiche.prepare(&order, context).expect("a sender");
        let peer = silent.local_addr().expect("an address");
        let error = sender.run(Some(peer)).expect_err("nobody answers");
        assert_eq!(error.kind(), FailureKind::TimedOut, "{mode}: {error}");
        assert_eq!(error.to_string(), "no connection within 0.4 s");
    }
}

#[test]
fn a_path_with_too_small_packets_is_unsupported() {
    let mut order = order_for(Role::Sender, "quic-quiche", 1000, 1000);
    order.path.mtu_bytes = 1000;
    let (context, _) = trial_context();
    let error = QuicQuiche
        .prepare(&order, context)
        .err()
        .expect("QUIC needs more");
    assert_eq!(error.kind(), FailureKind::Unsupported);
    assert!(!error.hint().is_empty());
}
