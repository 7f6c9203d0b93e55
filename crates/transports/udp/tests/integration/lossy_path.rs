//! The end of a transfer over a path that delays and loses: a relay on loopback between the ends.
//!
//! Upper bounds on time are wide, as the machine may be busy; they stand for "it does not wait for
//! a lost datagram", which would take the deadline's 20 seconds.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use regatta_control::{ProblemKind, Role, SideReport, TrialOrder};
use regatta_model::{Bytes, OptionValue, Pattern, WorkloadKind};
use regatta_transport::{Driver, TransportError, testing};

use crate::common::{Direction, Relay};

fn udp() -> &'static dyn Driver {
    regatta_transport_udp::drivers()[0]
}

const ONE_WAY: Duration = Duration::from_millis(15);

/// Maximum delay that the relay may add on a busy machine.
const RELAY_LATENESS: Duration = Duration::from_millis(100);

/// Sends 300 kB in messages of 1000 bytes at 8 Mbit/s (0.3 s) over the relay.
fn run(forward: Direction, reverse: Direction, keeps_order: bool) -> (SideReport, SideReport, u64) {
    let (sender, receiver, lost) = run_changed(forward, reverse, |order| {
        order.path.keeps_order = keeps_order;
    });
    let sender = sender.expect("a sender's report");
    (sender, receiver.expect("a receiver's report"), lost)
}

/// Like [`run`], with other orders, which may be such that there is no report.
fn run_changed(
    forward: Direction,
    reverse: Direction,
    change: impl Fn(&mut TrialOrder),
) -> (
    Result<SideReport, TransportError>,
    Result<SideReport, TransportError>,
    u64,
) {
    let order = |role| {
        let mut order = testing::order_for(role, "udp", 300_000, 1000);
        order.path.round_trip_delay = 2 * ONE_WAY;
        order.path.longest_one_way = ONE_WAY + RELAY_LATENESS;
        order.path.mtu_bytes = 1500;
        let rate = OptionValue::Text("8Mbit/s".to_owned());
        order.transport.options.insert("rate".to_owned(), rate);
        order.workload.probe.idle_messages = 3;
        order.workload.probe.under_load = true;
        change(&mut order);
        order
    };
    let (sender_context, sender_seen) = testing::trial_context();
    let (receiver_context, receiver_seen) = testing::trial_context();
    sender_seen.connect(&receiver_context.peer);
    receiver_seen.connect(&sender_context.peer);
    let receiver_stop = receiver_context.stop.clone();
    let receiver = udp()
        .session(&order(Role::Receiver), receiver_context)
        .expect("a receiver");
    let listens = receiver.listen_address().expect("an address");
    let relay = Relay::new(listens, forward, reverse);
    let sender = udp()
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
    (sender, receiver, relay.lost.load(Ordering::Relaxed))
}

/// Checks the bounds of the transfer time: the opening takes a round trip, sending 0.3 s.
fn check_time(sender: &SideReport, most: Duration) {
    let time = Duration::from_nanos(sender.measurements.metrics["transfer_time_ns"] as u64);
    assert!(time >= Duration::from_millis(300 + 30), "{time:?}");
    assert!(time < most, "{time:?}");
}

/// Runs a transfer that the deadline stops, 200 ms of it being in flight then.
fn run_to_the_deadline(loss: f64) -> (SideReport, SideReport) {
    let there = Direction {
        delay: Duration::from_millis(200),
        loss,
    };
    let back = Direction { loss: 0.0, ..there };
    let (sender, receiver, _) = run_changed(there, back, |order| {
        order.deadline = Duration::from_millis(1200);
        order.path.round_trip_delay = 2 * there.delay;
        order.path.longest_one_way = there.delay + RELAY_LATENESS;
        order.workload.kind = WorkloadKind::Bulk {
            amount: Bytes(1 << 40).into(),
            message: Bytes(1000),
            pattern: Pattern::Data,
            options: regatta_model::BulkOptions::default(),
        };
    });
    (sender.expect("a report"), receiver.expect("a report"))
}

