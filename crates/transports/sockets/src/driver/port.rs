//! A UDP socket with segmentation and receive offload where the kernel has them.

use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use regatta_transport::socket_option::set_integer;
use tokio::io::Interest;

use super::Arrived;

/// Buffers that one call of the kernel fills, each with as many packets as the kernel coalesces.
const RECEIVE_BUFFERS: usize = 8;

/// Size of a receive buffer, in bytes: one datagram, or all that receive offload joins.
const RECEIVE_BYTES: usize = 65_536;

/// Whether an error of the socket is about one packet, which is lost: the path does not take it, the
/// queue of the interface is full, or no socket listens at the other end.
fn is_loss(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EINTR
                | libc::EMSGSIZE
                | libc::ENOBUFS
                | libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
        )
    )
}

/// A socket and its address.
#[derive(Debug)]
pub(super) struct Port {
    pub socket: tokio::net::UdpSocket,
    offloads: UdpSocketState,
    pub address: SocketAddr,
}

impl Port {
    /// Wraps a bound socket; to be called inside the runtime. With `fragments` a packet that is too
    /// long for the path is sent in fragments.
    pub fn new(socket: UdpSocket, fragments: bool) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let offloads = UdpSocketState::new((&socket).into())?;
        if fragments {
            let set = |level, option, value| set_integer(&socket, level, option, value);
            let v4 = set(
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                libc::IP_PMTUDISC_WANT,
            );
            if address.is_ipv6() {
                set(
                    libc::IPPROTO_IPV6,
                    libc::IPV6_MTU_DISCOVER,
                    libc::IPV6_PMTUDISC_WANT,
                )?;
                set(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 0)?;
            } else {
                v4?;
            }
        }
        Ok(Self {
            socket: tokio::net::UdpSocket::from_std(socket)?,
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

    /// Hands packets of `segment` bytes, of which the last may be shorter, to the kernel; returns the
    /// number of bytes that it has taken, fewer if it has no room. A packet that is lost counts as taken.
    ///
    /// # Errors
    /// An error that makes sending impossible.
    pub fn send(&self, to: SocketAddr, packets: &[u8], segment: usize) -> io::Result<usize> {
        if packets.len() > segment && self.most_segments() > 1 {
            match self.try_send(to, packets, Some(segment)) {
                // The path or the device takes no segments: quinn-udp has noted it.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {}
                sent => return sent,
            }
        }
        let mut taken = 0;
        for packet in packets.chunks(segment.max(1)) {
            let sent = self.try_send(to, packet, None)?;
            taken += sent;
            if sent == 0 {
                break;
            }
        }
        Ok(taken)
    }

    fn try_send(
        &self,
        destination: SocketAddr,
        contents: &[u8],
        segment_size: Option<usize>,
    ) -> io::Result<usize> {
        let transmit = Transmit {
            destination,
            ecn: None,
            contents,
            segment_size,
            src_ip: None,
        };
        let sent = self.socket.try_io(Interest::WRITABLE, || {
            self.offloads.try_send((&self.socket).into(), &transmit)
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if !is_loss(&error) => Err(error),
            _ => Ok(contents.len()),
        }
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
            buffers: vec![vec![0; RECEIVE_BYTES]; RECEIVE_BUFFERS],
            meta: [RecvMeta::default(); RECEIVE_BUFFERS],
        }
    }

    /// Receives packets that wait, at most as many as the buffers hold, and passes them to `each`;
    /// returns whether any waited.
    ///
    /// # Errors
    /// An error that makes receiving impossible.
    pub fn receive(&mut self, port: &Port, mut each: impl FnMut(Arrived<'_>)) -> io::Result<bool> {
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFERS] = std::array::from_fn(|_| {
            IoSliceMut::new(buffers.next().map_or(&mut [][..], Vec::as_mut_slice))
        });
        let received = port.socket.try_io(Interest::READABLE, || {
            port.offloads
                .recv((&port.socket).into(), &mut slices, &mut self.meta)
        });
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if is_loss(&error) => return Ok(true),
            Err(error) => return Err(error),
        };
        for (buffer, meta) in self.buffers.iter_mut().zip(&self.meta[..count]) {
            let length = meta.len.min(buffer.len());
            each(Arrived {
                from: meta.addr,
                to: port.address,
                bytes: &mut buffer[..length],
                segment: meta.stride.max(1),
            });
        }
        Ok(true)
    }
}
