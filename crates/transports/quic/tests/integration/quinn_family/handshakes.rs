//! Resumption, early data, Retry: which handshake is made, and how many round trips it takes.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use regatta_control::{Role, TrialOrder};
use regatta_model::{Bytes as Size, Handshake, WorkloadKind};
use regatta_transport::{
    Accepted, ByteStream, Endpoint as _, Executor as _, HandshakeMade, MonotonicTime, Purpose,
    Received, Server as _, Stop, StreamConnection,
    stream::{StreamClient, StreamServer},
    testing::order_for,
};
use regatta_transport_quic_noq as noq_driver;
use regatta_transport_quic_quinn as quinn_driver;

use super::relay::relay;

/// Number of connections: one to get tickets, and more than it brings.
const CONNECTIONS: usize = 8;

const REQUEST: &[u8] = b"how many round trips?";
const ANSWER: &[u8] = b"as many as theory has";

fn order(role: Role, handshake: Handshake) -> TrialOrder {
    let mut order = order_for(role, "any", 0, 1);
    order.path.mtu_bytes = 1500;
    order.workload.kind = WorkloadKind::ShortConnections {
        connections: 1,
        handshake,
        request: Size(REQUEST.len() as u64),
        response: Size(ANSWER.len() as u64),
    };
    order
}

/// Stack under test, with the constructor of its ends.
trait Stack {
    fn client(order: TrialOrder) -> impl StreamClient;
    fn server(order: TrialOrder) -> impl StreamServer;
}

struct Quinn;
struct Noq;

impl Stack for Quinn {
    fn client(order: TrialOrder) -> impl StreamClient {
        quinn_driver::streams(quinn_driver::QuicEndpoint::client(&order).expect("an end"))
    }

    fn server(order: TrialOrder) -> impl StreamServer {
        quinn_driver::streams(quinn_driver::QuicEndpoint::server(&order).expect("an end"))
    }
}

impl Stack for Noq {
    fn client(order: TrialOrder) -> impl StreamClient {
        noq_driver::streams(noq_driver::QuicEndpoint::client(&order).expect("an end"))
    }

    fn server(order: TrialOrder) -> impl StreamServer {
        noq_driver::streams(noq_driver::QuicEndpoint::server(&order).expect("an end"))
    }
}

fn soon() -> MonotonicTime {
    MonotonicTime::now() + Duration::from_secs(10)
}

async fn take(stream: &mut impl ByteStream, length: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    let mut scratch = [0; 100];
    while taken.len() < length {
        let received = stream
            .receive(&mut scratch, soon(), &mut |piece| {
                taken.extend_from_slice(piece);
            })
            .await
            .expect("it goes on");
        assert!(matches!(received, Received::Bytes(_)), "{received:?}");
    }
    taken
}

/// Answers every request until `stop`; returns the number of requests, and the last facts.
fn answer_all<E: StreamServer>(end: &E, stop: &Stop) -> (usize, String) {
    let mut answered = (0, String::new());
    end.executor().block_on(async {
        let mut open = Vec::new();
        while let Ok(accepted) = end.accept(soon(), stop, &mut |_| true).await {
            let Accepted::Connection(connection) = accepted else {
                panic!("a handshake failed");
            };
            let mut stream = connection.accept_stream(soon()).await.expect("a stream");
            assert_eq!(take(&mut stream, REQUEST.len()).await, REQUEST);
            stream
                .send_message(ANSWER, &Bytes::new())
                .await
                .expect("taken");
            stream.flush().await.expect("sent");
            answered.0 += 1;
            answered.1 = connection
                .statistics()
                .facts()
                .remove("address_validation")
                .map_or_else(String::new, |fact| fact.to_string());
            // The other end closes.
            open.push((connection, stream));
        }
    });
    answered
}

/// Handshake of a connection, and the time until its answer.
type Made = (Option<HandshakeMade>, Duration);

/// Makes one connection with one request; returns its handshake and the time until its answer.
async fn exchange<E: StreamClient>(end: &E, peer: SocketAddr) -> Made {
    let begun = Instant::now();
    let stop = Stop::new();
    let connection = end
        .connect(peer, Purpose::Transfer, soon(), &stop)
        .await
        .expect("a connection");
    let mut stream = connection.open_stream().await.expect("a stream");
    stream
        .send_message(REQUEST, &Bytes::new())
        .await
        .expect("taken");
    stream.flush().await.expect("sent");
    assert_eq!(take(&mut stream, ANSWER.len()).await, ANSWER);
    (connection.handshake(), begun.elapsed())
}

/// Makes connections one after another, each with one request.
fn exchanges<S: Stack>(handshake: Handshake, one_way: Duration) -> (Vec<Made>, (usize, String)) {
    let server = S::server(order(Role::Receiver, handshake));
    let client = S::client(order(Role::Sender, handshake));
    let listens = server.address();
    let front = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = front.local_addr().expect("an address");
    let (over, stop) = (AtomicBool::new(false), Stop::new());
    thread::scope(|scope| {
        scope.spawn(|| relay(&front, listens, one_way, &over));
        let answering = scope.spawn(|| answer_all(&server, &stop));
        let made = client.executor().block_on(async {
            let mut made = Vec::new();
            for _ in 0..CONNECTIONS {
                made.push(exchange(&client, address).await);
            }
            made
        });
        stop.stop();
        let answered = answering.join().expect("no panic");
        over.store(true, Ordering::Relaxed);
        (made, answered)
    })
}

