//! Early data between two ends in one process, over loopback.

use std::{
    net::{Ipv4Addr, SocketAddr},
    thread,
    time::Duration,
};

use bytes::Bytes;
use regatta_control::Role;
use regatta_model::{Handshake, WorkloadKind};
use regatta_transport::{Blocking, ByteStream, Executor as _, testing};
use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;
use socket2::{Domain, SockAddr, Socket, Type};

use super::*;

fn layer(role: Role) -> Tls<EarlyStream> {
    let mut order = testing::order_for(role, "tcp-tls", 1, 1);
    order.workload.kind = WorkloadKind::ShortConnections {
        connections: 1,
        handshake: Handshake::EarlyData,
        request: regatta_model::Bytes(1),
        response: regatta_model::Bytes(1),
    };
    Tls::new(&order, EarlyStream::open).expect("TLS")
}

/// Returns the listening end with a changed configuration.
fn changed(server: &Tls<EarlyStream>, change: impl FnOnce(&mut ServerConfig)) -> Tls<EarlyStream> {
    let End::Listening(config) = &server.end else {
        panic!("it listens");
    };
    let mut config = ServerConfig::clone(config);
    change(&mut config);
    Tls {
        end: End::Listening(Arc::new(config)),
        crypto: server.crypto,
        certificate: regatta_model::Text::default(),
        open: server.open,
    }
}

#[derive(Debug)]
struct ClockAhead;

impl TimeProvider for ClockAhead {
    fn current_time(&self) -> Option<UnixTime> {
        let now = UnixTime::now().as_secs();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(now + 600)))
    }
}

/// Returns two ends of a TCP connection.
fn pair() -> (Arc<Connected>, Arc<Connected>) {
    let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    listener.bind(&SockAddr::from(any)).expect("bound");
    listener.listen(1).expect("listening");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let address = listener.local_addr().expect("an address");
    socket.connect(&address).expect("connected");
    let (accepted, _) = listener.accept().expect("accepted");
    accepted.set_tcp_nodelay(true).expect("no delay");
    (Arc::new(Connected(socket)), Arc::new(Connected(accepted)))
}

fn soon() -> MonotonicTime {
    MonotonicTime::now() + Duration::from_secs(10)
}

fn send(stream: &mut EarlyStream, header: &[u8], payload: &[u8]) {
    let payload = Bytes::copy_from_slice(payload);
    now(stream.send_message(header, &payload)).expect("sent");
}

/// Runs a future that never yields.
fn now<F: Future>(future: F) -> F::Output {
    Blocking.block_on(future)
}

/// Receives until `count` bytes have arrived.
fn receive(stream: &mut EarlyStream, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut scratch = vec![0; 64 << 10];
    while all.len() < count {
        let mut take = |piece: &[u8]| all.extend_from_slice(piece);
        let received = now(stream.receive(&mut scratch, soon(), &mut take)).expect("received");
        assert!(matches!(received, Received::Bytes(_)), "{received:?}");
    }
    all
}

/// Receives until the other end has finished.
fn receive_all(stream: &mut EarlyStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut scratch = vec![0; 64 << 10];
    loop {
        let mut take = |piece: &[u8]| all.extend_from_slice(piece);
        match now(stream.receive(&mut scratch, soon(), &mut take)).expect("received") {
            Received::Bytes(_) => {}
            Received::Closed => return all,
            Received::TimedOut => panic!("nothing came"),
        }
    }
}

/// Makes a connection on which the client gets tickets, with an exchange of one byte each way.
fn get_tickets(client: &Tls<EarlyStream>, server: &Tls<EarlyStream>) {
    let (here, there) = pair();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = server
                .open(there, true, soon())
                .expect("a handshake")
                .stream;
            assert_eq!(receive(&mut stream, 1), b"?");
            send(&mut stream, b"!", b"");
            assert!(receive_all(&mut stream).is_empty());
        });
        let mut layered = client.open(here, true, soon()).expect("a handshake");
        assert_eq!(made(&layered), Some(HandshakeMade::Full));
        send(&mut layered.stream, b"?", b"");
        // Tickets stand before the answer.
        assert_eq!(receive(&mut layered.stream, 1), b"!");
    });
}

fn made(layered: &Layered<EarlyStream>) -> Option<HandshakeMade> {
    layered.opened.get()?.handshake
}

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + (i >> 8)) as u8).collect()
}

