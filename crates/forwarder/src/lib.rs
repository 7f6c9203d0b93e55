//! Thread that carries packets from one TUN device to the other through the emulation, and captures them.
//!
//! It is a crate of its own because packets pass through it: it is optimised, and what sets the path up is not.

mod capture;
pub mod clock;
mod corruption;
mod counters;
mod error;
mod frame;
mod ip;
mod lateness;
mod merge;
mod ring;

use std::{
    collections::VecDeque,
    convert::Infallible,
    fs::File,
    io::{self, Read, Write},
    os::fd::AsFd,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::eventfd::{EfdFlags, EventFd},
};
use regatta_emulation::{Direction, Discarded, Due, EmulatedLink, FlowPath, Offer};
use regatta_model::{Condition, Fate, PacketCounter};

use self::{
    capture::{CAPTURED, COPY, Verdict},
    clock::{Coalescing, RealTimeThrottle, monotonic_ns},
    frame::Frame,
    lateness::{Arrivals, Lateness},
    merge::{WINDOW, mergeable},
    ring::Ring,
};
pub use self::{
    capture::{CaptureOrder, CaptureSender, CaptureSummary, PASSED, Recorder},
    counters::{CompetingFlow, FlowCounters, LinkCounters, UnsupportedCounters},
    error::ForwarderError,
};

/// Packets that a host's device holds for the forwarder. At 1 Gbit/s and 1500 bytes this bridges a pause of the forwarder of
/// 98 ms, longer than those of a virtual machine whose processors are shared. What waits here is late, and counts so.
pub const QUEUE_PACKETS: u32 = 8192;

/// Bytes of `struct virtio_net_hdr` before each packet: with it a checksum that is not yet computed
/// is carried from one kernel to the other, as between two ends of a virtual Ethernet.
pub const HEADER_BYTES: usize = 10;

/// Packets that are read from one device, and that are written to one, before others get their turn.
const BATCH: usize = 32;

/// Maximum batch in real time while no packet is overdue by [`OVERDUE_NS`]: the acknowledgements of one batch can make
/// the other kernel send as many packets.
const LONG_BATCH: usize = 256;

/// Lateness from which batches are short, in nanoseconds.
const OVERDUE_NS: u64 = 1_000_000;

/// Number of turns without sleep after which a busy thread serves requests. At one [`BATCH`] a turn it has then read as
/// many packets as a device holds.
const TURNS: u32 = QUEUE_PACKETS / BATCH as u32;

/// Maximum number of free buffers that are kept. Duplicated packets have buffers of their own, which would
/// otherwise pile up.
const POOL: usize = 32_768;

/// One direction: from a device through an emulated link to the other device.
struct Link {
    from: File,
    to: File,
    emulated: EmulatedLink<Frame>,
    lateness: Lateness,
    /// Packets that the other device did not accept.
    refused: u64,
    /// Packets that are due and not yet written.
    due: VecDeque<Due<Frame>>,
}

impl Link {
    fn new(from: File, to: File, emulated: EmulatedLink<Frame>, condition: &Condition) -> Self {
        Self {
            from,
            to,
            emulated,
            lateness: Lateness::new(condition.late_after()),
            refused: 0,
            due: VecDeque::new(),
        }
    }

    fn counters(&self) -> LinkCounters {
        let counted = self.emulated.counters();
        let lateness = self.lateness;
        let mut packets = counted.packets;
        packets[PacketCounter::Refused] = self.refused;
        LinkCounters {
            offered: counted.offered,
            delivered: counted.delivered - self.refused,
            packets,
            queue_max_bytes: counted.queue_max_bytes,
            late_packets: lateness.late,
            lateness_mean_ns: match counted.delivered {
                0 => 0.0,
                delivered => lateness.sum_ns as f64 / delivered as f64,
            },
            lateness_max_ns: lateness.max_ns,
            unsupported: UnsupportedCounters::default(),
        }
    }

