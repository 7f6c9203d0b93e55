//! Counters of the protocol stack of this network namespace, from `/proc/thread-self/net`.

use crate::file::{self, ProcFile};

/// Files with the counters. Any of them may be absent from the kernel.
const FILES: [&str; 4] = ["snmp", "netstat", "snmp6", "sctp/snmp"];

/// Counter since the namespace began, under its name in samples of a host.
struct Counter {
    name: &'static str,
    /// Kernel counters that are added up. `PROTOCOL:NAME` is in `snmp`, with the protocols `TcpExt` and `IpExt` in `netstat`. A name
    /// alone is in `sctp/snmp` if it begins with `Sctp`, otherwise in `snmp6`, where it adds nothing without IPv6.
    sources: &'static [&'static str],
}

macro_rules! counters {
    ($($name:literal = $($source:literal)+;)*) => {
        &[$(Counter { name: $name, sources: &[$($source),+] }),*]
    };
}

/// Counters of IP, TCP, UDP and SCTP. Those of TCP are of both versions of IP together.
const COUNTERS: &[Counter] = counters! {
    "ip.received_packets" = "Ip:InReceives" "Ip6InReceives";
    "ip.receive_header_errors" = "Ip:InHdrErrors" "Ip6InHdrErrors";
    "ip.receive_discards" = "Ip:InDiscards" "Ip6InDiscards";
    "ip.send_discards" = "Ip:OutDiscards" "Ip6OutDiscards";
    "ip.reassembly_failures" = "Ip:ReasmFails" "Ip6ReasmFails";
    "ip.received_ect0_packets" = "IpExt:InECT0Pkts" "Ip6InECT0Pkts";
    "ip.received_ect1_packets" = "IpExt:InECT1Pkts" "Ip6InECT1Pkts";
    "ip.received_ce_packets" = "IpExt:InCEPkts" "Ip6InCEPkts";
    "tcp.received_segments" = "Tcp:InSegs";
    "tcp.sent_segments" = "Tcp:OutSegs";
    "tcp.retransmitted_segments" = "Tcp:RetransSegs";
    "tcp.receive_errors" = "Tcp:InErrs";
    "tcp.checksum_errors" = "Tcp:InCsumErrors";
    "tcp.retransmission_timeouts" = "TcpExt:TCPTimeouts";
    "tcp.backlog_drops" = "TcpExt:TCPBacklogDrop";
    "tcp.receive_queue_drops" = "TcpExt:TCPRcvQDrop";
    "tcp.memory_pressures" = "TcpExt:TCPMemoryPressures";
    "udp.received_datagrams" = "Udp:InDatagrams" "Udp6InDatagrams";
    "udp.sent_datagrams" = "Udp:OutDatagrams" "Udp6OutDatagrams";
    "udp.receive_errors" = "Udp:InErrors" "Udp6InErrors";
    "udp.receive_buffer_errors" = "Udp:RcvbufErrors" "Udp6RcvbufErrors";
    "udp.send_buffer_errors" = "Udp:SndbufErrors" "Udp6SndbufErrors";
    "udp.checksum_errors" = "Udp:InCsumErrors" "Udp6InCsumErrors";
    "sctp.received_packets" = "SctpInSCTPPacks";
    "sctp.sent_packets" = "SctpOutSCTPPacks";
    "sctp.checksum_errors" = "SctpChecksumErrors";
    "sctp.retransmitted_chunks" = "SctpT3Retransmits" "SctpFastRetransmits";
    "sctp.receive_discards" = "SctpInPktDiscards";
};

/// Returns the position in [`FILES`] of the file with a counter of the kernel.
fn file_of(source: &str) -> usize {
    match source.split_once(':') {
        Some(("TcpExt" | "IpExt", _)) => 1,
        Some(_) => 0,
        None if source.starts_with("Sctp") => 3,
        None => 2,
    }
}

impl Counter {
    /// Returns the value in the texts of [`FILES`].
    fn value(&self, texts: &[&[u8]; 4]) -> Option<u64> {
        let mut sources = self.sources.iter();
        sources.try_fold(0_u64, |sum, source| {
            let file = file_of(source);
            let count = match source.split_once(':') {
                Some((protocol, name)) => snmp_value(texts[file], protocol, name)?,
                None if FILES[file] == "snmp6" => snmp6_value(texts[file], source).unwrap_or(0),
                None => snmp6_value(texts[file], source)?,
            };
            Some(sum.wrapping_add(count))
        })
    }
}

/// Returns the value of `name` under `protocol` in the form of `/proc/net/snmp`: a line of names
/// and a line of numbers, both opened with `protocol:`.
pub(crate) fn snmp_value(text: &[u8], protocol: &str, name: &str) -> Option<u64> {
    let mut of_protocol = file::lines(text).filter_map(|line| {
        let rest = line.strip_prefix(protocol.as_bytes())?.strip_prefix(b":")?;
        std::str::from_utf8(rest).ok()
    });
    let (names, values) = (of_protocol.next()?, of_protocol.next()?);
    let position = names.split_ascii_whitespace().position(|n| n == name)?;
    values.split_ascii_whitespace().nth(position)?.parse().ok()
}

/// Returns the value of `name` in the form of `/proc/net/snmp6`: a name and a number on each line.
pub(crate) fn snmp6_value(text: &[u8], name: &str) -> Option<u64> {
    file::lines(text).find_map(|line| {
        let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        (fields.next()? == name).then(|| fields.next()?.parse().ok())?
    })
}

