//! The I/O loop under a protocol of two packets: HELLO, which opens a connection and is answered, and
//! BYE, which closes it. Every other packet is a message.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use regatta_control::{Role, TrialOrder};
use regatta_transport::{
    Accepted, Client as _, Executor, MonotonicTime, Purpose, Server as _, Stop, TransportError,
    testing::order_for,
};

use super::{
    Admission, Arrived, Connection, Connections, Dropped, End, Handle, Incoming, Number, Protocol,
    Settings, Transmit, Wakers,
};
use crate::{
    endpoints::{Connecting, Listening, MessageEnd, SocketRole},
    wait::within,
};

const HELLO: &[u8] = b"hello";
const BYE: &[u8] = b"bye";

/// Interval at which HELLO is sent again.
const AGAIN: Duration = Duration::from_millis(20);

struct Line {
    peer: SocketAddr,
    open: bool,
    ended: bool,
    waiting: VecDeque<Vec<u8>>,
    again: Option<Instant>,
    received: VecDeque<Vec<u8>>,
    tasks: Wakers,
    /// Moment until which packets are held back, and to which a timer that has expired has nothing to do.
    held_until: Option<Instant>,
    /// Number of calls for that timer.
    expired: u32,
    /// Moment until which the connection lingers after its end, as one does whose last packet may have to be repeated.
    lingers_until: Option<Instant>,
    /// Whether its release waits for the other end, so that only an abort closes it.
    waits_for_peer: bool,
}

impl Line {
    fn new(peer: SocketAddr, open: bool) -> Self {
        Self {
            peer,
            open,
            ended: false,
            waiting: VecDeque::from([HELLO.to_vec()]),
            again: (!open).then(|| Instant::now() + AGAIN),
            received: VecDeque::new(),
            tasks: Wakers::default(),
            held_until: None,
            expired: 0,
            lingers_until: None,
            waits_for_peer: false,
        }
    }

    fn close(&mut self) {
        if !self.ended {
            self.waiting.push_back(BYE.to_vec());
            self.end();
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.tasks.wake();
    }
}

impl Connection for Line {
    const LONGEST_PACKET_BYTES: usize = 1000;

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        self.held_until = self.held_until.filter(|at| *at > now);
        let packet = self.waiting.pop_front()?;
        buffer[..packet.len()].copy_from_slice(&packet);
        Some(Transmit {
            bytes: packet.len(),
            from: None,
            to: self.peer,
            at: self.held_until,
        })
    }

    fn next_timeout(&self) -> Option<Instant> {
        let expired = self.held_until.map(|at| at - Duration::from_secs(1));
        (expired.or(self.lingers_until)).or(self.again.filter(|_| !self.ended))
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.held_until.is_some() {
            self.expired += 1;
            return;
        }
        if self.lingers_until.is_some() {
            return;
        }
        self.waiting.push_back(HELLO.to_vec());
        self.again = Some(now + AGAIN);
    }

    fn update(&mut self, _flushed: bool) {}

    fn poll_open(&mut self, context: &Context<'_>) -> Poll<Result<(), TransportError>> {
        if self.open {
            return Poll::Ready(Ok(()));
        }
        self.tasks.register(context);
        Poll::Pending
    }

    fn abort(&mut self) {
        self.close();
    }

    fn release(&mut self) {
        if !self.waits_for_peer {
            self.close();
        }
    }

    fn fail(&mut self, _error: &io::Error) {
        self.end();
    }

    fn waits_to_close(&self) -> bool {
        self.ended && !self.waiting.is_empty()
    }

    fn is_over(&self) -> bool {
        let lingers = self.lingers_until.is_some_and(|at| at > Instant::now());
        self.ended && self.waiting.is_empty() && !lingers
    }
}

impl Admission for Line {
    fn poll_message(&mut self, context: &Context<'_>) -> Poll<Result<Vec<u8>, TransportError>> {
        match self.received.pop_front() {
            Some(message) => Poll::Ready(Ok(message)),
            None if self.ended => Poll::Ready(Err(Dropped.into())),
            None => {
                self.tasks.register(context);
                Poll::Pending
            }
        }
    }
}