    /// Counts and captures a packet that was written `now`, or was not accepted by its device.
    fn ended(
        &mut self,
        direction: u8,
        due: Due<Frame>,
        now: u64,
        is_accepted: bool,
        tap: Option<&mut CaptureSender>,
        pool: &mut Vec<Box<[u8]>>,
    ) {
        let Due { at, packet } = due;
        self.lateness.leave(now - at, packet.lag_ns.into());
        self.refused += u64::from(!is_accepted);
        if let Some(tap) = tap {
            if packet.marks & COPY == 0 {
                let verdict = match is_accepted {
                    true => Verdict::Delivered,
                    false => Verdict::Refused,
                };
                packet.ended(tap, now, verdict);
            } else if is_accepted {
                tap.copied(direction, now, packet.bytes());
            }
        }
        keep(pool, packet.buffer);
    }

    /// Captures the packets that the link has dropped after it had accepted them.
    fn discarded(&mut self, mut tap: Option<&mut CaptureSender>, pool: &mut Vec<Box<[u8]>>) {
        while let Some(Discarded { at, packet, cause }) = self.emulated.discarded() {
            if let Some(tap) = &mut tap {
                packet.ended(tap, at, Verdict::Dropped(cause));
            }
            keep(pool, packet.buffer);
        }
    }
}

/// Keeps a buffer for later packets, unless there are enough.
fn keep(pool: &mut Vec<Box<[u8]>>, buffer: Box<[u8]>) {
    if pool.len() < POOL {
        pool.push(buffer);
    }
}

/// Work that the thread does between packets.
type Request = Box<dyn FnOnce(&mut Running) + Send>;

/// Handle of the thread, which ends with the process.
pub struct Forwarder {
    requests: Sender<Request>,
    wake: Arc<EventFd>,
}

impl Forwarder {
    /// Starts carrying packets between two devices, at first over a path without impairments.
    pub fn start(devices: [[File; 2]; 2]) -> Result<Self, ForwarderError> {
        let condition = unimpaired();
        let [[a_in, a_out], [b_in, b_out]] = devices;
        let [forward, reverse] = emulated(&condition, 0)?;
        let links = [
            Link::new(a_in, b_out, forward, &condition),
            Link::new(b_in, a_out, reverse, &condition),
        ];
        let wake = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|e| ForwarderError::Thread(e.into()))?;
        let wake = Arc::new(wake);
        let (requests, inbox) = mpsc::channel();
        let woken_by = Arc::clone(&wake);
        spawn("forwarder", move || {
            let rests = clock::wake_on_time();
            let running = Running {
                links,
                inbox,
                wake: woken_by,
                buffer_bytes: buffer_bytes(&condition),
                pool: Vec::new(),
                overdue_ns: 0,
                arrivals: Arrivals::new(),
                rests,
                coalescing: Coalescing::new(),
                busy_polls: clock::polls_busily(),
                tap: None,
                conditions: 0,
            };
            match clock::is_virtual().then(|| Ring::new(&running)) {
                Some(Ok(ring)) => running.run_on(ring),
                // The kernel has no such rings.
                Some(Err(_)) | None => running.run(),
            };
        })?;
        Ok(Self { requests, wake })
    }

    /// Empties the path and its devices, zeroes the counters and sets a condition.
    pub fn set(&self, condition: &Condition, seed: u64) -> Result<(), ForwarderError> {
        let condition = condition.clone();
        self.request(move |running| running.install(&condition, seed))?
    }

    /// Begins the condition's schedule and its traces now.
    pub fn begin(&self) -> Result<(), ForwarderError> {
        self.request(|running| {
            let now = monotonic_ns();
            for link in &mut running.links {
                link.emulated.begin(now);
            }
        })
    }

    /// Returns the counters forward and reverse since [`Forwarder::set`]. Drops at the sending
    /// devices are not included.
    ///
    /// # Errors
    /// [`ForwarderError::Unaccounted`] if the packets of a link do not add up.
    pub fn counters(&self) -> Result<[LinkCounters; 2], ForwarderError> {
        self.request(|running| {
            let links = running.links.iter().zip(["forward", "reverse"]);
            for (link, direction) in links {
                let [came, accounted] = link.emulated.accounts();
                if came != accounted {
                    return Err(ForwarderError::Unaccounted {
                        direction,
                        came,
                        accounted,
                    });
                }
            }
            Ok(running.links.each_ref().map(Link::counters))
        })?
    }

    /// Tells these flows apart from now on, until the next [`Forwarder::set`].
    pub fn set_flows(&self, flows: &[CompetingFlow]) -> Result<(), ForwarderError> {
        let path = |flow: &CompetingFlow| FlowPath {
            port: flow.server_port,
            protocol: flow.protocol,
            delay: flow.delay,
        };
        let paths: Vec<FlowPath> = flows.iter().map(path).collect();
        self.request(move |running| {
            for link in &mut running.links {
                link.emulated.set_flows(&paths);
            }
        })
    }

    /// Returns the counters of each flow since [`Forwarder::set_flows`].
    pub fn flow_counters(&self) -> Result<Vec<FlowCounters>, ForwarderError> {
        self.request(|running| {
            let [forward, reverse] = running
                .links
                .each_ref()
                .map(|it| it.emulated.flow_counters());
            let both = forward.into_iter().zip(reverse);
            let of_both = both.map(|(forward, reverse)| {
                let sum = |part: fn(&regatta_emulation::FlowCounters) -> u64| {
                    part(&forward) + part(&reverse)
                };
                FlowCounters {
                    offered: sum(|it| it.offered),
                    dropped: sum(|it| it.packets.with_fate(Fate::Dropped)),
                    marked: sum(|it| it.packets[PacketCounter::Marked]),
                }
            });
            of_both.collect()
        })
    }

    /// Sends all packets from now on to the capture `tap`, or to none. The previous capture has
    /// received all of its packets when this returns.
    pub fn set_capture(&self, tap: Option<CaptureSender>) -> Result<(), ForwarderError> {
        self.request(|running| {
            if let Some(before) = std::mem::replace(&mut running.tap, tap) {
                before.finish();
            }
        })
    }

    /// Runs `work` on the thread and returns its result.
    fn request<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Running) -> T + Send + 'static,
    ) -> Result<T, ForwarderError> {
        let (reply, answer) = mpsc::channel();
        let request = Box::new(move |running: &mut Running| {
            // The caller may have ended; that is no reason to stop.
            let _ = reply.send(work(running));
        });
        let sent = self.requests.send(request);
        sent.map_err(|_| ForwarderError::Ended)?;
        // Fails only when the counter is full, and then the thread wakes up as well.
        let _ = self.wake.write(1);
        answer.recv().map_err(|_| ForwarderError::Ended)
    }
}