/// The open [`FILES`].
#[derive(Debug)]
pub(crate) struct ProtocolFiles([Option<ProcFile>; 4]);

impl ProtocolFiles {
    pub(crate) fn open() -> Self {
        Self(FILES.map(|name| ProcFile::open(&format!("/proc/thread-self/net/{name}"))))
    }

    /// Opens files of protocols whose modules may have been loaded meanwhile.
    pub(crate) fn reopen_missing(&mut self) {
        if self.0.iter().any(Option::is_none) {
            for (file, now) in self.0.iter_mut().zip(Self::open().0) {
                *file = file.take().or(now);
            }
        }
    }

    /// Reads all counters that the kernel has.
    pub(crate) fn read(&mut self) -> impl Iterator<Item = (&'static str, u64)> {
        let texts = self.0.each_mut().map(text);
        let counters = COUNTERS.iter();
        counters.filter_map(move |counter| Some((counter.name, counter.value(&texts)?)))
    }

    /// Reads some counters, each file once.
    pub(crate) fn values<const COUNT: usize>(
        &mut self,
        names: [&str; COUNT],
    ) -> [Option<u64>; COUNT] {
        let counters = names.map(|name| COUNTERS.iter().find(|counter| counter.name == name));
        let mut texts = [&[][..]; 4];
        for (position, file) in self.0.iter_mut().enumerate() {
            let mut sources = counters
                .iter()
                .flatten()
                .flat_map(|counter| counter.sources);
            if sources.any(|source| file_of(source) == position) {
                texts[position] = text(file);
            }
        }
        counters.map(|counter| counter?.value(&texts))
    }
}

/// Returns the text of a file; empty where there is none.
fn text(file: &mut Option<ProcFile>) -> &[u8] {
    let read = file.as_mut().and_then(|file| file.read().ok());
    read.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"Tcp: RtoMin RetransSegs InErrs\nTcp: 200 17 3\n\
        Udp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 9 4 2\nUdpLite: RcvbufErrors\nUdpLite: 8\n";

    #[test]
    fn values_are_found_by_name_not_by_position() {
        assert_eq!(snmp_value(TWO, "Tcp", "RetransSegs"), Some(17));
        assert_eq!(snmp_value(TWO, "Udp", "RcvbufErrors"), Some(4));
        assert_eq!(snmp_value(TWO, "Udp", "MemErrors"), None);
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
        let mut files = ProtocolFiles::open();
        let mut lost = || files.values(["udp.receive_buffer_errors"])[0].unwrap();
        let before = lost();
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
        let lost = lost() - before;
        assert!(lost >= 50, "{lost}");
    }

    const SNMP: &[u8] = b"Ip: Forwarding InReceives InHdrErrors InDiscards OutDiscards ReasmFails\n\
        Ip: 1 100 1 2 3 4\n\
        Tcp: InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\nTcp: 10 20 5 6 0 7\n\
        Udp: InDatagrams InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\nUdp: 1 2 3 4 5 6\n";
    const NETSTAT: &[u8] =
        b"TcpExt: SyncookiesSent TCPTimeouts TCPBacklogDrop TCPMemoryPressures\nTcpExt: 0 8 9 1\n\
        IpExt: InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts\nIpExt: 11 12 13 14\n";
    const SNMP6: &[u8] = b"Ip6InReceives \t1000\nUdp6RcvbufErrors 40\nIp6InCEPkts 100\n";

    fn values(texts: [&[u8]; 4]) -> Vec<(&'static str, u64)> {
        (COUNTERS.iter())
            .filter_map(|counter| Some((counter.name, counter.value(&texts)?)))
            .collect()
    }

    #[test]
    fn ipv4_and_ipv6_counters_are_summed() {
        let counts = values([SNMP, NETSTAT, SNMP6, b""]);
        // `TCPRcvQDrop` is not in this kernel's file, and is absent, as is SCTP.
        assert_eq!(counts.len(), COUNTERS.len() - 1 - 5);
        assert_eq!(counts[0], ("ip.received_packets", 1100));
        for expected in [
            ("tcp.retransmitted_segments", 5),
            ("tcp.retransmission_timeouts", 8),
            ("tcp.memory_pressures", 1),
            ("ip.received_ect0_packets", 13),
            ("ip.received_ect1_packets", 12),
            ("ip.received_ce_packets", 114),
            ("udp.receive_buffer_errors", 44),
            ("udp.checksum_errors", 6),
        ] {
            assert!(counts.contains(&expected), "{expected:?}");
        }
    }

    #[test]
    fn sctp_is_read() {
        let text = b"SctpCurrEstab \t1\nSctpChecksumErrors \t2\nSctpT3Retransmits\t3\n\
                     SctpFastRetransmits\t4\n";
        let expected = [
            ("sctp.checksum_errors", 2),
            ("sctp.retransmitted_chunks", 7),
        ];
        assert_eq!(values([b"", b"", b"", text]), expected);
    }

    #[test]
    fn malformed_files_yield_nothing() {
        for text in [
            &b""[..],
            b"Tcp: InSegs\n",
            b"Tcp: InSegs\nTcp: x\n",
            b"Tcp: InSegs\nTcp:",
            b"Tcp: \xff\nTcp: 1\n",
            b"SctpChecksumErrors",
            b"SctpChecksumErrors -1",
            b"SctpT3Retransmits 3\nSctpFastRetransmits \xff\n",
        ] {
            assert_eq!(values([text; 4]), [], "{text:?}");
        }
    }
}
