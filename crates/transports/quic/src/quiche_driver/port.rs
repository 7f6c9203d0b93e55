//! A UDP port: the socket, its offloads, and batches of packets for one call of the kernel.

use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::{Duration, Instant},
};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;

/// Largest UDP payload of one call of the kernel, whole batch: an IPv4 packet without its headers.
const MOST_BATCH_BYTES: usize = 65_507;

/// Longest packet that quiche writes, in bytes: the largest value of a two-byte length.
const LONGEST_PACKET_BYTES: usize = 16_383;

/// Maximum time by which a paced packet is sent early: a timer is not exact enough for every single
/// packet.
pub(super) const BURST: Duration = Duration::from_millis(1);

/// Buffers that one call of the kernel fills, each with as many packets as the kernel coalesces.
const RECEIVE_BUFFERS: usize = 8;

/// Size of each receive buffer, in bytes: the most that the kernel coalesces.
const RECEIVE_BUFFER_BYTES: usize = 65_536;

/// A socket and its address.
#[derive(Debug)]
pub(super) struct Port {
    socket: tokio::net::UdpSocket,
    offloads: UdpSocketState,
    pub address: SocketAddr,
}

impl Port {
    /// Wraps a bound, non-blocking socket; to be called inside the runtime.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        let offloads = UdpSocketState::new((&socket).into())?;
        Ok(Self {
            socket,
            offloads,
            address,
        })
    }

    /// Returns the maximum number of packets of one size that one call takes; 1 without
    /// segmentation offload.
    pub fn most_segments(&self) -> usize {
        self.offloads.max_gso_segments()
    }

    /// Returns the maximum number of packets that one buffer receives; 1 without receive offload.
    pub fn receive_segments(&self) -> usize {
        self.offloads.gro_segments()
    }

    /// Hands packets to the kernel; `false` if it has no room for them now.
    ///
    /// Any other error of the kernel is no error of the connection: the packets are lost, and sent
    /// again.
    pub fn send(&self, transmit: &Transmit<'_>) -> bool {
        let sent = self.socket.try_io(Interest::WRITABLE, || {
            self.offloads.send((&self.socket).into(), transmit)
        });
        !matches!(sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    pub async fn writable(&self) {
        // An error shows in the next call.
        let _ = self.socket.writable().await;
    }

    pub async fn readable(&self) {
        let _ = self.socket.readable().await;
    }
}

/// Receive buffers.
pub(super) struct Inbox {
    buffers: Vec<Vec<u8>>,
    meta: [RecvMeta; RECEIVE_BUFFERS],
}

impl Inbox {
    pub fn new() -> Self {
        Self {
            buffers: vec![vec![0; RECEIVE_BUFFER_BYTES]; RECEIVE_BUFFERS],
            meta: [RecvMeta::default(); RECEIVE_BUFFERS],
        }
    }

    /// Receives waiting packets, at most as many as the buffers hold, and passes each with its
    /// sender to `each`; `false` if none was waiting.
    pub fn receive(&mut self, port: &Port, mut each: impl FnMut(&mut [u8], SocketAddr)) -> bool {
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFERS] = std::array::from_fn(|_| {
            IoSliceMut::new(buffers.next().map_or(&mut [][..], Vec::as_mut_slice))
        });
        let received = port.socket.try_io(Interest::READABLE, || {
            port.offloads
                .recv((&port.socket).into(), &mut slices, &mut self.meta)
        });
        // Errors of earlier datagrams, such as a port that nobody listens on, are no news to QUIC.
        let Ok(count) = received else {
            return false;
        };
        for (buffer, meta) in self.buffers.iter_mut().zip(&self.meta[..count]) {
            let length = meta.len.min(buffer.len());
            for packet in buffer[..length].chunks_mut(meta.stride.max(1)) {
                each(packet, meta.addr);
            }
        }
        true
    }
}