/// Returns the condition of a path without impairments.
fn unimpaired() -> Condition {
    Condition {
        name: String::new(),
        forward: regatta_model::Link::default(),
        reverse: regatta_model::Link::default(),
        mtu_bytes: Condition::DEFAULT_MTU_BYTES,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    }
}

/// Creates the emulated links of both directions.
fn emulated(condition: &Condition, seed: u64) -> Result<[EmulatedLink<Frame>; 2], ForwarderError> {
    let link = |direction, name| {
        EmulatedLink::new(condition, direction, seed).map_err(|source| ForwarderError::Link {
            condition: condition.name.clone(),
            direction: name,
            source,
        })
    };
    Ok([
        link(Direction::Forward, "forward")?,
        link(Direction::Reverse, "reverse")?,
    ])
}

/// Returns the size of a buffer for the largest packet and one byte more, by which a larger packet
/// is recognised.
fn buffer_bytes(condition: &Condition) -> usize {
    HEADER_BYTES + condition.mtu_bytes as usize + 1
}

struct Running {
    links: [Link; 2],
    inbox: Receiver<Request>,
    wake: Arc<EventFd>,
    buffer_bytes: usize,
    /// Buffers that are free.
    pool: Vec<Box<[u8]>>,
    /// Time for which the packets that wait to be written have been due, in nanoseconds.
    overdue_ns: u64,
    arrivals: Arrivals,
    rests: Option<RealTimeThrottle>,
    coalescing: Option<Coalescing>,
    busy_polls: bool,
    /// Capture to which the packets are reported.
    tap: Option<CaptureSender>,
    /// Number of conditions that were set.
    conditions: u32,
}

