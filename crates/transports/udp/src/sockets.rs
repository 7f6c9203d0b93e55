//! The UDP sockets of one end: one that listens, and one for each flow or connection.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    mem::MaybeUninit,
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{PortRange, Warning};
use regatta_transport::{
    TransportError,
    socket_option::{set_dscp, set_integer},
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::packets::{self, headers};

/// Maximum time that a send call blocks on a full buffer, so that a blocked sender notices a stop.
const SEND_TIME: Duration = Duration::from_millis(100);

/// Maximum number of first datagrams kept for a listener: more than flows open at once.
const MOST_STRAYS: usize = 1024;

/// Size of the buffer for the first datagram of a flow, in bytes.
const FIRST_BYTES: usize = 2048;

/// Common settings of the sockets of one end.
#[derive(Debug)]
pub(crate) struct Sockets {
    role: Role,
    local: IpAddr,
    peer: IpAddr,
    /// Ports to listen on.
    ports: Option<PortRange>,
    mtu: usize,
    /// Largest IP packet that is not sent in fragments.
    largest_packet: usize,
    receive_buffer: usize,
    send_buffer: usize,
    offload: bool,
    /// Differentiated services code point.
    dscp: Option<i32>,
}

/// A bound socket with its buffers and offloads, and the facts read back.
pub(crate) struct Opened {
    pub socket: Socket,
    /// Largest datagram that fits a packet, in bytes, if several may be handed over as one.
    pub segment_limit: Option<usize>,
    /// Facts by their whole names.
    pub facts: BTreeMap<String, String>,
}

impl Sockets {
    /// Returns the settings: buffers of `receive_buffer` and `send_buffer` bytes are asked for;
    /// `offload` permits that several datagrams are handed over as one, in either direction.
    pub(crate) fn new(
        order: &TrialOrder,
        receive_buffer: usize,
        send_buffer: usize,
        offload: bool,
    ) -> Self {
        Self {
            role: order.role,
            local: order.local,
            peer: order.peer,
            ports: order.ports,
            mtu: order.path.mtu_bytes as usize,
            largest_packet: packets::largest(order),
            receive_buffer,
            send_buffer,
            offload,
            dscp: None,
        }
    }

    /// Gives the packets a differentiated services code point.
    pub(crate) const fn with_dscp(mut self, dscp: Option<i32>) -> Self {
        self.dscp = dscp;
        self
    }

    fn open(&self, local: SocketAddr) -> Result<Opened, TransportError> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))
            .map_err(TransportError::io("cannot open a UDP socket"))?;
        // The sockets of the flows share the port that is listened on. A port that the kernel chooses
        // is chosen without it: else it may be one that another process listens on, with SO_REUSEADDR
        // too, and each would get datagrams of the other.
        let share = |socket: &Socket| {
            socket
                .set_reuse_address(true)
                .map_err(TransportError::io("cannot set SO_REUSEADDR"))
        };
        if local.port() != 0 {
            share(&socket)?;
        }
        let (receive, send) = set_buffers(&socket, self.receive_buffer, self.send_buffer)
            .map_err(TransportError::io("cannot set the socket's buffers"))?;
        if let Some(dscp) = self.dscp {
            set_dscp(&socket, local.is_ipv6(), dscp)
                .map_err(TransportError::io("cannot set the code point"))?;
        }
        socket
            .set_write_timeout(Some(SEND_TIME))
            .map_err(TransportError::io("cannot set SO_SNDTIMEO"))?;
        let on = |on: bool| if on { "on" } else { "off" }.to_owned();
        // Either end may send: answers, or all of it. Zero leaves the size to each call; a kernel
        // without it refuses the option.
        let gso = self.offload && set_integer(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let gro = self.offload && set_integer(&socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        let facts = match self.role {
            Role::Sender => [
                ("gso.sender", on(gso)),
                ("send_buffer_bytes.sender", send.to_string()),
            ],
            Role::Receiver => [
                ("gro.receiver", on(gro)),
                ("receive_buffer_bytes.receiver", receive.to_string()),
            ],
        };
        let bind = |port| socket.bind(&SocketAddr::new(local.ip(), port).into());
        match local.port() {
            0 => PortRange::bind(self.ports, bind),
            port => bind(port),
        }
        .map_err(TransportError::io(format!(
            "cannot bind to `{}`",
            local.ip()
        )))?;
        if local.port() == 0 {
            share(&socket)?;
        }
        Ok(Opened {
            socket,
            segment_limit: gso.then(|| self.mtu.saturating_sub(headers(self.local))),
            facts: facts
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        })
    }

    /// Returns the listening socket.
    pub(crate) fn listen(&self) -> Result<Listener, TransportError> {
        let Opened { socket, .. } = self.open(SocketAddr::new(self.local, 0))?;
        let address = socket
            .local_addr()
            .map_err(TransportError::io("cannot read the listening address"))?
            .as_socket()
            .ok_or_else(|| TransportError::Protocol {
                what: "the listening socket has no internet address".to_owned(),
            })?;
        Ok(Listener {
            socket,
            address,
            peer: self.peer,
            strays: Mutex::default(),
        })
    }

    /// Returns a socket connected to the other end: from the address of the listener, or from a
    /// port of its own.
    pub(crate) fn connect(
        &self,
        from: Option<&Listener>,
        peer: SocketAddr,
    ) -> Result<Opened, TransportError> {
        let own = SocketAddr::new(self.local, 0);
        let opened = self.open(from.map_or(own, |listener| listener.address))?;
        opened
            .socket
            .connect(&peer.into())
            .map_err(TransportError::io(format!(
                "cannot connect to `{}`",
                peer.ip()
            )))?;
        if let Some(listener) = from {
            listener.take_strays(&opened.socket, peer);
        }
        Ok(opened)
    }

    /// Returns a warning about messages of `message` bytes that IP must fragment, with this many
    /// bytes of header.
    pub(crate) fn fragmentation(&self, message: usize, header: usize) -> Option<Warning> {
        packets::fragmentation(message, header, self.largest_packet, self.local)
    }
}