#[test]
fn messages_in_flight_at_the_deadline_are_not_lost() {
    let (sender, receiver) = run_to_the_deadline(0.0);
    let sent = sender.measurements.metrics["messages_sent"];
    // A message a millisecond from the opening on, which takes 400 ms and is no part of the deadline.
    assert!(sent <= 1210.0, "{sent}");
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
    assert_eq!(sender.measurements.metrics["message_loss_ratio"], 0.0);
    // It was not delivered in time either: 200 ms of it, less what arrives until a busy receiver has the note.
    let delivered = receiver.measurements.metrics["messages_delivered"];
    assert!(delivered <= sent - 50.0, "{delivered} of {sent}");
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"],
        delivered * 1000.0
    );
}

#[test]
fn messages_dropped_before_the_deadline_are_lost() {
    let (sender, _) = run_to_the_deadline(0.2);
    // The openings may be lost and cost time, so the number that is sent varies.
    let ratio = sender.measurements.metrics["message_loss_ratio"];
    // From 300 messages on 0.1 is more than four standard deviations.
    assert!((0.1..0.35).contains(&ratio), "{ratio}");
}

/// Transfers that may take no longer than sending does: nothing is waited for.
mod real_time {
    use super::*;

    #[test]
    fn lossless_path_has_no_waits_and_no_losses() {
        let clear = Direction {
            delay: ONE_WAY,
            loss: 0.0,
        };
        let (sender, receiver, _) = run(clear, clear, true);
        check_time(&sender, Duration::from_secs(2));
        assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
        assert_eq!(sender.measurements.facts["acknowledgement"], "in_band");
        assert!(sender.measurements.metrics["set_up_time_mean_ns"] >= 30e6);
        assert!(sender.measurements.metrics["round_trip_delay_idle_p50_ns"] >= 30e6);
        assert!(sender.measurements.metrics["round_trip_delay_mean_ns"] >= 30e6);
        assert!(receiver.measurements.metrics["one_way_delay_p50_ns"] >= 15e6);
    }

    regatta_test_contract::test_cases! { lost_messages_are_counted_and_not_waited_for:
        on_a_path_that_keeps_the_order(true, "none")
        on_a_path_that_reorders(false, "none")
        framed(true, "conn")
    }

    fn lost_messages_are_counted_and_not_waited_for(keeps_order: bool, frame: &str) {
        let lossy = Direction {
            delay: ONE_WAY,
            loss: 0.2,
        };
        let (sender, receiver, lost) = run_changed(lossy, lossy, |order| {
            order.path.keeps_order = keeps_order;
            let frame = ("frame".to_owned(), OptionValue::Text(frame.to_owned()));
            order.transport.options.extend([frame]);
        });
        let (sender, receiver) = (sender.expect("a report"), receiver.expect("one"));
        check_time(&sender, Duration::from_secs(3));
        assert_eq!(sender.measurements.metrics["messages_sent"], 300.0);
        let delivered = receiver.measurements.metrics["messages_delivered"];
        assert_eq!(
            sender.measurements.metrics["messages_lost"],
            300.0 - delivered
        );
        // The relay loses openings, probes and markers as well.
        assert!((1.0..=lost as f64).contains(&sender.measurements.metrics["messages_lost"]));
        assert_eq!(receiver.measurements.metrics["messages_duplicated"], 0.0);
        assert_eq!(receiver.measurements.metrics["messages_reordered"], 0.0);
        assert_eq!(
            receiver.measurements.metrics["bytes_delivered"],
            delivered * 1000.0
        );
    }

    regatta_test_contract::test_cases! { a_path_that_loses_everything_times_out:
        with_probes(true)
        without_probes(false)
    }

    fn a_path_that_loses_everything_times_out(probes: bool) {
        let dead = Direction {
            delay: ONE_WAY,
            loss: 1.0,
        };
        let begun = Instant::now();
        let (sender, ..) = run_changed(dead, dead, |order| {
            order.connect_deadline = Duration::from_millis(500);
            if !probes {
                order.workload.probe.idle_messages = 0;
                order.workload.probe.under_load = false;
            }
        });
        let error = sender.expect_err("there was no connection");
        assert_eq!(error.kind(), ProblemKind::TimedOut);
        assert_eq!(error.to_string(), "no connection within 500 ms");
        assert!(error.hint().contains("deadline"), "{}", error.hint());
        assert!(begun.elapsed() < Duration::from_secs(4));
    }
}
