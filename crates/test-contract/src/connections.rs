//! Clauses of the contract for short connections and for independent messages over many streams.

use std::time::{Duration, Instant};

use regatta_control::SideReport;
use regatta_model::{Bytes, Handshake, Spread, WorkloadKind};
use regatta_transport::{
    Driver, TransportError,
    testing::{Pair, capability, run_pair, run_pair_then},
};

use crate::contract::{
    check_absent, check_delivery, check_edges, check_fact, check_histograms, check_metrics,
    check_warning, check_within, metric, name, pair,
};

fn short(connections: u32, handshake: Handshake, request: u64, response: u64) -> WorkloadKind {
    WorkloadKind::ShortConnections {
        connections,
        handshake,
        request: Bytes(request),
        response: Bytes(response),
    }
}

fn run(driver: &dyn Driver, kind: &WorkloadKind) -> (SideReport, SideReport, Pair) {
    pair(driver, 0, 1, |order| {
        order.workload.kind = kind.clone();
        // Packets of loopback's size may not be sent at all in a first flight: to an address that is
        // not proved yet goes three times what came from it at most (RFC 9000, 8.1).
        order.path.mtu_bytes = 1500;
    })
}

/// The driver refuses this workload as unsupported, before anything is tried.
fn is_unsupported(driver: &dyn Driver, kind: &WorkloadKind) {
    let refused = run_pair(driver, 0, 1, |order| order.workload.kind = kind.clone());
    assert!(
        matches!(refused, Err(TransportError::Unsupported(_))),
        "{} must say that it does not run {}",
        name(driver),
        kind.description()
    );
}

/// The handshakes are the requested ones. Where a connection can be done before the ticket
/// for the next one is here, a host that is busy with something else may make full ones meanwhile;
/// then there is a warning.
fn check_handshakes(requested: Handshake, connections: u32, sender: &SideReport, what: &str) {
    let made = |name: &str| -> u32 {
        let fact = sender.measurements.facts.get(&format!("handshakes.{name}"));
        fact.map_or(0, |count| count.parse().expect("a count"))
    };
    let as_requested = match requested {
        Handshake::Full | Handshake::Retry => made("full"),
        Handshake::Resumed => made("resumed"),
        Handshake::EarlyData => made("early_data_taken"),
    };
    let others = match requested {
        Handshake::EarlyData => made("full"),
        _ => 0,
    };
    let all = as_requested + others + made("unknown");
    assert_eq!(all, connections, "{what}: {:?}", sender.measurements.facts);
    assert!(as_requested + made("unknown") >= 1, "{what}");
    let codes = sender.measurements.warnings.iter().map(|w| w.code.as_str());
    // Of loopback's one address, and of no handshake.
    let codes: Vec<_> = codes.filter(|code| *code != "mptcp_one_path").collect();
    let warnings = &sender.measurements.warnings;
    let expected = ["handshake_differs"].into_iter().filter(|_| others > 0);
    assert!(codes.into_iter().eq(expected), "{what}: {warnings:?}");
}

/// Connections one after another each have their answer, with every handshake that the driver
/// names; others are unsupported.
pub fn short_connections_have_their_answers(
    driver: &dyn Driver,
    handshake: Handshake,
    connections: u32,
    request: u64,
    response: u64,
) {
    let kind = short(connections, handshake, request, response);
    let named = |name| driver.descriptor().capabilities.contains(&name);
    if !capability(handshake).is_none_or(named) {
        return is_unsupported(driver, &kind);
    }
    let what = format!("{}: {}", name(driver), kind.description());
    let (sender, _, pair) = run(driver, &kind);
    let count = f64::from(connections);
    let expected = [
        (&sender, "connections_completed", count),
        (&sender, "connections_failed", 0.0),
    ];
    check_metrics(&expected, &what);
    check_handshakes(handshake, connections, &sender, &what);
    for quantile in ["_mean", "_p50", "_p95"] {
        let of = |what: &str| metric(&sender, &format!("{what}{quantile}_ns"));
        let (first, all) = (of("time_to_first_byte"), of("time_to_completion"));
        assert!(of("set_up_time") <= first && first <= all, "{what}");
        assert!(all > 0.0 && all < 5e9, "{what}");
    }
    let histograms = [
        "set_up_time_ns",
        "time_to_first_byte_ns",
        "time_to_completion_ns",
    ];
    check_histograms(&sender, &histograms, &what);
    check_absent(&sender, &["goodput_bps"], &what);
    check_edges(&pair, &what);
}

/// A driver of messages refuses short connections as unsupported.
pub fn short_connections_are_unsupported(driver: &dyn Driver, handshake: Handshake) {
    is_unsupported(driver, &short(20, handshake, 100, 1000));
}

