//! `udp-reliable` over a path that delays and loses: a relay on loopback between the ends.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use regatta_control::{ProblemKind, Role, SideReport, TrialOrder};
use regatta_model::OptionValue;
use regatta_transport::{Driver, ProtocolSample, TransportError, testing};

use crate::common::{Direction, Relay};

fn reliable() -> &'static dyn Driver {
    regatta_transport_udp::drivers()[1]
}

fn text(value: &str) -> OptionValue {
    OptionValue::Text(value.to_owned())
}

const ONE_WAY: Duration = Duration::from_millis(10);

/// Result of a transfer over the relay.
struct Run {
    sender: Result<SideReport, TransportError>,
    receiver: Result<SideReport, TransportError>,
    /// Datagrams that the relay lost towards the receiver.
    lost: u64,
}

/// Sends `messages` messages of 1000 bytes over a relay that loses the ratio `loss` of them each
/// way.
fn run(messages: u64, loss: f64, change: impl Fn(&mut TrialOrder)) -> Run {
    let order = |role| {
        let mut order = testing::order_for(role, "udp-reliable", messages * 1000, 1000);
        order.path.round_trip_delay = 2 * ONE_WAY;
        order.path.longest_one_way = 2 * ONE_WAY;
        order.path.mtu_bytes = 1500;
        change(&mut order);
        order
    };
    let (sender_context, sender_seen) = testing::trial_context();
    let (receiver_context, receiver_seen) = testing::trial_context();
    sender_seen.connect(&receiver_context.peer);
    receiver_seen.connect(&sender_context.peer);
    let receiver_stop = receiver_context.stop.clone();
    let receiver = reliable()
        .session(&order(Role::Receiver), receiver_context)
        .expect("a receiver");
    let listens = receiver.listen_address().expect("an address");
    let direction = Direction {
        delay: ONE_WAY,
        loss,
    };
    let relay = Relay::new(listens, direction, direction);
    let sender = reliable()
        .session(&order(Role::Sender), sender_context)
        .expect("a sender");
    let address = relay.address;
    let (sender, receiver) = thread::scope(|scope| {
        let receiver = scope.spawn(|| receiver.run(None));
        let sender = sender.run(Some(address));
        if sender.is_err() {
            // As the engine does, which aborts the other end.
            receiver_stop.stop();
        }
        (sender, receiver.join().expect("no panic"))
    });
    Run {
        sender,
        receiver,
        lost: relay.lost.load(Ordering::Relaxed),
    }
}

fn time(report: &SideReport) -> Duration {
    Duration::from_nanos(report.measurements.metrics["transfer_time_ns"] as u64)
}

#[test]
fn stop_and_wait_delivers_everything_and_each_loss_costs_a_wait() {
    let wait = Duration::from_millis(80);
    let done = run(60, 0.1, |order| {
        let rto_max = ("rto_max".to_owned(), text("80ms"));
        order.transport.options.extend([rto_max]);
    });
    let (sender, receiver) = (done.sender.expect("a report"), done.receiver.expect("one"));
    assert_eq!(receiver.measurements.metrics["bytes_delivered"], 60_000.0);
    assert_eq!(receiver.measurements.metrics["messages_corrupted"], 0.0);
    let again = sender.measurements.metrics["retransmitted_packets"];
    // About one message or acknowledgement in five is lost, by the seed; a busy machine may make
    // it send more often than it had to.
    assert!(again >= 5.0, "{again}");
    assert!(done.lost >= 1);
    let least = 2 * ONE_WAY * 61 + wait.mul_f64(again - 1.0);
    assert!(time(&sender) >= least, "{:?}", time(&sender));
}

#[test]
fn giving_up_fails_with_its_reason() {
    // Six of ten datagrams are lost each way, so 84 % of the exchanges fail: three copies of each
    // message are not enough.
    let begun = Instant::now();
    let done = run(50, 0.6, |order| {
        let rto_max = ("rto_max".to_owned(), text("50ms"));
        let most = ("max_retransmits".to_owned(), OptionValue::Number(2));
        order.transport.options.extend([rto_max, most]);
    });
    let error = done.sender.expect_err("it gives up");
    assert!(begun.elapsed() < Duration::from_secs(10));
    match error.kind() {
        ProblemKind::Failed => assert_eq!(
            error.to_string(),
            "gave up: a message had no acknowledgement after 2 retransmissions"
        ),
        kind => panic!("{kind:?}: {error}"),
    }
    assert!(done.receiver.is_err());
}

