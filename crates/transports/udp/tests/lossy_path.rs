//! The end of a transfer over a path that delays and loses: a relay on loopback between the ends.
//!
//! Loss is decided by the relay's own sequence of pseudo-random numbers from a fixed seed, for each
//! direction. Upper bounds on time are wide, as the machine may be busy; they stand for "it does
//! not wait for what is lost", which would take the deadline's 20 seconds.

use std::{
    collections::{HashMap, VecDeque},
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use regatta_control::{Role, SideReport};
use regatta_model::OptionValue;
use regatta_transport::{Driver, testing};

fn udp() -> &'static dyn Driver {
    regatta_transport_udp::drivers()[0]
}

/// Splitmix64: a few lines are enough to lose packets the same way each time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, ratio: f64) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 <= ratio
    }
}

/// What a path does in one direction.
#[derive(Clone, Copy)]
struct Direction {
    delay: Duration,
    loss: f64,
}

/// A relay between two sockets, in a thread until it is dropped.
struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// Datagrams lost towards the receiver.
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// Waiting datagrams of one direction: due time, socket and address to send from and to.
type Line = VecDeque<(Instant, Arc<UdpSocket>, SocketAddr, Vec<u8>)>;

/// A socket of the relay, whose buffer holds a whole transfer: it loses what it draws, no more.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_nonblocking(true).expect("a mode");
    socket2::SockRef::from(&socket)
        .set_recv_buffer_size(4 << 20)
        .expect("a buffer");
    socket
}

impl Relay {
    fn new(receiver: SocketAddr, forward: Direction, reverse: Direction) -> Self {
        let front = Arc::new(socket());
        let mut relay = Self {
            address: front.local_addr().expect("an address"),
            stop: Arc::new(AtomicBool::new(false)),
            lost: Arc::new(AtomicU64::new(0)),
            thread: None,
        };
        let (stop, lost) = (Arc::clone(&relay.stop), Arc::clone(&relay.lost));
        relay.thread = Some(thread::spawn(move || {
            let mut draws = (Draws(1), Draws(2));
            let mut flows: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
            let (mut there, mut back) = (Line::new(), Line::new());
            let mut place = vec![0; 65_536];
            while !stop.load(Ordering::Relaxed) {
                while let Ok((length, from)) = front.recv_from(&mut place) {
                    let flow = flows.entry(from).or_insert_with(|| Arc::new(socket()));
                    if draws.0.below(forward.loss) {
                        lost.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let due = Instant::now() + forward.delay;
                    there.push_back((due, Arc::clone(flow), receiver, place[..length].to_vec()));
                }
                for (sender, flow) in &flows {
                    while let Ok((length, _)) = flow.recv_from(&mut place) {
                        if !draws.1.below(reverse.loss) {
                            let due = Instant::now() + reverse.delay;
                            let data = place[..length].to_vec();
                            back.push_back((due, Arc::clone(&front), *sender, data));
                        }
                    }
                }
                for line in [&mut there, &mut back] {
                    while line.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
                        let (_, from, to, data) = line.pop_front().expect("it is there");
                        // Who is gone gets nothing.
                        let _ = from.send_to(&data, to);
                    }
                }
                thread::sleep(Duration::from_micros(200));
            }
        }));
        relay
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const ONE_WAY: Duration = Duration::from_millis(15);

/// How late the relay may be on a busy machine.
const RELAY_LATENESS: Duration = Duration::from_millis(100);

/// Sends 300 kB in messages of 1000 bytes at 8 Mbit/s (0.3 s) over the relay.
fn run(forward: Direction, reverse: Direction, keeps_order: bool) -> (SideReport, SideReport, u64) {
    let order = |role| {
        let mut order = testing::order_for(role, "udp", 300_000, 1000);
        order.path.round_trip_delay = 2 * ONE_WAY;
        order.path.longest_one_way = ONE_WAY + RELAY_LATENESS;
        order.path.mtu_bytes = 1500;
        order.path.keeps_order = keeps_order;
        let rate = OptionValue::Text("8Mbit/s".to_owned());
        order.transport.options.insert("rate".to_owned(), rate);
        order.workload.probe.idle_messages = 3;
        order.workload.probe.under_load = true;
        order
    };
    let (sender_context, sender_seen) = testing::trial_context();
    let (receiver_context, receiver_seen) = testing::trial_context();
    sender_seen.connect(&receiver_context.mailbox);
    receiver_seen.connect(&sender_context.mailbox);
    let receiver = udp()
        .prepare(&order(Role::Receiver), receiver_context)
        .expect("a receiver");
    let listens = receiver.listen_address().expect("an address");
    let relay = Relay::new(listens, forward, reverse);
    let sender = udp()
        .prepare(&order(Role::Sender), sender_context)
        .expect("a sender");
    let address = relay.address;
    let (sender, receiver) = thread::scope(|scope| {
        let receiver = scope.spawn(|| receiver.run(None));
        let sender = sender.run(Some(address)).expect("a sender's report");
        let receiver = receiver.join().expect("no panic");
        (sender, receiver.expect("a receiver's report"))
    });
    (sender, receiver, relay.lost.load(Ordering::Relaxed))
}

/// Bounds of the transfer time: the opening takes a round trip, sending 0.3 s.
fn check_time(sender: &SideReport, most: Duration) {
    let time = Duration::from_nanos(sender.metrics["transfer_time_ns"] as u64);
    assert!(time >= Duration::from_millis(300 + 30), "{time:?}");
    assert!(time < most, "{time:?}");
}

#[test]
fn nothing_is_waited_for_and_nothing_is_lost_without_loss() {
    let clear = Direction {
        delay: ONE_WAY,
        loss: 0.0,
    };
    let (sender, receiver, _) = run(clear, clear, true);
    check_time(&sender, Duration::from_secs(2));
    assert_eq!(sender.metrics["messages_lost"], 0.0);
    assert_eq!(sender.facts["acknowledgement"], "in_band");
    assert!(sender.metrics["set_up_time_ns"] >= 30e6);
    assert!(sender.metrics["round_trip_delay_idle_ns"] >= 30e6);
    assert!(sender.metrics["round_trip_delay_ns"] >= 30e6);
    assert!(receiver.metrics["one_way_delay_ns"] >= 15e6);
}

#[test]
fn lost_messages_are_counted_and_not_waited_for() {
    let lossy = Direction {
        delay: ONE_WAY,
        loss: 0.2,
    };
    for keeps_order in [true, false] {
        let (sender, receiver, lost) = run(lossy, lossy, keeps_order);
        check_time(&sender, Duration::from_secs(3));
        assert_eq!(sender.metrics["messages_sent"], 300.0);
        let delivered = receiver.metrics["messages_delivered"];
        assert_eq!(sender.metrics["messages_lost"], 300.0 - delivered);
        // The relay loses openings, probes and markers as well.
        assert!((1.0..=lost as f64).contains(&sender.metrics["messages_lost"]));
        assert_eq!(receiver.metrics["messages_duplicated"], 0.0);
        assert_eq!(receiver.metrics["messages_reordered"], 0.0);
        assert_eq!(receiver.metrics["bytes_delivered"], delivered * 1000.0);
    }
}