/// Packets of one connection that wait for the kernel: a batch of packets of one size, of which the
/// last may be shorter, as segmentation offload takes them, and one packet that did not fit the
/// batch.
pub(super) struct Outbox {
    place: Vec<u8>,
    length: usize,
    /// Size of each packet but the last.
    segment: usize,
    segments: usize,
    most_segments: usize,
    /// Whether packets wait for their pacing time.
    paces: bool,
    /// End of the current burst: packets whose pacing time comes before it leave with the burst.
    burst_until: Instant,
    way: Option<Way>,
    /// Packet that begins the next batch.
    next: Option<(Vec<u8>, Way)>,
}

/// Source and destination of a packet, and the earliest time to send it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub at: Instant,
}

impl From<quiche::SendInfo> for Way {
    fn from(info: quiche::SendInfo) -> Self {
        Self {
            from: info.from,
            to: info.to,
            at: info.at,
        }
    }
}

/// Result of filling a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// The connection may have more to send.
    More,
    /// The connection has nothing to send now.
    Done,
}

impl Outbox {
    pub fn new(most_segments: usize, paces: bool) -> Self {
        Self {
            // Whatever is written before, a whole packet still fits.
            place: vec![0; MOST_BATCH_BYTES + LONGEST_PACKET_BYTES],
            length: 0,
            segment: 0,
            segments: 0,
            most_segments,
            paces,
            burst_until: Instant::now(),
            way: None,
            next: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.next.is_none()
    }

    /// Returns the time at which the batch may leave, if there is one.
    pub fn due(&self) -> Option<Instant> {
        self.way.map(|way| way.at)
    }

    /// Returns the source address of the batch, if there is one.
    pub fn from(&self) -> Option<SocketAddr> {
        self.way.map(|way| way.from)
    }

    /// Returns the last packet of the batch.
    pub fn last_packet(&self) -> Option<(&[u8], Way)> {
        match (&self.next, self.way) {
            (Some((packet, way)), _) => Some((packet, *way)),
            (None, Some(way)) if self.segments > 0 => {
                let begins = (self.segments - 1) * self.segment;
                Some((&self.place[begins..self.length], way))
            }
            _ => None,
        }
    }

    /// Takes packets from `write` until the batch is full or there are none.
    pub fn fill(
        &mut self,
        mut write: impl FnMut(&mut [u8]) -> quiche::Result<(usize, quiche::SendInfo)>,
    ) -> quiche::Result<Filled> {
        if let Some((packet, way)) = self.next.take() {
            if self.length > 0 {
                self.next = Some((packet, way));
                return Ok(Filled::More);
            }
            self.place[..packet.len()].copy_from_slice(&packet);
            self.begin(packet.len(), way);
        }
        loop {
            // A packet that may not leave yet is not followed by others.
            if self.segments > 0 && !self.takes_more() {
                return Ok(Filled::More);
            }
            let (length, info) = match write(&mut self.place[self.length..]) {
                Ok(written) => written,
                Err(quiche::Error::Done) => return Ok(Filled::Done),
                Err(error) => return Err(error),
            };
            let way = Way::from(info);
            let Some(first) = self.way else {
                self.begin(length, way);
                continue;
            };
            let fits = length <= self.segment
                && (way.from, way.to) == (first.from, first.to)
                && self.is_due(way);
            if !fits {
                let packet = self.place[self.length..self.length + length].to_vec();
                self.next = Some((packet, way));
                return Ok(Filled::More);
            }
            self.length += length;
            self.segments += 1;
            if length < self.segment {
                return Ok(Filled::More);
            }
        }
    }

    fn begin(&mut self, length: usize, way: Way) {
        (self.length, self.segment, self.segments) = (length, length, 1);
        self.way = Some(way);
    }

    fn is_due(&mut self, way: Way) -> bool {
        if !self.paces || way.at <= self.burst_until {
            return true;
        }
        let now = Instant::now();
        let due = way.at <= now;
        if due {
            self.burst_until = now + BURST;
        }
        due
    }

    fn takes_more(&mut self) -> bool {
        self.segments < self.most_segments
            && self.length == self.segments * self.segment
            && self.length + self.segment <= MOST_BATCH_BYTES
            && self.way.is_none_or(|way| self.is_due(way))
    }

    /// Hands the batch to the kernel if its time has come; `false` if the kernel has no room.
    pub fn send(&mut self, ports: &[Arc<Port>]) -> bool {
        let Some(way) = self.way else {
            return true;
        };
        if !self.is_due(way) {
            return true;
        }
        let transmit = Transmit {
            destination: way.to,
            ecn: None,
            contents: &self.place[..self.length],
            segment_size: (self.segments > 1).then_some(self.segment),
            src_ip: None,
        };
        // A connection knows no address but those of the ports.
        let port = ports.iter().find(|port| port.address == way.from);
        if port.is_some_and(|port| !port.send(&transmit)) {
            return false;
        }
        (self.length, self.segments) = (0, 0);
        self.way = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn written(
        sizes: &[usize],
    ) -> impl FnMut(&mut [u8]) -> quiche::Result<(usize, quiche::SendInfo)> {
        let mut sizes = sizes.iter().copied();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let at = Instant::now();
        move |place| {
            let size = sizes.next().ok_or(quiche::Error::Done)?;
            place[..size].fill(size as u8);
            let (from, to) = (address, address);
            Ok((size, quiche::SendInfo { from, to, at }))
        }
    }

    /// Returns the sizes of the batches that a connection's packets are sent in.
    fn batches(sizes: &[usize], most: usize) -> Vec<Vec<usize>> {
        let mut outbox = Outbox::new(most, false);
        let mut write = written(sizes);
        let mut batches = Vec::new();
        loop {
            let filled = outbox.fill(&mut write).expect("no error");
            let packets = outbox.place[..outbox.length].chunks(outbox.segment.max(1));
            batches.push(packets.map(<[u8]>::len).collect::<Vec<_>>());
            assert!(outbox.send(&[]), "no port refuses");
            if filled == Filled::Done && outbox.is_empty() {
                return batches;
            }
        }
    }

    #[test]
    fn a_batch_holds_packets_of_one_size_and_a_last_shorter_one() {
        assert_eq!(batches(&[9, 9, 9, 4, 9], 64), [vec![9, 9, 9, 4], vec![9]]);
        // A larger one begins the next batch.
        assert_eq!(batches(&[4, 9, 9], 64), [vec![4], vec![9, 9]]);
        assert_eq!(batches(&[9; 5], 2), [vec![9, 9], vec![9, 9], vec![9]]);
        assert_eq!(
            batches(&[9, 4, 9, 4], 1),
            [vec![9], vec![4], vec![9], vec![4], vec![]]
        );
        assert_eq!(batches(&[], 64), [Vec::<usize>::new()]);
    }

    #[test]
    fn a_packet_whose_time_has_not_come_is_held_back() {
        let later = Instant::now() + Duration::from_secs(3600);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let mut times = vec![later, Instant::now(), Instant::now()];
        let mut write = |_: &mut [u8]| {
            let at = times.pop().ok_or(quiche::Error::Done)?;
            let (from, to) = (address, address);
            Ok((9, quiche::SendInfo { from, to, at }))
        };
        let mut outbox = Outbox::new(64, true);
        assert_eq!(outbox.fill(&mut write), Ok(Filled::More));
        assert_eq!(outbox.segments, 2);
        assert!(outbox.send(&[]) && !outbox.is_empty());
        assert_eq!(outbox.fill(&mut write), Ok(Filled::More));
        assert!(outbox.send(&[]), "waiting is not being blocked");
        assert_eq!((outbox.due(), outbox.segments), (Some(later), 1));
    }

    #[test]
    fn a_batch_stays_below_what_the_kernel_takes() {
        for batch in batches(&[8972; 20], 64) {
            assert!(batch.iter().sum::<usize>() <= MOST_BATCH_BYTES);
        }
    }
}
