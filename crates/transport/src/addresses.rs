//! Addresses of a host: additional ones on the path, for transports that use several, and the scope of link-local ones.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Returns the IPv4 addresses of the interface that has `local`, without it, in the kernel's order.
/// None if no interface has it.
#[must_use]
pub fn further_addresses(local: IpAddr) -> Vec<Ipv4Addr> {
    let ipv4 = |entry: nix::ifaddrs::InterfaceAddress| {
        let address = entry.address?.as_sockaddr_in()?.ip();
        Some((device(&entry.interface_name).to_owned(), address))
    };
    let entries = nix::ifaddrs::getifaddrs().into_iter().flatten();
    beside(entries.filter_map(ipv4).collect(), local)
}

/// Returns the addresses of the interface that has `local`, of `all` with the names of their interfaces. The loopback device
/// has those of both ends of a path, so that none of them is a further one of `local`.
fn beside(all: Vec<(String, Ipv4Addr)>, local: IpAddr) -> Vec<Ipv4Addr> {
    let (there, others): (Vec<_>, Vec<_>) =
        (all.into_iter()).partition(|(_, it)| IpAddr::V4(*it) == local);
    let interface = there.first().map(|(interface, _)| interface);
    let of_interface = others
        .into_iter()
        .filter(|(name, _)| Some(name) == interface && (name != "lo" || local.is_loopback()));
    of_interface.map(|(_, address)| address).collect()
}

/// Returns an address that is reached from `local`, or `local` itself, with what the system needs to know of it: a link-local
/// address of IPv6 without a scope (RFC 4007) gets that of the interface that has `local`.
#[must_use]
pub fn scoped(address: SocketAddr, local: IpAddr) -> SocketAddr {
    let (SocketAddr::V6(mut v6), IpAddr::V6(local)) = (address, local) else {
        return address;
    };
    if v6.scope_id() == 0 && v6.ip().is_unicast_link_local() {
        let entries = nix::ifaddrs::getifaddrs().into_iter().flatten();
        let mut own = entries.filter_map(|entry| Some(*entry.address?.as_sockaddr_in6()?));
        if let Some(own) = own.find(|own| own.ip() == local) {
            v6.set_scope_id(own.scope_id());
        }
    }
    v6.into()
}

/// Returns the device of a labelled address: `path0` of `path0:1`.
fn device(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alias_label_is_stripped_from_device_name() {
        assert_eq!(device("path0:1"), "path0");
        assert_eq!(device("path0"), "path0");
    }

    #[test]
    fn the_other_end_on_the_loopback_is_no_further_address() {
        let beside = |device: &str| {
            let ends = [1, 2].map(|end| (device.to_owned(), Ipv4Addr::new(10, 60, 0, end)));
            beside(ends.into(), Ipv4Addr::new(10, 60, 0, 1).into())
        };
        assert_eq!(beside("lo"), [Ipv4Addr::UNSPECIFIED; 0]);
        assert_eq!(beside("path0"), [Ipv4Addr::new(10, 60, 0, 2)]);
    }

    #[test]
    fn only_link_local_addresses_get_a_scope() {
        let entries = nix::ifaddrs::getifaddrs().expect("interfaces");
        let mut v6 = entries.filter_map(|entry| Some(*entry.address?.as_sockaddr_in6()?));
        let loopback: SocketAddr = "[::1]:7".parse().expect("an address");
        assert_eq!(scoped(loopback, loopback.ip()), loopback);
        // A machine may have no link-local address.
        if let Some(own) = v6.find(|own| own.ip().is_unicast_link_local()) {
            let peer: SocketAddr = "[fe80::7]:7".parse().expect("an address");
            let SocketAddr::V6(peer) = scoped(peer, own.ip().into()) else {
                panic!("another family");
            };
            assert_eq!(peer.scope_id(), own.scope_id());
        }
    }

    #[test]
    fn further_addresses_exclude_the_own_address() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(!further_addresses(loopback).contains(&Ipv4Addr::LOCALHOST));
        let unassigned = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        assert!(further_addresses(unassigned).is_empty());
    }
}
