//! Socket options that no library sets or reads for the drivers.

use std::{io, os::fd::AsRawFd};

/// Types of which every bit pattern is a valid value, so that the kernel may write them.
///
/// # Safety
/// The type must be an integer, or a structure or an array of such types alone.
pub unsafe trait Plain: Copy {
    /// Returns a value of all zeros.
    #[must_use]
    fn zeroed() -> Self {
        // SAFETY: by the trait's own promise.
        unsafe { std::mem::zeroed() }
    }
}

// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: an integer.
unsafe impl Plain for libc::c_int {}
// SAFETY: integers and arrays of integers.
unsafe impl Plain for libc::sockaddr_storage {}
// SAFETY: integers.
unsafe impl Plain for libc::tcp_info {}
// SAFETY: an array of such types.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Sets an option to a value of any type, as `setsockopt(2)` names it.
///
/// # Errors
/// The error of the system.
pub fn set<T: Copy>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (socket, length) = (socket.as_raw_fd(), size_of::<T>() as libc::socklen_t);
    let pointer = std::ptr::from_ref(value).cast();
    // SAFETY: the kernel reads as many bytes as the value has.
    match unsafe { libc::setsockopt(socket, level, name, pointer, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads an option into `value`, which holds the parameters of the request first; returns the number of bytes that the
/// kernel has written.
///
/// # Errors
/// The error of the system.
pub fn get_into<T: Plain>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut T,
) -> io::Result<usize> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let (socket, pointer) = (socket.as_raw_fd(), std::ptr::from_mut(value).cast());
    // SAFETY: the kernel writes at most `length` bytes to a place of that length, and whatever it
    // writes is valid.
    match unsafe { libc::getsockopt(socket, level, name, pointer, &raw mut length) } {
        0 => Ok(length as usize),
        _ => Err(io::Error::last_os_error()),
    }
}

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

/// Sets an option that takes one C integer.
///
/// # Errors
/// The error of the system.
pub fn set_integer(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set(socket, level, name, &value)
}
