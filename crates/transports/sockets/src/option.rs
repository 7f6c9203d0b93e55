//! Buffers and memory of a socket.

use std::{io, os::fd::AsRawFd};

use regatta_transport::socket_option::{get_into, set_integer};
use socket2::Socket;

/// Sets the sizes of the buffers, beyond the system's maximum where that is permitted; `None` leaves one as the kernel
/// gives it. Returns the sizes that the kernel grants, of which it doubles each for its own accounting. All sizes are in
/// bytes.
///
/// # Errors
/// The error of the system.
pub fn set_buffers(
    socket: &Socket,
    receive: Option<usize>,
    send: Option<usize>,
) -> io::Result<(usize, usize)> {
    for (name, by_force, bytes) in [
        (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, receive),
        (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, send),
    ] {
        let Some(bytes) = bytes else { continue };
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
