//! Sockets that measure the path, one on each host.

use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv4Addr, UdpSocket},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt},
        time::TimeSpec,
    },
};
use regatta_model::{PortRange, units::nanoseconds};
use regatta_process::readable;

use super::super::{error::DaemonError, namespaces::Namespace};

/// Bytes of the IP and UDP headers of a datagram over IPv4.
const IPV4_HEADER_BYTES: u64 = 28;

/// Bytes of the IP and UDP headers of a datagram over IPv6.
const IPV6_HEADER_BYTES: u64 = 48;

/// Size of the receive buffer: the path's packets while the reader is kept waiting.
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;

/// Bytes of a datagram before its padding: its number, and the time for which it was held.
const PAYLOAD_BYTES: usize = 16;

/// Largest datagram that UDP over IPv4 carries.
const MAX_BYTES: usize = 65_507;

/// A datagram of a measurement: a number, and padding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) number: u64,
    /// Time for which the other end held a datagram that it sent back, in nanoseconds.
    pub(super) held_ns: u64,
    /// Time stamp of the kernel, in nanoseconds since the Unix epoch: when the datagram reached the
    /// host, not when this process read it.
    pub(super) at_unix_ns: u64,
}

/// Socket of one end of the measurement.
#[derive(Debug)]
pub(super) struct Prober {
    socket: UdpSocket,
    header_bytes: u64,
}

pub(super) fn failed<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> DaemonError {
    move |error| DaemonError::Socket {
        step,
        source: error.into(),
    }
}

/// Opens a socket for each end and connects them to one another. The calling thread changes its
/// namespace.
pub(super) fn pair(
    namespaces: [&Namespace; 2],
    addresses: [Ipv4Addr; 2],
) -> Result<[Prober; 2], DaemonError> {
    let addresses = addresses.map(IpAddr::from);
    let a = Prober::open(namespaces[0], addresses[0], None)?;
    let b = Prober::open(namespaces[1], addresses[1], None)?;
    a.connect((addresses[1], b.port()?))?;
    b.connect((addresses[0], a.port()?))?;
    Ok([a, b])
}

impl Prober {
    /// Opens the socket of one end, with one of these ports. The calling thread enters the end's namespace.
    pub(super) fn open(
        namespace: &Namespace,
        address: IpAddr,
        ports: Option<PortRange>,
    ) -> Result<Self, DaemonError> {
        namespace.enter()?;
        Self::bind(address, ports)
    }

    /// Opens a socket in the namespace of the calling thread.
    pub(super) fn bind(address: IpAddr, ports: Option<PortRange>) -> Result<Self, DaemonError> {
        let socket = PortRange::bind(ports, |port| UdpSocket::bind((address, port)))
            .map_err(failed("bind"))?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(failed("time stamps"))?;
        // Only root may go above the host's limit; others get as much as it allows.
        if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES)
                .map_err(failed("receive buffer"))?;
        }
        let header_bytes = match address {
            IpAddr::V4(_) => IPV4_HEADER_BYTES,
            IpAddr::V6(_) => IPV6_HEADER_BYTES,
        };
        Ok(Self {
            socket,
            header_bytes,
        })
    }

    /// Returns the local port of the socket.
    pub(super) fn port(&self) -> Result<u16, DaemonError> {
        let address = self.socket.local_addr().map_err(failed("address"))?;
        Ok(address.port())
    }

    /// Connects the socket to the other end.
    pub(super) fn connect(&self, other: (IpAddr, u16)) -> Result<(), DaemonError> {
        self.socket.connect(other).map_err(failed("connect"))
    }

    /// Sends a datagram that makes an IP packet of `packet_bytes`.
    pub(super) fn send(&self, number: u64, packet_bytes: u64) -> Result<(), DaemonError> {
        self.send_back(number, 0, packet_bytes)
    }

    /// Sends a datagram as [`Prober::send`] does, with the time for which it was held.
    pub(super) fn send_back(
        &self,
        number: u64,
        held_ns: u64,
        packet_bytes: u64,
    ) -> Result<(), DaemonError> {
        let bytes = packet_bytes.saturating_sub(self.header_bytes) as usize;
        // Zeros from the allocator: this crate is not optimised, and would write byte for byte.
        let mut datagram = vec![0; bytes.clamp(PAYLOAD_BYTES, MAX_BYTES)];
        for (field, value) in datagram.chunks_exact_mut(8).zip([number, held_ns]) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        match self.socket.send(&datagram) {
            // A full queue of the host is the path's affair: the datagram will be missing.
            Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => Err(failed("send")(error)),
            _ => Ok(()),
        }
    }

    /// Returns the next datagram if one has arrived.
    pub(super) fn receive(&self) -> Result<Option<Arrival>, DaemonError> {
        let mut payload = [0; PAYLOAD_BYTES];
        let mut control = nix::cmsg_space!(TimeSpec);
        loop {
            let mut slices = [IoSliceMut::new(&mut payload)];
            let (socket, flags) = (self.socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
            let message = match recvmsg::<()>(socket, &mut slices, Some(&mut control), flags) {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(failed("receive")(error)),
            };
            let length = message.bytes;
            let stamp = message
                .cmsgs()
                .map_err(failed("time stamps"))?
                .find_map(|message| match message {
                    ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
                    _ => None,
                });
            // Whatever has no number or no time stamp is not a datagram of ours.
            if let (PAYLOAD_BYTES, Some(stamp)) = (length, stamp) {
                let (fields, _) = payload.as_chunks();
                return Ok(Some(Arrival {
                    number: u64::from_le_bytes(fields[0]),
                    held_ns: u64::from_le_bytes(fields[1]),
                    at_unix_ns: nanoseconds(stamp.into()),
                }));
            }
        }
    }
}

impl AsFd for Prober {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits until a datagram has arrived at one of the ends, a pipe among them has ended, or the time is over.
pub(super) fn wait(ends: &[&dyn AsFd], within: Option<Duration>) -> Result<(), DaemonError> {
    let files: Vec<_> = ends.iter().map(|end| end.as_fd()).collect();
    readable(&files, within).map_err(failed("wait"))?;
    Ok(())
}
