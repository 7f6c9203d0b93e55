//! Counters of IP, TCP, UDP and SCTP of this network namespace, from `/proc/thread-self/net`.

use super::reading::{Value, Values};
use crate::{
    file::ProcFile,
    protocol::{snmp_value, snmp6_value},
};

/// Name of a sample with its names in the files: protocol and name in `snmp` (or, for `TcpExt`, in
/// `netstat`), name in `snmp6`.
type Entry = (
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
);

/// Counters of IP, TCP and UDP. Those of TCP are of both versions of IP together.
const COUNTERS: [Entry; 19] = [
    (
        "ip.received_packets",
        "Ip",
        "InReceives",
        Some("Ip6InReceives"),
    ),
    (
        "ip.receive_header_errors",
        "Ip",
        "InHdrErrors",
        Some("Ip6InHdrErrors"),
    ),
    (
        "ip.receive_discards",
        "Ip",
        "InDiscards",
        Some("Ip6InDiscards"),
    ),
    (
        "ip.send_discards",
        "Ip",
        "OutDiscards",
        Some("Ip6OutDiscards"),
    ),
    (
        "ip.reassembly_failures",
        "Ip",
        "ReasmFails",
        Some("Ip6ReasmFails"),
    ),
    ("tcp.received_segments", "Tcp", "InSegs", None),
    ("tcp.sent_segments", "Tcp", "OutSegs", None),
    ("tcp.retransmitted_segments", "Tcp", "RetransSegs", None),
    ("tcp.receive_errors", "Tcp", "InErrs", None),
    ("tcp.checksum_errors", "Tcp", "InCsumErrors", None),
    ("tcp.retransmission_timeouts", "TcpExt", "TCPTimeouts", None),
    ("tcp.backlog_drops", "TcpExt", "TCPBacklogDrop", None),
    ("tcp.receive_queue_drops", "TcpExt", "TCPRcvQDrop", None),
    (
        "udp.received_datagrams",
        "Udp",
        "InDatagrams",
        Some("Udp6InDatagrams"),
    ),
    (
        "udp.sent_datagrams",
        "Udp",
        "OutDatagrams",
        Some("Udp6OutDatagrams"),
    ),
    (
        "udp.receive_errors",
        "Udp",
        "InErrors",
        Some("Udp6InErrors"),
    ),
    (
        "udp.receive_buffer_errors",
        "Udp",
        "RcvbufErrors",
        Some("Udp6RcvbufErrors"),
    ),
    (
        "udp.send_buffer_errors",
        "Udp",
        "SndbufErrors",
        Some("Udp6SndbufErrors"),
    ),
    (
        "udp.checksum_errors",
        "Udp",
        "InCsumErrors",
        Some("Udp6InCsumErrors"),
    ),
];

/// Counters of the kernel's SCTP, each the sum of some in its file.
const SCTP: [(&str, &[&str]); 5] = [
    ("sctp.received_packets", &["SctpInSCTPPacks"]),
    ("sctp.sent_packets", &["SctpOutSCTPPacks"]),
    ("sctp.checksum_errors", &["SctpChecksumErrors"]),
    (
        "sctp.retransmitted_chunks",
        &["SctpT3Retransmits", "SctpFastRetransmits"],
    ),
    ("sctp.receive_discards", &["SctpInPktDiscards"]),
];

/// Open files with the counters. Any of them may be absent from the kernel.
#[derive(Debug)]
pub(super) struct Stack {
    snmp: Option<ProcFile>,
    netstat: Option<ProcFile>,
    snmp6: Option<ProcFile>,
    sctp: Option<ProcFile>,
}

impl Stack {
    pub(super) fn open() -> Self {
        let open = |name| ProcFile::open(&format!("/proc/thread-self/net/{name}")).ok();
        Self {
            snmp: open("snmp"),
            netstat: open("netstat"),
            snmp6: open("snmp6"),
            sctp: open("sctp/snmp"),
        }
    }