/// Returns the offloads of a socket, from its facts.
pub(crate) fn offloads(facts: &BTreeMap<String, String>) -> String {
    let on = |name: &str| facts.get(name).is_some_and(|state| state == "on");
    if on("gso.sender") || on("gro.receiver") {
        "of the socket: on".to_owned()
    } else {
        "none".to_owned()
    }
}

/// A socket to which the first datagram of every flow comes.
pub(crate) struct Listener {
    socket: Socket,
    address: SocketAddr,
    peer: IpAddr,
    /// First datagrams that came to another socket, with their senders' addresses.
    strays: Mutex<VecDeque<(SocketAddr, Vec<u8>)>>,
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.socket.as_raw_fd()
    }
}

impl Listener {
    /// Returns the listening address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Keeps datagrams that came to a flow's socket from others than its peer: between bind and
    /// connect it gets the first datagrams of all senders, which the listener must handle and the
    /// flow cannot. Datagrams of its own peer until then are repetitions of its opening, which is
    /// answered anyway.
    fn take_strays(&self, socket: &Socket, peer: SocketAddr) {
        let mut place = [MaybeUninit::uninit(); FIRST_BYTES];
        while let Ok((length, from)) = socket.recv_from_with_flags(&mut place, libc::MSG_DONTWAIT) {
            // SAFETY: the kernel has written the first `length` bytes.
            let datagram: &[u8] =
                unsafe { std::slice::from_raw_parts(place.as_ptr().cast(), length) };
            let Some(from) = from.as_socket().filter(|from| *from != peer) else {
                continue;
            };
            let mut strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
            if strays.len() < MOST_STRAYS {
                strays.push_back((from, datagram.to_vec()));
            }
        }
    }

    fn stray(&self) -> Option<(SocketAddr, Vec<u8>)> {
        let mut strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
        strays.pop_front()
    }

