//! Socket options that no library sets for the drivers.

use std::{io, os::fd::AsRawFd};

/// Sets the differentiated services code point (RFC 2474) of the packets of an IPv6 or IPv4 socket.
///
/// # Errors
/// The error of the system.
pub fn set_dscp(socket: &impl AsRawFd, is_ipv6: bool, dscp: libc::c_int) -> io::Result<()> {
    let (level, name) = match is_ipv6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        false => (libc::IPPROTO_IP, libc::IP_TOS),
    };
    // The two lowest bits of the field are those of ECN (RFC 3168).
    set_integer(socket, level, name, dscp << 2)
}

/// Sets an option that takes one C integer, as `setsockopt(2)` names it.
///
/// # Errors
/// The error of the system.
pub fn set_integer(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
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
