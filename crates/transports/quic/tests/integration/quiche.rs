//! Properties of `quic-quiche` beyond the contract of every driver.

use std::{fs, time::Duration};

use regatta_control::TrialOrder;
use regatta_model::{Bytes, Handshake, OptionValue, WorkloadKind};
use regatta_transport::{
    TransportError,
    testing::{Pair, run_pair},
};
use regatta_transport_quic_quiche::DRIVER as QUICHE;

fn pair_of(size: u64, message: u64, change: impl Fn(&mut TrialOrder)) -> Pair {
    run_pair(&QUICHE, size, message, |order| {
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

regatta_test_contract::test_cases! { stack_settings_are_read_back:
    cubic("cubic")
    reno("reno")
    bbr2("bbr2")
}

fn stack_settings_are_read_back(name: &str) {
    let pair = pair(1_000_000, |order| {
        text(order, "cc", name);
        option(order, "gso", OptionValue::Flag(name == "cubic"));
    });
    let facts = pair.sender.expect("a report").measurements.facts;
    assert_eq!(facts["congestion_control.sender"], name);
    let pacing = if name == "bbr2" {
        "by the stack"
    } else {
        "none"
    };
    assert_eq!(facts["pacing.sender"], pacing);
    assert_eq!(facts["gso.sender"] == "off", name != "cubic");
    assert_eq!(facts["udp_payload_bytes.sender"], "1472");
    assert_eq!(facts["tls.alpn"], "regatta");
    assert!(facts["tls.cipher_suite"].starts_with("TLS"));
    assert_eq!(facts["quic.handshake.sender"], "full");
    let receiver = pair.receiver.expect("a report").measurements.facts;
    assert_eq!(receiver["receive_buffer_drops.receiver"], "0");
}

#[test]
fn stream_window_below_the_path_is_reported() {
    let pair = pair(20_000_000, |order| {
        text(order, "stream_window", "64KiB");
        order.sample_interval = Duration::from_millis(5);
        // Without a rate the path is no limit, so that another one must be.
        order.path.link_rate_bps = Some(10_000_000_000);
    });
    let report = pair.sender.expect("a report");
    let frames: u64 = report.measurements.facts["quic.flow_control_blocked_frames.sender"]
        .parse()
        .expect("a number");
    assert!(frames > 0);
    assert!(
        report
            .measurements
            .warnings
            .iter()
            .any(|warning| warning.code == "window_limited"),
        "{:?}",
        report.measurements.warnings
    );
}

regatta_test_contract::test_cases! { handshakes_match_the_request:
    full(Handshake::Full, "full")
    resumption(Handshake::Resumed, "resumed")
    early_data(Handshake::EarlyData, "0-RTT")
    retry(Handshake::Retry, "full")
}

fn handshakes_match_the_request(handshake: Handshake, made: &str) {
    let pair = pair(0, |order| {
        order.workload.kind = WorkloadKind::ShortConnections {
            connections: 10,
            handshake,
            request: Bytes(100),
            response: Bytes(1000),
        };
    });
    let report = pair.sender.expect("a report");
    assert_eq!(
        report.measurements.metrics["connections_completed"], 10.0,
        "{made}"
    );
    assert!(
        report.measurements.warnings.is_empty(),
        "{made}: {:?}",
        report.measurements.warnings
    );
}

#[test]
fn transfer_continues_after_migration() {
    let pair = pair(1 << 40, |order| {
        text(order, "migrate_after", "200ms");
        // Many times as long as the migration and a hundred packets take.
        order.deadline = Duration::from_secs(6);
        // Slow enough that a busy machine has processor time left for both ends.
        text(order, "stream_window", "256KiB");
    });
    let sender = pair.sender.expect("a report");
    let migration = &sender.measurements.facts["migration"];
    assert!(
        migration.starts_with("to another port after 0.2 s, validated"),
        "{migration}"
    );
    let sent = migration.split_whitespace().rev().nth(4).expect("a number");
    assert!(sent.parse::<u64>().expect("a number") > 100, "{migration}");
}

#[test]
fn files_are_written_only_to_the_ordered_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let request_files = |order: &mut TrialOrder| {
        option(order, "keylog", OptionValue::Flag(true));
        option(order, "qlog", OptionValue::Flag(true));
    };
    let pair = pair(100_000, |order| {
        request_files(order);
        order.files = Some(directory.path().to_owned());
    });
    let facts = pair.sender.expect("a report").measurements.facts;
    let keys = fs::read_to_string(directory.path().join(&*facts["keylog.sender"])).expect("keys");
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
    let events = directory.path().join("receiver.sqlog");
    let events = fs::read_to_string(events).expect("events");
    assert!(
        events.contains("transport:packet_received") || events.contains("quic:packet_received")
    );

    let without = self::pair(100_000, request_files);
    let facts = without.sender.expect("a report").measurements.facts;
    assert!(facts["keylog.sender"].starts_with("not written"));
    assert!(facts["qlog.sender"].starts_with("not written"));
}

/// Requests a file of the sender, in whose place is a link to another file. Returns the error, and the content of that file.
fn beside_a_link(requested: &str, name: &str) -> (Option<TransportError>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let [link, target] = [name, "target"].map(|name| directory.path().join(name));
    fs::write(&target, "content").expect("written");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    let pair = run_pair(&QUICHE, 1000, 1000, |order| {
        option(order, requested, OptionValue::Flag(true));
        order.files = Some(directory.path().to_owned());
    });
    let content = fs::read_to_string(target).expect("a file");
    (pair.err(), content)
}

#[test]
fn a_link_in_the_place_of_a_key_log_is_not_followed() {
    let (error, content) = beside_a_link("keylog", "sender.keylog");
    let reasons = error.expect("it must fail").reasons().join(": ");
    assert!(reasons.contains("it is a link"), "{reasons}");
    assert_eq!(content, "content");
}

/// The connection goes on without the log.
#[test]
fn a_link_in_the_place_of_an_event_log_is_not_followed() {
    let (error, content) = beside_a_link("qlog", "sender.sqlog");
    assert!(error.is_none(), "{error:?}");
    assert_eq!(content, "content");
}