    /// Takes a datagram of the announced peer, if there is one, and passes it to `judge` with its
    /// sender's address.
    pub(crate) fn take<T>(
        &self,
        judge: impl FnOnce(SocketAddr, &[u8]) -> Result<Option<T>, TransportError>,
    ) -> Result<Option<T>, TransportError> {
        if let Some((from, datagram)) = self.stray() {
            return if from.ip() == self.peer {
                judge(from, &datagram)
            } else {
                Ok(None)
            };
        }
        let mut place = [MaybeUninit::uninit(); FIRST_BYTES];
        let received = self
            .socket
            .recv_from_with_flags(&mut place, libc::MSG_DONTWAIT);
        let (length, from) = match received {
            Ok((length, from)) => (length, from.as_socket()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        // An answer to somebody who is gone.
                        | io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(TransportError::io("cannot receive an opening")(error)),
        };
        let Some(from) = from.filter(|from| from.ip() == self.peer) else {
            return Ok(None);
        };
        // SAFETY: the kernel has written the first `length` bytes.
        let datagram: &[u8] = unsafe { std::slice::from_raw_parts(place.as_ptr().cast(), length) };
        judge(from, datagram)
    }
}

/// Sets the buffers, with `SO_RCVBUFFORCE` and `SO_SNDBUFFORCE` where permitted; returns the sizes
/// that the kernel gives, in bytes.
fn set_buffers(socket: &Socket, receive: usize, send: usize) -> io::Result<(usize, usize)> {
    // The kernel doubles what is asked for, for its own bookkeeping.
    let asked = |size: usize| i32::try_from(size / 2).unwrap_or(i32::MAX / 2);
    let (receive, send) = (asked(receive), asked(send));
    if set_integer(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, receive).is_err() {
        set_integer(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, receive)?;
    }
    if set_integer(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, send).is_err() {
        set_integer(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, send)?;
    }
    Ok((socket.recv_buffer_size()?, socket.send_buffer_size()?))
}

#[cfg(test)]
mod tests {
    use regatta_transport::testing::order_for;

    use super::*;

    /// If the kernel could choose a port twice, two of 800 would almost always be the same; they
    /// are all different by chance once in 80 000 times.
    #[test]
    fn no_two_sockets_get_the_same_port_from_the_kernel() {
        let sockets = Sockets::new(&order_for(Role::Receiver, "udp", 1, 1), 4096, 4096, false);
        let listeners: Vec<_> = std::iter::repeat_with(|| sockets.listen().expect("a listener"))
            .take(800)
            .collect();
        let ports: std::collections::BTreeSet<_> = listeners
            .iter()
            .map(|listener| listener.address().port())
            .collect();
        assert_eq!(ports.len(), listeners.len());
    }

    #[test]
    fn what_came_to_a_flow_before_it_was_connected_is_the_listeners() {
        let sockets = Sockets::new(&order_for(Role::Receiver, "udp", 1, 1), 65536, 65536, false);
        let listener = sockets.listen().expect("a listener");
        let client = || {
            sockets
                .open(SocketAddr::new(sockets.local, 0))
                .expect("a socket")
        };
        let address = |opened: &Opened| {
            let address = opened.socket.local_addr().expect("an address");
            address.as_socket().expect("of the internet")
        };
        let (own, other) = (client(), client());
        // As it is between being bound and being connected: it gets what the listener should.
        let flow = sockets.open(listener.address()).expect("a socket");
        for (from, datagram) in [(&own, "again"), (&other, "opening")] {
            let sent = from
                .socket
                .send_to(datagram.as_bytes(), &listener.address().into());
            assert_eq!(sent.expect("sent"), datagram.len());
        }
        let peer = address(&own);
        flow.socket.connect(&peer.into()).expect("connected");
        listener.take_strays(&flow.socket, peer);
        let mut came = Vec::new();
        while let Some(first) = listener
            .take(|from, datagram| Ok(Some((from, datagram.to_vec()))))
            .expect("a look")
        {
            came.push(first);
        }
        assert_eq!(came, [(address(&other), b"opening".to_vec())]);
        let left = flow
            .socket
            .recv_with_flags(&mut [MaybeUninit::uninit(); 16], libc::MSG_DONTWAIT);
        assert!(left.is_err(), "nothing strange is left to the flow");
    }
}