/// The connections are identified by the port of the other end.
#[derive(Default)]
struct Lines {
    listens: bool,
    /// Number of connections that were dropped.
    forgotten: Arc<AtomicU64>,
}

impl Protocol for Lines {
    type Connection = Line;

    const NAME: &'static str = "line";

    fn connect(
        &mut self,
        _local: SocketAddr,
        peer: SocketAddr,
        _purpose: Purpose,
        connections: &mut Connections<Line>,
    ) -> Result<Number, TransportError> {
        connections.insert(peer.port().into(), Line::new(peer, false));
        Ok(peer.port().into())
    }

    fn handle(&mut self, _now: Instant, arrived: Arrived<'_>, connections: &mut Connections<Line>) {
        let (from, number) = (arrived.from, Number::from(arrived.from.port()));
        for packet in arrived.bytes.chunks(arrived.segment) {
            match connections.get_mut(number) {
                Some(line) if packet == HELLO => {
                    (line.open, line.again) = (true, None);
                    line.tasks.wake();
                }
                Some(line) if packet == BYE => line.end(),
                Some(line) => {
                    line.received.push_back(packet.to_vec());
                    line.tasks.wake();
                }
                None if packet == HELLO && self.listens => {
                    connections.insert(number, Line::new(from, true));
                    connections.announce(Incoming::Connection(number));
                }
                None => connections.reply(arrived.to, from, BYE.to_vec()),
            }
        }
    }

    fn forget(&mut self, _number: Number) {
        self.forgotten.fetch_add(1, Ordering::Relaxed);
    }
}

fn settings() -> Settings {
    Settings {
        receive_buffer_bytes: Some(64 << 10),
        send_buffer_bytes: Some(64 << 10),
        most_segments: 64,
        packet_bytes: 1000,
        fragments: false,
    }
}

fn order(role: Role) -> TrialOrder {
    order_for(role, "line", 1, 1)
}

fn end<R: SocketRole>() -> (End<Lines, R>, Arc<AtomicU64>) {
    let lines = Lines {
        listens: !R::CONNECTS,
        ..Lines::default()
    };
    let forgotten = Arc::clone(&lines.forgotten);
    let role = match R::CONNECTS {
        true => Role::Sender,
        false => Role::Receiver,
    };
    let end = End::new(&order(role), settings(), lines).expect("an end");
    (end, forgotten)
}

fn soon() -> MonotonicTime {
    MonotonicTime::now() + Duration::from_secs(20)
}

async fn send(handle: &Handle<Lines>, messages: &[&[u8]]) {
    let messages = messages.iter().map(|message| message.to_vec());
    let queued = handle.with(|line| line.waiting.extend(messages));
    queued.expect("it is there");
    handle.send();
}

async fn receive(handle: &Handle<Lines>) -> Result<Vec<u8>, TransportError> {
    handle
        .poll(|line, context| line.poll_message(context))
        .await
}

/// Runs the two ends of a connection on a thread each.
fn run<T: Send>(
    client: impl AsyncFnOnce(Arc<Handle<Lines>>, &Stop) -> T + Send,
    server: impl AsyncFnOnce(&End<Lines, Listening>) + Send,
) -> T {
    run_with(end().0, |end| end, client, server)
}

/// As [`run`], with a listening end that has an end of lines.
fn run_with<L: Send, T: Send>(
    listening: L,
    of: fn(&L) -> &End<Lines, Listening>,
    client: impl AsyncFnOnce(Arc<Handle<Lines>>, &Stop) -> T + Send,
    server: impl AsyncFnOnce(&L) + Send,
) -> T {
    let address = of(&listening).address();
    thread::scope(|scope| {
        scope.spawn(move || of(&listening).base.runtime.block_on(server(&listening)));
        let (connecting, forgotten) = end::<Connecting>();
        let stop = Stop::new();
        let result = connecting.base.runtime.block_on(async {
            let until = soon();
            let connected = connecting.connect(address, Purpose::Transfer, until, &stop);
            let handle = connected.await.expect("it answers");
            stop.on_stop(&handle);
            client(handle, &stop).await
        });
        drop(connecting);
        assert_eq!(forgotten.load(Ordering::Relaxed), 1, "closed and dropped");
        result
    })
}

