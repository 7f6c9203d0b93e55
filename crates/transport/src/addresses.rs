//! Facts that the kernel has about the path between two addresses: further addresses of the interface, for transports
//! that use several, and the largest packet.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
};

use crate::socket_option::integer;

/// Returns the IPv4 addresses of the interface that has `local`, without it, in the kernel's order.
/// None if no interface has it.
#[must_use]
pub fn further_addresses(local: IpAddr) -> Vec<Ipv4Addr> {
    let ipv4 = |address: &nix::ifaddrs::InterfaceAddress| {
        Some(address.address.as_ref()?.as_sockaddr_in()?.ip())
    };
    let Ok(all) = nix::ifaddrs::getifaddrs() else {
        return Vec::new();
    };
    let all: Vec<_> = all
        .filter_map(|address| Some((device(&address.interface_name).to_owned(), ipv4(&address)?)))
        .collect();
    let Some((interface, _)) = all
        .iter()
        .find(|(_, address)| IpAddr::V4(*address) == local)
    else {
        return Vec::new();
    };
    all.iter()
        .filter(|(name, address)| name == interface && IpAddr::V4(*address) != local)
        .map(|(_, address)| *address)
        .collect()
}

/// Returns the largest IP packet, in bytes, that the kernel sends from `local` to `peer`: the MTU of the interface, or a
/// smaller one that the kernel has learnt of the path. Nothing is sent.
///
/// # Errors
/// The error of the system, such as that of an address that no interface has.
pub fn path_mtu(local: IpAddr, peer: IpAddr) -> io::Result<u32> {
    // Any port will do: a connected datagram socket has the route.
    const DISCARD: u16 = 9;
    let socket = UdpSocket::bind(SocketAddr::new(local, 0))?;
    socket.connect(SocketAddr::new(peer, DISCARD))?;
    let mtu = match peer {
        IpAddr::V4(_) => integer(&socket, libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => integer(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU),
    }?;
    u32::try_from(mtu).map_err(io::Error::other)
}

/// Returns the device of a labelled address: `path0` of `path0:1`.
fn device(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_known_by_its_device() {
        assert_eq!(device("path0:1"), "path0");
        assert_eq!(device("path0"), "path0");
    }

    #[test]
    fn the_largest_packet_of_loopback_is_that_of_its_interface() {
        let of_interface = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("a loopback");
        let of_interface: u32 = of_interface.trim().parse().expect("a number");
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(path_mtu(loopback, loopback).expect("a route"), of_interface);
        let nobodys = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        assert!(path_mtu(nobodys, loopback).is_err());
    }

    #[test]
    fn an_address_is_not_further_than_itself() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(!further_addresses(loopback).contains(&Ipv4Addr::LOCALHOST));
        let nobodys = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        assert!(further_addresses(nobodys).is_empty());
    }
}
