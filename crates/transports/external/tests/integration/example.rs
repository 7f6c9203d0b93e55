//! The commented example, checked for everything that a reader of results relies on, over loopback.

use std::{
    io::Write as _,
    mem,
    net::TcpStream,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use nix::{
    libc::linger,
    sys::socket::{setsockopt, sockopt::Linger},
};
use regatta_control::{Role, TrialOrder};
use regatta_model::{OptionValue, Pattern, WorkloadKind};
use regatta_test_contract::{contract, exchanges};
use regatta_transport::{
    ClientSession, Driver, DriverDescriptor, ServerSession, TransportError, TrialContext,
    WindowEdge,
    testing::{Pair, run_pair, run_pair_stopped, run_pair_then},
};

use crate::common::{Example, example, external, with_program};

fn race(size: u64, message: u64, change: impl Fn(&mut TrialOrder)) -> Pair {
    run_pair(external(), size, message, |order| {
        with_program(order, &example());
        change(order);
    })
    .unwrap_or_else(|error| panic!("{}", error.reasons().join(": ")))
}

regatta_test_contract::test_cases! { every_size_and_pattern_is_delivered:
    size_0_message_1(0, 1, Pattern::Data)
    size_1_message_1(1, 1, Pattern::Data)
    size_500_message_1_zeros(500, 1, Pattern::Zeros)
    size_100003_message_1400(100_003, 1400, Pattern::Data)
    size_20000000_message_65507_random(20_000_000, 65_507, Pattern::Random)
}

fn every_size_and_pattern_is_delivered(size: u64, message: u64, pattern: Pattern) {
    let pair = race(size, message, |order| {
        if let WorkloadKind::Bulk {
            pattern: filled, ..
        } = &mut order.workload.kind
        {
            *filled = pattern;
        }
    });
    let what = format!("{size} bytes in messages of {message}");
    let sender = pair
        .sender
        .unwrap_or_else(|e| panic!("{what}: {:?}", e.reasons()));
    let receiver = pair
        .receiver
        .unwrap_or_else(|e| panic!("{what}: {:?}", e.reasons()));
    let count = size.div_ceil(message) as f64;
    assert_eq!(
        sender.measurements.metrics["bytes_sent"], size as f64,
        "{what}"
    );
    assert_eq!(
        sender.measurements.metrics["messages_sent"], count,
        "{what}"
    );
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"], size as f64,
        "{what}"
    );
    assert_eq!(
        receiver.measurements.metrics["messages_delivered"], count,
        "{what}"
    );
    let time = sender.measurements.metrics["transfer_time_ns"];
    let set_up = sender.measurements.metrics["set_up_time_mean_ns"];
    assert!(0.0 < set_up && set_up <= time, "{what}: {set_up} of {time}");
    assert_eq!(
        sender.measurements.metrics["goodput_bps"],
        size as f64 * 8e9 / time
    );
    assert_eq!(
        sender.measurements.facts["congestion_control.sender"],
        "cubic"
    );
    assert_eq!(
        receiver.measurements.facts["congestion_control.receiver"],
        "cubic"
    );
    assert!(sender.measurements.facts["external.sender"].starts_with("python-socket "));
    assert_eq!(
        receiver.measurements.facts["external.times.receiver"],
        "the program's"
    );
    assert_eq!(sender.measurements.warnings, [], "{what}");
    for seen in [&pair.sender_seen, &pair.receiver_seen] {
        assert_eq!(seen.edges(), [WindowEdge::Start, WindowEdge::End], "{what}");
    }
}

regatta_test_contract::test_cases! { each_message_is_acknowledged:
    size_0_message_1(0, 1)
    size_300_message_1(300, 1)
    size_163_message_17(163, 17)
    size_20500_message_1000(20_500, 1000)
}

fn each_message_is_acknowledged(size: u64, message: u64) {
    exchanges::stop_and_wait_has_each_message_acknowledged(&Example, size, message);
}

regatta_test_contract::test_cases! { requests_have_their_answers:
    small_requests_one_at_a_time(100, 100, 1000, 1)
    small_responses_16_outstanding(300, 1000, 100, 16)
}

fn requests_have_their_answers(requests: u64, request: u64, response: u64, outstanding: u32) {
    exchanges::requests_have_their_answers(&Example, requests, request, response, outstanding);
}

#[test]
fn requests_keep_their_rate() {
    exchanges::requests_keep_their_rate(&Example);
}

#[test]
fn neither_end_blocks_the_other() {
    exchanges::neither_end_blocks_the_other(&Example);
}

#[test]
fn the_deadline_ends_an_exchange() {
    exchanges::the_deadline_ends_an_exchange(&Example);
}

#[test]
fn probes_are_answered() {
    contract::probes_are_answered(&Example);
}