impl Running {
    /// Carries packets until the handle is dropped or the kernel returns an error.
    fn run(mut self) -> Option<Infallible> {
        let mut readable = [true; 2];
        let mut turns = 0_u32;
        loop {
            if let Some(rests) = &mut self.rests
                && let Some(rest) = rests.due(monotonic_ns())
            {
                thread::sleep(rest);
            }
            for (link, readable) in readable.iter_mut().enumerate() {
                if *readable {
                    *readable = self.read_batch(link);
                }
            }
            // A packet that is written may have the other kernel send many, and they wait to be read.
            if self.deliver() {
                readable = [true; 2];
            }
            if let Some(tap) = &mut self.tap {
                tap.hand_over();
            }
            if readable[0] || readable[1] {
                turns = turns.wrapping_add(1);
                // A look at the inbox is no system call.
                if turns.is_multiple_of(TURNS) {
                    self.serve()?;
                }
                continue;
            }
            turns = 0;
            let [forward, reverse] = &self.links;
            let next = [forward.emulated.next(), reverse.emulated.next()];
            let [from_a, from_b, request] = self.wait(next.into_iter().flatten().min())?;
            readable = [from_a, from_b];
            if request {
                // Fails only when another read has already emptied it.
                let _ = self.wake.read();
                self.serve()?;
            }
        }
    }

