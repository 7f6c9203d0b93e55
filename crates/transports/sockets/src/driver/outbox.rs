//! Packets of one connection that wait for the kernel.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use super::{Transmit, port::Port};

/// Largest UDP payload of one call of the kernel, whole batch: an IPv4 packet without its headers.
const MAX_BATCH_BYTES: usize = 65_507;

/// Maximum time by which a paced packet is sent early: a timer is not exact enough for every single
/// packet.
const BURST: Duration = Duration::from_millis(1);

/// Limits of segmentation offload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segmentation {
    /// Maximum number of packets in one call.
    pub packets: usize,
    /// Longest packet that the path takes in one piece, in bytes.
    pub packet_bytes: usize,
}

/// A batch of packets of one size, of which the last may be shorter, as segmentation offload takes
/// them, and one packet that did not fit the batch.
pub(super) struct Outbox {
    buffer: Vec<u8>,
    /// Bytes of the batch that the kernel has taken already.
    taken: usize,
    length: usize,
    /// Size of each packet but the last.
    segment: usize,
    segments: usize,
    segmentation: Segmentation,
    /// End of the current burst: packets whose pacing time comes before it leave with the burst.
    burst_until: Option<Instant>,
    /// Addresses and pacing time of the batch, if there is one.
    first: Option<Transmit>,
    /// Packet that begins the next batch.
    next: Option<(Vec<u8>, Transmit)>,
}

