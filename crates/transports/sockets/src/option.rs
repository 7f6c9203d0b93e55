//! Socket options that `socket2` does not have.

use std::{io, os::fd::AsRawFd};

use regatta_transport::socket_option::set_integer;
use socket2::Socket;

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
unsafe impl Plain for libc::c_int {}
// SAFETY: integers and arrays of integers.
unsafe impl Plain for libc::sockaddr_storage {}
// SAFETY: an array of such types.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Sets an option to a value of any type.
///
/// # Errors
/// The error of the system.
pub fn set<T: Copy>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the value has.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
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
    // SAFETY: the kernel writes at most `length` bytes to a place of that length, and whatever it
    // writes is valid.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets the sizes of the buffers, beyond the system's maximum where that is permitted; returns the sizes that the kernel
/// grants, of which it doubles each for its own accounting. All sizes are in bytes.
///
/// # Errors
/// The error of the system.
pub fn set_buffers(socket: &Socket, receive: usize, send: usize) -> io::Result<(usize, usize)> {
    for (name, by_force, bytes) in [
        (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, receive),
        (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, send),
    ] {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        set_integer(socket, libc::SOL_SOCKET, by_force, bytes)
            .or_else(|_| set_integer(socket, libc::SOL_SOCKET, name, bytes))?;
    }
    Ok((socket.recv_buffer_size()?, socket.send_buffer_size()?))
}

/// Figure of a socket's memory (`SO_MEMINFO`, socket(7), Linux 4.12), by its index in `linux/sock_diag.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Bytes of sent and not yet acknowledged data.
    Queued = 5,
    /// Packets that were dropped, the receive buffer being full.
    Drops = 8,
}

/// Returns a figure of the socket's memory; `None` where the kernel does not report it.
pub fn memory(socket: &impl AsRawFd, figure: Memory) -> Option<u32> {
    let mut values = [0_u32; 9];
    let written = get_into(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut values).ok()?;
    (written == size_of_val(&values)).then_some(values[figure as usize])
}