#[test]
fn early_data_is_answered_before_the_handshake_is_done() {
    let (client, server) = (layer(Role::Sender), layer(Role::Receiver));
    get_tickets(&client, &server);
    // In one thread: an end that needed another flight from the other end would never have it.
    let (here, there) = pair();
    let mut connecting = client.open(here, true, soon()).expect("a ticket");
    send(&mut connecting.stream, b"head ", b"question");
    let mut answering = server.open(there, true, soon()).expect("a first flight");
    assert_eq!(receive(&mut answering.stream, 13), b"head question");
    assert_eq!((made(&connecting), made(&answering)), (None, None));
    send(&mut answering.stream, b"", b"answer");
    assert_eq!(receive(&mut connecting.stream, 6), b"answer");
    assert_eq!(made(&connecting), Some(HandshakeMade::EarlyDataTaken));
    let facts = &connecting.opened.get().expect("it is open").facts;
    assert_eq!(facts["tls.cipher_suite"], "TLS13_AES_128_GCM_SHA256");
    // The end of the handshake follows, with the data after it.
    send(&mut connecting.stream, b"more", b"");
    assert_eq!(receive(&mut answering.stream, 4), b"more");
    assert_eq!(made(&answering), Some(HandshakeMade::EarlyDataTaken));
}

/// Sends `request` over a new connection in messages of `message` bytes, finishes, and reads the
/// answer; returns the bytes that the other end received, and the kind of the handshake.
fn exchange(
    client: &Tls<EarlyStream>,
    server: &Tls<EarlyStream>,
    request: &[u8],
    message: usize,
) -> (Vec<u8>, Option<HandshakeMade>) {
    let (here, there) = pair();
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let mut stream = server
                .open(there, true, soon())
                .expect("a handshake")
                .stream;
            let got = receive_all(&mut stream);
            send(&mut stream, b"answer", b"");
            got
        });
        let mut connecting = client.open(here, true, soon()).expect("a connection");
        for piece in request.chunks(message) {
            let (head, body) = piece.split_at(piece.len() / 3);
            send(&mut connecting.stream, head, body);
        }
        now(connecting.stream.flush()).expect("flushed");
        now(connecting.stream.finish()).expect("finished");
        assert_eq!(receive_all(&mut connecting.stream), b"answer");
        (answering.join().expect("no panic"), made(&connecting))
    })
}

/// Lengths of questions and of their messages, in bytes; also messages whose records add more bytes
/// than the data.
const REQUESTS: [(usize, usize); 4] = [(1, 1), (13 << 10, 13 << 10), (300_000, 300_000), (3000, 1)];

#[test]
fn data_beyond_the_first_flight_follows_the_handshake() {
    for (length, message) in REQUESTS {
        let (client, server) = (layer(Role::Sender), layer(Role::Receiver));
        get_tickets(&client, &server);
        let request = noise(length);
        let (got, made) = exchange(&client, &server, &request, message);
        assert!(got == request, "{length} in messages of {message}");
        assert_eq!(made, Some(HandshakeMade::EarlyDataTaken), "{length}");
    }
}

#[test]
fn refused_early_data_is_resent_once() {
    for (length, message) in REQUESTS {
        let request = noise(length);
        for forgets in [true, false] {
            let (client, server) = (layer(Role::Sender), layer(Role::Receiver));
            get_tickets(&client, &server);
            let refuses = if forgets {
                layer(Role::Receiver)
            } else {
                // It still knows the ticket, which seems to be as old as an attacker's copy.
                changed(&server, |config| {
                    config.time_provider = Arc::new(ClockAhead);
                })
            };
            let (got, made) = exchange(&client, &refuses, &request, message);
            let what = format!("{length} in messages of {message}, forgets: {forgets}");
            assert!(got == request, "{what}");
            assert_eq!(made, Some(HandshakeMade::EarlyDataRefused), "{what}");
        }
    }
}

#[test]
fn peer_vanishing_in_the_handshake_is_reported() {
    let (client, server) = (layer(Role::Sender), layer(Role::Receiver));
    get_tickets(&client, &server);
    let (here, there) = pair();
    let mut connecting = client.open(here, true, soon()).expect("a ticket");
    send(&mut connecting.stream, b"question", b"");
    drop(there);
    let mut scratch = [0; 100];
    let ended = now(connecting
        .stream
        .receive(&mut scratch, soon(), &mut |_: &[u8]| {}));
    // The kernel resets the connection, as what was sent was not read.
    assert!(
        matches!(ended, Ok(Received::Closed) | Err(TransportError::Io { .. })),
        "{ended:?}"
    );
    assert_eq!(made(&connecting), None);
    // One that connects and sends nothing.
    let (silent, there) = pair();
    drop(silent);
    let error = server
        .open(there, true, soon())
        .err()
        .expect("no handshake");
    assert!(
        matches!(error, TransportError::Closed { flow: "handshake" }),
        "{error:?}"
    );
}
