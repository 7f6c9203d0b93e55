//! Interfaces of this network namespace: their counters, and which one owns an address.

use std::{collections::BTreeSet, net::IpAddr, os::fd::AsRawFd};

use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage};
use socket2::{Domain, Socket, Type};

use crate::{ethtool, file};

/// Counters of one interface since it began, as the interface's driver counts.
///
/// The meaning of a packet depends on the interface: TUN and real hardware count packets of wire size,
/// virtual Ethernet and loopback with offloads count what they hand over at once, which can be
/// 64 KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Bytes received. Whether the link header is counted depends on the interface's driver.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Errors of reception.
    pub receive_errors: u64,
    /// Received packets that were dropped.
    pub receive_drops: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Errors of transmission.
    pub send_errors: u64,
    /// Packets to send that were dropped.
    pub send_drops: u64,
    /// Collisions.
    pub collisions: u64,
}

impl InterfaceCounters {
    /// Reads the line of one interface in the form of `/proc/net/dev`.
    #[must_use]
    pub fn parse(text: &[u8], interface: &str) -> Option<Self> {
        // An interface's name may hold a colon (an alias), so the name is matched, not searched.
        let line = file::lines(text).find_map(|line| {
            line.trim_ascii_start()
                .strip_prefix(interface.as_bytes())?
                .strip_prefix(b":")
        })?;
        Self::parse_line(line)
    }

    /// Reads the lines of all interfaces in the form of `/proc/net/dev`; lines that have another form
    /// are left out.
    #[must_use]
    pub fn parse_all(text: &[u8]) -> Vec<(String, Self)> {
        let of_line = |line: &[u8]| {
            // The name may hold a colon, the numbers do not.
            let end = line.iter().rposition(|byte| *byte == b':')?;
            let name = String::from_utf8_lossy(line[..end].trim_ascii()).into_owned();
            Some((name, Self::parse_line(&line[end + 1..])?))
        };
        file::lines(text).filter_map(of_line).collect()
    }

    /// Reads the numbers after the name.
    fn parse_line(line: &[u8]) -> Option<Self> {
        let mut values = file::numbers(line);
        let values: [Option<u64>; 16] = std::array::from_fn(|_| values.next());
        Some(Self {
            received_bytes: values[0]?,
            received_packets: values[1]?,
            receive_errors: values[2]?,
            receive_drops: values[3]?,
            sent_bytes: values[8]?,
            sent_packets: values[9]?,
            send_errors: values[10]?,
            send_drops: values[11]?,
            collisions: values[13]?,
        })
    }

    /// Returns the counts between `earlier` and this. An interface that was made anew in between
    /// counts from zero: then nothing is negative.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let less = |count: fn(&Self) -> u64| count(&self).saturating_sub(count(&earlier));
        Self {
            received_bytes: less(|it| it.received_bytes),
            received_packets: less(|it| it.received_packets),
            receive_errors: less(|it| it.receive_errors),
            receive_drops: less(|it| it.receive_drops),
            sent_bytes: less(|it| it.sent_bytes),
            sent_packets: less(|it| it.sent_packets),
            send_errors: less(|it| it.send_errors),
            send_drops: less(|it| it.send_drops),
            collisions: less(|it| it.collisions),
        }
    }

    /// Returns the errors in both directions.
    #[must_use]
    pub fn errors(self) -> u64 {
        self.receive_errors + self.send_errors
    }

    /// Returns the drops in both directions.
    #[must_use]
    pub fn drops(self) -> u64 {
        self.receive_drops + self.send_drops
    }
}

/// File with the counters of all interfaces of the network namespace of the thread that opens it.
pub(crate) const INTERFACES_FILE: &str = "/proc/thread-self/net/dev";

/// Properties of an interface besides its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// Name of the interface.
    pub name: String,
    /// Largest IP packet, in bytes.
    pub mtu_bytes: Option<u32>,
    /// Bytes of link header that its counters of bytes hold for each packet, beside the IP packet:
    /// 14 for Ethernet-like interfaces, none for TUN and loopback.
    pub link_header_bytes: u32,
    /// Offloads by name (`tso`, `gso`, …) and whether they are on.
    pub offloads: Vec<(&'static str, bool)>,
}

