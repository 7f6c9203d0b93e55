//! Peers of another protocol.

use std::{
    net::UdpSocket,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use regatta_control::{ProblemKind, Role};
use regatta_transport::{
    Driver,
    testing::{order_for, trial_context},
};

for_each_stack! {
    listening_end_ignores_other_protocols,
    a_connecting_end_gives_up_on_another_protocol_at_its_deadline,
}

/// Returns the first packets of other protocols: DNS, SIP, DTLS, an unassigned QUIC version, noise.
fn other_protocols() -> Vec<Vec<u8>> {
    vec![
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01"
            .to_vec(),
        b"OPTIONS sip:nobody@example.org SIP/2.0\r\n\r\n".to_vec(),
        b"\x16\xfe\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x36\x01\x00\x00\x2a".to_vec(),
        [
            b"\xc0\x0a\x0a\x0a\x0a\x08aaaaaaaa\x08bbbbbbbb".as_slice(),
            &[0; 1180],
        ]
        .concat(),
        vec![0xff; 1472],
        vec![0; 1],
        Vec::new(),
    ]
}

fn listening_end_ignores_other_protocols(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    let mut order = order_for(Role::Receiver, name, 100_000, 1000);
    let (context, seen) = trial_context();
    let receiver = driver.session(&order, context.clone()).expect("a receiver");
    let listens = receiver.listen_address().expect("an address");
    order = order_for(Role::Sender, name, 100_000, 1000);
    let (sender_context, sender_seen) = trial_context();
    sender_seen.connect(&context.peer);
    seen.connect(&sender_context.peer);
    let sender = driver.session(&order, sender_context).expect("a sender");
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (sender, receiver) = thread::scope(|scope| {
        let receiver = scope.spawn(move || receiver.run(None));
        for packet in other_protocols() {
            stranger.send_to(&packet, listens).expect("sent");
        }
        let sender = sender.run(Some(listens));
        (sender, receiver.join().expect("no panic"))
    });
    assert!(sender.is_ok(), "{name}: {sender:?}");
    let receiver = receiver.expect("a report");
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"], 100_000.0,
        "{name}"
    );
}

fn a_connecting_end_gives_up_on_another_protocol_at_its_deadline(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    let mut order = order_for(Role::Sender, name, 1000, 1000);
    order.connect_deadline = Duration::from_millis(400);
    let (context, _) = trial_context();
    let sender = driver.session(&order, context).expect("a sender");
    let other = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = other.local_addr().expect("an address");
    other
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("a time-out");
    let over = AtomicBool::new(false);
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2048];
            while !over.load(Ordering::Relaxed) {
                if let Ok((_, from)) = other.recv_from(&mut buffer) {
                    for packet in other_protocols() {
                        other.send_to(&packet, from).expect("sent");
                    }
                }
            }
        });
        let error = sender.run(Some(address)).expect_err("it is no QUIC");
        over.store(true, Ordering::Relaxed);
        error
    });
    assert_eq!(error.kind(), ProblemKind::TimedOut, "{name}");
    assert_eq!(error.to_string(), "no connection within 400 ms", "{name}");
}