    /// Opens files of protocols whose modules may have been loaded meanwhile.
    pub(super) fn look_for_modules(&mut self) {
        if self.snmp6.is_none() || self.sctp.is_none() {
            let now = Self::open();
            self.snmp6 = self.snmp6.take().or(now.snmp6);
            self.sctp = self.sctp.take().or(now.sctp);
        }
    }

    pub(super) fn read(&mut self, values: &mut Values) {
        let Self {
            snmp,
            netstat,
            snmp6,
            sctp,
        } = self;
        read_counters([text(snmp), text(netstat), text(snmp6)], values);
        read_sctp(text(sctp), values);
    }
}

/// Returns the text of a file; empty where there is none.
fn text(file: &mut Option<ProcFile>) -> &[u8] {
    let read = file.as_mut().and_then(|file| file.read().ok());
    read.unwrap_or_default()
}

/// Adds the counters of IP, TCP and UDP that the files have.
fn read_counters([snmp, netstat, snmp6]: [&[u8]; 3], values: &mut Values) {
    for (name, protocol, counter, of_version_6) in COUNTERS {
        let text = if protocol == "TcpExt" { netstat } else { snmp };
        let Some(count) = snmp_value(text, protocol, counter) else {
            continue;
        };
        let of_version_6 = of_version_6.and_then(|counter| snmp6_value(snmp6, counter));
        let count = count.wrapping_add(of_version_6.unwrap_or_default());
        values.push((name.to_owned(), Value::Count(count)));
    }
}

/// Adds the counters of SCTP, whose file has the form of `snmp6`.
fn read_sctp(text: &[u8], values: &mut Values) {
    for (name, counters) in SCTP {
        let mut counts = counters.iter().map(|counter| snmp6_value(text, counter));
        let sum = counts.try_fold(0_u64, |sum, count| Some(sum.wrapping_add(count?)));
        values.extend(sum.map(|sum| (name.to_owned(), Value::Count(sum))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &[u8] = b"Ip: Forwarding InReceives InHdrErrors InDiscards OutDiscards ReasmFails\n\
        Ip: 1 100 1 2 3 4\n\
        Tcp: InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\nTcp: 10 20 5 6 0 7\n\
        Udp: InDatagrams InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\nUdp: 1 2 3 4 5 6\n";
    const NETSTAT: &[u8] = b"TcpExt: SyncookiesSent TCPTimeouts TCPBacklogDrop\nTcpExt: 0 8 9\n";
    const SNMP6: &[u8] = b"Ip6InReceives \t1000\nUdp6RcvbufErrors 40\n";

    fn counts(values: &Values) -> Vec<(&str, u64)> {
        let count = |value: &Value| match value {
            Value::Count(count) => *count,
            other => panic!("{other:?}"),
        };
        (values.iter())
            .map(|(name, value)| (name.as_str(), count(value)))
            .collect()
    }

    #[test]
    fn both_versions_of_ip_are_added_up() {
        let mut values = Values::new();
        read_counters([SNMP, NETSTAT, SNMP6], &mut values);
        let counts = counts(&values);
        // `TCPRcvQDrop` is not in this kernel's file, and is absent.
        assert_eq!(counts.len(), COUNTERS.len() - 1);
        assert_eq!(counts[0], ("ip.received_packets", 1100));
        for expected in [
            ("tcp.retransmitted_segments", 5),
            ("tcp.retransmission_timeouts", 8),
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
        let mut values = Values::new();
        read_sctp(text, &mut values);
        let expected = [
            ("sctp.checksum_errors", 2),
            ("sctp.retransmitted_chunks", 7),
        ];
        assert_eq!(counts(&values), expected);
    }

    #[test]
    fn odd_files_give_nothing() {
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
            let mut values = Values::new();
            read_counters([text; 3], &mut values);
            read_sctp(text, &mut values);
            assert_eq!(values, [], "{text:?}");
        }
    }
}
