//! Non-blocking system calls on a one-to-one socket.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::AsRawFd as _,
};

use regatta_transport::{
    MonotonicTime,
    socket_option::{self, Plain},
    wait,
};
use regatta_transport_sockets::message::{self, Control, MAX_RECEIVED, Received, control_space};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::uapi::{self, GetAddrs, SOL_SCTP};

/// Size of the ancillary data of a piece, in bytes: its stream, and a description of the next
/// message.
const CONTROL_BYTES: usize =
    control_space::<libc::sctp_rcvinfo>() + control_space::<libc::sctp_nxtinfo>();

/// Opens a non-blocking socket.
pub(crate) fn open(address: IpAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(SocketAddr::new(address, 0)),
        Type::STREAM,
        Some(Protocol::from(libc::IPPROTO_SCTP)),
    )?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sets an SCTP option.
pub(crate) fn set<T: Copy>(socket: &Socket, name: libc::c_int, value: &T) -> io::Result<()> {
    socket_option::set(socket, SOL_SCTP, name, value)
}

/// Reads an SCTP option whose request has no parameters.
pub(crate) fn get<T: Plain>(socket: &Socket, name: libc::c_int) -> io::Result<T> {
    get_with(socket, name, T::zeroed())
}

/// Reads an SCTP option; `value` holds the request's parameters.
pub(crate) fn get_with<T: Plain>(
    socket: &Socket,
    name: libc::c_int,
    mut value: T,
) -> io::Result<T> {
    socket_option::get_into(socket, SOL_SCTP, name, &mut value)?;
    Ok(value)
}

// SAFETY: each has integers, arrays of integers and `sockaddr_storage`, which has such, alone.
unsafe impl Plain for uapi::RtoInfo {}
// SAFETY: as above.
unsafe impl Plain for uapi::AssocParams {}
// SAFETY: as above.
unsafe impl Plain for uapi::SackInfo {}
// SAFETY: as above.
unsafe impl Plain for uapi::PeerAddrParams {}
// SAFETY: as above.
unsafe impl Plain for uapi::PeerAddrThresholds {}
// SAFETY: as above.
unsafe impl Plain for uapi::PeerAddrInfo {}
// SAFETY: as above.
unsafe impl Plain for uapi::Status {}
// SAFETY: as above.
unsafe impl Plain for uapi::AssocStats {}

// SAFETY: as above.
unsafe impl Plain for GetAddrs {}

/// Converts an address to the kernel's structure.
pub(crate) fn storage(address: SocketAddr) -> libc::sockaddr_storage {
    let address = SockAddr::from(address);
    let mut storage = libc::sockaddr_storage::zeroed();
    // SAFETY: an address is no longer than the storage, and the two do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            address.as_ptr().cast::<u8>(),
            (&raw mut storage).cast::<u8>(),
            address.len() as usize,
        );
    }
    storage
}

/// Binds a socket to further addresses, with its own port.
pub(crate) fn bind_further(socket: &Socket, addresses: &[Ipv4Addr]) -> io::Result<()> {
    let Some(port) = socket.local_addr()?.as_socket().map(|bound| bound.port()) else {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    };
    for address in addresses {
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes(address.octets()),
            },
            sin_zero: [0; 8],
        };
        set(socket, uapi::BINDX_ADD, &address)?;
    }
    Ok(())
}

/// Returns the peer's addresses of an association; the primary one need not be the first.
pub(crate) fn peer_addresses(socket: &Socket) -> io::Result<Vec<SocketAddr>> {
    let answer: GetAddrs = get(socket, uapi::GET_PEER_ADDRS)?;
    Ok(addresses(&answer.addresses, answer.count as usize))
}

/// Parses `count` addresses that stand one after another.
fn addresses(mut bytes: &[u8], count: usize) -> Vec<SocketAddr> {
    let next = |_| {
        let (found, rest) = address(bytes)?;
        bytes = rest;
        Some(found)
    };
    (0..count).map_while(next).collect()
}

/// Parses the address that `bytes` begin with; returns what follows it as well.
fn address(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let (ip, length) = match libc::c_int::from(family) {
        libc::AF_INET => {
            let octets: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            (IpAddr::from(octets), size_of::<libc::sockaddr_in>())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            (IpAddr::from(octets), size_of::<libc::sockaddr_in6>())
        }
        _ => return None,
    };
    Some((SocketAddr::new(ip, port), bytes.get(length..)?))
}

/// Sends one user message, or none of it.
pub(crate) fn send(
    socket: &Socket,
    stream: u16,
    flags: u16,
    protocol: u32,
    parts: [&[u8]; 2],
) -> io::Result<()> {
    let info = libc::sctp_sndinfo {
        snd_sid: stream,
        snd_flags: flags,
        snd_ppid: protocol.to_be(),
        snd_context: 0,
        snd_assoc_id: 0,
    };
    const INFO_BYTES: usize = control_space::<libc::sctp_sndinfo>();
    let parts = parts.map(message::part);
    let mut control = Control::<INFO_BYTES>::with(SOL_SCTP, libc::SCTP_SNDINFO, info);
    let mut header = message::empty_entry().msg_hdr;
    header.msg_iov = parts.as_ptr().cast_mut();
    header.msg_iovlen = parts.len() as _;
    control.attach(&mut header);
    let (socket, flags) = (socket.as_raw_fd(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
    // SAFETY: the header's pointers are to memory that outlives the call, which only reads.
    message::retried(|| unsafe { libc::sendmsg(socket, &raw const header, flags) }).map(drop)
}

/// Ends the association at once, with an ABORT.
pub(crate) fn abort(socket: &Socket) {
    // One that is not there, or was removed, needs none.
    let _ = send(socket, 0, libc::SCTP_ABORT as u16, 0, [&[], &[]]);
}

/// Received piece of a user message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub stream: u16,
    /// Payload protocol identifier.
    pub protocol: u32,
    /// Offset in the buffer passed to [`receive`].
    pub start: usize,
    /// Length in bytes; zero for the end of the association.
    pub length: usize,
    /// Whether this is the last piece of its message.
    pub ends: bool,
}

impl Piece {
    /// Returns the data in the buffer passed to [`receive`].
    pub(crate) fn data<'a>(&self, memory: &'a [u8]) -> &'a [u8] {
        &memory[self.start..self.start + self.length]
    }
}