/// Runs more connections than there is time for: those that were done by the deadline are measured.
pub fn the_deadline_ends_short_connections(driver: &dyn Driver) {
    let begun = Instant::now();
    let (sender, _, pair) = pair(driver, 0, 1, |order| {
        // Large answers, so that a quick host does not run out of ports.
        order.workload.kind = short(1_000_000, Handshake::Full, 100, 1_000_000);
        // A megabyte must fit into it on a busy machine, too.
        order.deadline = Duration::from_secs(1);
    });
    let what = name(driver);
    check_within(begun, 8.0, what);
    assert!(metric(&sender, "connections_completed") >= 1.0, "{what}");
    let warnings = &sender.measurements.warnings;
    assert_eq!(
        metric(&sender, "connections_failed"),
        0.0,
        "{what}: {warnings:?}"
    );
    assert_eq!(metric(&sender, "transfer_time_ns"), 1e9, "{what}");
    check_warning(&sender, "deadline_reached", what);
    check_edges(&pair, what);
}

/// A sender without this trial's token has no answer.
pub fn short_connections_need_the_token(driver: &dyn Driver) {
    let begun = Instant::now();
    let pair = run_pair_then(
        driver,
        0,
        1,
        |order| {
            order.workload.kind = short(5, Handshake::Full, 100, 1000);
            order.deadline = Duration::from_millis(500);
            if order.role == regatta_control::Role::Sender {
                order.token = "00".repeat(16);
            }
        },
        |receiver| receiver.stop.stop(),
    )
    .expect("both ends can be prepared");
    assert!(pair.sender.is_err(), "{}", name(driver));
    check_within(begun, 15.0, name(driver));
}

fn many(count: u64, length: u64, per_second: f64, streams: u32, spread: Spread) -> WorkloadKind {
    WorkloadKind::MultiStream {
        messages: count,
        message: Bytes(length),
        messages_per_second: per_second,
        streams,
        spread,
    }
}

/// Messages that leave on a schedule all arrive whole, over streams and over connections, and
/// their delays are known; over streams of one connection only where the driver has several.
pub fn messages_over_many_streams_arrive(
    driver: &dyn Driver,
    count: u64,
    length: u64,
    per_second: f64,
    streams: u32,
    spread: Spread,
) {
    let kind = many(count, length, per_second, streams, spread);
    if spread == Spread::Streams && streams > 1 && !driver.descriptor().multiplexes {
        return is_unsupported(driver, &kind);
    }
    let what = format!("{}: {}", name(driver), kind.description());
    let (sender, receiver, pair) = run(driver, &kind);
    let messages = count as f64;
    let all = (messages, (count * length) as f64);
    check_delivery(&sender, &receiver, all, &what);
    let delays =
        ["p50", "p95", "max"].map(|it| metric(&receiver, &format!("message_delay_{it}_ns")));
    assert!(delays.is_sorted(), "{what}: {delays:?}");
    assert!(delays[0] > 0.0 && delays[0] < 1e9, "{what}: {delays:?}");
    let histogram = &receiver.measurements.histograms[0];
    assert_eq!(histogram.name, "message_delay_ns", "{what}");
    // The last message does not leave before it is due.
    let least = (messages - 1.0) / per_second * 1e9;
    assert!(metric(&sender, "transfer_time_ns") >= least, "{what}");
    check_fact(&sender, "streams", &streams.to_string(), &what);
    check_edges(&pair, &what);
}

/// A driver of messages has no streams to spread messages over, and refuses them as unsupported.
pub fn messages_over_many_streams_are_unsupported(
    driver: &dyn Driver,
    streams: u32,
    spread: Spread,
) {
    is_unsupported(driver, &many(100, 1000, 1000.0, streams, spread));
}

/// Sends more messages than there is time for: those that arrived by the deadline are measured.
pub fn the_deadline_ends_messages_over_many_streams(driver: &dyn Driver) {
    let spread = match driver.descriptor().multiplexes {
        true => Spread::Streams,
        false => Spread::Connections,
    };
    let begun = Instant::now();
    let (sender, receiver, pair) = pair(driver, 0, 1, |order| {
        order.workload.kind = many(1_000_000, 100, 200.0, 2, spread);
        order.deadline = Duration::from_millis(400);
    });
    let what = name(driver);
    check_within(begun, 8.0, what);
    let delivered = metric(&receiver, "messages_delivered");
    // 81 are due, and an idle host has sent them; a busy one, some.
    assert!((1.0..=81.0).contains(&delivered), "{what}: {delivered}");
    assert!(metric(&sender, "transfer_time_ns") > 400e6, "{what}");
    check_warning(&sender, "deadline_reached", what);
    check_edges(&pair, what);
}