#[test]
fn unanswered_conn_times_out() {
    let done = run(1, 1.0, |order| {
        let rto_max = ("rto_max".to_owned(), text("20ms"));
        order.transport.options.extend([rto_max]);
    });
    let error = done.sender.expect_err("nobody answers");
    assert_eq!(error.kind(), ProblemKind::TimedOut);
    assert_eq!(error.to_string(), "no answer to 16 CONN within 300 ms");
}

#[test]
fn protocol_state_is_sampled() {
    let pair = testing::run_pair(reliable(), 1_000_000, 1000, |order| {
        let window = ("window_messages".to_owned(), OptionValue::Number(32));
        order.transport.options.extend([window]);
    })
    .expect("both ends can be prepared");
    let sender = pair.sender.expect("a report");
    let sample: ProtocolSample = pair.sender_seen.samples()[0];
    assert!(sample.smoothed_rtt.is_some(), "CONN has been answered");
    assert!(sample.congestion_window_bytes.is_some());
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
    let last = *pair.sender_seen.samples().last().expect("a sample");
    assert!(last.congestion_window_bytes >= Some(10 * 1021), "{last:?}");
    assert!(last.smoothed_rtt > Some(Duration::ZERO), "{last:?}");
}

/// Transfers that may take no longer than a window, or one round trip for each message, lets them.
mod real_time {
    use super::*;

    #[test]
    fn transfer_time_runs_from_conn_to_rcvd_with_a_round_trip_per_message() {
        let done = run(16, 0.0, |_| {});
        let sender = done.sender.expect("a report");
        let set_up =
            Duration::from_nanos(sender.measurements.metrics["set_up_time_mean_ns"] as u64);
        // One round trip for CONN and CONACC; one for each message but the last, whose arrival lets
        // RCVD leave together with its acknowledgement.
        assert!(set_up >= 2 * ONE_WAY, "{set_up:?}");
        assert!(
            time(&sender) >= 2 * ONE_WAY * (1 + 16),
            "{:?}",
            time(&sender)
        );
        // No round trip more, on a machine that may be busy: the flow's opening takes none.
        assert!(time(&sender) < 2 * ONE_WAY * 17 * 2, "{:?}", time(&sender));
        assert_eq!(sender.measurements.metrics["retransmitted_packets"], 0.0);
        assert_eq!(
            sender.measurements.facts["congestion_control.sender"],
            "none"
        );
        let receiver = done.receiver.expect("a report");
        assert_eq!(receiver.measurements.metrics["bytes_delivered"], 16_000.0);
    }

    regatta_test_contract::test_cases! { a_window_delivers_everything_and_is_faster:
        cubic("cubic", 0.05)
        no_congestion_control("none", 0.05)
        cubic_without_loss("cubic", 0.0)
    }

    fn a_window_delivers_everything_and_is_faster(cc: &str, loss: f64) {
        // 300 messages one after another would take six seconds, and 5 % loss a second for each.
        let done = run(300, loss, |order| {
            let window = ("window_messages".to_owned(), OptionValue::Number(64));
            let cc = ("cc".to_owned(), text(cc));
            order.transport.options.extend([window, cc]);
        });
        let (sender, receiver) = (done.sender.expect("a report"), done.receiver.expect("one"));
        assert_eq!(
            receiver.measurements.metrics["bytes_delivered"], 300_000.0,
            "{cc}"
        );
        assert_eq!(sender.measurements.facts["congestion_control.sender"], cc);
        assert_eq!(sender.measurements.facts["window_messages.sender"], "64");
        assert!(
            time(&sender) < Duration::from_secs(4),
            "{cc} {loss}: {:?}",
            time(&sender)
        );
        let again = sender.measurements.metrics["retransmitted_packets"];
        assert!(loss == 0.0 || again >= 5.0, "{cc}: {again}");
        assert!(sender.measurements.metrics["min_rtt_ns"] >= 20e6);
    }
}
