//! Two ends of an association over a simulated path, in simulated time: an end that vanishes is noticed by the other
//! one, and a path that delivers nothing for a while does not end an association.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use regatta_control::{PathHints, Role};
use regatta_test_support::machine::repetitions;
use regatta_transport::{OptionValues, Purpose, testing::order_for};
use regatta_transport_sockets::driver::{Arrived, Connection, Connections, Number, Protocol};

use super::{
    association::{Association, DATAGRAMS, pass_on},
    options::{Options, Sizes},
    protocol::Sctp,
    wire::{self, Chunk},
};
use crate::association::MESSAGES;

/// Maximum time from the moment at which an end vanishes to that at which the other end notices: 30 s of silence, and
/// what was under way.
const BOUND: Duration = Duration::from_secs(31);

/// Time for which an end that closes in good order stays, as one of a trial does.
const LINGER: Duration = Duration::from_millis(500);

/// Index of the end that connects and sends.
const SENDER: usize = 0;

/// Index of the end that listens and receives.
const RECEIVER: usize = 1;

/// Number of the only association of an end.
const ASSOCIATION: Number = 0;

/// Size of a message, in bytes.
const MESSAGE_BYTES: usize = 1000;

/// Pseudorandom numbers, the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to 1.
    fn ratio(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, limit: Duration) -> Duration {
        limit.mul_f64(self.ratio())
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.next() % choices.len() as u64) as usize]
    }
}

/// One end of the association.
struct Node {
    sctp: Sctp,
    associations: Connections<Association>,
    address: SocketAddr,
    /// Whether its socket is closed.
    gone: bool,
}

impl Node {
    fn new(port: u16, listens: bool) -> Self {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let path = PathHints {
            mtu_bytes: 1500,
            ..order_for(Role::Sender, "sctp-userspace", 1, 1).path
        };
        let options = Options::read(&OptionValues::new());
        let sizes = Sizes::of(&path, local, &options).expect("packets are large enough");
        let config = sizes.transport(&options);
        Self {
            sctp: Sctp {
                stack: sizes.stack(&config, listens),
                config,
                limits: sizes.limits(&options, LINGER),
            },
            associations: Connections::default(),
            address: SocketAddr::new(local, port),
            gone: false,
        }
    }

    /// Returns the association, once it has begun.
    fn association(&mut self) -> Option<&mut Association> {
        self.associations.get_mut(ASSOCIATION)
    }

    /// Whether the association was established.
    fn is_established(&mut self) -> bool {
        let established = |one: &mut Association| !one.is_handshaking();
        self.association().is_some_and(established)
    }

    fn has_ended(&mut self) -> bool {
        let ended = |one: &mut Association| one.poll_ended(&context()).is_ready();
        self.association().is_some_and(ended)
    }

    fn next_timeout(&mut self) -> Option<Instant> {
        match self.gone {
            true => None,
            false => self.association()?.next_timeout(),
        }
    }
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Properties of the path, the same in both directions.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// Probability that a packet is lost.
    loss_ratio: f64,
    delay: Duration,
    /// Maximum of a packet's additional delay, in which packets overtake one another.
    jitter: Duration,
    bytes_per_second: f64,
    /// Time for which a packet may wait for the link; packets that would wait longer are lost.
    queue: Duration,
    /// Begin and end of a time in which all packets are lost.
    outage: (Duration, Duration),
}

impl Path {
    fn random(random: &mut Random) -> Self {
        let max_jitter = random.one_of(&[Duration::ZERO, Duration::from_millis(50)]);
        Self {
            loss_ratio: random.one_of(&[0.0, 0.05, 0.1, 0.3]) * random.ratio(),
            delay: random.below(Duration::from_millis(100)),
            jitter: random.below(max_jitter),
            bytes_per_second: random.one_of(&[125_000.0, 1_250_000.0]),
            queue: random.one_of(&[Duration::from_millis(10), Duration::from_millis(300)]),
            outage: (Duration::ZERO, Duration::ZERO),
        }
    }
}