impl InterfaceInfo {
    /// Asks the kernel about an interface of the calling thread's network namespace; `None` if no
    /// socket can be made to ask through.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).ok()?;
        let mtu_bytes = ethtool::mtu(socket.as_raw_fd(), name);
        let ethernet = ethtool::hardware_type(socket.as_raw_fd(), name) == Some(libc::ARPHRD_ETHER);
        Some(Self {
            name: name.to_owned(),
            mtu_bytes,
            link_header_bytes: if ethernet { 14 } else { 0 },
            offloads: ethtool::offloads(socket.as_raw_fd(), name),
        })
    }
}

/// Returns the name of the interface of the calling thread's network namespace that owns an
/// address.
#[must_use]
pub fn interface_of(address: IpAddr) -> Option<String> {
    let owned = |storage: &SockaddrStorage| match storage.family()? {
        AddressFamily::Inet => storage.as_sockaddr_in().map(|a| IpAddr::V4(a.ip())),
        AddressFamily::Inet6 => storage.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())),
        _ => None,
    };
    let exact = nix::ifaddrs::getifaddrs()
        .ok()?
        .find(|entry| entry.address.as_ref().and_then(owned) == Some(address))
        .map(|entry| entry.interface_name);
    // All of 127.0.0.0/8 is loopback's, though it owns only 127.0.0.1 by name.
    exact.or_else(|| address.is_loopback().then(|| "lo".to_owned()))
}

/// Returns the names of the interfaces of the calling thread's network namespace that are up.
#[must_use]
pub fn interfaces_up() -> Vec<String> {
    let up = nix::net::if_::InterfaceFlags::IFF_UP;
    let entries = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let names = entries.filter_map(|it| it.flags.contains(up).then_some(it.interface_name));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &[u8] = b"Inter-|   Receive                      |  Transmit\n\
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0\n\
 eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
  eth0:100 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";

    #[test]
    fn columns_match_proc_net_dev() {
        let lo = InterfaceCounters::parse(DEV, "lo").unwrap();
        assert_eq!((lo.received_bytes, lo.sent_packets), (3193, 29));
        let eth0 = InterfaceCounters::parse(DEV, "eth0:1").unwrap();
        assert_eq!((eth0.received_bytes, eth0.received_packets), (1, 2));
        assert_eq!((eth0.receive_errors, eth0.receive_drops), (3, 4));
        assert_eq!((eth0.sent_bytes, eth0.sent_packets), (9, 10));
        assert_eq!((eth0.send_errors, eth0.send_drops), (11, 12));
        assert_eq!(eth0.collisions, 14);
        assert_eq!((eth0.errors(), eth0.drops()), (14, 16));
        assert_eq!(InterfaceCounters::parse(DEV, "eth1"), None);
        assert_eq!(InterfaceCounters::parse(b"lo: 1 2 3", "lo"), None);
    }

    #[test]
    fn all_interfaces_are_read_and_malformed_lines_skipped() {
        let names = |text: &[u8]| -> Vec<String> {
            let all = InterfaceCounters::parse_all(text);
            all.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(DEV), ["lo", "eth0:1", "eth0"]);
        assert_eq!(names(b"lo: 1 2 3\n:\n\xff: x\n"), [""; 0]);
    }

    #[test]
    fn interface_of_address_is_found_or_none() {
        assert_eq!(interface_of("127.0.0.1".parse().unwrap()).unwrap(), "lo");
        assert_eq!(interface_of("127.7.7.7".parse().unwrap()).unwrap(), "lo");
        assert_eq!(interface_of("192.0.2.77".parse().unwrap()), None);
    }

    #[test]
    fn loopback_has_an_mtu_and_no_link_header() {
        let info = InterfaceInfo::of("lo").unwrap();
        assert!(info.mtu_bytes.is_some_and(|mtu| mtu >= 1280), "{info:?}");
        assert_eq!(info.link_header_bytes, 0);
        let absent = InterfaceInfo::of("no-such-interface").unwrap();
        assert_eq!(absent.mtu_bytes, None);
        assert!(absent.offloads.is_empty());
    }
}
