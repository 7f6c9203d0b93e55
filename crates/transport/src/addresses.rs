//! Additional addresses of a host on the path, for transports that use several.

use std::net::{IpAddr, Ipv4Addr};

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
    fn an_address_is_not_further_than_itself() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(!further_addresses(loopback).contains(&Ipv4Addr::LOCALHOST));
        let nobodys = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        assert!(further_addresses(nobodys).is_empty());
    }
}
