//! Time of a transfer according to its capture.

use std::{collections::BTreeMap, ops::ControlFlow, path::Path};

use regatta_bed::capture::{CaptureError, Captured, read};

/// Packets between which a transfer's time runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// Datagrams by their first bytes: the one that begins the transfer, and the one with the
    /// receiver's acknowledgement.
    Datagrams { begin: Vec<u8>, end: Vec<u8> },
    /// The TCP connection that carries the most data: from its first SYN to the arrival of the last
    /// byte that the listening host sends, the end of the receiver's acknowledgement.
    Tcp,
}

impl Frame {
    /// Returns the time of the transfer in a capture, in nanoseconds; `None` if its end is not in it.
    pub fn time_ns(&self, file: &Path) -> Result<Option<u64>, CaptureError> {
        match self {
            Self::Datagrams { begin, end } => datagrams(file, begin, end),
            Self::Tcp => tcp(file),
        }
    }
}

/// Returns the time from the first datagram of the connecting host that begins with `begin` to the
/// first one for it that begins with `end` and was not lost, in nanoseconds.
fn datagrams(file: &Path, begin: &[u8], end: &[u8]) -> Result<Option<u64>, CaptureError> {
    let mut begun = None;
    let mut time_ns = None;
    read(file, |packet: Captured<'_>| {
        let Some(payload) = udp_payload(packet.bytes) else {
            return ControlFlow::Continue(());
        };
        match begun {
            None if packet.forward && payload.starts_with(begin) => begun = Some(packet.unix_ns),
            Some(begun) if !packet.forward && packet.passed() && payload.starts_with(end) => {
                time_ns = Some(packet.unix_ns.saturating_sub(begun));
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(time_ns)
}

/// Returns the time of the TCP connection on which the connecting host sent the most.
fn tcp(file: &Path) -> Result<Option<u64>, CaptureError> {
    let mut connections = Connections::default();
    read(file, |packet: Captured<'_>| {
        connections.add(&packet);
        ControlFlow::Continue(())
    })?;
    Ok(connections.time_ns())
}

/// TCP connections of a capture, by the ports of the connecting and the listening host.
#[derive(Debug, Default)]
struct Connections(BTreeMap<[u16; 2], Connection>);

/// One TCP connection of a capture.
#[derive(Debug, Default)]
struct Connection {
    /// Capture time of the first SYN, in nanoseconds.
    begun: Option<u64>,
    /// Payload that the connecting host sent, retransmissions included.
    sent: u64,
    /// First sequence number of the listening host.
    first: Option<u32>,
    /// Payload that has come from the listening host up to its highest sequence number, and the time
    /// of its arrival.
    answered: Option<(u32, u64)>,
}

impl Connections {
    fn add(&mut self, packet: &Captured<'_>) {
        let Some(segment) = Segment::of(packet.bytes) else {
            return;
        };
        let [source, destination] = segment.ports;
        if packet.forward {
            let connection = self.0.entry([source, destination]).or_default();
            if segment.is_syn {
                connection.begun.get_or_insert(packet.unix_ns);
            }
            connection.sent += u64::from(segment.payload);
            return;
        }
        let connection = self.0.entry([destination, source]).or_default();
        if segment.is_syn {
            connection.first = Some(segment.sequence.wrapping_add(1));
        }
        let (Some(first), true) = (connection.first, segment.payload > 0 && packet.passed()) else {
            return;
        };
        let next = segment.sequence.wrapping_add(segment.payload);
        let end = next.wrapping_sub(first);
        if connection.answered.is_none_or(|(known, _)| end > known) {
            connection.answered = Some((end, packet.unix_ns));
        }
    }

    fn time_ns(&self) -> Option<u64> {
        let transfer = self.0.values().max_by_key(|connection| connection.sent)?;
        Some(transfer.answered?.1.saturating_sub(transfer.begun?))
    }
}

/// Header of a TCP segment.
#[derive(Debug, PartialEq, Eq)]
struct Segment {
    ports: [u16; 2],
    sequence: u32,
    is_syn: bool,
    /// Bytes of payload in the packet, captured or not.
    payload: u32,
}

impl Segment {
    /// Parses an IPv4 packet, of which the headers are captured; `None` for other packets.
    fn of(packet: &[u8]) -> Option<Self> {
        const TCP: u8 = 6;
        const SYN: u8 = 2;
        let header = ip_header(packet, TCP)?;
        let segment = packet.get(header..)?;
        let all = usize::from(read_u16(packet, 2)?);
        let options = usize::from(*segment.get(12)? >> 4) * 4;
        Some(Self {
            ports: [read_u16(segment, 0)?, read_u16(segment, 2)?],
            sequence: u32::from(read_u16(segment, 4)?) << 16 | u32::from(read_u16(segment, 6)?),
            is_syn: *segment.get(13)? & SYN != 0,
            payload: all.saturating_sub(header + options) as u32,
        })
    }
}

/// Returns the UDP payload of an IPv4 packet, as far as it is captured; `None` for other packets
/// and for fragments after the first.
fn udp_payload(packet: &[u8]) -> Option<&[u8]> {
    const UDP: u8 = 17;
    const UDP_HEADER_BYTES: usize = 8;
    packet.get(ip_header(packet, UDP)? + UDP_HEADER_BYTES..)
}

/// Returns the two bytes at a position as a number.
fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the length of the header of an IPv4 packet with this protocol; `None` for other packets and
/// for fragments after the first.
fn ip_header(packet: &[u8], protocol: u8) -> Option<usize> {
    let first = *packet.first()?;
    let fragment = read_u16(packet, 6)? & 0x1fff;
    let fits = first >> 4 == 4 && fragment == 0 && *packet.get(9)? == protocol;
    fits.then_some(usize::from(first & 15) * 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_payload_of_the_first_fragment_is_found() {
        let mut packet = vec![0x45, 0, 0, 30, 0, 0, 0x20, 0, 64, 17];
        packet.extend([0; 10]);
        packet.extend([0; 8]);
        packet.extend([0xd1, 7]);
        assert_eq!(udp_payload(&packet), Some([0xd1, 7].as_slice()));
        for (at, byte) in [(0, 0x65), (7, 1), (9, 6)] {
            let mut other = packet.clone();
            other[at] = byte;
            assert_eq!(udp_payload(&other), None, "{at}");
        }
        for length in 0..28 {
            assert_eq!(udp_payload(&packet[..length]), None, "{length}");
        }
    }

    /// Returns the first 40 bytes of a segment.
    fn segment(ports: [u16; 2], sequence: u32, flags: u8, payload: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend((40 + payload).to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 6]);
        packet.extend([0; 10]);
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet.extend(sequence.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend([5 << 4, flags]);
        packet.extend([0; 6]);
        packet
    }

    #[test]
    fn the_connection_with_the_most_data_is_timed_from_its_syn_to_the_last_byte_of_the_answer() {
        let (probe, transfer) = ([1000, 7], [1001, 7]);
        let back = |[a, b]: [u16; 2]| [b, a];
        // The listening host's numbers wrap around.
        let first = u32::MAX - 1;
        let packets: [(bool, u64, Vec<u8>, &str); 11] = [
            (true, 10, segment(probe, 0, 2, 0), "passed"),
            (true, 100, segment(transfer, 5, 2, 0), "lost at random"),
            (true, 1100, segment(transfer, 5, 2, 0), "passed"),
            (
                false,
                1200,
                segment(back(transfer), first, 0x12, 0),
                "passed",
            ),
            (true, 1300, segment(transfer, 6, 0x10, 1400), "passed"),
            (true, 1301, segment(probe, 1, 0x10, 64), "passed"),
            (
                false,
                1350,
                segment(back(transfer), first + 1, 0x10, 0),
                "passed",
            ),
            (
                false,
                1400,
                segment(back(transfer), first + 1, 0x18, 16),
                "lost at random",
            ),
            (
                false,
                1900,
                segment(back(transfer), first + 1, 0x18, 16),
                "passed in 1 ms",
            ),
            (
                false,
                1950,
                segment(back(transfer), first + 1, 0x18, 16),
                "passed in 1 ms",
            ),
            (false, 1990, segment(back(transfer), 15, 0x11, 0), "passed"),
        ];
        let mut connections = Connections::default();
        for (forward, unix_ns, bytes, comment) in &packets {
            connections.add(&Captured {
                forward: *forward,
                unix_ns: *unix_ns,
                size: 0,
                bytes,
                comment,
            });
        }
        assert_eq!(connections.time_ns(), Some(1800));
        assert_eq!(Connections::default().time_ns(), None);
    }
}
