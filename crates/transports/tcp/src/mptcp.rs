//! Multipath TCP (RFC 8684) of the running kernel: the same sockets as plain TCP's, with another
//! protocol number, and a second subflow from each further address of the path's interface.

mod paths;
mod subflows;

pub(crate) use paths::Paths;
pub(crate) use subflows::{sample, state};

use std::net::{IpAddr, Ipv4Addr};

use regatta_transport::{Unsupported, addresses};
use socket2::{Domain, Protocol, Socket, Type};

/// Most further addresses that are used, as the kernel's own limit is two subflows.
const MOST_FURTHER: usize = 2;

/// Addresses of further subflows: of the interface that has this one, without it.
pub(crate) fn further_addresses(local: IpAddr) -> Vec<Ipv4Addr> {
    let mut found = addresses::further_addresses(local);
    found.truncate(MOST_FURTHER);
    found
}

/// Whether this host gives out MPTCP sockets.
pub(crate) fn supported() -> Result<(), Unsupported> {
    match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Err(Unsupported {
            reason: "MPTCP is switched off on this host".to_owned(),
            hint: "run `sysctl -w net.mptcp.enabled=1` as root".to_owned(),
        }),
        Err(error) => Err(Unsupported {
            reason: format!("this kernel has no MPTCP: {error}"),
            hint: "boot a kernel with CONFIG_MPTCP".to_owned(),
        }),
    }
}