/// Both ends of the example know what TCP sends again of the probe.
#[test]
fn retransmissions_of_the_probe_are_reported() {
    let pair = race(1_000_000, 10_000, |order| {
        order.workload.probe.under_load = true;
        order.workload.probe.interval = Duration::from_millis(1);
    });
    for end in [pair.sender, pair.receiver] {
        let measured = end
            .unwrap_or_else(|error| panic!("{:?}", error.reasons()))
            .measurements;
        let facts = &measured.facts;
        assert!(
            measured.metrics.contains_key("probe_packets_retransmitted"),
            "{facts:?}"
        );
    }
}

/// Bytes of a transfer that cannot end by itself.
const ENDLESS: u64 = 40_000_000_000_000;

#[test]
fn the_deadline_is_kept_and_measured_on_what_was_delivered() {
    // A program that goes on is no report: the trial fails when it has not stopped within 5 s.
    let pair = race(ENDLESS, 10_000, |order| {
        order.deadline = Duration::from_millis(400);
    });
    // A receiver that fails is why its sender has no answer.
    let (Ok(sender), Ok(receiver)) = (&pair.sender, &pair.receiver) else {
        panic!("{:?} {:?}", pair.sender.err(), pair.receiver.err());
    };
    let delivered = receiver.measurements.metrics["bytes_delivered"];
    assert!(delivered > 0.0);
    let time = sender.measurements.metrics["transfer_time_ns"];
    assert_eq!(
        time - sender.measurements.metrics["set_up_time_mean_ns"],
        400e6
    );
    assert_eq!(
        sender.measurements.metrics["goodput_bps"],
        delivered * 8e9 / time
    );
    assert_eq!(sender.measurements.facts["acknowledgement"], "control");
    assert_eq!(sender.measurements.warnings[0].code, "deadline_reached");
}

#[test]
fn an_abort_ends_both_ends_within_a_second() {
    run_pair_stopped(
        external(),
        ENDLESS,
        10_000,
        |order| with_program(order, &example()),
        |receiver| {
            let begun = Instant::now();
            while receiver.live.bytes_delivered.load(Ordering::Relaxed) == 0 {
                assert!(begun.elapsed() < Duration::from_secs(10), "nothing arrives");
                thread::sleep(Duration::from_millis(1));
            }
        },
    );
}

#[test]
fn a_wrong_token_delivers_nothing() {
    let pair = run_pair_then(
        external(),
        1000,
        1000,
        |order| {
            with_program(order, &example());
            order.deadline = Duration::from_millis(500);
            if order.role == Role::Sender {
                order.token = "00".repeat(16);
            }
        },
        |receiver| {
            // What is still under way would have arrived by then.
            thread::sleep(Duration::from_millis(100));
            assert_eq!(receiver.live.bytes_delivered.load(Ordering::Relaxed), 0);
            receiver.stop.stop();
        },
    )
    .expect("both ends are ready");
    assert!(pair.sender.is_err() && pair.receiver.is_err());
}

/// The example, to whose listening end others at the sender's address connect before the sender.
#[derive(Debug)]
struct Disturbed;

impl Driver for Disturbed {
    fn descriptor(&self) -> &'static DriverDescriptor {
        Example.descriptor()
    }

    fn client(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ClientSession>, TransportError> {
        Example.client(order, context)
    }

    fn server(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ServerSession>, TransportError> {
        let session = Example.server(order, context)?;
        for greeting in [&b""[..], b"GET", b"0123456789abcdef"].repeat(100) {
            let connect = || TcpStream::connect(session.address()).expect("a connection");
            let reset = connect();
            setsockopt(
                &reset,
                Linger,
                &linger {
                    l_onoff: 1,
                    l_linger: 0,
                },
            )
            .expect("an option");
            drop(reset);
            let mut stranger = connect();
            stranger.write_all(greeting).expect("sent");
            mem::forget(stranger);
        }
        Ok(session)
    }
}

#[test]
fn strangers_neither_end_nor_delay_the_example() {
    let pair = run_pair(&Disturbed, 100_000, 1000, |_| {}).expect("both ends are ready");
    let receiver = pair
        .receiver
        .unwrap_or_else(|e| panic!("{:?}", e.reasons()));
    assert_eq!(receiver.measurements.metrics["bytes_delivered"], 100_000.0);
    assert!(pair.sender.is_ok(), "{:?}", pair.sender);
}

#[test]
fn a_congestion_control_that_the_host_lacks_is_unsupported() {
    let error = run_pair(external(), 1000, 1000, |order| {
        with_program(order, &example());
        let cc = OptionValue::Text("no-such-cc".to_owned());
        order.transport.options.insert("cc".to_owned(), cc);
    })
    .err()
    .expect("no such congestion control");
    assert!(matches!(error, TransportError::Unsupported(_)), "{error:?}");
    assert!(
        error
            .to_string()
            .starts_with("no congestion control `no-such-cc` here"),
        "{error}"
    );
}