/// Way in which an end vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vanishing {
    /// Its process is killed.
    Killed,
    /// It aborts the association.
    Aborts,
    /// It closes in good order, and aborts if that takes too long.
    Closes,
}

/// Packet under way: time of its arrival, its number, the end that it is for, its bytes.
type UnderWay = (Instant, u64, usize, Vec<u8>);

struct World {
    begin: Instant,
    now: Instant,
    nodes: [Node; 2],
    path: Path,
    random: Random,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    packets: u64,
    /// Time at which the link of each direction is free, by the end that sends.
    free_at: [Instant; 2],
    /// Number of messages that the sender has still to write.
    to_write: usize,
    is_stream_open: bool,
    delivered: usize,
}

impl World {
    fn new(path: Path, random: Random, messages: usize) -> Self {
        let begin = Instant::now();
        let mut world = Self {
            begin,
            now: begin,
            nodes: [Node::new(1000, false), Node::new(2000, true)],
            path,
            random,
            under_way: BinaryHeap::new(),
            packets: 0,
            free_at: [begin; 2],
            to_write: messages,
            is_stream_open: false,
            delivered: 0,
        };
        let [client, server] = &mut world.nodes;
        let (from, to) = (client.address, server.address);
        let connected =
            (client.sctp).connect(from, to, Purpose::Transfer, &mut client.associations);
        assert_eq!(connected.expect("it can connect"), ASSOCIATION);
        world.turn(SENDER);
        world
    }

    /// Handles an end's expired timers, lets its application work, and hands its packets to the path.
    fn turn(&mut self, end: usize) {
        let now = self.now;
        if self.nodes[end].gone {
            return;
        }
        if self.nodes[end].next_timeout().is_some_and(|at| at <= now)
            && let Some(association) = self.nodes[end].association()
        {
            association.handle_timeout(now);
        }
        match end {
            SENDER => self.write(),
            _ => self.read(),
        }
        self.send(end);
    }

