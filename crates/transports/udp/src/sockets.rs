//! The UDP sockets of one end: one that listens, and one for each flow.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
};

use parking_lot::Mutex;
use regatta_control::{Role, TrialOrder};
use regatta_model::{Facts, PortRange, reason};
use regatta_transport::{
    Result, TransportError,
    addresses::scoped,
    socket_option::{set_dscp, set_integer},
};
use regatta_transport_sockets::option;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Options, buffer_bytes, packets::headers, uses_gso};

/// Maximum number of first datagrams kept for a listener: more than flows open at once.
const MAX_STRAYS: usize = 1024;

/// Size of the buffer for the first datagram of a flow, in bytes.
const FIRST_BYTES: usize = 2048;

/// First datagram of a flow, with its sender's address.
type First = (Option<SocketAddr>, Vec<u8>);

/// Receives a datagram without waiting.
fn receive_first(socket: &Socket) -> io::Result<First> {
    let mut datagram = Vec::with_capacity(FIRST_BYTES);
    let buffer = datagram.spare_capacity_mut();
    let (length, from) = socket.recv_from_with_flags(buffer, libc::MSG_DONTWAIT)?;
    // SAFETY: the kernel has written the first `length` bytes.
    unsafe { datagram.set_len(length) };
    Ok((from.as_socket(), datagram))
}

/// A bound socket with its buffers and offloads, and the facts read back.
pub(crate) struct Opened {
    pub socket: Socket,
    /// Largest datagram that fits a packet, in bytes, if several may be handed over as one.
    pub segment_limit: Option<usize>,
    /// Whether each message has a system call of its own.
    pub is_single: bool,
    /// Whether the offload of this end's direction is on.
    pub offload: bool,
    /// Facts by their whole names.
    pub facts: Facts,
}

fn open(order: &TrialOrder, local: SocketAddr) -> Result<Opened> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))
        .map_err(TransportError::io(reason::cannot_open_socket("UDP")))?;
    // The sockets of the flows share the port that is listened on. A port that the kernel chooses
    // is chosen without it: else it may be one that another process listens on, with SO_REUSEADDR
    // too, and each would get datagrams of the other.
    let share = || {
        let failed = TransportError::io(reason::cannot_set("SO_REUSEADDR"));
        socket.set_reuse_address(true).map_err(failed)
    };
    if local.port() != 0 {
        share()?;
    }
    let options = Options::read(&order.transport.options);
    let [receive, send] = buffer_bytes(order);
    let (receive, send) = option::set_buffers(&socket, receive, send)
        .map_err(TransportError::io(reason::cannot_set_socket_buffers()))?;
    if let Some(dscp) = options.dscp {
        set_dscp(&socket, local.is_ipv6(), dscp.into())
            .map_err(TransportError::io(reason::cannot_set_code_point()))?;
    }
    // Either end may send: answers, or all of it. Zero leaves the size to each call; a kernel
    // without it refuses the option.
    let offload = |option, value| {
        uses_gso(order) && set_integer(&socket, libc::SOL_UDP, option, value).is_ok()
    };
    let gso = offload(libc::UDP_SEGMENT, 0);
    let gro = offload(libc::UDP_GRO, 1);
    let (name, offload, buffer, bytes) = match order.role {
        Role::Sender => ("gso.sender", gso, "send_buffer_bytes.sender", send),
        Role::Receiver => (
            "gro.receiver",
            gro,
            "receive_buffer_bytes.receiver",
            receive,
        ),
    };
    let on = if offload { "on" } else { "off" };
    let facts = [(name, on.to_owned()), (buffer, bytes.to_string())];
    let bind = |port| {
        let address = SocketAddr::new(local.ip(), port);
        socket.bind(&scoped(address, local.ip()).into())
    };
    let bound = match local.port() {
        0 => PortRange::bind(order.ports, bind),
        port => bind(port),
    };
    bound.map_err(TransportError::io(reason::cannot_bind(
        &local.ip().to_string(),
    )))?;
    if local.port() == 0 {
        share()?;
    }
    let fits = (order.path.mtu_bytes as usize).saturating_sub(headers(order.local));
    Ok(Opened {
        socket,
        segment_limit: gso.then_some(fits),
        is_single: !options.batch,
        offload,
        facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
    })
}

/// Returns a socket connected to the other end: from the address of the listener, or from a
/// port of its own.
pub(crate) fn connect(
    order: &TrialOrder,
    from: Option<&Listener>,
    peer: SocketAddr,
) -> Result<Opened> {
    let own = SocketAddr::new(order.local, 0);
    let opened = open(order, from.map_or(own, |listener| listener.address))?;
    let failed = TransportError::io(reason::cannot_connect(&peer.ip().to_string()));
    opened.socket.connect(&peer.into()).map_err(failed)?;
    if let Some(listener) = from {
        listener.take_strays(&opened.socket, peer);
    }
    Ok(opened)
}

/// A socket to which the first datagram of every flow comes.
pub(crate) struct Listener {
    socket: Socket,
    address: SocketAddr,
    peer: IpAddr,
    /// First datagrams that came to another socket.
    strays: Mutex<VecDeque<First>>,
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.socket.as_raw_fd()
    }
}

