//! Path that loses, duplicates, delays and repeats packets, and packets that are not SCTP.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use regatta_control::{Role, SideReport, TrialOrder};
use regatta_model::OptionValue;
use regatta_transport::{Driver, Stop, TransportError, testing};

const SIZE: u64 = 400_000;
const MESSAGE: u64 = 9000;

/// Type of the chunk ABORT (RFC 9260 §3.2).
const ABORT: u8 = 6;

fn driver() -> &'static dyn Driver {
    *regatta_transport_sctp::drivers()
        .iter()
        .find(|driver| driver.descriptor().name == "sctp-userspace")
        .expect("the driver is registered")
}

fn order(role: Role, ordered: bool) -> TrialOrder {
    let mut order = testing::order_for(role, driver().descriptor().name, SIZE, MESSAGE);
    order.path.mtu_bytes = 1500;
    let options = &mut order.transport.options;
    options.insert("ordered".to_owned(), OptionValue::Flag(ordered));
    for name in ["rto_initial", "rto_min"] {
        options.insert(name.to_owned(), OptionValue::Text("50ms".to_owned()));
    }
    order
}

/// Impairments of the relay, in both directions; probabilities in parts per thousand.
#[derive(Clone, Copy, Default)]
struct Impairment {
    lost: u32,
    duplicated: u32,
    late: u32,
    /// Number of packets after which the first one is repeated.
    first_again_after: Option<u32>,
    /// Interval, in packets, at which a packet that is not SCTP is inserted.
    noise_after: Option<u32>,
    /// Number of packets after which nothing is delivered.
    dead_after: Option<u32>,
    /// Number of packets after which only an ABORT comes back to the client.
    silent_after: Option<u32>,
}

/// Pseudorandom numbers, the same in every run (Numerical Recipes' generator).
struct Draws(u32);

impl Draws {
    fn permille(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % 1000
    }
}

/// Relays packets between the client that sends to `socket` and `to`, on one thread, until `over`.
fn relay(socket: &UdpSocket, to: SocketAddr, impairment: Impairment, over: &AtomicBool) {
    let (mut draws, mut client, mut count) = (Draws(1), None, 0);
    let mut held: Option<(Vec<u8>, SocketAddr)> = None;
    let mut first: Option<Vec<u8>> = None;
    let mut buffer = [0; 2048];
    socket
        .set_read_timeout(Some(Duration::from_millis(5)))
        .expect("a time limit");
    // Packets that cannot be delivered, as the other end has closed, are lost.
    let send = |packet: &[u8], to: SocketAddr| drop(socket.send_to(packet, to));
    while !over.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            if let Some((packet, to)) = held.take() {
                send(&packet, to);
            }
            continue;
        };
        let packet = &buffer[..length];
        let target = if from == to {
            client.expect("an answer comes after a request")
        } else {
            client = Some(from);
            to
        };
        first.get_or_insert_with(|| packet.to_vec());
        count += 1;
        if impairment.first_again_after == Some(count) {
            send(first.as_deref().unwrap_or_default(), to);
        }
        if impairment
            .noise_after
            .is_some_and(|after| count % after == 0)
        {
            send(b"GET / HTTP/1.1\r\nHost: regatta\r\n\r\n", target);
            send(&[0; 3], target);
            // A packet of the association with a damaged byte.
            let mut damaged = packet.to_vec();
            damaged[length / 2] ^= 1;
            send(&damaged, target);
        }
        let is_silent = (impairment.silent_after).is_some_and(|after| count > after);
        if is_silent && from == to && packet.get(12) != Some(&ABORT) {
            continue;
        }
        let drawn = draws.permille();
        if drawn < impairment.lost || impairment.dead_after.is_some_and(|after| count > after) {
            continue;
        }
        if drawn < impairment.lost + impairment.late && held.is_none() {
            held = Some((packet.to_vec(), target));
            continue;
        }
        send(packet, target);
        if drawn >= 1000 - impairment.duplicated {
            send(packet, target);
        }
        if let Some((packet, to)) = held.take_if(|_| draws.permille() < 300) {
            send(&packet, to);
        }
    }
}

type Ended = Result<SideReport, TransportError>;

/// Runs a trial through the relay, and returns the results of both ends, which are stopped after
/// `limit`.
fn run_until(
    limit: Duration,
    impairment: Impairment,
    order: impl Fn(Role) -> TrialOrder,
) -> (Ended, Ended) {
    let (sender_context, sender_seen) = testing::trial_context();
    let (receiver_context, receiver_seen) = testing::trial_context();
    sender_seen.connect(&receiver_context.peer);
    receiver_seen.connect(&sender_context.peer);
    let stops = [sender_context.stop.clone(), receiver_context.stop.clone()];
    let receiver = driver()
        .session(&order(Role::Receiver), receiver_context)
        .expect("a receiver");
    let to = receiver.listen_address().expect("it listens");
    let sender = driver()
        .session(&order(Role::Sender), sender_context)
        .expect("a sender");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let address = socket.local_addr().expect("an address");
    let over = Arc::new(AtomicBool::new(false));
    let (ended, both_ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let done = Arc::clone(&over);
        scope.spawn(move || relay(&socket, to, impairment, &done));
        scope.spawn(move || {
            if both_ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                stops.iter().for_each(Stop::stop);
            }
        });
        let receiver = scope.spawn(move || receiver.run(None));
        let sender = sender.run(Some(address));
        let receiver = receiver.join().expect("no panic");
        drop(ended);
        over.store(true, Ordering::Relaxed);
        (sender, receiver)
    })
}