    fn write(&mut self) {
        if !self.nodes[SENDER].is_established() {
            return;
        }
        let Some(association) = self.nodes[SENDER].association() else {
            return;
        };
        if !self.is_stream_open {
            self.is_stream_open = association.open_stream().is_ok();
        }
        let message = Bytes::from_static(&[b'x'; MESSAGE_BYTES]);
        while self.to_write > 0 {
            match association.poll_write(MESSAGES, &message, &context()) {
                Poll::Ready(Ok(())) => self.to_write -= 1,
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
    }

    fn read(&mut self) {
        let Some(association) = self.nodes[RECEIVER].association() else {
            return;
        };
        let _ = association.poll_accept_stream(&context());
        let mut messages = VecDeque::new();
        while let Poll::Ready(Ok(true)) = association.poll_read(MESSAGES, &mut messages, &context())
        {
            self.delivered += messages.len();
            messages.clear();
        }
    }

    fn send(&mut self, end: usize) {
        let mut buffer = [0; Association::LONGEST_PACKET_BYTES];
        while let Some(association) = self.nodes[end].association()
            && let Some(transmit) = association.poll_transmit(self.now, &mut buffer)
        {
            self.put(end, &buffer[..transmit.bytes]);
        }
    }

    /// Hands a packet to the path.
    fn put(&mut self, from: usize, packet: &[u8]) {
        let leaves = self.free_at[from].max(self.now);
        if leaves - self.now > self.path.queue {
            return;
        }
        let takes = packet.len() as f64 / self.path.bytes_per_second;
        let left = leaves + Duration::from_secs_f64(takes);
        self.free_at[from] = left;
        let arrives = left + self.path.delay + self.random.below(self.path.jitter);
        let (is_out_from, is_out_until) = self.path.outage;
        let is_out = (is_out_from..is_out_until).contains(&(self.now - self.begin));
        if self.random.ratio() >= self.path.loss_ratio && !is_out {
            self.packets += 1;
            let packet = (arrives, self.packets, 1 - from, packet.to_vec());
            self.under_way.push(Reverse(packet));
        }
    }

    /// Lets time pass until `until`, or until `done`.
    fn run(&mut self, until: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let until = self.begin + until;
        while !done(self) {
            let arrival = self.under_way.peek().map(|Reverse((at, ..))| *at);
            let timers = self.nodes.each_mut().map(Node::next_timeout);
            let next = timers.into_iter().chain([arrival]).flatten().min();
            let Some(next) = next.filter(|at| *at <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            while let Some(Reverse((at, ..))) = self.under_way.peek()
                && *at <= self.now
                && let Some(Reverse((_, _, end, mut packet))) = self.under_way.pop()
            {
                self.arrive(end, &mut packet);
            }
            self.turn(SENDER);
            self.turn(RECEIVER);
        }
    }

    fn arrive(&mut self, end: usize, packet: &mut [u8]) {
        let from = self.nodes[1 - end].address;
        let node = &mut self.nodes[end];
        if !node.gone {
            let arrived = Arrived {
                from,
                to: node.address,
                segment: packet.len(),
                bytes: packet,
            };
            node.sctp.handle(self.now, arrived, &mut node.associations);
        }
    }

    fn vanish(&mut self, end: usize, vanishing: Vanishing) {
        if vanishing == Vanishing::Closes {
            if let Some(association) = self.nodes[end].association() {
                association.release();
            }
            self.send(end);
            let until = self.now - self.begin + LINGER;
            self.run(until, |world| world.nodes[end].has_ended());
        }
        if vanishing != Vanishing::Killed {
            if let Some(association) = self.nodes[end].association() {
                association.abort();
            }
            self.send(end);
        }
        self.nodes[end].gone = true;
    }
}

/// Lets an end vanish, and returns for how long the other end did not notice; `None` if it had no association.
fn time_until_noticed(seed: u64) -> Option<Duration> {
    let mut random = Random(seed);
    let path = Path::random(&mut random);
    let messages = random.one_of(&[0, 1, 20, 400]);
    let vanishing = random.one_of(&[Vanishing::Killed, Vanishing::Aborts, Vanishing::Closes]);
    let end = random.one_of(&[SENDER, RECEIVER]);
    let moment = random.below(Duration::from_secs(2));
    let mut world = World::new(path, random, messages);
    world.run(moment, |_| false);
    world.vanish(end, vanishing);
    let (other, vanished) = (1 - end, world.now);
    let until = world.now - world.begin + 2 * BOUND;
    world.run(until, |world| world.nodes[other].has_ended());
    // An association that is not established is ended by the deadline of its handshake.
    let noticed = || world.now - vanished;
    world.nodes[other].is_established().then(noticed)
}

/// An end that aborts is dropped next: what waits in front of the ABORT could keep it from leaving.
#[test]
fn abort_leaves_before_waiting_packets() {
    let mut random = Random(0);
    let path = Path {
        loss_ratio: 0.0,
        ..Path::random(&mut random)
    };
    let mut world = World::new(path, random, 0);
    let established = |world: &mut World| world.nodes[SENDER].is_established();
    world.run(Duration::from_secs(1), established);
    world.to_write = 400;
    world.write();
    let sender = world.nodes[SENDER].association().expect("it is there");
    let mut buffer = [0; Association::LONGEST_PACKET_BYTES];
    let mut next = |association: &mut Association| {
        let transmit = association.poll_transmit(world.now, &mut buffer)?;
        Some(wire::chunks(&buffer[..transmit.bytes]).collect::<Vec<_>>())
    };
    // The stack gives all its packets with the first.
    let first = next(sender).expect("a packet");
    assert!(matches!(first[..], [Chunk::Data(_), ..]), "{first:?}");
    assert!(!sender.waits_to_close());
    sender.abort();
    assert!(sender.waits_to_close() && !sender.is_over());
    let rest: Vec<_> = std::iter::from_fn(|| next(sender)).collect();
    assert_eq!(rest, [[Chunk::Abort]; 3]);
    assert!(!sender.waits_to_close() && sender.is_over());
}

#[test]
fn vanished_end_is_noticed_within_its_bound() {
    let seeds = repetitions(1000, 50_000);
    let mut established = 0;
    let mut late = Vec::new();
    for seed in 0..seeds {
        let noticed = time_until_noticed(seed);
        established += u64::from(noticed.is_some());
        late.extend(noticed.filter(|took| *took > BOUND).map(|_| seed));
    }
    assert!(
        2 * established > seeds,
        "{established} of {seeds} associations were established"
    );
    assert!(
        late.is_empty(),
        "not noticed with {} of {seeds} seeds: {late:?}",
        late.len()
    );
}

/// With these losses, an idle association ends by mistake with a probability of 10⁻¹⁰ for each HEARTBEAT: nine, or their
/// answers, are lost one after another.
#[test]
fn idle_association_is_kept() {
    for seed in 0..repetitions(20, 1000) {
        let mut random = Random(seed);
        let path = Path {
            loss_ratio: 0.04,
            ..Path::random(&mut random)
        };
        let mut world = World::new(path, random, 5);
        world.run(Duration::from_secs(3600), |world| {
            world.nodes[SENDER].has_ended() || world.nodes[RECEIVER].has_ended()
        });
        assert_eq!(
            world.now - world.begin,
            Duration::from_secs(3600),
            "seed {seed}"
        );
        assert_eq!(world.delivered, 5, "seed {seed}");
    }
}

#[test]
fn transfer_survives_an_outage() {
    for seed in 0..repetitions(20, 1000) {
        let mut random = Random(seed);
        let begins = random.below(Duration::from_secs(5));
        let path = Path {
            loss_ratio: 0.0,
            outage: (begins, begins + Duration::from_secs(20)),
            ..Path::random(&mut random)
        };
        let mut world = World::new(path, random, 2000);
        world.run(Duration::from_secs(600), |world| world.delivered == 2000);
        assert_eq!(world.delivered, 2000, "seed {seed}");
    }
}

/// Takes the datagrams that have arrived, each of which is its departure's time in nanoseconds; returns their delays.
fn datagram_delays(world: &mut World) -> Vec<Duration> {
    let (begin, now) = (world.begin, world.now);
    let mut messages = VecDeque::new();
    if let Some(association) = world.nodes[RECEIVER].association() {
        let _ = association.poll_read(DATAGRAMS, &mut messages, &context());
    }
    let delay = |message| {
        let mut departed = [0; 8];
        pass_on(message, &mut [], |bytes| departed.copy_from_slice(bytes));
        now - begin - Duration::from_nanos(u64::from_le_bytes(departed))
    };
    messages.into_iter().map(delay).collect()
}

/// A datagram takes as long as the path or is lost: none is sent again, and none waits for a lost one.
#[test]
fn lost_datagrams_are_not_sent_again() {
    const INTERVAL: Duration = Duration::from_millis(20);
    let path = Path {
        loss_ratio: 0.1,
        delay: Duration::from_millis(40),
        jitter: Duration::ZERO,
        bytes_per_second: 1_250_000.0,
        queue: Duration::from_millis(300),
        outage: (Duration::ZERO, Duration::ZERO),
    };
    let mut world = World::new(path, Random(1), 0);
    world.run(Duration::from_secs(60), |world| {
        let [client, server] = &mut world.nodes;
        client.is_established() && server.is_established()
    });
    let mut delays = Vec::new();
    for _ in 0..500 {
        let departs = world.now - world.begin;
        let message = (departs.as_nanos() as u64).to_le_bytes();
        let sender = world.nodes[SENDER].association().expect("it is there");
        sender.send_datagram(&message).expect("it is open");
        world.send(SENDER);
        world.run(departs + INTERVAL, |world| {
            delays.extend(datagram_delays(world));
            false
        });
    }
    let longest = delays.iter().max().expect("some arrive");
    assert!(*longest < Duration::from_millis(41), "{longest:?}");
    // 450, with six standard deviations.
    assert!((410..490).contains(&delays.len()), "{}", delays.len());
    let sender = world.nodes[SENDER].association().expect("it is there");
    assert_eq!(sender.counts().retransmitted_chunks, 0);
}
