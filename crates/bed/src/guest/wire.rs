//! Wires between two guests: virtual Ethernets, each a pair of sockets of which either kernel has
//! one as a network interface.
//!
//! Nothing of this machine's network takes part: a frame is one message between two processes. The
//! sockets keep the frames' boundaries, lose none, and have a sender wait while the other end has
//! much to read, so that queue, rate and loss are netem's alone.

use std::{io, os::fd::OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt::SndBuf,
};

/// Name of the interface whose wire is the path between the hosts.
pub const PATH_WIRE: &str = "vec0";

/// Name of the interface whose wire carries control messages to the other guest, so that none of
/// them is on the path.
pub const CONTROL_WIRE: &str = "vec1";

/// Bytes that may be under way on a wire, with the kernel's own for each frame. About two hundred
/// frames: a guest that is not scheduled for a moment does not stop the other.
const SEND_BUFFER_BYTES: usize = 512 << 10;

/// Ends of the wires for each of two guests, in the order of the interfaces' names.
pub type Wires = [Vec<OwnedFd>; 2];

/// Makes the wires of two guests.
///
/// # Errors
/// If the sockets cannot be created, for example because this process may have no more open files.
pub fn wires() -> io::Result<Wires> {
    let mut ends: Wires = [Vec::new(), Vec::new()];
    for _ in [PATH_WIRE, CONTROL_WIRE] {
        let (a, b) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        for (ends, end) in ends.iter_mut().zip([a, b]) {
            // The system gives less where its own limit is lower, which costs rate alone.
            let _ = setsockopt(&end, SndBuf, &SEND_BUFFER_BYTES);
            ends.push(end);
        }
    }
    Ok(ends)
}
