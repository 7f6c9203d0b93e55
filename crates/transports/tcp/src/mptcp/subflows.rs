//! Statistics of an MPTCP connection and of its subflows from the kernel (`linux/mptcp.h`).

use std::{mem, os::fd::AsRawFd};

use libc::tcp_info as TcpInfo;
use regatta_transport::{
    ProtocolSample,
    socket_option::{Plain, get_into},
};

use crate::info::{self, of_info};

const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const MPTCP_TCPINFO: libc::c_int = 2;

/// Flag of a connection that has fallen back to plain TCP.
const FALLBACK: u32 = 1;

/// Maximum number of subflows to query: the kernel allows eight.
const MAX_SUBFLOWS: usize = 8;

/// The beginning of the kernel's `struct mptcp_info`.
#[repr(C)]
#[derive(Clone, Copy)]
struct MptcpInfo {
    subflows: u8,
    add_addr_signal: u8,
    add_addr_accepted: u8,
    subflows_max: u8,
    add_addr_signal_max: u8,
    add_addr_accepted_max: u8,
    padding: [u8; 2],
    flags: u32,
}

/// The kernel's `struct mptcp_subflow_data`, followed by the array of statistics.
#[repr(C)]
#[derive(Clone, Copy)]
struct Subflows {
    size_subflow_data: u32,
    num_subflows: u32,
    size_kernel: u32,
    size_user: u32,
    info: [TcpInfo; MAX_SUBFLOWS],
}

// SAFETY: all fields are integers.
unsafe impl Plain for MptcpInfo {}

// SAFETY: all fields are integers, and structures of integers.
unsafe impl Plain for Subflows {}

/// Returns the number of subflows of a connection, and whether it has fallen back to plain TCP; `None` if the kernel's
/// answer is too short.
pub(crate) fn state(socket: &impl AsRawFd) -> Option<(u8, bool)> {
    let mut answer = MptcpInfo::zeroed();
    match get_into(socket, SOL_MPTCP, MPTCP_INFO, &mut answer) {
        Ok(filled) if filled < mem::size_of::<MptcpInfo>() => None,
        Ok(_) if answer.flags & FALLBACK == 0 => Some((answer.subflows.saturating_add(1), false)),
        // A connection that fell back may also answer nothing.
        _ => Some((1, true)),
    }
}

/// Returns statistics over all subflows: windows and counts are sums, times are the least.
pub(crate) fn sample(socket: &impl AsRawFd) -> Option<ProtocolSample> {
    let mut answer = Subflows {
        size_subflow_data: mem::offset_of!(Subflows, info) as u32,
        size_user: mem::size_of::<TcpInfo>() as u32,
        ..Subflows::zeroed()
    };
    if get_into(socket, SOL_MPTCP, MPTCP_TCPINFO, &mut answer).is_err() {
        return info::sample(socket);
    }
    let filled = answer.size_kernel.min(answer.size_user) as usize;
    let count = (answer.num_subflows as usize).min(MAX_SUBFLOWS);
    answer.info[..count]
        .iter()
        .map(|info| of_info(info, filled))
        .reduce(ProtocolSample::combined)
}