fn report(side: Ended) -> SideReport {
    side.unwrap_or_else(|error| panic!("{}", error.reasons().join(": ")))
}

/// Returns the reports of both ends. The error of one end is often the consequence of the other one's: both are shown.
fn reports(ends: (Ended, Ended)) -> (SideReport, SideReport) {
    match ends {
        (Ok(sender), Ok(receiver)) => (sender, receiver),
        (sender, receiver) => {
            let shown = |side: Ended| {
                side.map_or_else(
                    |error| error.reasons().join(": "),
                    |_| "measured".to_owned(),
                )
            };
            panic!("sender: {}\nreceiver: {}", shown(sender), shown(receiver))
        }
    }
}

/// Runs a trial through the relay, and returns the reports of both ends.
fn run(ordered: bool, impairment: Impairment) -> (SideReport, SideReport) {
    let ends = run_until(Duration::from_secs(120), impairment, |role| {
        order(role, ordered)
    });
    reports(ends)
}

fn all_is_delivered(ordered: bool, impairment: Impairment) -> SideReport {
    let (sender, receiver) = run(ordered, impairment);
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"],
        SIZE as f64
    );
    assert_eq!(receiver.measurements.metrics["messages_corrupted"], 0.0);
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
    sender
}

fn fact(report: &SideReport, name: &str) -> u64 {
    report.measurements.facts[name].parse().expect("a count")
}

regatta_test_contract::test_cases! { lost_packets_are_retransmitted:
    ordered(true)
    unordered(false)
}

fn lost_packets_are_retransmitted(ordered: bool) {
    let impairment = Impairment {
        lost: 50,
        ..Impairment::default()
    };
    let sender = all_is_delivered(ordered, impairment);
    // About fifteen of three hundred packets are lost.
    assert!(fact(&sender, "sctp.retransmitted_chunks.sender") > 3);
}

regatta_test_contract::test_cases! { late_and_duplicate_packets_are_tolerated:
    ordered(true)
    unordered(false)
}

fn late_and_duplicate_packets_are_tolerated(ordered: bool) {
    let impairment = Impairment {
        duplicated: 100,
        late: 100,
        ..Impairment::default()
    };
    all_is_delivered(ordered, impairment);
}

/// A receiver that has acknowledged everything gives up a sender that hears nothing of it, and aborts: the sender, which
/// waits for room for its requests, knows the acknowledgement over control.
#[test]
fn receiver_that_has_everything_may_abort() {
    let impairment = Impairment {
        silent_after: Some(6),
        ..Impairment::default()
    };
    let ends = run_until(Duration::from_secs(120), impairment, |role| {
        let mut order = order(role, false);
        order.workload.kind = testing::order_for(role, driver().descriptor().name, 1000, 1000)
            .workload
            .kind;
        order
    });
    let (sender, receiver) = reports(ends);
    assert_eq!(receiver.measurements.metrics["bytes_delivered"], 1000.0);
    assert_eq!(sender.measurements.facts["acknowledgement"], "control");
}

#[test]
fn repeated_handshake_does_not_end_the_association() {
    let impairment = Impairment {
        first_again_after: Some(40),
        ..Impairment::default()
    };
    all_is_delivered(true, impairment);
}

regatta_test_contract::test_cases! { dead_path_does_not_hold_up_the_end:
    ordered(true)
    unordered(false)
}

/// Checks an end whose messages of the probe wait for a retransmission timer that is doubled each
/// time it expires.
fn dead_path_does_not_hold_up_the_end(ordered: bool) {
    let impairment = Impairment {
        dead_after: Some(60),
        ..Impairment::default()
    };
    let (sender, receiver) = run_until(Duration::from_secs(6), impairment, |role| {
        let mut order = order(role, ordered);
        order.deadline = Duration::from_millis(800);
        let probe = &mut order.workload.probe;
        probe.under_load = true;
        // Many times what may be in flight and queued.
        probe.interval = Duration::from_micros(500);
        order
    });
    let warned = |report: &SideReport| {
        let codes: Vec<_> = report
            .measurements
            .warnings
            .iter()
            .map(|w| w.code.clone())
            .collect();
        codes.iter().any(|code| code == "deadline_reached")
    };
    assert!(warned(&report(sender)));
    assert!(report(receiver).measurements.metrics["bytes_delivered"] < SIZE as f64);
}

#[test]
fn packets_that_are_not_sctp_are_ignored() {
    let impairment = Impairment {
        noise_after: Some(7),
        ..Impairment::default()
    };
    all_is_delivered(true, impairment);
}

#[test]
fn a_message_beyond_the_limit_is_unsupported_with_the_limit() {
    let mut order = testing::order_for(Role::Receiver, "sctp-userspace", 200_000, 65_537);
    let unordered = OptionValue::Flag(false);
    order
        .transport
        .options
        .insert("ordered".to_owned(), unordered);
    let (context, _) = testing::trial_context();
    match driver().session(&order, context) {
        Err(TransportError::Unsupported(unsupported)) => {
            assert!(unsupported.hint.contains("65536"), "{unsupported:?}");
        }
        other => panic!("{:?}", other.err()),
    }
}