impl Listener {
    /// Returns the listening socket of one end.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        let Opened { socket, .. } = open(order, SocketAddr::new(order.local, 0))?;
        let failed = TransportError::io(reason::cannot_read_listening_address());
        let address = socket.local_addr().map_err(failed)?.as_socket();
        let none = || TransportError::protocol(reason::no_internet_address());
        let address = address.ok_or_else(none)?;
        Ok(Self {
            socket,
            address,
            peer: order.peer,
            strays: Mutex::default(),
        })
    }

    /// Returns the listening address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Keeps datagrams that came to a flow's socket from others than its peer: between bind and
    /// connect it gets the first datagrams of all senders, which the listener must handle and the
    /// flow cannot. Datagrams of its own peer until then are repetitions of its opening, which is
    /// answered anyway.
    fn take_strays(&self, socket: &Socket, peer: SocketAddr) {
        while let Ok((from, datagram)) = receive_first(socket) {
            let mut strays = self.strays.lock();
            if from.is_some_and(|from| from != peer) && strays.len() < MAX_STRAYS {
                strays.push_back((from, datagram));
            }
        }
    }

    /// Takes a datagram of the announced peer, if there is one, and passes it to `handle` with its
    /// sender's address.
    pub(crate) fn take<T>(
        &self,
        handle: impl FnOnce(SocketAddr, &[u8]) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let stray = self.strays.lock().pop_front();
        // The last is the error of an answer to a closed socket.
        let nothing = [
            io::ErrorKind::WouldBlock,
            io::ErrorKind::Interrupted,
            io::ErrorKind::ConnectionRefused,
        ];
        let (from, datagram) = match stray.map_or_else(|| receive_first(&self.socket), Ok) {
            Ok(first) => first,
            Err(error) if nothing.contains(&error.kind()) => return Ok(None),
            Err(error) => return Err(TransportError::io(reason::cannot_receive_opening())(error)),
        };
        match from.filter(|from| from.ip() == self.peer) {
            Some(from) => handle(from, &datagram),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use regatta_model::OptionValue;
    use regatta_transport::testing::order_for;

    use super::*;

    fn order(buffers: usize) -> TrialOrder {
        let mut order = order_for(Role::Receiver, "udp", 1, 1);
        let size = |name: &str| (name.to_owned(), OptionValue::Text(format!("{buffers}B")));
        let gso = ("gso".to_owned(), OptionValue::Flag(false));
        let set = [gso, size("receive_buffer"), size("send_buffer")];
        order.transport.options = set.into();
        order
    }

    #[test]
    fn a_kernel_with_its_defaults_sizes_buffers_and_segments_nothing() {
        let mut order = order_for(Role::Receiver, "udp", 1, 1);
        order.path.tuning = regatta_model::Tuning::Defaults;
        let plain = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        let opened = |order: &TrialOrder| open(order, (order.local, 0).into()).expect("a socket");
        let default = opened(&order);
        assert_eq!(
            default.socket.recv_buffer_size().ok(),
            plain.recv_buffer_size().ok()
        );
        assert!(!default.offload);
        let gso = ("gso".to_owned(), OptionValue::Flag(true));
        order.transport.options = [gso].into();
        assert!(opened(&order).offload, "asked for");
    }

    /// If the kernel could choose a port twice, two of 800 would almost always be the same; they
    /// are all different by chance once in 80 000 times.
    #[test]
    fn no_two_sockets_get_the_same_port_from_the_kernel() {
        let order = order(4096);
        let listeners: Vec<_> =
            std::iter::repeat_with(|| Listener::new(&order).expect("a listener"))
                .take(800)
                .collect();
        let ports: std::collections::BTreeSet<_> = listeners
            .iter()
            .map(|listener| listener.address().port())
            .collect();
        assert_eq!(ports.len(), listeners.len());
    }

    #[test]
    fn datagrams_received_before_connect_are_passed_to_the_listener() {
        let order = order(65_536);
        let listener = Listener::new(&order).expect("a listener");
        let client = || open(&order, SocketAddr::new(order.local, 0)).expect("a socket");
        let address = |opened: &Opened| {
            let address = opened.socket.local_addr().expect("an address");
            address.as_socket().expect("of the internet")
        };
        let (own, other) = (client(), client());
        // As it is between being bound and being connected: it gets what the listener should.
        let flow = open(&order, listener.address()).expect("a socket");
        for (from, datagram) in [(&own, "again"), (&other, "opening")] {
            let sent = from
                .socket
                .send_to(datagram.as_bytes(), &listener.address().into());
            assert_eq!(sent.expect("sent"), datagram.len());
        }
        let peer = address(&own);
        flow.socket.connect(&peer.into()).expect("connected");
        listener.take_strays(&flow.socket, peer);
        let mut received = Vec::new();
        while let Some(first) = listener
            .take(|from, datagram| Ok(Some((from, datagram.to_vec()))))
            .expect("a look")
        {
            received.push(first);
        }
        assert_eq!(received, [(address(&other), b"opening".to_vec())]);
        let left = flow
            .socket
            .recv_with_flags(&mut [MaybeUninit::uninit(); 16], libc::MSG_DONTWAIT);
        assert!(left.is_err(), "nothing strange is left to the flow");
    }
}