async fn accepted(end: &End<Lines, Listening>) -> Arc<Handle<Lines>> {
    let mut arrived = 0;
    let mut admit = |_: &[u8]| {
        arrived += 1;
        true
    };
    let accepted = end.accept(soon(), &Stop::new(), &mut admit).await;
    match accepted.expect("no error") {
        Accepted::Connection(handle) => {
            assert_eq!(arrived, 1);
            handle
        }
        Accepted::Failed(error) => panic!("{error}"),
    }
}

#[test]
fn messages_arrive_in_order_and_close_ends_the_peer() {
    let sent = [
        b"first".as_slice(),
        b"next1",
        b"next2",
        b"end",
        b"longer one",
    ];
    run(
        async |handle, _| send(&handle, &sent).await,
        async |end| {
            let handle = accepted(end).await;
            for message in sent {
                assert_eq!(receive(&handle).await.expect("a message"), message);
            }
            receive(&handle).await.expect_err("it was closed");
        },
    );
}

/// Closes a connection with a long queue, and checks that the packet behind it is sent.
fn closes_after_a_long_queue(waits_for_peer: bool) {
    // More than the calls of the kernel that one turn of the end makes: each packet is longer than the one before, so that
    // none shares a call with another.
    let sent: Vec<Vec<u8>> = (100..160).map(|length| vec![b'x'; length]).collect();
    run(
        async |handle, _| {
            let queued = handle.with(|line| {
                line.waits_for_peer = waits_for_peer;
                line.waiting.extend(sent.iter().cloned());
            });
            queued.expect("it is there");
        },
        async |end| {
            let handle = accepted(end).await;
            let closed = async { while receive(&handle).await.is_ok() {} };
            let closed = within(soon(), closed).await;
            assert!(closed.is_some(), "the last packet is missing");
        },
    );
}

#[test]
fn closing_packet_leaves_after_a_long_queue() {
    closes_after_a_long_queue(false);
}

#[test]
fn aborting_packet_leaves_after_a_long_queue() {
    closes_after_a_long_queue(true);
}

/// A virtual clock stands still while a thread is busy: the moment of the packet would never come.
#[test]
fn expired_timer_waits_for_a_paced_packet() {
    let expired = run(
        async |handle, _| {
            let held_until = Instant::now() + Duration::from_millis(100);
            let held = handle.with(|line| line.held_until = Some(held_until));
            held.expect("it is there");
            send(&handle, &[b"later"]).await;
            receive(&handle).await.expect("an answer");
            assert!(Instant::now() >= held_until);
            handle.with(|line| line.expired).expect("it is there")
        },
        async |end| {
            let handle = accepted(end).await;
            assert_eq!(receive(&handle).await.expect("a message"), b"later");
            send(&handle, &[b"answer"]).await;
            receive(&handle).await.expect_err("it was closed");
        },
    );
    assert!(expired < 20, "the timer was handled {expired} times");
}

/// A task that is woken may ask for another turn, as one does that has something to write.
#[test]
fn lingering_closed_connection_does_not_wake_accept_at_each_turn() {
    let polls = AtomicU64::new(0);
    run(
        async |handle, _| {
            receive(&handle).await.expect_err("the other end closes");
        },
        async |end| {
            let handle = accepted(end).await;
            let lingers = Duration::from_millis(100);
            let lingering = handle.with(|line| line.lingers_until = Some(Instant::now() + lingers));
            lingering.expect("it is there");
            drop(handle);
            let another = poll_fn(|context| {
                polls.fetch_add(1, Ordering::Relaxed);
                end.driver.changed.notify_one();
                end.driver.state.lock().poll_incoming(context).map(drop)
            });
            let accepted = within(MonotonicTime::now() + lingers, another).await;
            assert!(accepted.is_none(), "nobody connects");
        },
    );
    let polls = polls.into_inner();
    assert!(polls < 20, "polled {polls} times");
}

