//! Filters on the destination of IP packets, as kernel messages.
//!
//! Numbers and layouts are those of `linux/pkt_cls.h`.

use std::{io, net::IpAddr};

use neli::consts::{nl::NlmF, rtnl::Rtm};

use super::super::{
    attributes::Attributes,
    qdisc::{Interface, head, named},
};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

/// Attributes of the filter `u32` (`TCA_U32_*`).
const U32_CLASSID: u16 = 1;
const U32_SEL: u16 = 5;

/// `TC_U32_TERMINAL`: a packet that matches is of the class.
const TERMINAL: u8 = 1;

/// Bytes of an IPv4 header without options and of an IPv6 header without extensions, as TCP has them.
const IPV4_HEADER_BYTES: u32 = 20;
const IPV6_HEADER_BYTES: u32 = 40;

/// Types of ICMPv6 messages (RFC 4861).
const NEIGHBOUR_SOLICITATION: u32 = 135;
const NEIGHBOUR_ADVERTISEMENT: u32 = 136;

/// Four bytes of a packet: their position in the IP packet, and the mask and the value of what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    at: u32,
    mask: u32,
    value: u32,
}

impl Key {
    const fn new(at: u32, mask: u32, value: u32) -> Self {
        Self { at, mask, value }
    }
}

/// Filter: packets of a protocol that match all keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    protocol: u16,
    keys: Vec<Key>,
}

/// Returns the filter of packets to an address.
pub(super) fn to(address: IpAddr) -> Filter {
    let (protocol, octets, first) = match address {
        IpAddr::V4(address) => (ETH_P_IP, address.octets().to_vec(), 16),
        IpAddr::V6(address) => (ETH_P_IPV6, address.octets().to_vec(), 24),
    };
    let keys = octets.chunks_exact(4).zip(0..).map(|(four, index)| {
        let value = four.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        Key::new(first + 4 * index, u32::MAX, value)
    });
    Filter {
        protocol,
        keys: keys.collect(),
    }
}

/// Returns the filters of neighbour discovery to an address, which ARP does not need, as it is no IP.
pub(super) fn neighbours(address: IpAddr) -> impl Iterator<Item = Filter> {
    let kinds: &[u32] = match address {
        IpAddr::V4(_) => &[],
        IpAddr::V6(_) => &[NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT],
    };
    let icmp = Key::new(4, 0x0000_ff00, (libc::IPPROTO_ICMPV6 as u32) << 8);
    kinds.iter().map(move |kind| {
        let kind = Key::new(IPV6_HEADER_BYTES, 0xff00_0000, kind << 24);
        to(address).with([icmp, kind])
    })
}

/// Returns the filters of segments of TCP to an address, from or to one of these ports.
pub(super) fn control(address: IpAddr, ports: &[u16]) -> impl Iterator<Item = Filter> {
    let tcp = libc::IPPROTO_TCP as u32;
    // The protocol is the tenth byte of an IPv4 header and the seventh of one of IPv6.
    let (protocol, header) = match address {
        IpAddr::V4(_) => (Key::new(8, 0x00ff_0000, tcp << 16), IPV4_HEADER_BYTES),
        IpAddr::V6(_) => (Key::new(4, 0x0000_ff00, tcp << 8), IPV6_HEADER_BYTES),
    };
    ports.iter().flat_map(move |port| {
        let port = u32::from(*port);
        [(0xffff_0000, port << 16), (0x0000_ffff, port)]
            .map(|(mask, value)| to(address).with([protocol, Key::new(header, mask, value)]))
    })
}

impl Filter {
    /// Adds keys.
    fn with(mut self, keys: [Key; 2]) -> Self {
        self.keys.extend(keys);
        self
    }

    /// Adds the filter to the discipline of this handle on an interface; `priority` orders the filters there,
    /// from 1.
    pub(super) fn add(
        &self,
        interface: &Interface,
        handle: u32,
        priority: u16,
        class: u32,
    ) -> io::Result<()> {
        let mut head = head(interface.index, 0, handle);
        let info = u32::from(priority) << 16 | u32::from(self.protocol.to_be());
        head[16..20].copy_from_slice(&info.to_ne_bytes());
        let options = Attributes::new()
            .u32(U32_CLASSID, class)
            .bytes(U32_SEL, &self.selector());
        let attributes = named("u32", options.as_bytes());
        let flags = NlmF::CREATE | NlmF::EXCL;
        let netlink = &interface.netlink;
        netlink.change(Rtm::Newtfilter, flags, &head, &attributes)
    }

    /// Makes a `struct tc_u32_sel`: flags, shift of the offset, number of keys, and offsets and a hash that are not used;
    /// then a `struct tc_u32_key` for each key: mask and value as in the packet, offset, mask of the offset.
    fn selector(&self) -> Vec<u8> {
        let mut bytes = vec![TERMINAL, 0, self.keys.len() as u8];
        bytes.resize(16, 0);
        for key in &self.keys {
            bytes.extend(key.mask.to_be_bytes());
            bytes.extend(key.value.to_be_bytes());
            bytes.extend(key.at.to_ne_bytes());
            bytes.extend([0; 4]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the selector with that of iproute2 6.1 for `u32 match ip dst 10.0.0.2`.
    #[cfg(target_endian = "little")]
    #[test]
    fn a_destination_is_what_tc_sends() {
        let filter = to("10.0.0.2".parse().unwrap());
        assert_eq!(filter.protocol, ETH_P_IP);
        let mut expected = vec![1, 0, 1];
        expected.resize(16, 0);
        expected.extend([255, 255, 255, 255, 10, 0, 0, 2, 16, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(filter.selector(), expected);
    }

    #[test]
    fn a_destination_of_ipv6_is_four_keys() {
        let filter = to("2001:db8::7".parse().unwrap());
        let found: Vec<_> = filter.keys.iter().map(|key| (key.at, key.value)).collect();
        assert_eq!(filter.protocol, ETH_P_IPV6);
        assert_eq!(found, [(24, 0x2001_0db8), (28, 0), (32, 0), (36, 7)]);
    }

    #[test]
    fn neighbour_discovery_is_of_ipv6_and_two_types() {
        assert_eq!(neighbours("10.0.0.2".parse().unwrap()).count(), 0);
        let filters = neighbours("2001:db8::7".parse().unwrap());
        let last = filters.map(|filter| filter.keys[4..].iter().map(|key| key.value).collect());
        let last: Vec<Vec<u32>> = last.collect();
        assert_eq!(last, [[58 << 8, 135 << 24], [58 << 8, 136 << 24]]);
    }

    #[test]
    fn segments_of_ssh_match_either_port() {
        let keys = |address: &str| -> Vec<Vec<_>> {
            let filters = control(address.parse().unwrap(), &[22]);
            let keys = |filter: Filter| filter.keys.iter().rev().take(2).copied().collect();
            filters.map(keys).collect()
        };
        let key = |at, mask, value| Key { at, mask, value };
        let four = key(8, 0x00ff_0000, 0x0006_0000);
        assert_eq!(
            keys("10.0.0.2"),
            [
                [key(20, 0xffff_0000, 0x0016_0000), four],
                [key(20, 0x0000_ffff, 22), four]
            ]
        );
        let six = key(4, 0x0000_ff00, 0x0000_0600);
        assert_eq!(keys("::2")[1], [key(40, 0x0000_ffff, 22), six]);
    }
}
