//! Waits of both ends over TCP: a change ends them, however long the time-outs are.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wdt_protocol::codec::{Command, Decoded, Reply};
use wdt_protocol::host::Host;
use wdt_protocol::net::{Listener, send};
use wdt_protocol::status::Status;
use wdt_protocol::url::ConnectionUrl;
use wdt_protocol::waker::Wakers;
use wdt_protocol::{Failure, Report, receiver, sender};

use crate::memory::{MemorySink, MemorySource};
use crate::scripted::{self, bytes, path, settings};

/// Longer than any test may take.
const HOUR: Duration = Duration::from_secs(3600);

/// Program around a transfer that reports its connections, and ends it from outside.
struct Program {
    stopped: AtomicBool,
    gives_up: AtomicBool,
    wakers: Mutex<Wakers>,
    /// Messages that the transfer begins, that a connection has come in, and that one belongs to the transfer.
    begun: Sender<()>,
    arrived: Sender<()>,
    connected: Sender<()>,
}

/// Receivers of the messages of a [`Program`].
struct Events {
    begun: Receiver<()>,
    arrived: Receiver<()>,
    connected: Receiver<()>,
}

impl Program {
    fn new() -> (Self, Events) {
        let ((begun, has_begun), (arrived, has_arrived)) = (channel(), channel());
        let (connected, is_connected) = channel();
        let program = Self {
            stopped: AtomicBool::new(false),
            gives_up: AtomicBool::new(false),
            wakers: Mutex::default(),
            begun,
            arrived,
            connected,
        };
        let events = Events {
            begun: has_begun,
            arrived: has_arrived,
            connected: is_connected,
        };
        (program, events)
    }

    fn set(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Relaxed);
        self.wakers.lock().unwrap().wake();
    }
}

impl Host for Program {
    fn begins(&self, wakers: &Wakers) {
        *self.wakers.lock().unwrap() = wakers.clone();
        let _ = self.begun.send(());
    }

    fn arrived(&self) {
        let _ = self.arrived.send(());
    }

