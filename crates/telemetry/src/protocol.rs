//! Counters of the protocol stack of this network namespace, from `/proc/thread-self/net`.

use crate::{TelemetryError, file};

/// Counters since the namespace began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProtocolCounters {
    /// UDP datagrams dropped because the socket's receive buffer was full, IPv4 and IPv6
    /// (`RcvbufErrors`).
    pub receive_buffer_errors: u64,
    /// UDP datagrams that could not be sent because the socket's send buffer was full, IPv4 and
    /// IPv6 (`SndbufErrors`).
    pub send_buffer_errors: u64,
    /// TCP segments sent again, all connections (`RetransSegs`).
    pub tcp_retransmitted_segments: u64,
}

/// Returns the value of `name` under `protocol` in the form of `/proc/net/snmp`: a line of names
/// and a line of numbers, both opened with `protocol:`.
pub(crate) fn snmp_value(text: &[u8], protocol: &str, name: &str) -> Option<u64> {
    let mut of_protocol = file::lines(text).filter_map(|line| {
        line.strip_prefix(protocol.as_bytes())?
            .strip_prefix(b":")
            .and_then(|rest| std::str::from_utf8(rest).ok())
    });
    let (names, values) = (of_protocol.next()?, of_protocol.next()?);
    let position = names.split_ascii_whitespace().position(|n| n == name)?;
    values.split_ascii_whitespace().nth(position)?.parse().ok()
}

/// Returns the value of `name` in the form of `/proc/net/snmp6`: a name and a number on each line.
pub(crate) fn snmp6_value(text: &[u8], name: &str) -> Option<u64> {
    file::lines(text).find_map(|line| {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

/// The counters, read from open files. IPv6 may be absent from the kernel.
#[derive(Debug)]
pub(crate) struct ProtocolFiles {
    snmp: file::ProcFile,
    snmp6: Option<file::ProcFile>,
}

impl ProtocolFiles {
    pub(crate) fn open() -> Result<Self, TelemetryError> {
        Ok(Self {
            snmp: file::ProcFile::open("/proc/thread-self/net/snmp")?,
            snmp6: file::ProcFile::open("/proc/thread-self/net/snmp6").ok(),
        })
    }

    pub(crate) fn read(&mut self) -> Option<ProtocolCounters> {
        let text = self.snmp.read().ok()?;
        let mut counters = ProtocolCounters {
            receive_buffer_errors: snmp_value(text, "Udp", "RcvbufErrors")?,
            send_buffer_errors: snmp_value(text, "Udp", "SndbufErrors")?,
            tcp_retransmitted_segments: snmp_value(text, "Tcp", "RetransSegs")?,
        };
        if let Some(text) = self.snmp6.as_mut().and_then(|file| file.read().ok()) {
            counters.receive_buffer_errors +=
                snmp6_value(text, "Udp6RcvbufErrors").unwrap_or_default();
            counters.send_buffer_errors +=
                snmp6_value(text, "Udp6SndbufErrors").unwrap_or_default();
        }
        Some(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &[u8] = b"Tcp: RtoMin RetransSegs InErrs\nTcp: 200 17 3\n\
        Udp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 9 4 2\nUdpLite: RcvbufErrors\nUdpLite: 8\n";

    #[test]
    fn values_are_found_by_name_not_by_place() {
        assert_eq!(snmp_value(SNMP, "Tcp", "RetransSegs"), Some(17));
        assert_eq!(snmp_value(SNMP, "Udp", "RcvbufErrors"), Some(4));
        assert_eq!(snmp_value(SNMP, "Udp", "MemErrors"), None);
        assert_eq!(
            snmp_value(b"Udp: RcvbufErrors\n", "Udp", "RcvbufErrors"),
            None
        );
        let snmp6 = b"Ip6InReceives  3\nUdp6RcvbufErrors   \t11\nUdp6\n";
        assert_eq!(snmp6_value(snmp6, "Udp6RcvbufErrors"), Some(11));
        assert_eq!(snmp6_value(snmp6, "Udp6"), None);
    }

    #[test]
    fn a_full_receive_buffer_is_counted() {
        use std::net::UdpSocket;
        let mut files = ProtocolFiles::open().unwrap();
        let before = files.read().unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        nix::sys::socket::setsockopt(&receiver, nix::sys::socket::sockopt::RcvBuf, &2048).unwrap();
        for _ in 0..64 {
            sender
                .send_to(&[0; 1400], receiver.local_addr().unwrap())
                .unwrap();
        }
        // Loopback delivers within the call. 64 such datagrams cannot fit into 2 × 2048 bytes;
        // other processes may add to the counter, none can take from it.
        let lost = files.read().unwrap().receive_buffer_errors - before.receive_buffer_errors;
        assert!(lost >= 50, "{lost}");
    }
}