#[test]
fn stop_wakes_a_waiting_receiver() {
    run(
        async |handle, stop| {
            let raised = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                stop.stop();
            };
            let (received, ()) = tokio::join!(receive(&handle), raised);
            received.expect_err("it was aborted");
        },
        async |end| drop(accepted(end).await),
    );
}

#[test]
fn the_first_message_admits_a_connection() {
    let listening = MessageEnd::new(end::<Listening>().0, 0, false, |_, _| Ok(()));
    run_with(
        listening,
        |listening| &listening.end,
        async |handle, _| {
            send(&handle, &[b"no", b"yes", b"more"]).await;
            // The other end closes when it has read all.
            receive(&handle).await.expect_err("it was closed");
        },
        async |listening| {
            let mut admit = |message: &[u8]| message == b"yes";
            let handle = listening.admitted(&mut admit).await.expect("admitted");
            assert_eq!(receive(&handle).await.expect("what follows"), b"more");
        },
    );
}

#[test]
fn timer_retransmits_until_answered() {
    let (end, _) = end::<Connecting>();
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let address = other.local_addr().expect("an address");
    let answered = thread::spawn(move || {
        let mut buffer = [0; 16];
        for _ in 0..3 {
            let (length, from) = other.recv_from(&mut buffer).expect("a packet");
            assert_eq!(&buffer[..length], HELLO);
            other.connect(from).expect("connected");
        }
        other.send(HELLO).expect("sent");
    });
    let begun = Instant::now();
    let stop = Stop::new();
    let connected = end.connect(address, Purpose::Transfer, soon(), &stop);
    end.base
        .runtime
        .block_on(connected)
        .expect("the third is answered");
    assert!(begun.elapsed() >= 2 * AGAIN);
    answered.join().expect("no panic");
}

#[test]
fn unanswered_connect_times_out_and_unknown_connection_gets_a_reply() {
    let (end, _) = end::<Connecting>();
    end.base.runtime.block_on(async {
        let other = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let other = other.await.expect("a socket");
        let address = other.local_addr().expect("an address");
        // Long enough for a first packet.
        let until = MonotonicTime::now() + Duration::from_millis(500);
        let stop = Stop::new();
        let connected = end.connect(address, Purpose::Transfer, until, &stop);
        let error = connected.await.err().expect("nobody answers");
        let what = "line handshake with `127.0.0.1`";
        assert!(error.to_string().contains(what), "{error}");
        let mut buffer = [0; 16];
        let mut next = async || {
            let received = within(soon(), other.recv(&mut buffer)).await;
            let length = received.expect("in time").expect("a packet");
            buffer[..length].to_vec()
        };
        while next().await == HELLO {}
        // After BYE of the connection that was given up, there is none.
        let local = end.driver.state.lock().local();
        other.send_to(b"message", local).await.expect("sent");
        assert_eq!(next().await, BYE);
    });
}

#[test]
fn packets_of_another_host_are_ignored() {
    let mut order = order(Role::Receiver);
    order.peer = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
    let lines = Lines {
        listens: true,
        ..Lines::default()
    };
    let end = End::<_, Listening>::new(&order, settings(), lines).expect("an end");
    let address = end.address();
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    stranger.send_to(HELLO, address).expect("sent");
    let peer = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 9), 0)).expect("a socket");
    peer.send_to(HELLO, address).expect("sent");
    let handle = end.base.runtime.block_on(accepted(&end));
    let from = handle.with(|line| line.peer).expect("it is there");
    assert_eq!(from, peer.local_addr().expect("an address"));
    assert!(end.driver.state.lock().connections.iter().count() == 1);
}
