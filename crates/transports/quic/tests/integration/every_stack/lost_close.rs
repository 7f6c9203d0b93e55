//! A path that loses the packets that close a connection.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Bytes, Spread, WorkloadKind};
use regatta_transport::{
    Driver, LiveCounters,
    testing::{order_for, trial_context},
};

for_each_stack! {
    a_lost_close_does_not_hold_up_the_receiver,
    nor_does_that_of_many_streams,
}

const SIZE: u64 = 50_000;

/// Longest time that a packet may take on the path: what closes a connection would be waited for as long.
const LONGEST_ONE_WAY: Duration = Duration::from_secs(20);

/// Relays packets both ways until `over`. Once everything was delivered, no packet of the sender
/// passes any more, so that the packets that close the connection are lost, and their repetitions
/// too.
fn relay(front: &UdpSocket, receiver: SocketAddr, live: &LiveCounters, over: &AtomicBool) {
    let back = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for socket in [front, &back] {
        let brief = Some(Duration::from_micros(200));
        socket.set_read_timeout(brief).expect("a time");
    }
    let (mut sender, mut buffer) = (None, vec![0; 65_536]);
    while !over.load(Ordering::Relaxed) {
        if let Ok((length, from)) = front.recv_from(&mut buffer) {
            sender = Some(from);
            if live.bytes_delivered.load(Ordering::Acquire) < SIZE {
                let _ = back.send_to(&buffer[..length], receiver);
            }
        }
        if let (Ok((length, _)), Some(sender)) = (back.recv_from(&mut buffer), sender) {
            let _ = front.send_to(&buffer[..length], sender);
        }
    }
}

fn a_lost_close_does_not_hold_up_the_receiver(driver: &dyn Driver) {
    run_without_close(driver, |_| {});
}

fn nor_does_that_of_many_streams(driver: &dyn Driver) {
    run_without_close(driver, |order| {
        order.workload.kind = WorkloadKind::MultiStream {
            messages: SIZE / 1000,
            message: Bytes(1000),
            messages_per_second: 1000.0,
            streams: 8,
            spread: Spread::Streams,
        };
    });
}

fn run_without_close(driver: &dyn Driver, change: fn(&mut TrialOrder)) {
    let name = driver.descriptor().name;
    let (context, seen) = trial_context();
    let (sender_context, sender_seen) = trial_context();
    sender_seen.connect(&context.peer);
    seen.connect(&sender_context.peer);
    let order = |role| {
        let mut order = order_for(role, name, SIZE, 1000);
        order.path.mtu_bytes = 1500;
        order.path.longest_one_way = LONGEST_ONE_WAY;
        change(&mut order);
        order
    };
    let live = std::sync::Arc::clone(&context.live);
    let receiver = driver
        .session(&order(Role::Receiver), context)
        .expect("a receiver");
    let listens = receiver.listen_address().expect("an address");
    let sender = driver
        .session(&order(Role::Sender), sender_context)
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
    let took = begun.elapsed();
    assert!(took < LONGEST_ONE_WAY / 2, "{name}: {took:?}");
}