    fn connected(&self, _port: u16, _socket: &Arc<TcpStream>, _took: Option<Duration>) {
        let _ = self.connected.send(());
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn gives_up(&self) -> bool {
        self.gives_up.load(Ordering::Relaxed)
    }
}

fn url(ports: &[u16]) -> ConnectionUrl {
    ConnectionUrl {
        host: "127.0.0.1".to_owned(),
        ports: ports.to_vec(),
        ..scripted::url(1, None)
    }
}

fn lost() -> Failure {
    Failure::new(Status::Error, "this test ends it")
}

/// Runs a receiver of two ports; `meanwhile` has its program, the program's messages, its session and its first port.
fn receive(
    options: receiver::Options,
    meanwhile: impl FnOnce(&Program, &Events, &receiver::Session<MemorySink>, u16),
) -> Result<Report, Failure> {
    let (program, events) = Program::new();
    let listener = Listener::bind(&[0, 0], &program).unwrap();
    let ports = listener.ports().to_vec();
    let session = receiver::Session::new(MemorySink::new(1 << 30), &url(&ports), options);
    let session = Arc::new(session);
    std::thread::scope(|scope| {
        let received = scope.spawn(|| listener.receive(&session, &program));
        meanwhile(&program, &events, &session, ports[0]);
        received.join().unwrap()
    })
}

fn patient() -> receiver::Options {
    receiver::Options {
        read_timeout: HOUR,
        write_timeout: HOUR,
        first_connection: HOUR,
        other_connections: HOUR,
        admission: HOUR,
        ..receiver::Options::default()
    }
}

/// Returns a session that sends one file to this port, with long time-outs.
fn session(
    port: u16,
    file_bytes: usize,
    options: sender::Options,
) -> Arc<sender::Session<MemorySource>> {
    let mut source = MemorySource::new();
    source.add(path("a"), vec![7; file_bytes]);
    let options = sender::Options {
        read_timeout: HOUR,
        write_timeout: HOUR,
        ..options
    };
    Arc::new(sender::Session::new(source, &url(&[port]), options).unwrap())
}

/// Checks that a sender ends with its session, when its file goes to a peer that neither reads nor answers.
fn a_failure_ends_the_wait_of_a_sender(file_bytes: usize) {
    let peer = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = peer.local_addr().unwrap().port();
    let session = session(port, file_bytes, sender::Options::default());
    let (program, events) = Program::new();
    let sent = std::thread::scope(|scope| {
        let sent = scope.spawn(|| send(&session, &url(&[port]), &program));
        events.connected.recv().unwrap();
        session.fail(lost());
        sent.join().unwrap()
    });
    assert_eq!(sent.unwrap_err(), lost());
}

#[test]
fn a_failure_ends_the_wait_for_an_answer() {
    a_failure_ends_the_wait_of_a_sender(10);
}

#[test]
fn a_failure_ends_the_wait_for_room_in_the_send_buffer() {
    a_failure_ends_the_wait_of_a_sender(64 << 20);
}

#[test]
fn a_stop_ends_the_wait_for_a_sender() {
    let received = receive(patient(), |program, events, _, _| {
        events.begun.recv().unwrap();
        program.set(&program.stopped);
    });
    assert_eq!(received.unwrap_err().status, Status::Abort);
}

#[test]
fn stop_ends_the_wait_for_a_silent_peer() {
    let received = receive(patient(), |program, events, _, port| {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        events.arrived.recv().unwrap();
        program.set(&program.stopped);
        // It gets the reason, and closes its end.
        let _ = stranger.read_to_end(&mut Vec::new());
    });
    assert_eq!(received.unwrap_err().status, Status::Abort);
}

#[test]
fn admission_of_a_silent_peer_times_out() {
    let options = receiver::Options {
        admission: Duration::from_millis(10),
        ..patient()
    };
    let received = receive(options, |program, _, _, port| {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(stranger.read_to_end(&mut Vec::new()).unwrap(), 0);
        program.set(&program.stopped);
    });
    assert_eq!(received.unwrap_err().status, Status::Abort);
}

#[test]
fn failure_ends_the_wait_for_bytes_and_notifies_the_sender() {
    let received = receive(patient(), |_, events, session, port| {
        let mut peer = TcpStream::connect(("127.0.0.1", port)).unwrap();
        peer.write_all(&bytes(&[Command::Settings(settings())]))
            .unwrap();
        events.connected.recv().unwrap();
        session.fail(lost());
        let mut output = Vec::new();
        peer.read_to_end(&mut output).unwrap();
        peer.shutdown(Shutdown::Both).unwrap();
        let decoded = Reply::decode(&output).unwrap();
        assert!(
            matches!(
                decoded,
                Decoded::Whole {
                    value: Reply::Abort(_),
                    ..
                }
            ),
            "{output:?}"
        );
    });
    assert_eq!(received.unwrap_err(), lost());
}

#[test]
fn the_first_connection_shortens_the_wait_at_the_other_port() {
    let options = receiver::Options {
        other_connections: Duration::from_millis(10),
        ..patient()
    };
    let mut sent = None;
    let received = receive(options, |_, _, _, port| {
        let session = session(port, 10, sender::Options::default());
        sent = Some(send(&session, &url(&[port]), &Program::new().0));
    });
    assert_eq!(received.unwrap().blocks, 1);
    assert_eq!(sent.unwrap().unwrap().blocks, 1);
}

#[test]
fn a_sender_that_gives_up_does_not_wait_for_its_rate() {
    let received = receive(receiver::Options::default(), |_, _, _, port| {
        let options = sender::Options {
            rate_limit: Some(sender::RateLimit::average(1)),
            ..sender::Options::default()
        };
        let session = session(port, 1 << 20, options);
        let (program, events) = Program::new();
        let sent = std::thread::scope(|scope| {
            let sent = scope.spawn(|| send(&session, &url(&[port]), &program));
            events.connected.recv().unwrap();
            program.set(&program.gives_up);
            sent.join().unwrap()
        });
        assert_eq!(sent.unwrap_err().status, Status::Abort);
    });
    let failure = received.unwrap_err();
    assert_eq!(failure.detail, "the sender gave up");
}