    /// Reads a batch of packets of one direction and offers them to its emulated link; returns whether there
    /// may be more.
    fn read_batch(&mut self, which: usize) -> bool {
        let arrived = self.arrivals.earliest(which);
        let mut looked = monotonic_ns();
        let is_ahead = self.coalescing.is_some() && self.overdue_ns < OVERDUE_NS;
        for _ in 0..if is_ahead { LONG_BATCH } else { BATCH } {
            let mut buffer = self.buffer();
            match self.links[which].from.read(&mut buffer) {
                Ok(length) if length > HEADER_BYTES => {
                    let now = monotonic_ns();
                    looked = now;
                    if let Some(coalescing) = &mut self.coalescing {
                        coalescing.count(now);
                    }
                    self.offer(which, arrived, now, buffer, length);
                }
                Ok(_) => self.pool.push(buffer),
                Err(error) => {
                    self.pool.push(buffer);
                    if error.kind() != io::ErrorKind::Interrupted {
                        self.arrivals.empty(which, looked);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Returns a buffer for a packet.
    fn buffer(&mut self) -> Box<[u8]> {
        let new = || vec![0; self.buffer_bytes].into_boxed_slice();
        self.pool.pop().unwrap_or_else(new)
    }

    /// Offers a packet of `length` bytes with its header, read `now`, to the emulated link of its direction; it arrived
    /// at its device at `arrived` or later.
    fn offer(&mut self, which: usize, arrived: u64, now: u64, buffer: Box<[u8]>, length: usize) {
        let link = &mut self.links[which];
        let free = link.emulated.free_at(length - HEADER_BYTES);
        let lag_ns = link.lateness.enter(arrived, now, free);
        let mut frame = Frame {
            buffer,
            // The buffer is no longer.
            length: length as u16,
            marks: 0,
            number: 0,
            lag_ns: u32::try_from(lag_ns).unwrap_or(u32::MAX),
        };
        if let Some(tap) = &mut self.tap
            && let Some(number) = tap.entered(which as u8, now, frame.bytes())
        {
            frame.marks = CAPTURED;
            frame.number = number;
        }
        if let Offer::Dropped { packet, cause } = link.emulated.offer(now, frame) {
            if let Some(tap) = &mut self.tap {
                packet.ended(tap, now, Verdict::Dropped(cause));
            }
            self.pool.push(packet.buffer);
        }
    }

    /// Writes a batch of the packets that are due in each direction; returns whether there may be more.
    fn deliver(&mut self) -> bool {
        let mut may_be_more = false;
        self.overdue_ns = 0;
        // TCP segments that are due by now leave as one, except in virtual time.
        let most = if self.coalescing.is_some() { WINDOW } else { 1 };
        for (direction, link) in self.links.iter_mut().enumerate() {
            let mut now = monotonic_ns();
            let mut overdue_ns = 0;
            for turn in 0.. {
                if turn == BATCH {
                    may_be_more = true;
                    self.overdue_ns = self.overdue_ns.max(overdue_ns);
                    break;
                }
                while link.due.len() < most
                    && let Some(due) = link.emulated.poll(now)
                {
                    link.due.push_back(due);
                }
                if link.due.is_empty() {
                    break;
                }
                let which = mergeable(link.due.iter().map(|due| due.packet.bytes()));
                let is_one_of = |position: usize| (which >> position) & 1 == 1;
                let written = match which {
                    1 => link.to.write(link.due[0].packet.bytes()).map(|_| ()),
                    _ => {
                        let all = link.due.iter().enumerate();
                        let merged = all.filter(|(position, _)| is_one_of(*position));
                        merge::write(&link.to, merged.map(|(_, due)| due.packet.bytes()))
                    }
                };
                // The others go once around, so that they keep their order.
                let around = if which == 1 { 1 } else { link.due.len() };
                for position in 0..around {
                    let Some(due) = link.due.pop_front() else {
                        break;
                    };
                    if !is_one_of(position) {
                        link.due.push_back(due);
                        continue;
                    }
                    overdue_ns = now - due.at;
                    let tap = self.tap.as_mut();
                    link.ended(
                        direction as u8,
                        due,
                        now,
                        written.is_ok(),
                        tap,
                        &mut self.pool,
                    );
                }
                now = monotonic_ns();
            }
            link.discarded(self.tap.as_mut(), &mut self.pool);
        }
        may_be_more
    }

    /// Sleeps until a packet or a request arrives or a packet is due; returns whether each device is readable and whether
    /// there is a request, or `None` if the kernel refuses.
    fn wait(&mut self, until: Option<u64>) -> Option<[bool; 3]> {
        let [forward, reverse] = &self.links;
        let mut polled = [
            forward.from.as_fd(),
            reverse.from.as_fd(),
            self.wake.as_fd(),
        ]
        .map(|file| PollFd::new(file, PollFlags::POLLIN));
        let mut from = monotonic_ns();
        let pause = self.coalescing.as_ref().and_then(|it| it.pause(from));
        if let Some(pause) = pause {
            thread::sleep(pause);
            from = monotonic_ns();
        }
        // Polling busily it comes back at once, until something has come or is due.
        let until = if self.busy_polls { Some(from) } else { until };
        let timeout = until.map(|at| Duration::from_nanos(at.saturating_sub(from)).into());
        match ppoll(&mut polled, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
        let now = monotonic_ns();
        if let Some(coalescing) = &mut self.coalescing {
            coalescing.woke(now);
        }
        if !self.busy_polls {
            self.arrivals.woke(from, now);
        }
        let woken = polled.map(|polled| polled.any() != Some(false));
        for (device, readable) in woken.into_iter().take(2).enumerate() {
            if !readable {
                self.arrivals.empty(device, from);
            }
        }
        Some(woken)
    }

    /// Serves every request that waits; returns `None` if the handle was dropped.
    fn serve(&mut self) -> Option<()> {
        loop {
            match self.inbox.try_recv() {
                Ok(request) => request(self),
                Err(mpsc::TryRecvError::Empty) => return Some(()),
                Err(mpsc::TryRecvError::Disconnected) => return None,
            }
        }
    }

    fn install(&mut self, condition: &Condition, seed: u64) -> Result<(), ForwarderError> {
        let links = emulated(condition, seed)?;
        self.conditions = self.conditions.wrapping_add(1);
        let needed_bytes = buffer_bytes(condition);
        if needed_bytes != self.buffer_bytes {
            self.buffer_bytes = needed_bytes;
            self.pool.clear();
        }
        if let Some(coalescing) = &mut self.coalescing {
            coalescing.fit(condition.shortest_delay());
        }
        // What is under way was read into buffers of the old size, which go with the old links.
        for (link, emulated) in self.links.iter_mut().zip(links) {
            link.emulated = emulated;
            link.lateness = Lateness::new(condition.late_after());
            link.refused = 0;
            link.due.clear();
            discard(&mut link.from);
        }
        Ok(())
    }
}

/// Discards the packets that wait in a device: at most one full device, so that a host that goes on
/// sending cannot hold this up.
fn discard(device: &mut File) {
    let mut scrap = [0; 2048];
    for _ in 0..1 << 15 {
        if device.read(&mut scrap).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;

/// Starts a thread with a name.
fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ForwarderError> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map_err(ForwarderError::Thread)
}
