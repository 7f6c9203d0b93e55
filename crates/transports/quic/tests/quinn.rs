//! What `quic-quinn` promises beside the contract of every driver.

use std::{
    collections::VecDeque,
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use regatta_control::{FailureKind, Role, TrialOrder};
use regatta_model::OptionValue;
use regatta_transport::{
    Driver, TransportError,
    testing::{Pair, SERVER_NAME, order_for, run_pair, trial_context},
};
use regatta_transport_quic::quinn_driver::QuicQuinn;

fn pair(size: u64, change: impl Fn(&mut TrialOrder)) -> Pair {
    run_pair(&QuicQuinn, size, 10_000, change).expect("both ends can be prepared")
}

fn option(order: &mut TrialOrder, name: &str, value: OptionValue) {
    order.transport.options.insert(name.to_owned(), value);
}

#[test]
fn another_certificate_with_the_same_name_is_refused() {
    let other = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).expect("made");
    let mut order = order_for(Role::Sender, "quic-quinn", 1000, 1000);
    order.tls.certificate_der_base64 = BASE64.encode(other.cert.der());
    let (context, _) = trial_context();
    let sender = QuicQuinn.prepare(&order, context).expect("a sender");
    let order = order_for(Role::Receiver, "quic-quinn", 1000, 1000);
    let (context, _) = trial_context();
    let receiver = QuicQuinn
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
    let mut order = order_for(Role::Receiver, "quic-quinn", 1000, 1000);
    order.tls.key_der_base64 = Some(BASE64.encode(other.signing_key.serialize_der()));
    let (context, _) = trial_context();
    assert!(QuicQuinn.prepare(&order, context.clone()).is_err());
    order.tls.key_der_base64 = None;
    assert!(matches!(
        QuicQuinn.prepare(&order, context),
        Err(TransportError::Order { .. })
    ));
}

#[test]
fn a_path_with_too_small_packets_is_unsupported() {
    let mut order = order_for(Role::Sender, "quic-quinn", 1000, 1000);
    order.path.mtu_bytes = 1000;
    let (context, _) = trial_context();
    let error = QuicQuinn
        .prepare(&order, context)
        .err()
        .expect("QUIC needs more");
    assert_eq!(error.kind(), FailureKind::Unsupported);
    assert!(!error.hint().is_empty());
}

#[test]
fn what_runs_is_read_back() {
    for name in ["cubic", "newreno", "bbr"] {
        let pair = pair(1_000_000, |order| {
            order.path.mtu_bytes = 1500;
            option(order, "cc", OptionValue::Text(name.to_owned()));
            option(order, "gso", OptionValue::Flag(name == "cubic"));
        });
        let facts = pair.sender.expect("a report").facts;
        assert_eq!(facts["congestion_control.sender"], name);
        assert_eq!(facts["gso.sender"] == "off", name != "cubic");
        assert_eq!(facts["udp_payload_bytes.sender"], "1472");
        assert_eq!(facts["tls.alpn"], "regatta");
        let receiver = pair.receiver.expect("a report").facts;
        assert_eq!(receiver["receive_buffer_drops.receiver"], "0");
    }
}

#[test]
fn the_packet_size_is_searched_for_when_asked() {
    let pair = pair(20_000_000, |order| {
        order.path.mtu_bytes = 1500;
        option(order, "mtu_discovery", OptionValue::Flag(true));
    });
    let facts = pair.sender.expect("a report").facts;
    assert_eq!(facts["packet_payload_bytes"], "searched, at most 1472");
    let found: u32 = facts["udp_payload_bytes.sender"].parse().expect("a number");
    assert!((1440..=1472).contains(&found), "{found}");
}

