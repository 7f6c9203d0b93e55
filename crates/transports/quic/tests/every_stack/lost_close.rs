//! A path that loses the packets that close a connection.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use regatta_control::Role;
use regatta_transport::{
    Driver, LiveCounters,
    testing::{order_for, trial_context},
};

for_each_stack! {
    a_lost_close_does_not_hold_up_the_receiver,
}

const SIZE: u64 = 50_000;

/// Relays packets both ways until `over`. Once everything was delivered, no packet of the sender
/// passes any more, so that the packets that close the connection are lost, and their repetitions
/// too.
fn relay(front: &UdpSocket, receiver: SocketAddr, live: &LiveCounters, over: &AtomicBool) {
    let back = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for socket in [front, &back] {
        let brief = Some(Duration::from_micros(200));
        socket.set_read_timeout(brief).expect("a time");
    }
    let (mut sender, mut place) = (None, vec![0; 65_536]);
    while !over.load(Ordering::Relaxed) {
        if let Ok((length, from)) = front.recv_from(&mut place) {
            sender = Some(from);
            if live.bytes_delivered.load(Ordering::Acquire) < SIZE {
                let _ = back.send_to(&place[..length], receiver);
            }
        }
        if let (Ok((length, _)), Some(sender)) = (back.recv_from(&mut place), sender) {
            let _ = front.send_to(&place[..length], sender);
        }
    }
}

fn a_lost_close_does_not_hold_up_the_receiver(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    let (context, seen) = trial_context();
    let (sender_context, sender_seen) = trial_context();
    sender_seen.connect(&context.mailbox);
    seen.connect(&sender_context.mailbox);
    let order = |role| {
        let mut order = order_for(role, name, SIZE, 1000);
        order.path.mtu_bytes = 1500;
        order
    };
    let live = std::sync::Arc::clone(&context.live);
    let receiver = driver
        .prepare(&order(Role::Receiver), context)
        .expect("a receiver");
    let listens = receiver.listen_address().expect("an address");
    let sender = driver
        .prepare(&order(Role::Sender), sender_context)
        .expect("a sender");
    let front = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = front.local_addr().expect("an address");
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let (sender, receiver) = thread::scope(|scope| {
        scope.spawn(|| relay(&front, listens, &live, &over));
        let receiver = scope.spawn(move || receiver.run(None));
        let ends = (sender.run(Some(address)), receiver.join());
        over.store(true, Ordering::Relaxed);
        ends
    });
    sender.expect("the acknowledgement came");
    let receiver = receiver.expect("no panic").expect("all came");
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"], SIZE as f64,
        "{name}"
    );
    // The stacks' idle timeout is 30 s.
    assert!(begun.elapsed() < Duration::from_secs(10), "{name}");
}
