//! The UDP socket below the associations: packets leave and arrive in batches, with segmentation
//! and receive offload where the kernel has them.

use std::{
    collections::VecDeque,
    io::{self, IoSliceMut},
    net::SocketAddr,
    task::{Context, Poll},
};

use bytes::Bytes;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::{io::Interest, net::UdpSocket};

/// Number of buffers in one call of `recvmmsg`.
const RECEIVE_BUFFERS: usize = 16;

/// Size of a receive buffer, in bytes: one datagram, or all that receive offload joins.
const RECEIVE_BYTES: usize = 65_536;

/// Maximum payload of all segments of one call together, in bytes.
const LONGEST_BATCH: usize = 65_507;

/// Packets to one peer of one size, of which the last may be shorter.
#[derive(Debug)]
struct Batch {
    to: SocketAddr,
    segment: usize,
    count: usize,
    bytes: Vec<u8>,
}

/// Socket with its offloads and the packets that wait to be sent.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    segmentation: bool,
    waiting: VecDeque<Batch>,
    /// Reusable buffers of sent batches.
    spare: Vec<Vec<u8>>,
    received: Vec<u8>,
    blocked: bool,
}

impl Datagrams {
    /// Wraps a socket on the current runtime.
    ///
    /// # Errors
    /// The runtime or the kernel refuses the socket.
    pub(crate) fn new(socket: std::net::UdpSocket, segmentation: bool) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Self {
            socket: UdpSocket::from_std(socket)?,
            state,
            segmentation,
            waiting: VecDeque::new(),
            spare: Vec::new(),
            received: vec![0; RECEIVE_BUFFERS * RECEIVE_BYTES],
            blocked: false,
        })
    }

    /// Returns the maximum number of packets that are handed over at once.
    pub(crate) fn segments(&self) -> usize {
        if self.segmentation {
            self.state.max_gso_segments()
        } else {
            1
        }
    }

    /// Returns the maximum number of packets that the kernel delivers as one.
    pub(crate) fn receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    /// Returns the local address of the socket.
    ///
    /// # Errors
    /// An error of the kernel.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits until there is something to receive, or, if the kernel took no more packets, until it
    /// does.
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let readable = self.socket.poll_recv_ready(context).is_ready();
        let writable = self.blocked && self.socket.poll_send_ready(context).is_ready();
        if readable || writable {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Appends a packet to those that wait for [`Datagrams::flush`].
    pub(crate) fn push(&mut self, to: SocketAddr, packet: &[u8]) {
        let most = self.segments();
        if let Some(batch) = self.waiting.back_mut() {
            // A shorter packet ends a batch: the kernel cuts it at equal lengths.
            let whole = batch.bytes.len() == batch.segment * batch.count;
            if batch.to == to
                && whole
                && packet.len() <= batch.segment
                && batch.count < most
                && batch.bytes.len() + packet.len() <= LONGEST_BATCH
            {
                batch.bytes.extend_from_slice(packet);
                batch.count += 1;
                return;
            }
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(packet);
        self.waiting.push_back(Batch {
            to,
            segment: packet.len(),
            count: 1,
            bytes,
        });
    }

    /// Hands waiting packets to the kernel, as far as it takes them.
    ///
    /// # Errors
    /// Errors that make sending impossible; loss of a packet on the way is none.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.blocked = false;
        while let Some(batch) = self.waiting.front() {
            let transmit = Transmit {
                destination: batch.to,
                ecn: None,
                contents: &batch.bytes,
                segment_size: (batch.count > 1).then_some(batch.segment),
                src_ip: None,
            };
            let sent = self.socket.try_io(Interest::WRITABLE, || {
                self.state
                    .try_send(UdpSockRef::from(&self.socket), &transmit)
            });
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                // The interface's queue is full, or the other end's port is closed: to SCTP the
                // packets are lost.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::ENOBUFS | libc::ECONNREFUSED | libc::EINTR)
                    ) => {}
                // The path or the device does not take segments; they go one by one from now on.
                Err(error)
                    if batch.count > 1
                        && matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) =>
                {
                    self.segmentation = false;
                    self.split_front();
                    continue;
                }
                Err(error) => {
                    self.waiting.clear();
                    return Err(error);
                }
            }
            if let Some(mut batch) = self.waiting.pop_front() {
                batch.bytes.clear();
                self.spare.push(batch.bytes);
            }
        }
        Ok(())
    }

    fn split_front(&mut self) {
        if let Some(batch) = self.waiting.pop_front() {
            for packet in batch.bytes.chunks(batch.segment).rev() {
                self.waiting.push_front(Batch {
                    to: batch.to,
                    segment: packet.len(),
                    count: 1,
                    bytes: packet.to_vec(),
                });
            }
        }
    }

    /// Receives without waiting, and adds each packet with its sender to `packets`.
    ///
    /// # Errors
    /// Errors that make receiving impossible; [`io::ErrorKind::WouldBlock`] when there is nothing.
    pub(crate) fn receive(&mut self, packets: &mut Vec<(SocketAddr, Bytes)>) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); RECEIVE_BUFFERS];
        let mut places = self
            .received
            .chunks_exact_mut(RECEIVE_BYTES)
            .map(IoSliceMut::new);
        let mut buffers: [IoSliceMut<'_>; RECEIVE_BUFFERS] =
            std::array::from_fn(|_| places.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let (socket, state) = (&self.socket, &self.state);
        let count = socket.try_io(Interest::READABLE, || {
            state.recv(UdpSockRef::from(socket), &mut buffers, &mut metas)
        })?;
        for (meta, buffer) in metas.iter().zip(&buffers).take(count) {
            // One copy for all that came as one: the stack keeps parts of it.
            let mut rest = Bytes::copy_from_slice(&buffer[..meta.len]);
            while !rest.is_empty() {
                let packet = rest.split_to(meta.stride.clamp(1, rest.len()));
                packets.push((meta.addr, packet));
            }
        }
        Ok(())
    }
}