#[test]
fn a_stream_window_below_the_path_is_seen() {
    let pair = pair(20_000_000, |order| {
        option(
            order,
            "stream_window",
            OptionValue::Text("64KiB".to_owned()),
        );
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

/// Passes datagrams on after a delay, both ways, until it is told to stop.
fn relay(front: &UdpSocket, receiver: SocketAddr, delay: Duration, stop: &AtomicBool) {
    let back = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for socket in [front, &back] {
        socket.set_nonblocking(true).expect("a mode");
    }
    let mut sender = None;
    let mut lines = [VecDeque::new(), VecDeque::new()];
    let mut place = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        while let Ok((length, from)) = front.recv_from(&mut place) {
            sender = Some(from);
            lines[0].push_back((Instant::now() + delay, place[..length].to_vec()));
        }
        while let Ok((length, _)) = back.recv_from(&mut place) {
            lines[1].push_back((Instant::now() + delay, place[..length].to_vec()));
        }
        for (line, (from, to)) in lines
            .iter_mut()
            .zip([(&back, Some(receiver)), (front, sender)])
        {
            while line.front().is_some_and(|(due, _)| *due <= Instant::now()) {
                let (_, data) = line.pop_front().expect("it is there");
                // Who is gone gets nothing.
                let _ = to.map(|to| from.send_to(&data, to));
            }
        }
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn the_probe_outlives_the_deadline_until_its_answers_are_there() {
    let one_way = Duration::from_millis(150);
    let order = |role| {
        let mut order = order_for(role, "quic-quinn", 1 << 40, 10_000);
        order.deadline = Duration::from_millis(1500);
        order.path.round_trip_delay = 2 * one_way;
        // A busy machine may be late.
        order.path.longest_one_way = one_way + Duration::from_millis(300);
        order.path.mtu_bytes = 1500;
        order.workload.probe.under_load = true;
        order.workload.probe.interval = Duration::from_millis(20);
        // Less than the path and the relay hold, so that nothing is lost or queues for long.
        option(
            &mut order,
            "stream_window",
            OptionValue::Text("64KiB".to_owned()),
        );
        order
    };
    let (sender_context, sender_seen) = trial_context();
    let (receiver_context, receiver_seen) = trial_context();
    sender_seen.connect(&receiver_context.mailbox);
    receiver_seen.connect(&sender_context.mailbox);
    let receiver = QuicQuinn
        .prepare(&order(Role::Receiver), receiver_context)
        .expect("a receiver");
    let listens = receiver.listen_address().expect("an address");
    let sender = QuicQuinn
        .prepare(&order(Role::Sender), sender_context)
        .expect("a sender");
    let front = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = front.local_addr().expect("an address");
    let stop = AtomicBool::new(false);
    let (sender, receiver) = thread::scope(|scope| {
        scope.spawn(|| relay(&front, listens, one_way, &stop));
        let receiver = scope.spawn(|| receiver.run(None));
        let sender = sender.run(Some(address));
        let receiver = receiver.join();
        stop.store(true, Ordering::Relaxed);
        (sender, receiver.expect("no panic"))
    });
    let (sender, receiver) = (sender.expect("a report"), receiver.expect("a report"));
    assert_eq!(sender.metrics["transfer_time_ns"], 1.5e9);
    assert!(receiver.metrics["bytes_delivered"] > 0.0);
    // A departure each 20 ms for about a second, 300 ms of them without an answer at the end.
    assert!(sender.metrics["probe_messages_sent"] >= 20.0);
    assert_eq!(sender.metrics["probe_messages_lost"], 0.0);
    assert_eq!(sender.facts["probe.interval"], "20 ms");
}

#[test]
fn a_peer_that_never_answers_is_timed_out() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for under_load in [true, false] {
        let mut order = order_for(Role::Sender, "quic-quinn", 1000, 1000);
        order.deadline = Duration::from_millis(400);
        order.workload.probe.under_load = under_load;
        let (context, _) = trial_context();
        let sender = QuicQuinn.prepare(&order, context).expect("a sender");
        let peer = silent.local_addr().expect("an address");
        let error = sender.run(Some(peer)).expect_err("nobody answers");
        assert_eq!(error.kind(), FailureKind::TimedOut);
        assert_eq!(error.to_string(), "no connection within 0.4 s");
    }
}
