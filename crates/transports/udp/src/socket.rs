//! What every socket of this crate needs.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
};

use regatta_model::Warning;
use regatta_transport::{MonotonicTime, TransportError};
use socket2::Socket;

/// Bytes of IP and UDP headers before a datagram's payload.
pub(crate) const fn headers(address: IpAddr) -> usize {
    if address.is_ipv6() { 40 + 8 } else { 20 + 8 }
}

/// Sets an option that takes one C integer.
pub(crate) fn set_integer(socket: &Socket, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the value is one C integer, and its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Asks for a buffer, by force where that is permitted; returns what the kernel gives.
pub(crate) fn set_buffers(
    socket: &Socket,
    receive: usize,
    send: usize,
) -> io::Result<(usize, usize)> {
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

/// Says of messages that do not fit a packet, with this many bytes of header, what IP makes of them.
pub(crate) fn fragmentation(
    message: usize,
    header: usize,
    mtu: usize,
    local: IpAddr,
) -> Option<Warning> {
    let fits = mtu.saturating_sub(headers(local) + header);
    if message <= fits {
        return None;
    }
    // All fragments but the last carry a multiple of eight bytes (RFC 791, 3.2).
    let fragment = (mtu.saturating_sub(headers(local) - 8) & !7).max(8);
    let fragments = (message + header + 8).div_ceil(fragment);
    Some(Warning {
        code: "ip_fragmentation".to_owned(),
        message: format!(
            "each message of {message} B travels as {fragments} IP fragments, and is lost if any \
             of them is"
        ),
        hint: format!("use messages of at most {fits} B"),
    })
}

/// Where a bound socket is.
pub(crate) fn address(socket: &Socket) -> Result<SocketAddr, TransportError> {
    socket
        .local_addr()
        .map_err(TransportError::io("cannot read the listening address"))?
        .as_socket()
        .ok_or_else(|| TransportError::Protocol {
            what: "the listening socket has no internet address".to_owned(),
        })
}

/// Waits until there is something to receive, or the moment has come; false for the latter.
pub(crate) fn wait_readable(socket: &Socket, until: MonotonicTime) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        let left = until.remaining();
        let timeout = libc::timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        // SAFETY: one valid `pollfd`, a valid timespec, and no signal mask.
        let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
        match ready {
            0 => return Ok(false),
            1.. => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
