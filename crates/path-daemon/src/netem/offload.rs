//! Switches off the offloads that make packets larger than those of the wire: a queue's limit, a
//! rate and a loss then act on each packet.
//!
//! The checksum stays the interface's to compute, as on the devices of the user-space emulator:
//! it changes no packet's size, and without it kernels before 6.11 refuse the segmentation that
//! QUIC stacks ask for, which is done before the packets reach the path: by the first virtual Ethernet between the
//! hosts, and by a [splitter](super::super::qdisc::Interface::split) where netem is on the hosts' own interfaces.

use std::{io, os::fd::AsRawFd};

use libc::SIOCETHTOOL;
use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
};

use crate::tun::request;

/// Commands of `linux/ethtool.h` that set one switch: of scatter and gather, TSO, GSO, GRO, and a group with LRO. Without the
/// first a packet is in one piece: netem corrupts only the first, which of a segment are the headers alone.
const SWITCHES: [u32; 5] = [
    0x19, // ETHTOOL_SSG
    0x1f, // ETHTOOL_STSO
    0x24, // ETHTOOL_SGSO
    0x2c, // ETHTOOL_SGRO
    0x26, // ETHTOOL_SFLAGS
];

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Switches the offloads of an interface of the calling thread's namespace off.
pub(super) fn switch_off(interface: &str) -> io::Result<()> {
    let (family, kind) = (AddressFamily::Inet, SockType::Datagram);
    let control = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    for command in SWITCHES {
        let mut value = Value { command, data: 0 };
        let mut request = request(interface);
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: this request reads one `ifreq` and the `ethtool_value` that it points to, and
        // both outlive the call.
        let done = unsafe { libc::ioctl(control.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        match Errno::result(done) {
            // An interface without the feature has it off.
            Ok(_) | Err(Errno::EOPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
