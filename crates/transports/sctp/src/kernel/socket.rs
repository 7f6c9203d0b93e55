//! Non-blocking system calls on a one-to-one socket.

use std::{
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd, RawFd},
};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::uapi::{self, AssocChange, GetAddrs, NxtInfo, RcvInfo, SOL_SCTP, SndInfo};

/// Maximum number of pieces that are received at once.
const MOST_PIECES: usize = 8;

/// Size of the ancillary data of a piece, in bytes: its stream, and a description of the next
/// message.
const CONTROL_BYTES: usize = control_space::<RcvInfo>() + control_space::<NxtInfo>();

const fn control_space<T>() -> usize {
    // SAFETY: the macro only computes with the length.
    unsafe { libc::CMSG_SPACE(mem::size_of::<T>() as libc::c_uint) as usize }
}

/// Buffer for ancillary data, aligned as its headers must be.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control<const N: usize>([u8; N]);

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
    set_bytes(socket, name, value, mem::size_of::<T>())
}

/// Sets an SCTP option to the first `length` bytes of a value.
fn set_bytes<T>(socket: &Socket, name: libc::c_int, value: &T, length: usize) -> io::Result<()> {
    debug_assert!(length <= mem::size_of::<T>());
    // SAFETY: the kernel reads `length` bytes of a value that is at least as long.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            SOL_SCTP,
            name,
            std::ptr::from_ref(value).cast(),
            length as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an SCTP option; `value` holds the request's parameters first, and then the result.
///
/// # Safety
/// Every bit pattern must be a valid `T`.
unsafe fn get_into<T>(socket: &Socket, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to a place of that length, and by the
    // caller's word whatever it writes is valid.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_SCTP,
            name,
            std::ptr::from_mut(value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Structures of integers only, for which every bit pattern is valid.
///
/// # Safety
/// The type must be such a structure.
pub(crate) unsafe trait Plain: Copy {
    /// Returns a value of all zeros.
    fn zeroed() -> Self {
        // SAFETY: by the trait's own promise.
        unsafe { mem::zeroed() }
    }
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

/// Reads an SCTP option; `value` holds the request's parameters.
pub(crate) fn get<T: Plain>(socket: &Socket, name: libc::c_int, mut value: T) -> io::Result<T> {
    // SAFETY: `Plain` promises that every bit pattern is valid.
    unsafe { get_into(socket, name, &mut value)? };
    Ok(value)
}

/// Converts an address to the kernel's structure.
pub(crate) fn storage(address: SocketAddr) -> libc::sockaddr_storage {
    let address = SockAddr::from(address);
    // SAFETY: a structure of integers, for which all zeros is valid.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
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
        let address = storage(SocketAddr::new(IpAddr::V4(*address), port));
        set_bytes(
            socket,
            uapi::BINDX_ADD,
            &address,
            mem::size_of::<libc::sockaddr_in>(),
        )?;
    }
    Ok(())
}

/// Returns the peer's addresses of an association; the primary one need not be the first.
pub(crate) fn peer_addresses(socket: &Socket) -> io::Result<Vec<SocketAddr>> {
    let mut answer = GetAddrs {
        association: 0,
        count: 0,
        addresses: [0; 1024],
    };
    // SAFETY: a structure of integers alone.
    unsafe { get_into(socket, uapi::GET_PEER_ADDRS, &mut answer)? };
    Ok(addresses(&answer.addresses, answer.count as usize))
}

/// Parses `count` addresses that stand one after another.
fn addresses(mut bytes: &[u8], count: usize) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for _ in 0..count {
        let Some(family) = bytes.first_chunk().copied().map(u16::from_ne_bytes) else {
            break;
        };
        let port = |bytes: &[u8]| u16::from_be_bytes([bytes[2], bytes[3]]);
        let length = match libc::c_int::from(family) {
            libc::AF_INET => mem::size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => mem::size_of::<libc::sockaddr_in6>(),
            _ => break,
        };
        let Some((one, rest)) = bytes.split_at_checked(length) else {
            break;
        };
        let ip = if libc::c_int::from(family) == libc::AF_INET {
            IpAddr::V4(Ipv4Addr::new(one[4], one[5], one[6], one[7]))
        } else {
            let mut octets = [0; 16];
            octets.copy_from_slice(&one[8..24]);
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        found.push(SocketAddr::new(ip, port(one)));
        bytes = rest;
    }
    found
}

/// Sends one user message, or none of it.
pub(crate) fn send(
    socket: &Socket,
    stream: u16,
    flags: u16,
    protocol: u32,
    parts: [&[u8]; 2],
) -> io::Result<()> {
    let parts = parts.map(|part| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    });
    let mut control = Control([0; control_space::<SndInfo>()]);
    // SAFETY: a structure of integers and pointers, for which all zeros is valid.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = parts.as_ptr().cast_mut();
    header.msg_iovlen = parts.len() as _;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the control data has room for one header with the structure after it, and is
    // aligned for the header; the structure is written without regard to alignment.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = SOL_SCTP;
        (*first).cmsg_type = uapi::CMSG_SNDINFO;
        (*first).cmsg_len = libc::CMSG_LEN(mem::size_of::<SndInfo>() as libc::c_uint) as _;
        libc::CMSG_DATA(first)
            .cast::<SndInfo>()
            .write_unaligned(SndInfo {
                stream,
                flags,
                protocol: protocol.to_be(),
                context: 0,
                association: 0,
            });
    }
    loop {
        // SAFETY: the header's pointers are to memory that outlives the call, which only reads.
        let sent = unsafe {
            libc::sendmsg(
                socket.as_raw_fd(),
                &raw const header,
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            )
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Ends the association at once, with an ABORT.
pub(crate) fn abort(socket: &Socket) {
    // One that is not there, or is gone, needs none.
    let _ = send(socket, 0, uapi::ABORT, 0, [&[], &[]]);
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
    let slots = if many { MOST_PIECES } else { 1 };
    let mut controls = [Control([0; CONTROL_BYTES]); MOST_PIECES];
    // SAFETY: structures of integers and pointers, for which all zeros is valid.
    let (mut vectors, mut headers): ([libc::iovec; MOST_PIECES], [libc::mmsghdr; MOST_PIECES]) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let mut count = 0;
    for (index, slot) in memory.chunks_mut(slot_bytes.max(1)).take(slots).enumerate() {
        vectors[index] = libc::iovec {
            iov_base: slot.as_mut_ptr().cast(),
            iov_len: slot.len(),
        };
        let header = &mut headers[index].msg_hdr;
        header.msg_iov = &raw mut vectors[index];
        header.msg_iovlen = 1;
        header.msg_control = controls[index].0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        count += 1;
    }
    let received = receive_into(socket.as_raw_fd(), &mut headers[..count])?;
    let (mut more, mut lost) = (false, None);
    for (index, header) in headers[..received].iter().enumerate() {
        let length = header.msg_len as usize;
        let (flags, header) = (header.msg_hdr.msg_flags, &header.msg_hdr);
        if flags & uapi::MSG_NOTIFICATION != 0 {
            let start = index * slot_bytes;
            lost = lost.or(loss_in(&memory[start..start + length]));
            continue;
        }
        let (place, next) = beside(header);
        let ends = flags & libc::MSG_EOR != 0;
        more = next || !ends;
        pieces.push(Piece {
            stream: place.stream,
            protocol: u32::from_be(place.protocol),
            start: index * slot_bytes,
            length,
            ends,
        });
        if length == 0 {
            break;
        }
    }
    // A batch that is not full may have met an error, which only the next call tells.
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

/// Returns the error in a notification that the association is gone. The socket's own error cannot
/// be relied on: when the kernel looks for the message after this one (SCTP_NXTINFO) and finds
/// none, it clears the error and reports it to nobody.
fn loss_in(notification: &[u8]) -> Option<libc::c_int> {
    let short = |at: usize| Some(u16::from_ne_bytes(*notification.get(at..)?.first_chunk()?));
    let kind = short(mem::offset_of!(AssocChange, kind))?;
    let state = short(mem::offset_of!(AssocChange, state))?;
    let lost =
        kind == uapi::ASSOC_CHANGE && matches!(state, uapi::COMM_LOST | uapi::CANT_STR_ASSOC);
    // With the ABORT that came; without one nothing came for too long.
    let aborted = notification.len() > mem::size_of::<AssocChange>();
    lost.then_some(if aborted {
        libc::ECONNRESET
    } else {
        libc::ETIMEDOUT
    })
}

fn receive_into(socket: RawFd, headers: &mut [libc::mmsghdr]) -> io::Result<usize> {
    loop {
        // SAFETY: the headers point to memory that outlives the call, for as many bytes as they
        // say.
        let received = unsafe {
            match &mut *headers {
                [one] => {
                    let length = libc::recvmsg(socket, &raw mut one.msg_hdr, libc::MSG_DONTWAIT);
                    one.msg_len = libc::c_uint::try_from(length).unwrap_or_default();
                    if length < 0 { -1 } else { 1 }
                }
                many => libc::recvmmsg(
                    socket,
                    many.as_mut_ptr(),
                    many.len() as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                    std::ptr::null_mut(),
                ),
            }
        };
        if let Ok(received) = usize::try_from(received) {
            return Ok(received);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns the ancillary data of a piece, and whether another message follows it.
fn beside(header: &libc::msghdr) -> (RcvInfo, bool) {
    let (mut place, mut next) = (RcvInfo::default(), false);
    // SAFETY: the header is as the kernel left it, so its control data is well formed.
    let mut one = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !one.is_null() {
        // SAFETY: not null, so it points to a whole header, followed by what its type says; which
        // is read without regard to alignment.
        unsafe {
            if (*one).cmsg_level == SOL_SCTP {
                match (*one).cmsg_type {
                    uapi::CMSG_RCVINFO => {
                        place = libc::CMSG_DATA(one).cast::<RcvInfo>().read_unaligned();
                    }
                    uapi::CMSG_NXTINFO => next = true,
                    _ => {}
                }
            }
            one = libc::CMSG_NXTHDR(header, one);
        }
    }
    (place, next)
}

/// Whether something can be received now.
pub(crate) fn has_data(socket: &Socket) -> bool {
    let mut poll = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid `pollfd`; the call does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}

/// Returns the memory that the socket's sent and not yet acknowledged data takes, in bytes; `None`
/// if the kernel does not report it.
pub(crate) fn queued_bytes(socket: &Socket) -> Option<u32> {
    /// Index of `SK_MEMINFO_WMEM_QUEUED` (`linux/sock_diag.h`).
    const QUEUED: usize = 5;
    let mut values = [0_u32; 9];
    let mut length = mem::size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to a place of that length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(values[QUEUED])
}

/// Sets the size of a buffer of the socket, beyond the system's maximum if permitted; returns the
/// size as read back, which is twice the requested one.
pub(crate) fn set_buffer(
    socket: &Socket,
    bytes: usize,
    (option, by_force): (libc::c_int, libc::c_int),
) -> io::Result<usize> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
    let set = |option| {
        // SAFETY: the value is one C integer, as these options take.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const value).cast(),
                mem::size_of::<libc::c_int>() as libc::socklen_t,
            )
        }
    };
    if set(by_force) != 0 && set(option) != 0 {
        return Err(io::Error::last_os_error());
    }
    if option == libc::SO_SNDBUF {
        socket.send_buffer_size()
    } else {
        socket.recv_buffer_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_read_from_its_notification() {
        let bytes = |kind: u16, state: u16, more: usize| {
            let mut bytes = vec![0; mem::size_of::<AssocChange>() + more];
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
    fn addresses_that_stand_one_after_another_are_cut_apart() {
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
