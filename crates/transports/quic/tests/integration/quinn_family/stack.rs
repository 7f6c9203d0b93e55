//! Properties of the two stacks beyond the contract of every driver.

use std::{
    net::UdpSocket,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use regatta_control::Role;
use regatta_model::OptionValue;
use regatta_transport::{
    Driver,
    testing::{order_for, trial_context},
};

use super::{option, pair, relay::relay, text};

for_both! {
    stack_settings_are_read_back,
    aws_lc_carries_a_transfer,
    ring_carries_a_transfer,
    mtu_discovery_runs_when_enabled,
    stream_window_below_the_path_is_reported,
    the_probe_outlives_the_deadline_until_its_answers_are_there,
}

fn stack_settings_are_read_back(driver: &dyn Driver) {
    let bbr = if driver.descriptor().name == "quic-noq" {
        "bbr3"
    } else {
        "bbr"
    };
    for (name, runs) in [("cubic", "cubic"), ("reno", "reno"), (bbr, bbr)] {
        let pair = pair(driver, 1_000_000, |order| {
            order.path.mtu_bytes = 1500;
            option(order, "cc", text(name));
            option(order, "gso", OptionValue::Flag(name == "cubic"));
        });
        let facts = pair.sender.expect("a report").measurements.facts;
        assert_eq!(facts["congestion_control.sender"], runs);
        assert_eq!(facts["gso.sender"] == "off", name != "cubic");
        assert_eq!(facts["udp_payload_bytes.sender"], "1472");
        assert_eq!(facts["tls.alpn"], "regatta");
        let receiver = pair.receiver.expect("a report").measurements.facts;
        assert_eq!(receiver["receive_buffer_drops.receiver"], "0");
    }
}

/// Transfers with packets encrypted by one library at both ends, which the facts then name.
fn transfer_with(driver: &dyn Driver, crypto: &str) {
    let pair = pair(driver, 1_000_000, |order| {
        option(order, "crypto", text(crypto));
    });
    let sender = pair.sender.expect("a report").measurements;
    assert_eq!(sender.facts["crypto.sender"], crypto);
    assert_eq!(sender.facts["cipher.sender"], "AES-128-GCM");
    assert_eq!(sender.facts["tls.key_exchange"], "X25519");
    let certificate = &sender.facts["tls.certificate"];
    assert!(certificate.starts_with("ECDSA P-256, "), "{certificate}");
    let receiver = pair.receiver.expect("a report").measurements;
    assert_eq!(receiver.metrics["bytes_delivered"], 1e6);
}

fn aws_lc_carries_a_transfer(driver: &dyn Driver) {
    transfer_with(driver, "aws-lc");
}

fn ring_carries_a_transfer(driver: &dyn Driver) {
    transfer_with(driver, "ring");
}

fn mtu_discovery_runs_when_enabled(driver: &dyn Driver) {
    let pair = pair(driver, 20_000_000, |order| {
        order.path.mtu_bytes = 1500;
        option(order, "mtu_discovery", OptionValue::Flag(true));
    });
    let facts = pair.sender.expect("a report").measurements.facts;
    assert_eq!(facts["packet_payload_bytes"], "searched, at most 1472");
    let found: u32 = facts["udp_payload_bytes.sender"].parse().expect("a number");
    assert!((1440..=1472).contains(&found), "{found}");
}

fn stream_window_below_the_path_is_reported(driver: &dyn Driver) {
    let pair = pair(driver, 20_000_000, |order| {
        option(order, "stream_window", text("64KiB"));
        order.sample_interval = Duration::from_millis(5);
        // Without a rate the path is no limit, so that another one must be.
        order.path.link_rate_bps = Some(10_000_000_000);
    });
    let report = pair.sender.expect("a report");
    let frames = report
        .measurements
        .facts
        .get("quic.flow_control_blocked_frames.sender")
        .map(|frames| frames.parse::<u64>().expect("a number"));
    let warned = report
        .measurements
        .warnings
        .iter()
        .any(|warning| warning.code == "window_limited");
    if driver.descriptor().name == "quic-noq" {
        // noq does not report when flow control blocks it.
        assert_eq!((frames, warned), (None, false));
    } else {
        assert!(frames.is_some_and(|frames| frames > 0));
        assert!(warned, "{:?}", report.measurements.warnings);
    }
}

fn the_probe_outlives_the_deadline_until_its_answers_are_there(driver: &dyn Driver) {
    let one_way = Duration::from_millis(150);
    let order = |role| {
        let mut order = order_for(role, driver.descriptor().name, 1 << 40, 10_000);
        order.deadline = Duration::from_millis(1500);
        order.path.round_trip_delay = 2 * one_way;
        // A busy machine may be late, and an answer that is later than the path may make it counts as lost.
        order.path.longest_one_way = one_way + Duration::from_secs(3);
        order.path.mtu_bytes = 1500;
        order.workload.probe.under_load = true;
        order.workload.probe.interval = Duration::from_millis(20);
        // Less than the path and the relay hold, so that nothing is lost or queues for long.
        option(&mut order, "stream_window", text("64KiB"));
        order
    };
    let (sender_context, sender_seen) = trial_context();
    let (receiver_context, receiver_seen) = trial_context();
    sender_seen.connect(&receiver_context.peer);
    receiver_seen.connect(&sender_context.peer);
    let receiver = driver
        .session(&order(Role::Receiver), receiver_context)
        .expect("a receiver");
    let listens = receiver.listen_address().expect("an address");
    let sender = driver
        .session(&order(Role::Sender), sender_context)
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
    let connected = sender.measurements.metrics["transfer_time_ns"]
        - sender.measurements.metrics["set_up_time_mean_ns"];
    assert_eq!(connected, 1.5e9);
    assert!(receiver.measurements.metrics["bytes_delivered"] > 0.0);
    // A departure each 20 ms for about a second, 300 ms of them without an answer at the end.
    assert!(sender.measurements.metrics["probe_messages_sent"] >= 20.0);
    assert_eq!(sender.measurements.metrics["probe_messages_lost"], 0.0);
    assert_eq!(sender.measurements.facts["probe.interval"], "20 ms");
}
