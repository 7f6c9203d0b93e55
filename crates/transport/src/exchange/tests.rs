//! An exchange over a transport in memory that loses, duplicates and delays as the test says.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use regatta_control::SideReport;
use regatta_model::{Arrivals, Bytes, Pattern, WorkloadKind};

use crate::{
    TransportError,
    testing::run_pair,
    wire::{Decide, Impairment, LEAVE, Lossy, QUEUED, run},
};

/// Timeout that is longer than a busy machine holds a thread up.
const TIMEOUT: Duration = Duration::from_millis(400);

#[test]
fn lost_late_and_duplicate_messages_are_distinguished() {
    let wire = Lossy::new(
        |length, number| match (length, number) {
            (100, 2) => Impairment::Lost,
            (100, 8) => Impairment::Doubled,
            _ => Impairment::Delivered,
        },
        |length, number| match (length, number) {
            (16, 4) => Impairment::Lost,
            (16, 6) => Impairment::HeldBack,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(1000),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: TIMEOUT,
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    let receiver = pair.receiver.expect("the receiver's report");
    for (report, name, expected) in [
        (&sender, "messages_sent", 10.0),
        (&sender, "messages_lost", 1.0),
        (&sender, "message_loss_ratio", 0.1),
        (&sender, "messages_unacknowledged", 3.0),
        (&sender, "late_answers", 1.0),
        (&receiver, "messages_delivered", 9.0),
        (&receiver, "bytes_delivered", 900.0),
        (&receiver, "messages_duplicated", 1.0),
        (&receiver, "messages_reordered", 0.0),
        (&receiver, "messages_corrupted", 0.0),
    ] {
        assert_eq!(report.measurements.metrics[name], expected, "{name}");
    }
    // Three time-outs are in the time of the transfer, and in no delay.
    let timeout = TIMEOUT.as_nanos() as f64;
    assert!(sender.measurements.metrics["transfer_time_ns"] >= 3.0 * timeout);
    assert!(sender.measurements.metrics["message_delay_max_ns"] < timeout);
    assert_eq!(sender.measurements.facts["answers.timeout"], "400 ms");
    assert!(
        sender.measurements.warnings.is_empty(),
        "{:?}",
        sender.measurements.warnings
    );
}

#[test]
fn receiver_waits_for_messages_without_polling() {
    let wire = Lossy::new(
        |_, _| Impairment::Delivered,
        |length, number| match (length, number) {
            (16, 2..5) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(1000),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: TIMEOUT,
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    assert_eq!(sender.measurements.metrics["messages_unacknowledged"], 3.0);
    pair.receiver.expect("the receiver's report");
    // Each of ten messages ends a wait, and each note; the sender's three time-outs do not.
    let waits = wire.waits.load(Ordering::Relaxed);
    assert!((10..=20).contains(&waits), "{waits}");
}

/// Runs a stop-and-wait of three messages that waits for an hour for an answer, of which `answers` loses one; returns
/// the report of the sender, which its deadline of a second stops.
fn run_to_the_deadline(answers: Decide) -> SideReport {
    let wire = Lossy::new(|_, _| Impairment::Delivered, answers);
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(300),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: Duration::from_secs(3600),
    };
    let pair = run_pair(&wire, 0, 1, |order| {
        order.workload.kind = kind.clone();
        order.deadline = Duration::from_secs(1);
    });
    let sender = pair.expect("both ends").sender;
    sender.expect("the sender's report")
}

#[test]
fn a_deadline_ends_the_wait_for_an_answer() {
    let report = run_to_the_deadline(|length, number| match (length, number) {
        (16, 1) => Impairment::Lost,
        _ => Impairment::Delivered,
    });
    assert_eq!(report.measurements.metrics["messages_sent"], 2.0);
}

#[test]
fn deadline_ends_the_wait_for_the_last_answer_of_a_finished_end() {
    let report = run_to_the_deadline(|length, number| match (length, number) {
        (16, 2) => Impairment::Lost,
        _ => Impairment::Delivered,
    });
    assert_eq!(report.measurements.metrics["messages_sent"], 3.0);
}

#[test]
fn one_byte_messages_are_distinguished() {
    let wire = Lossy::new(
        |length, _| {
            assert!(length == 1 || length > 16);
            Impairment::Delivered
        },
        |length, number| match (length, number) {
            (16, 100) => Impairment::HeldBack,
            (16, 356) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(400),
        message: Bytes(1),
        pattern: Pattern::Zeros,
        timeout: TIMEOUT,
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    let receiver = pair.receiver.expect("the receiver's report");
    assert_eq!(sender.measurements.metrics["messages_unacknowledged"], 2.0);
    assert_eq!(sender.measurements.metrics["late_answers"], 1.0);
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
    assert_eq!(receiver.measurements.metrics["messages_delivered"], 400.0);
    assert_eq!(receiver.measurements.metrics["messages_duplicated"], 0.0);
}

#[test]
fn unanswered_requests_are_counted_and_block_no_others() {
    let wire = Lossy::new(
        |length, number| match (length, number) {
            (200, 1) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
        |length, number| match (length, number) {
            (50, 3) => Impairment::Lost,
            (50, 5) => Impairment::Doubled,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::RequestResponse {
        requests: 20,
        request: Bytes(200),
        response: Bytes(50),
        arrivals: Arrivals::Closed { outstanding: 4 },
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    let receiver = pair.receiver.expect("the receiver's report");
    assert_eq!(sender.measurements.metrics["messages_sent"], 20.0);
    assert_eq!(sender.measurements.metrics["messages_lost"], 1.0);
    assert_eq!(sender.measurements.metrics["requests_unanswered"], 2.0);
    assert_eq!(receiver.measurements.metrics["messages_delivered"], 19.0);
    // At least a second, as the path is short.
    assert_eq!(sender.measurements.facts["answers.timeout"], "1 s");
    assert!(sender.measurements.metrics["transfer_time_ns"] >= 1e9);
    assert!(sender.measurements.metrics["requests_per_second"] > 0.0);
    assert!(
        sender
            .measurements
            .warnings
            .iter()
            .any(|warning| warning.code == "answers_corrupted"),
        "the doubled answer is told of"
    );
}

#[test]
fn last_answer_of_a_finished_end_is_awaited() {
    let wire = Lossy::new(
        |_, _| Impairment::Delivered,
        |length, number| match (length, number) {
            (16, 2) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(300),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: TIMEOUT,
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    assert_eq!(sender.measurements.metrics["messages_unacknowledged"], 1.0);
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
    assert!(sender.measurements.metrics["transfer_time_ns"] >= TIMEOUT.as_nanos() as f64);
    assert_eq!(sender.measurements.facts["acknowledgement"], "in_band");
}

#[test]
fn counting_after_the_last_answer_is_not_in_the_time() {
    static CONTROLS: AtomicU32 = AtomicU32::new(0);
    let wire = Lossy::new(
        |length, number| match (length, number) {
            (100, 1) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
        // The answer to the opening comes, and no acknowledgement: the sender waits longer than a timeout for the count
        // of the receiver.
        |length, _| match length {
            16 => Impairment::Delivered,
            _ if CONTROLS.fetch_add(1, Ordering::Relaxed) == 0 => Impairment::Delivered,
            _ => Impairment::Lost,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(300),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: TIMEOUT,
    };
    let sender = run(&wire, &kind).sender.expect("the sender's report");
    assert!(CONTROLS.load(Ordering::Relaxed) > 1);
    let time_ns = sender.measurements.metrics["transfer_time_ns"];
    assert!(
        time_ns < 2.0 * TIMEOUT.as_nanos() as f64,
        "{time_ns} ns with one timeout"
    );
}

#[test]
fn messages_queued_in_the_transport_at_the_deadline_are_not_lost() {
    const DELIVERED: u64 = 1020;
    let wire = Lossy::new(
        |length, number| match (length, number) {
            (100, 10) => Impairment::Lost,
            (100, DELIVERED..) => Impairment::Queued,
            _ => Impairment::Delivered,
        },
        |_, _| Impairment::Delivered,
    );
    // Many times as long as the messages take that are delivered.
    let pair = run_pair(&wire, 1 << 30, 100, |order| {
        order.deadline = Duration::from_secs(3);
    });
    let pair = pair.expect("both ends");
    let sender = pair.sender.expect("the sender's report");
    let receiver = pair.receiver.expect("the receiver's report");
    assert_eq!(
        receiver.measurements.metrics["messages_delivered"],
        (DELIVERED - 1) as f64
    );
    // Those that leave late arrive, and those that never leave are not lost.
    assert_eq!(sender.measurements.metrics["messages_lost"], 1.0);
    assert_eq!(
        sender.measurements.facts["messages_given_up.sender"],
        (QUEUED - LEAVE).to_string()
    );
}

#[test]
fn ambiguous_messages_and_files_are_unsupported() {
    let request_response = |request, response| WorkloadKind::RequestResponse {
        requests: 10,
        request: Bytes(request),
        response: Bytes(response),
        arrivals: Arrivals::Closed { outstanding: 1 },
    };
    let too_short = "choose `request` and `response` of at least 4 B";
    for (kind, hint) in [
        (request_response(3, 100), too_short),
        (request_response(100, 1), too_short),
        (
            request_response(100, 1001),
            "choose a message of at most 1000 B",
        ),
        (
            WorkloadKind::StopAndWait {
                size: Bytes(100),
                message: Bytes(10),
                pattern: Pattern::File,
                timeout: TIMEOUT,
            },
            "write `pattern = \"random\"`, or `kind = \"bulk\"`",
        ),
    ] {
        let wire = Lossy::new(|_, _| Impairment::Delivered, |_, _| Impairment::Delivered);
        let refused = run_pair(&wire, 0, 1, |order| order.workload.kind = kind.clone());
        match refused {
            Err(error @ TransportError::Unsupported(_)) => assert_eq!(error.hint(), hint),
            _ => panic!("{} was not refused", kind.description()),
        }
    }
}

#[test]
fn message_overtaken_by_the_end_marker_is_lost_only_if_unreliable() {
    for (reliable, lost) in [(true, 0.0), (false, 1.0)] {
        let mut wire = Lossy::new(
            |length, number| match (length, number) {
                (100, 9) => Impairment::Overtaken,
                _ => Impairment::Delivered,
            },
            |_, _| Impairment::Delivered,
        );
        wire.reliable = reliable;
        let pair = run_pair(&wire, 1000, 100, |_| {}).expect("both ends can be prepared");
        let sender = pair.sender.expect("the sender's report");
        assert_eq!(
            sender.measurements.metrics["messages_lost"], lost,
            "reliable: {reliable}"
        );
    }
}