/// Receives waiting data into as many slots of `slot_bytes` as fit into `memory`, but only one if
/// not `many`; puts descriptions of the received pieces into `pieces`.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if nothing is there; the error that ended the association.
pub(crate) fn receive(
    socket: &Socket,
    memory: &mut [u8],
    slot_bytes: usize,
    many: bool,
    pieces: &mut Vec<Piece>,
) -> io::Result<After> {
    pieces.clear();
    let slots = if many { MAX_RECEIVED } else { 1 };
    let (mut more, mut lost, mut ended) = (false, None, false);
    let each = |received: &Received<'_>| {
        if ended {
            return;
        }
        if received.flags & libc::MSG_NOTIFICATION != 0 {
            lost = lost.or(loss_in(received.data));
            return;
        }
        let (stream, protocol, next) = beside(received);
        let ends = received.flags & libc::MSG_EOR != 0;
        more = next || !ends;
        ended = received.data.is_empty();
        pieces.push(Piece {
            stream,
            protocol,
            start: received.start,
            length: received.data.len(),
            ends,
        });
    };
    message::receive::<CONTROL_BYTES>(socket, memory, slot_bytes, slots, each)?;
    // A batch that is not full may have met an error, which only the next call returns.
    Ok(After {
        more: more || many || pieces.is_empty(),
        lost,
    })
}

/// State after a receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct After {
    /// Whether there may be more.
    pub more: bool,
    /// Error of the system with which the association ended, if it has.
    pub lost: Option<libc::c_int>,
}

/// Returns the error in a notification that the association has ended. The socket's own error cannot
/// be relied on: when the kernel looks for the message after this one (SCTP_NXTINFO) and finds
/// none, it clears the error without reporting it.
fn loss_in(notification: &[u8]) -> Option<libc::c_int> {
    let short = |at: usize| Some(u16::from_ne_bytes(*notification.get(at..)?.first_chunk()?));
    let (kind, state) = (short(0)?, short(uapi::ASSOC_CHANGE_STATE)?);
    let lost =
        kind == uapi::ASSOC_CHANGE && matches!(state, uapi::COMM_LOST | uapi::CANT_STR_ASSOC);
    // With the ABORT that came; without one nothing came for too long.
    let aborted = notification.len() > uapi::ASSOC_CHANGE_BYTES;
    let error = if aborted {
        libc::ECONNRESET
    } else {
        libc::ETIMEDOUT
    };
    lost.then_some(error)
}

/// Returns the stream and the payload protocol identifier of a piece, and whether another message
/// follows it.
fn beside(received: &Received<'_>) -> (u16, u32, bool) {
    let (mut stream, mut protocol, mut next) = (0, 0, false);
    for datum in received.control(SOL_SCTP) {
        match datum.cmsg_type {
            libc::SCTP_RCVINFO => {
                // SAFETY: a datum of this type is this structure.
                let info: libc::sctp_rcvinfo = unsafe { message::value(datum) };
                (stream, protocol) = (info.rcv_sid, u32::from_be(info.rcv_ppid));
            }
            libc::SCTP_NXTINFO => next = true,
            _ => {}
        }
    }
    (stream, protocol, next)
}

/// Whether something can be received now.
pub(crate) fn has_data(socket: &Socket) -> bool {
    wait::ready(socket, libc::POLLIN, MonotonicTime(0)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_read_from_its_notification() {
        let bytes = |kind: u16, state: u16, more: usize| {
            let mut bytes = vec![0; uapi::ASSOC_CHANGE_BYTES + more];
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            bytes[8..10].copy_from_slice(&state.to_ne_bytes());
            bytes
        };
        let change = uapi::ASSOC_CHANGE;
        for (notification, expected) in [
            (bytes(change, uapi::COMM_LOST, 4), Some(libc::ECONNRESET)),
            (bytes(change, uapi::COMM_LOST, 0), Some(libc::ETIMEDOUT)),
            (
                bytes(change, uapi::CANT_STR_ASSOC, 0),
                Some(libc::ETIMEDOUT),
            ),
            (bytes(change, 0, 0), None),
            (bytes(0x8002, uapi::COMM_LOST, 4), None),
            (vec![1, 0x80], None),
        ] {
            assert_eq!(loss_in(&notification), expected, "{notification:?}");
        }
    }

    #[test]
    fn packed_addresses_are_parsed() {
        let expected: Vec<SocketAddr> = ["10.60.0.2:7", "[fe80::1]:9", "10.60.1.2:7"]
            .map(|text| text.parse().expect("an address"))
            .to_vec();
        let mut bytes = Vec::new();
        for address in &expected {
            let length = SockAddr::from(*address).len() as usize;
            let storage = storage(*address);
            // SAFETY: an address of `length` bytes was written to the beginning of the storage.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts((&raw const storage).cast::<u8>(), length)
            });
        }
        assert_eq!(addresses(&bytes, 3), expected);
        assert_eq!(addresses(&bytes, 9), expected, "more than there are");
        assert_eq!(addresses(&bytes[..20], 3), expected[..1], "cut off");
    }
}