impl Outbox {
    /// Makes an outbox for packets of at most `longest` bytes.
    pub fn new(segmentation: Segmentation, longest: usize) -> Self {
        Self {
            // Whatever is written before, a whole packet still fits.
            buffer: vec![0; MAX_BATCH_BYTES + longest],
            taken: 0,
            length: 0,
            segment: 0,
            segments: 0,
            segmentation,
            burst_until: None,
            first: None,
            next: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.next.is_none()
    }

    /// Returns the batch's source address and the time at which it may leave, if there is one.
    pub fn waiting(&self) -> Option<(Option<SocketAddr>, Option<Instant>)> {
        self.first.map(|first| (first.from, first.at))
    }

    /// Takes packets from `write` until the batch is full; returns false if there are none left.
    pub fn fill(&mut self, mut write: impl FnMut(&mut [u8]) -> Option<Transmit>) -> bool {
        if self.first.is_none()
            && let Some((packet, transmit)) = self.next.take()
        {
            self.buffer[..packet.len()].copy_from_slice(&packet);
            self.begin(transmit);
        }
        // A packet that may not leave yet is not followed by others.
        while self.next.is_none() && self.takes_more() {
            let Some(transmit) = write(&mut self.buffer[self.length..]) else {
                return false;
            };
            let Some(first) = self.first else {
                self.begin(transmit);
                continue;
            };
            let fits = transmit.bytes <= self.segment
                && (transmit.from, transmit.to) == (first.from, first.to)
                && self.is_due(transmit);
            if fits {
                self.length += transmit.bytes;
                self.segments += 1;
            } else {
                let packet = self.buffer[self.length..self.length + transmit.bytes].to_vec();
                self.next = Some((packet, transmit));
            }
        }
        true
    }

    fn begin(&mut self, first: Transmit) {
        (self.taken, self.length, self.segment, self.segments) = (0, first.bytes, first.bytes, 1);
        self.first = Some(first);
    }

    fn is_due(&mut self, transmit: Transmit) -> bool {
        let Some(at) = transmit.at else { return true };
        if self.burst_until.is_some_and(|until| at <= until) {
            return true;
        }
        let now = Instant::now();
        let due = at <= now;
        if due {
            self.burst_until = Some(now + BURST);
        }
        due
    }

    fn takes_more(&mut self) -> bool {
        let Some(first) = self.first else { return true };
        self.segments < self.segmentation.packets
            && self.segment <= self.segmentation.packet_bytes
            && self.length == self.segments * self.segment
            && self.length + self.segment <= MAX_BATCH_BYTES
            && self.is_due(first)
    }

    /// Hands the batch to the kernel if its time has come; returns false if the kernel has no room.
    ///
    /// # Errors
    /// An error that makes sending impossible.
    pub fn send(&mut self, ports: &[Port]) -> io::Result<bool> {
        let Some(first) = self.first else {
            return Ok(true);
        };
        if !self.is_due(first) {
            return Ok(true);
        }
        let from_it = |port: &&Port| first.from.is_none_or(|from| port.address == from);
        // A connection knows no address but those of the ports.
        if let Some(port) = ports.iter().find(from_it) {
            let packets = &self.buffer[self.taken..self.length];
            self.taken += port.send(first.to, packets, self.segment)?;
            if self.taken < self.length {
                return Ok(false);
            }
        }
        (self.length, self.segments) = (0, 0);
        self.first = None;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SEGMENTATION: Segmentation = Segmentation {
        packets: 64,
        packet_bytes: 9000,
    };

    fn packet(bytes: usize, at: Option<Instant>) -> Transmit {
        Transmit {
            bytes,
            from: None,
            to: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
            at,
        }
    }

    /// Returns the sizes of the batches that a connection's packets are sent in.
    fn batches(sizes: &[usize], segmentation: Segmentation) -> Vec<Vec<usize>> {
        let mut outbox = Outbox::new(segmentation, 10_000);
        let mut sizes = sizes.iter().copied();
        let mut write = |buffer: &mut [u8]| {
            let size = sizes.next()?;
            buffer[..size].fill(size as u8);
            Some(packet(size, None))
        };
        let mut batches = Vec::new();
        loop {
            let more = outbox.fill(&mut write);
            let packets = outbox.buffer[..outbox.length].chunks(outbox.segment.max(1));
            batches.push(packets.map(<[u8]>::len).collect::<Vec<_>>());
            assert!(outbox.send(&[]).expect("no port fails"), "no port refuses");
            if !more && outbox.is_empty() {
                return batches;
            }
        }
    }

    #[test]
    fn a_batch_holds_packets_of_one_size_and_a_last_shorter_one() {
        let made = batches(&[9, 9, 9, 4, 9], SEGMENTATION);
        assert_eq!(made, [vec![9, 9, 9, 4], vec![9]]);
        // A larger one begins the next batch.
        assert_eq!(batches(&[4, 9, 9], SEGMENTATION), [vec![4], vec![9, 9]]);
        assert_eq!(batches(&[], SEGMENTATION), [Vec::<usize>::new()]);
    }

    #[test]
    fn batch_respects_the_segment_limit_of_the_kernel() {
        let two = Segmentation {
            packets: 2,
            ..SEGMENTATION
        };
        assert_eq!(batches(&[9; 5], two), [vec![9, 9], vec![9, 9], vec![9]]);
        let one = Segmentation {
            packets: 1,
            ..SEGMENTATION
        };
        assert_eq!(batches(&[9, 4], one), [vec![9], vec![4], vec![]]);
    }

    #[test]
    fn fragmented_packets_are_sent_singly() {
        let small = Segmentation {
            packet_bytes: 8,
            ..SEGMENTATION
        };
        assert_eq!(batches(&[9, 9], small), [vec![9], vec![9], vec![]]);
        assert_eq!(batches(&[8, 9, 8], small), [vec![8], vec![9], vec![8]]);
    }

    #[test]
    fn packet_is_held_until_its_departure_time() {
        let later = Instant::now() + Duration::from_secs(3600);
        let mut times = vec![later, Instant::now(), Instant::now()];
        let mut write = |_: &mut [u8]| Some(packet(9, Some(times.pop()?)));
        let mut outbox = Outbox::new(SEGMENTATION, 9);
        assert!(outbox.fill(&mut write));
        assert_eq!(outbox.segments, 2);
        assert!(outbox.send(&[]).expect("sent") && !outbox.is_empty());
        assert!(outbox.fill(&mut write));
        let sent = outbox.send(&[]).expect("no error");
        assert!(sent, "waiting is not being blocked");
        assert_eq!(outbox.waiting(), Some((None, Some(later))));
        assert_eq!(outbox.segments, 1);
    }

    #[test]
    fn batch_size_is_below_the_kernel_limit() {
        for batch in batches(&[8972; 20], SEGMENTATION) {
            assert!(batch.iter().sum::<usize>() <= MAX_BATCH_BYTES);
        }
    }
}
