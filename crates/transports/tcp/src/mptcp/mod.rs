//! Multipath TCP (RFC 8684) of the running kernel: the same sockets as plain TCP's, with another
//! protocol number, and a second subflow from each further address of the path's interface.

mod paths;
mod subflows;

pub(crate) use paths::Paths;
pub(crate) use subflows::{sample, state};

use std::net::{IpAddr, Ipv4Addr};

use regatta_model::reason;
use regatta_transport::{Unsupported, addresses};
use socket2::{Domain, Protocol, Socket, Type};

/// Maximum number of further addresses; the kernel's own limit is two further subflows.
const MAX_FURTHER: usize = 2;

/// Returns the addresses for further subflows: the other addresses of the interface that has
/// `local`.
pub(crate) fn further_addresses(local: IpAddr) -> Vec<Ipv4Addr> {
    let mut found = addresses::further_addresses(local);
    found.truncate(MAX_FURTHER);
    found
}

/// Checks that this host provides MPTCP sockets.
pub(crate) fn supported() -> Result<(), Unsupported> {
    match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Err(Unsupported::new(
            reason::mptcp_off(),
            reason::switch_mptcp_on(),
        )),
        Err(error) => Err(Unsupported::new(
            reason::no_mptcp(&error.to_string()),
            reason::boot_with_mptcp(),
        )),
    }
}
