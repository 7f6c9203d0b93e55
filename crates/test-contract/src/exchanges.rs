//! Clauses of the contract for messages that the other end answers: `stop-and-wait` and
//! `request-response`.

use std::time::{Duration, Instant};

use regatta_control::{SideReport, TrialOrder};
use regatta_model::{Arrivals, Bytes, Pattern, WorkloadKind};
use regatta_transport::{
    Carries, Driver,
    testing::{Pair, run_pair_stopped},
};

use crate::contract::{
    check_absent, check_delivery, check_edges, check_goodput, check_warning, check_within,
    connected_time, metric, name, pair, wait_for_data,
};

fn stop_and_wait(size: u64, message: u64) -> WorkloadKind {
    WorkloadKind::StopAndWait {
        size: Bytes(size),
        message: Bytes(message),
        pattern: Pattern::Random,
        // Longer than a busy machine holds a process up.
        timeout: Duration::from_secs(5),
    }
}

fn request_response(
    requests: u64,
    request: u64,
    response: u64,
    arrivals: Arrivals,
) -> WorkloadKind {
    WorkloadKind::RequestResponse {
        requests,
        request: Bytes(request),
        response: Bytes(response),
        arrivals,
    }
}

fn run(driver: &dyn Driver, kind: &WorkloadKind) -> (SideReport, SideReport, Pair) {
    let (sender, receiver, pair) = pair(driver, 0, 1, |order: &mut TrialOrder| {
        order.workload.kind = kind.clone();
    });
    check_edges(&pair, &what(driver, kind));
    (sender, receiver, pair)
}

fn what(driver: &dyn Driver, kind: &WorkloadKind) -> String {
    format!("{} with {}", name(driver), kind.description())
}

/// All messages came, each was answered, and their delays are in order.
fn check(sender: &SideReport, receiver: &SideReport, (count, size): (u64, u64), what: &str) {
    check_delivery(sender, receiver, (count as f64, size as f64), what);
    let time = metric(sender, "transfer_time_ns");
    let set_up = metric(sender, "set_up_time_mean_ns");
    assert!(set_up > 0.0 && set_up <= time, "{what}");
    let mut histograms = sender.measurements.histograms.iter();
    let histogram = histograms.find(|found| found.name == "message_delay_ns");
    assert_eq!(histogram.is_some(), count > 0, "{what}");
    if count > 0 {
        let quantiles =
            ["p50", "p95", "max"].map(|it| metric(sender, &format!("message_delay_{it}_ns")));
        assert!(quantiles.is_sorted(), "{what}: {quantiles:?}");
        assert!(quantiles[0] > 0.0, "{what}");
        assert!(
            metric(sender, "message_delay_mean_ns") <= quantiles[2],
            "{what}"
        );
    }
}

/// Messages of one byte, of a header's length and about it, of a packet; last ones shorter.
pub fn stop_and_wait_has_each_message_acknowledged(driver: &dyn Driver, size: u64, message: u64) {
    let kind = stop_and_wait(size, message);
    let what = what(driver, &kind);
    let (sender, receiver, _) = run(driver, &kind);
    check(&sender, &receiver, (size.div_ceil(message), size), &what);
    // One after another: their delays fit into the whole.
    let metrics = &sender.measurements.metrics;
    let delays = metrics.get("message_delay_mean_ns").unwrap_or(&0.0);
    let time = metric(&sender, "transfer_time_ns") - metric(&sender, "set_up_time_mean_ns");
    assert!(delays * size.div_ceil(message) as f64 <= time, "{what}");
    check_goodput(&sender, size as f64, &what);
    let lossy = driver.descriptor().carries == Carries::Messages;
    if let Some(late) = metrics.get("late_answers") {
        assert!(lossy && *late == 0.0, "{what}");
        assert_eq!(metric(&sender, "messages_unacknowledged"), 0.0, "{what}");
    }
}

/// Answers smaller and larger than their requests, one and several under way.
pub fn requests_have_their_answers(
    driver: &dyn Driver,
    requests: u64,
    request: u64,
    response: u64,
    outstanding: u32,
) {
    let closed = Arrivals::Closed { outstanding };
    let kind = request_response(requests, request, response, closed);
    let what = what(driver, &kind);
    let (sender, receiver, _) = run(driver, &kind);
    check(&sender, &receiver, (requests, requests * request), &what);
    assert_eq!(metric(&sender, "requests_unanswered"), 0.0, "{what}");
    let rate = metric(&sender, "requests_per_second");
    let most = requests as f64 * 1e9 / (metric(&sender, "message_delay_max_ns")).max(1.0);
    assert!(rate > 0.0 && rate <= most, "{what}: {rate}");
    check_absent(&sender, &["request_rate_ratio"], &what);
    for end in [&sender, &receiver] {
        check_absent(end, &["goodput_bps", "receiver_goodput_bps"], &what);
    }
}

/// Requests leave on their schedule, not when an answer has come.
pub fn requests_keep_their_rate(driver: &dyn Driver) {
    let at_a_rate = Arrivals::Open {
        requests_per_second: 1000.0,
    };
    let kind = request_response(200, 100, 500, at_a_rate);
    let what = what(driver, &kind);
    let (sender, receiver, _) = run(driver, &kind);
    check(&sender, &receiver, (200, 20_000), &what);
    // The last one leaves 199 ms after the first: not earlier, whatever the transport does.
    assert!(metric(&sender, "transfer_time_ns") >= 199e6, "{what}");
    // A first departure that was late makes the others come closer after it.
    let ratio = metric(&sender, "request_rate_ratio");
    assert!((0.2..1.2).contains(&ratio), "{what}: {ratio}");
    let rate = metric(&sender, "requests_per_second");
    assert!((200.0..=1006.0).contains(&rate), "{what}: {rate}");
}

/// Has more under way in each direction than both ends of a reliable transport can hold, and yet neither
/// waits for the other for ever.
pub fn neither_end_blocks_the_other(driver: &dyn Driver) {
    let closed = Arrivals::Closed { outstanding: 100 };
    let kind = request_response(100, 60_000, 60_000, closed);
    let what = what(driver, &kind);
    let (sender, receiver, _) = run(driver, &kind);
    check(&sender, &receiver, (100, 6_000_000), &what);
    check_warning(&sender, "requests_held_back", &what);
}

/// An exchange that takes too long is measured on what was answered by its deadline.
pub fn the_deadline_ends_an_exchange(driver: &dyn Driver) {
    let kind = request_response(10_000_000, 100, 100, Arrivals::Closed { outstanding: 4 });
    let what = what(driver, &kind);
    let begun = Instant::now();
    let (sender, receiver, _) = pair(driver, 0, 1, |order: &mut TrialOrder| {
        order.workload.kind = kind.clone();
        order.deadline = Duration::from_millis(300);
    });
    check_within(begun, 5.0, &what);
    assert_eq!(connected_time(&sender), 300e6, "{what}");
    let delivered = metric(&receiver, "messages_delivered");
    assert!(delivered > 0.0, "{what}");
    assert!(metric(&sender, "messages_sent") >= delivered, "{what}");
    assert!(metric(&sender, "requests_unanswered") <= 5.0, "{what}");
    check_warning(&sender, "deadline_reached", &what);
}

/// The host can end an exchange at any time.
pub fn an_abort_ends_an_exchange(driver: &dyn Driver) {
    let slow = Arrivals::Open {
        requests_per_second: 100.0,
    };
    let kind = request_response(1_000_000, 100, 100, slow);
    let change = |order: &mut TrialOrder| order.workload.kind = kind.clone();
    run_pair_stopped(driver, 0, 1, change, wait_for_data);
}
