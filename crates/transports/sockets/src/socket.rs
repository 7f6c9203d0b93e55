//! The UDP socket under a stack: bound to the trial's address, its buffers sized and read
//! back, its own drops counted apart from the path's loss.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::{AsFd, OwnedFd},
};

use regatta_model::{Bytes, PortRange, Warning, phrase, reason, warning};
use regatta_transport::{TransportError, addresses::scoped};
use socket2::{Domain, Protocol, Socket, Type};

use crate::option::{self, Memory};

/// Buffer sizes that the kernel granted, in bytes of its own accounting, which counts more than
/// payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// Requested receive buffer, in bytes of payload; `None` for the kernel's default.
    pub requested_receive_bytes: Option<usize>,
    /// `SO_RCVBUF` as read back.
    pub receive_bytes: usize,
    /// `SO_SNDBUF` as read back.
    pub send_bytes: usize,
}

/// Binds a socket to one of `ports`, or to any port, and sizes its buffers, above the system's limit where that is permitted; `None` leaves a
/// buffer as the kernel gives it.
///
/// # Errors
/// [`TransportError::Io`] if it cannot be bound.
pub fn bind(
    local: IpAddr,
    ports: Option<PortRange>,
    receive_bytes: Option<usize>,
    send_bytes: Option<usize>,
) -> Result<(UdpSocket, Buffers), TransportError> {
    let address = |port| scoped(SocketAddr::new(local, port), local);
    let opened = || -> io::Result<(UdpSocket, Buffers)> {
        let socket = Socket::new(
            Domain::for_address(address(0)),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        let granted = option::set_buffers(&socket, receive_bytes, send_bytes)?;
        socket.set_nonblocking(true)?;
        PortRange::bind(ports, |port| socket.bind(&address(port).into()))?;
        let buffers = Buffers {
            requested_receive_bytes: receive_bytes,
            receive_bytes: granted.0,
            send_bytes: granted.1,
        };
        Ok((socket.into(), buffers))
    };
    opened().map_err(TransportError::io(reason::cannot_open_udp_socket(
        &local.to_string(),
    )))
}

impl Buffers {
    /// Returns a warning for a receive buffer that is smaller than requested: packets may be
    /// dropped there. `side` is the end's name.
    #[must_use]
    pub fn warning(&self, side: &str) -> Option<Warning> {
        // The kernel doubles the requested size, for its own accounting.
        let requested = self.requested_receive_bytes?;
        let expected = requested.saturating_mul(2);
        (self.receive_bytes < expected).then(|| {
            let [granted, expected] = [self.receive_bytes, expected].map(|it| Bytes(it as u64));
            let side = phrase::side(side);
            warning::receive_buffer_small(side, granted, expected, requested as u64)
        })
    }

    /// Returns the granted sizes as facts, by the full name of the fact. `side` is the end's name.
    #[must_use]
    pub fn facts(&self, side: &str) -> [(String, String); 2] {
        [("receive", self.receive_bytes), ("send", self.send_bytes)]
            .map(|(which, bytes)| (format!("{which}_buffer_bytes.{side}"), bytes.to_string()))
    }
}

/// A second descriptor of the same socket, to read its counters after a stack has taken it.
#[derive(Debug)]
pub struct Counters(OwnedFd);

impl Counters {
    /// Duplicates the descriptor of `socket`.
    ///
    /// # Errors
    /// The error of the system if the process has no descriptors left.
    pub fn of(socket: &UdpSocket) -> io::Result<Self> {
        socket.as_fd().try_clone_to_owned().map(Self)
    }

    /// Returns the packets that reached this socket and were dropped, its receive buffer being full;
    /// `None` where the kernel does not report them.
    #[must_use]
    pub fn receive_buffer_drops(&self) -> Option<u64> {
        option::memory(&self.0, Memory::Drops).map(u64::from)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_buffer_that_is_not_asked_for_is_the_kernels() {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let plain = UdpSocket::bind((local, 0)).expect("a socket");
        let plain = Socket::from(plain);
        let (_, buffers) = bind(local, None, None, Some(1 << 20)).expect("a socket");
        assert_eq!(Some(buffers.receive_bytes), plain.recv_buffer_size().ok());
        assert_ne!(Some(buffers.send_bytes), plain.send_buffer_size().ok());
        assert!(buffers.warning("receiver").is_none());
    }

    #[test]
    fn receive_buffer_drops_are_counted() {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (receiver, buffers) =
            bind(local, None, Some(64 << 10), Some(1 << 20)).expect("a socket");
        let (sender, _) = bind(local, None, Some(64 << 10), Some(1 << 20)).expect("a socket");
        assert!(buffers.receive_bytes >= 64 << 10);
        let counters = Counters::of(&receiver).expect("a descriptor");
        assert_eq!(counters.receive_buffer_drops(), Some(0));
        let to = receiver.local_addr().expect("an address");
        // Nobody reads, so most of a megabyte has no room.
        for _ in 0..1000 {
            sender.send_to(&[0; 1000], to).expect("sent");
        }
        assert!(counters.receive_buffer_drops() > Some(500));
    }
}
