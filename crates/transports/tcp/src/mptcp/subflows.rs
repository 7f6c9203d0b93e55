//! Statistics of an MPTCP connection and of its subflows from the kernel (`linux/mptcp.h`).

use std::{mem, os::fd::RawFd};

use regatta_transport::ProtocolSample;

use crate::info::{self, TcpInfo};

const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const MPTCP_TCPINFO: libc::c_int = 2;

/// Flag of a connection that has fallen back to plain TCP.
const FALLBACK: u32 = 1;

/// Maximum number of subflows to query: the kernel allows eight.
const MOST_SUBFLOWS: usize = 8;

/// The beginning of the kernel's `struct mptcp_info`.
#[repr(C)]
#[derive(Default)]
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
#[derive(Default)]
struct Subflows {
    size_subflow_data: u32,
    num_subflows: u32,
    size_kernel: u32,
    size_user: u32,
    info: [TcpInfo; MOST_SUBFLOWS],
}

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// Current number of subflows beside the first one.
    pub further_subflows: u8,
    /// Whether the connection has fallen back to plain TCP.
    pub fell_back: bool,
}

fn ask<T>(socket: RawFd, option: libc::c_int, answer: &mut T) -> Option<usize> {
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: both callers give a plain structure of `length` bytes, every bit pattern of which is
    // valid.
    let result = unsafe {
        libc::getsockopt(
            socket,
            SOL_MPTCP,
            option,
            std::ptr::from_mut(answer).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(length as usize)
}

/// Reads the state of a connection; `None` if the kernel's answer is too short.
pub(crate) fn state(socket: RawFd) -> Option<State> {
    let mut answer = MptcpInfo::default();
    match ask(socket, MPTCP_INFO, &mut answer) {
        Some(filled) if filled >= mem::size_of::<MptcpInfo>() => Some(State {
            further_subflows: answer.subflows,
            fell_back: answer.flags & FALLBACK != 0,
        }),
        Some(_) => None,
        // This is how a connection that fell back answers.
        None => Some(State {
            further_subflows: 0,
            fell_back: true,
        }),
    }
}

/// Returns statistics over all subflows: windows and counts are sums, times are the least.
pub(crate) fn sample(socket: RawFd) -> Option<ProtocolSample> {
    let mut answer = Subflows {
        size_subflow_data: mem::offset_of!(Subflows, info) as u32,
        size_user: mem::size_of::<TcpInfo>() as u32,
        ..Subflows::default()
    };
    let Some(_) = ask(socket, MPTCP_TCPINFO, &mut answer) else {
        return info::sample(socket);
    };
    let filled = answer.size_kernel.min(answer.size_user) as usize;
    let count = (answer.num_subflows as usize).min(MOST_SUBFLOWS);
    answer.info[..count]
        .iter()
        .map(|info| info.sample(filled))
        .reduce(ProtocolSample::combined)
}
