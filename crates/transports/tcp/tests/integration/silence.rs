//! Peers that send nothing: every wait can be ended, and ends.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use regatta_control::{ProblemKind, Role};
use regatta_transport::{Driver, TransportError, testing};
use socket2::{Domain, Socket, Type};

fn driver(name: &str) -> &'static dyn Driver {
    *regatta_transport_tcp::drivers()
        .iter()
        .find(|driver| driver.descriptor().name == name)
        .expect("the driver is registered")
}

/// Runs a sender against `peer`, aborts it after a while, and checks that it ends.
fn aborted_sender_ends(name: &str, peer: SocketAddr) {
    let (context, _) = testing::trial_context();
    let sender = driver(name)
        .session(
            &testing::order_for(Role::Sender, name, 1000, 1000),
            context.clone(),
        )
        .expect("a sender");
    let (result, ended) = thread::scope(|scope| {
        let sender = scope.spawn(move || sender.run(Some(peer)));
        thread::sleep(Duration::from_millis(200));
        assert!(!sender.is_finished(), "{name} did not wait");
        let aborted = Instant::now();
        context.stop.stop();
        let result = sender.join().expect("no panic");
        (result, aborted.elapsed())
    });
    assert!(
        matches!(result, Err(TransportError::Cancelled)),
        "{result:?}"
    );
    assert!(ended < Duration::from_secs(1), "{name} took {ended:?}");
}

/// Runs a sender against `peer`, which never answers, with and without a flow for the probe.
fn never_connected_sender_times_out(name: &str, peer: SocketAddr) {
    for under_load in [true, false] {
        let mut order = testing::order_for(Role::Sender, name, 1000, 1000);
        order.connect_deadline = Duration::from_millis(300);
        order.workload.probe.under_load = under_load;
        let sender = driver(name)
            .session(&order, testing::trial_context().0)
            .expect("a sender");
        let begun = Instant::now();
        let error = sender.run(Some(peer)).expect_err("nobody answers");
        assert_eq!(error.kind(), ProblemKind::TimedOut, "{name}");
        // Without the port, which differs between trials.
        assert_eq!(error.to_string(), "no connection within 300 ms", "{name}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{name}");
    }
}

regatta_test_contract::test_cases! { a_connect_call_without_answer_can_be_aborted_and_times_out:
    tcp("tcp")
    tcp_tls("tcp-tls")
}

fn a_connect_call_without_answer_can_be_aborted_and_times_out(name: &str) {
    // A listener whose queue is full does not answer.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    listener.bind(&any.into()).expect("bound");
    listener.listen(0).expect("listening");
    let address = listener.local_addr().expect("an address");
    let peer = address.as_socket().expect("of the internet");
    let _first = TcpStream::connect(peer).expect("the queue takes one");
    aborted_sender_ends(name, peer);
    never_connected_sender_times_out(name, peer);
}

regatta_test_contract::test_cases! { silent_peer_can_be_left:
    tcp("tcp")
    tcp_tls("tcp-tls")
}

fn silent_peer_can_be_left(name: &str) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let peer = listener.local_addr().expect("an address");
    aborted_sender_ends(name, peer);
}

regatta_test_contract::test_cases! { flows_that_are_not_of_the_trial_do_not_keep_it_from_running:
    tcp("tcp")
    tcp_tls("tcp-tls")
}

fn flows_that_are_not_of_the_trial_do_not_keep_it_from_running(name: &str) {
    let (sender_context, sender_seen) = testing::trial_context();
    let (receiver_context, receiver_seen) = testing::trial_context();
    sender_seen.connect(&receiver_context.peer);
    receiver_seen.connect(&sender_context.peer);
    let order = |role| testing::order_for(role, name, 100_000, 1000);
    let receiver = driver(name)
        .session(&order(Role::Receiver), receiver_context)
        .expect("a receiver");
    let peer = receiver.listen_address().expect("an address");
    let sender = driver(name)
        .session(&order(Role::Sender), sender_context)
        .expect("a sender");
    // One that has closed again, one of another protocol.
    drop(TcpStream::connect(peer).expect("connected"));
    let mut other = TcpStream::connect(peer).expect("connected");
    other
        .write_all(b"GET / HTTP/1.1\r\nHost: regatta.invalid\r\n\r\n")
        .expect("sent");
    let (sender, receiver) = thread::scope(|scope| {
        let receiver = scope.spawn(|| receiver.run(None));
        (sender.run(Some(peer)), receiver.join().expect("no panic"))
    });
    sender.expect("a sender's report");
    let receiver = receiver.expect("a receiver's report");
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"], 100_000.0,
        "{name}"
    );
    let refused = receiver
        .measurements
        .warnings
        .iter()
        .find(|warning| ["flow_refused", "flow_held_up"].contains(&warning.code.as_str()))
        .expect("it is said");
    assert!(
        refused.message.starts_with("2 flows"),
        "{}",
        refused.message
    );
}
