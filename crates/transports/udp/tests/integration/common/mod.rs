//! A path between two sockets on loopback that delays and loses.
//!
//! Loss is decided by the relay's own sequence of pseudo-random numbers from a fixed seed, for each
//! direction.

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

/// Impairments of a path in one direction.
#[derive(Clone, Copy)]
pub struct Direction {
    /// One-way delay of each datagram.
    pub delay: Duration,
    /// Ratio of datagrams that are lost.
    pub loss: f64,
}

/// A relay between two sockets, in a thread until it is dropped.
pub struct Relay {
    /// Address for the sender's datagrams.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// Datagrams lost towards the receiver.
    pub lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// Waiting datagrams of one direction: due time, socket and address to send from and to.
type Line = VecDeque<(Instant, Arc<UdpSocket>, SocketAddr, Vec<u8>)>;

/// Returns a socket of the relay, whose buffer holds a whole transfer, so that only the drawn
/// datagrams are lost.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_nonblocking(true).expect("a mode");
    socket2::SockRef::from(&socket)
        .set_recv_buffer_size(4 << 20)
        .expect("a buffer");
    socket
}

impl Relay {
    /// Starts a relay to this receiver.
    pub fn new(receiver: SocketAddr, forward: Direction, reverse: Direction) -> Self {
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
            let mut buffer = vec![0; 65_536];
            while !stop.load(Ordering::Relaxed) {
                while let Ok((length, from)) = front.recv_from(&mut buffer) {
                    let flow = flows.entry(from).or_insert_with(|| Arc::new(socket()));
                    if draws.0.below(forward.loss) {
                        lost.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let due = Instant::now() + forward.delay;
                    there.push_back((due, Arc::clone(flow), receiver, buffer[..length].to_vec()));
                }
                for (sender, flow) in &flows {
                    while let Ok((length, _)) = flow.recv_from(&mut buffer) {
                        if !draws.1.below(reverse.loss) {
                            let due = Instant::now() + reverse.delay;
                            let data = buffer[..length].to_vec();
                            back.push_back((due, Arc::clone(&front), *sender, data));
                        }
                    }
                }
                for line in [&mut there, &mut back] {
                    while line.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
                        let (_, from, to, data) = line.pop_front().expect("it is there");
                        // A closed socket gets nothing.
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
