//! Sizes of packets, and messages that IP sends in fragments.

use std::{
    io,
    net::{IpAddr, UdpSocket},
};

use regatta_control::TrialOrder;
use regatta_model::{Bytes, Warning, warning};
use regatta_transport::socket_option::get_into;

/// Port that a socket is connected to in order to ask for its route; nothing is sent there.
const ANY_PORT: u16 = 9;

/// Returns the bytes of IP and UDP headers before a datagram's payload.
pub(crate) const fn headers(address: IpAddr) -> usize {
    if address.is_ipv6() { 40 + 8 } else { 20 + 8 }
}

/// Returns the largest IP packet that is not sent in fragments, in bytes: of a network as it is, that of the route.
pub(crate) fn largest(order: &TrialOrder) -> usize {
    let path = &order.path;
    if path.is_real_network
        && let Ok(of_route) = of_route(order.local, order.peer)
    {
        return of_route;
    }
    path.mtu_bytes as usize
}

/// Returns the largest packet of the route to `peer`, as the kernel knows it (`IP_MTU`, ip(7)).
fn of_route(local: IpAddr, peer: IpAddr) -> io::Result<usize> {
    let socket = UdpSocket::bind((local, 0))?;
    socket.connect((peer, ANY_PORT))?;
    let (level, name) = match local {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mut mtu: libc::c_int = 0;
    get_into(&socket, level, name, &mut mtu)?;
    usize::try_from(mtu).map_err(io::Error::other)
}

/// Returns a warning about messages of `message` bytes, with `header` bytes of header, that IP must fragment to send them
/// from `local`.
pub(crate) fn fragmentation(
    message: usize,
    header: usize,
    largest_packet: usize,
    local: IpAddr,
) -> Option<Warning> {
    let fits = largest_packet.saturating_sub(headers(local) + header);
    if message <= fits {
        return None;
    }
    // All fragments but the last carry a multiple of eight bytes (RFC 791, 3.2).
    let fragment = (largest_packet.saturating_sub(headers(local) - 8) & !7).max(8);
    let fragments = (message + header + 8).div_ceil(fragment);
    let message = Bytes(message as u64);
    Some(warning::ip_fragmentation(
        message,
        fragments as u64,
        fits as u64,
    ))
}

#[cfg(test)]
mod tests {
    use regatta_control::Role;
    use regatta_transport::testing::order_for;

    use super::*;

    #[test]
    fn largest_packet_of_a_real_network_is_the_route_mtu() {
        let mut order = order_for(Role::Sender, "udp", 1, 1);
        order.path.mtu_bytes = 1500;
        assert_eq!(largest(&order), 1500);
        order.path.is_real_network = true;
        let loopback = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("an interface");
        let loopback: usize = loopback.trim().parse().expect("a number");
        // No IP packet is longer.
        assert_eq!(largest(&order), loopback.min(65_535));
    }
}
