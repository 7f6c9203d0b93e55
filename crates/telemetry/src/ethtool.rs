//! Questions about one interface by ioctl: MTU, hardware type, offloads.

use std::os::fd::RawFd;

/// Offloads that change what is a packet on an interface, with the command that asks for each.
///
/// Source: linux/ethtool.h.
const OFFLOADS: [(&str, u32); 6] = [
    ("rx_checksum", 0x14),
    ("tx_checksum", 0x16),
    ("scatter_gather", 0x18),
    ("tso", 0x1e),
    ("gso", 0x23),
    ("gro", 0x2b),
];

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Makes a request about `name`; `None` for a name that no interface can have.
fn request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: an all-zero `ifreq` is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    // One byte stays for the terminating zero.
    if bytes.is_empty() || bytes.len() >= request.ifr_name.len() || bytes.contains(&0) {
        return None;
    }
    for (target, &byte) in request.ifr_name.iter_mut().zip(bytes) {
        *target = byte as libc::c_char;
    }
    Some(request)
}

/// Makes the `ioctl` request `request_code` for interface `name`; returns the structure that the kernel filled in.
fn ioctl(socket: RawFd, name: &str, request_code: libc::c_ulong) -> Option<libc::ifreq> {
    let mut request = request(name)?;
    // SAFETY: the request outlives the call.
    let succeeded = unsafe { libc::ioctl(socket, request_code as _, &raw mut request) } == 0;
    succeeded.then_some(request)
}

/// Returns the largest packet of interface `name`, in bytes.
pub(crate) fn mtu(socket: RawFd, name: &str) -> Option<u32> {
    // SAFETY: the kernel has written this member.
    let mtu = unsafe { ioctl(socket, name, libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).ok()
}

/// Returns the type of the hardware of interface `name`, one of `ARPHRD_*`.
pub(crate) fn hardware_type(socket: RawFd, name: &str) -> Option<u16> {
    // SAFETY: the kernel has written this member.
    Some(unsafe {
        ioctl(socket, name, libc::SIOCGIFHWADDR)?
            .ifr_ifru
            .ifru_hwaddr
            .sa_family
    })
}

/// Offloads and whether they are on; those that the interface's driver does not report are absent.
pub(crate) fn offloads(socket: RawFd, name: &str) -> Vec<(&'static str, bool)> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    OFFLOADS
        .iter()
        .filter_map(|&(offload, command)| {
            let mut value = Value { command, data: 0 };
            let mut request = request(name)?;
            request.ifr_ifru.ifru_data = (&raw mut value).cast();
            // SAFETY: the request points at `value`, which has the layout that these commands
            // expect, and both outlive the call.
            let status = unsafe { libc::ioctl(socket, SIOCETHTOOL as _, &raw mut request) };
            (status == 0).then_some((offload, value.data != 0))
        })
        .collect()
}
