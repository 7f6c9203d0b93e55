//! Probes of the sockets of this network namespace.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use super::{Capability, module_hint};

/// Opens a socket, closed on drop.
fn open(domain: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer; the descriptor is new and owned by nobody else.
    unsafe {
        match libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

fn set(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the value's pointer and length belong together and outlive the call.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

pub(super) fn capabilities() -> Vec<Capability> {
    let number = 1200_i32.to_ne_bytes();
    let on = 1_i32.to_ne_bytes();
    let udp = |option, value: &[u8]| {
        let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        set(&socket, libc::SOL_UDP, option, value)
    };
    let mptcp_hint = match crate::facts::sysctl("net.mptcp.enabled") {
        Some(_) => "sysctl -w net.mptcp.enabled=1",
        None => "boot a kernel built with CONFIG_MPTCP=y",
    };
    let stream = |protocol| open(libc::AF_INET, libc::SOCK_STREAM, protocol).map(drop);
    vec![
        Capability::tried(
            "sctp",
            "SCTP socket of the kernel",
            stream(libc::IPPROTO_SCTP),
            module_hint("sctp", "CONFIG_IP_SCTP"),
        ),
        Capability::tried(
            "mptcp",
            "MPTCP socket",
            stream(libc::IPPROTO_MPTCP),
            mptcp_hint,
        ),
        Capability::tried(
            "udp_gso",
            "UDP_SEGMENT",
            udp(libc::UDP_SEGMENT, &number),
            "use a kernel of 4.18 or newer",
        ),
        Capability::tried(
            "udp_gro",
            "UDP_GRO",
            udp(libc::UDP_GRO, &on),
            "use a kernel of 5.0 or newer",
        ),
    ]
}