fn round_trips<S: Stack>(handshake: Handshake, then: HandshakeMade, round_trips: u32) {
    let one_way = Duration::from_millis(30);
    let round_trip = 2 * one_way;
    let (made, (answered, validation)) = exchanges::<S>(handshake, one_way);
    assert_eq!(
        answered, CONNECTIONS,
        "{handshake:?}: each request came once"
    );
    assert_eq!(made[0].0, Some(HandshakeMade::Full), "{handshake:?}");
    let then = vec![Some(then); CONNECTIONS - 1];
    let kinds: Vec<_> = made[1..].iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, then, "{handshake:?}: {made:?}");
    assert_eq!(
        validation.starts_with("Retry"),
        handshake == Handshake::Retry,
        "{validation}"
    );
    // A busy machine makes single ones late, never early.
    let quickest = made[1..].iter().map(|(_, time)| *time).min();
    let quickest = quickest.expect("several");
    assert!(
        (round_trips * round_trip..(round_trips + 1) * round_trip).contains(&quickest),
        "{handshake:?}: {quickest:?}"
    );
}

fn quinn_handshakes_take_the_expected_round_trips(
    handshake: Handshake,
    then: HandshakeMade,
    trips: u32,
) {
    round_trips::<Quinn>(handshake, then, trips);
}

fn noq_handshakes_take_the_expected_round_trips(
    handshake: Handshake,
    then: HandshakeMade,
    trips: u32,
) {
    round_trips::<Noq>(handshake, then, trips);
}

regatta_test_contract::test_cases! { quinn_handshakes_take_the_expected_round_trips:
    full(Handshake::Full, HandshakeMade::Full, 2)
    resumption(Handshake::Resumed, HandshakeMade::Resumed, 2)
    early_data(Handshake::EarlyData, HandshakeMade::EarlyDataTaken, 1)
    retry(Handshake::Retry, HandshakeMade::Full, 3)
}

regatta_test_contract::test_cases! { noq_handshakes_take_the_expected_round_trips:
    full(Handshake::Full, HandshakeMade::Full, 2)
    resumption(Handshake::Resumed, HandshakeMade::Resumed, 2)
    early_data(Handshake::EarlyData, HandshakeMade::EarlyDataTaken, 1)
    retry(Handshake::Retry, HandshakeMade::Full, 3)
}

/// Checks early data with a ticket of one end, over a connection to another end that does not know
/// it.
fn refused_early_data<S: Stack>() {
    let first = S::server(order(Role::Receiver, Handshake::EarlyData));
    let second = S::server(order(Role::Receiver, Handshake::EarlyData));
    let client = S::client(order(Role::Sender, Handshake::EarlyData));
    let peers = [&first, &second].map(|end| end.address());
    let stop = Stop::new();
    thread::scope(|scope| {
        let (first, second, stop) = (&first, &second, &stop);
        let answering = scope.spawn(move || answer_all(first, stop));
        let other = scope.spawn(move || answer_all(second, stop));
        client.executor().block_on(async {
            assert_eq!(
                exchange(&client, peers[0]).await.0,
                Some(HandshakeMade::Full)
            );
            let (made, _) = exchange(&client, peers[1]).await;
            assert_eq!(made, Some(HandshakeMade::EarlyDataRefused));
        });
        stop.stop();
        assert_eq!(answering.join().expect("no panic").0, 1);
        assert_eq!(other.join().expect("no panic").0, 1, "asked again, once");
    });
}

#[test]
fn quinn_resends_refused_early_data() {
    refused_early_data::<Quinn>();
}

#[test]
fn noq_resends_refused_early_data() {
    refused_early_data::<Noq>();
}

/// Handshakes that together take fewer round trips than one after another.
mod real_time {
    use super::*;

    /// Handshakes of many connections at once at an end that accepts one after another.
    fn many_at_once<S: Stack>() {
        const CONNECTIONS: usize = 20;
        let one_way = Duration::from_millis(40);
        let server = S::server(order(Role::Receiver, Handshake::Full));
        let client = S::client(order(Role::Sender, Handshake::Full));
        let listens = server.address();
        let front = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = front.local_addr().expect("an address");
        let (over, stop) = (AtomicBool::new(false), Stop::new());
        thread::scope(|scope| {
            scope.spawn(|| relay(&front, listens, one_way, &over));
            let answering = scope.spawn(|| answer_all(&server, &stop));
            let begun = Instant::now();
            let client = &client;
            let made = client.executor().block_on(client.executor().join_all(vec![
                move || async move {
                    exchange(client, address).await.0
                };
                CONNECTIONS
            ]));
            let took = begun.elapsed();
            // A failure before would be waited for by the other threads for ever.
            stop.stop();
            let answered = answering.join();
            over.store(true, Ordering::Relaxed);
            assert_eq!(answered.expect("no panic").0, CONNECTIONS);
            assert_eq!(made, vec![Some(HandshakeMade::Full); CONNECTIONS]);
            // One handshake after another would take 20 round trips.
            assert!(took < 10 * 2 * one_way, "{took:?}");
        });
    }

    #[test]
    fn handshakes_of_quinn_continue_at_once() {
        many_at_once::<Quinn>();
    }

    #[test]
    fn handshakes_of_noq_continue_at_once() {
        many_at_once::<Noq>();
    }
}
