//! Fields of IP packets that queueing disciplines read and change.

use std::hash::Hasher as _;

use regatta_emulation::Ecn;

/// Protocols whose first four bytes are the ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Parts of a packet that its flow decides.
struct Flow<'a> {
    addresses: &'a [u8],
    protocol: u8,
    /// Bytes of the protocol, from its ports on; empty for a fragment, which may have none.
    payload: &'a [u8],
}

fn parse(packet: &[u8]) -> Option<Flow<'_>> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            // More fragments, or not the first one (RFC 791 §3.1).
            let is_fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff != 0;
            Some(Flow {
                addresses: packet.get(12..20)?,
                protocol: *packet.get(9)?,
                payload: packet
                    .get(header..)
                    .filter(|_| !is_fragment)
                    .unwrap_or_default(),
            })
        }
        6 => Some(Flow {
            addresses: packet.get(8..40)?,
            protocol: *packet.get(6)?,
            payload: packet.get(40..).unwrap_or_default(),
        }),
        _ => None,
    }
}

/// Returns the protocol of a packet, and its source and destination port; `None` of a fragment, and of a protocol without
/// ports.
pub(crate) fn ports(packet: &[u8]) -> Option<(u8, [u16; 2])> {
    let flow = parse(packet).filter(|flow| WITH_PORTS.contains(&flow.protocol))?;
    let [a, b, c, d] = *flow.payload.first_chunk()?;
    let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    Some((flow.protocol, ports))
}

/// Returns a hash of the addresses, the protocol and the ports of a packet; of fragments without the ports.
pub(crate) fn flow(packet: &[u8]) -> u32 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    if let Some(flow) = parse(packet) {
        hasher.write(flow.addresses);
        hasher.write(&[flow.protocol]);
        if WITH_PORTS.contains(&flow.protocol) {
            hasher.write(flow.payload.get(..4).unwrap_or_default());
        }
    }
    let hash = hasher.finish();
    // The low bits choose a queue.
    (hash ^ hash >> 32) as u32
}

/// FNV-1a with 64 bits: the same in each build, as the queues of a seed are.
struct Fnv(u64);

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Returns the ECN codepoint.
pub(crate) fn ecn(packet: &[u8]) -> Ecn {
    let bits = match packet {
        [first, second, ..] if first >> 4 == 4 => *second,
        // The traffic class lies across both bytes.
        [first, second, ..] if first >> 4 == 6 => second >> 4,
        _ => 0,
    };
    Ecn::of_bits(bits)
}

/// Sets the ECN codepoint, and the header's checksum of IPv4 right.
pub(crate) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    let bits = ecn.bits();
    match packet {
        [first, second, ..] if *first >> 4 == 6 => *second = *second & !0x30 | bits << 4,
        [first, _, ..] if *first >> 4 == 4 && packet.len() >= 20 => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] = packet[1] & !0b11 | bits;
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            let checksum = u16::from_be_bytes([packet[10], packet[11]]);
            packet[10..12].copy_from_slice(&updated(checksum, before, after).to_be_bytes());
        }
        _ => {}
    }
}

/// Returns the Internet checksum after a word has changed.
///
/// Source: RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv4 packet with this traffic class, protocol, fragment field and ports, and its checksum.
    fn v4(class: u8, protocol: u8, fragment: u16, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0x45, class, 0, 24, 0, 1];
        packet.extend(fragment.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let checksum = checksum(&packet);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet
    }

    fn v6(class: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0x60 | class >> 4, class << 4, 0, 0, 0, 4, 17, 64];
        packet.extend([1; 32]);
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet
    }

    /// Computed anew, and not updated.
    fn checksum(header: &[u8]) -> u16 {
        let words = header[..20]
            .chunks(2)
            .enumerate()
            .filter(|(index, _)| *index != 5);
        let sum: u32 = words
            .map(|(_, word)| u32::from(u16::from_be_bytes([word[0], word[1]])))
            .sum();
        !((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn codepoints_are_read_and_set_in_both_versions() {
        for (bits, ecn_of) in [
            (0, Ecn::NotEct),
            (1, Ecn::Ect1),
            (2, Ecn::Ect0),
            (3, Ecn::Ce),
        ] {
            for mut packet in [v4(0xb8 | bits, 6, 0, [1, 2]), v6(0xb8 | bits, [1, 2])] {
                assert_eq!(ecn(&packet), ecn_of);
                let before = packet.clone();
                for changed in [Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
                    set_ecn(&mut packet, changed);
                    assert_eq!(ecn(&packet), changed);
                }
                let is_v4 = packet[0] >> 4 == 4;
                if is_v4 {
                    assert_eq!(packet[1], 0xbb);
                    assert_eq!(packet[10..12], checksum(&packet).to_be_bytes());
                } else {
                    assert_eq!(packet[..2], [0x6b, 0xb0]);
                }
                let changed = before
                    .iter()
                    .zip(&packet)
                    .skip(2)
                    .filter(|(a, b)| a != b)
                    .count();
                assert!(changed <= if is_v4 { 2 } else { 0 });
            }
        }
    }

    #[test]
    fn a_flow_has_one_hash_and_fragments_have_that_of_their_hosts() {
        let of = |packet: &[u8]| flow(packet);
        assert_eq!(
            of(&v4(0, 6, 0, [1, 2])),
            of(&v4(3, 6, 0x4000, [1, 2])),
            "don't fragment"
        );
        assert_ne!(of(&v4(0, 6, 0, [1, 2])), of(&v4(0, 6, 0, [1, 3])));
        assert_ne!(of(&v4(0, 6, 0, [1, 2])), of(&v4(0, 17, 0, [1, 2])));
        assert_eq!(
            of(&v4(0, 17, 0x2000, [1, 2])),
            of(&v4(0, 17, 0x00b9, [9, 9]))
        );
        assert_ne!(of(&v6(0, [1, 2])), of(&v6(0, [1, 3])));
    }

    #[test]
    fn a_packet_has_ports_and_a_fragment_has_none() {
        for protocol in [6, 17, 132] {
            assert_eq!(
                ports(&v4(0, protocol, 0, [443, 50_000])),
                Some((protocol, [443, 50_000]))
            );
        }
        assert_eq!(ports(&v6(0, [443, 50_000])), Some((17, [443, 50_000])));
        assert_eq!(ports(&v4(0, 1, 0, [443, 50_000])), None, "ICMP");
        assert_eq!(ports(&v4(0, 17, 0x2000, [443, 50_000])), None);
    }

    #[test]
    fn what_is_no_packet_has_no_codepoint() {
        for mut bytes in [
            vec![],
            vec![0x45],
            vec![0x45; 12],
            vec![0x60],
            vec![0; 40],
            vec![0x60; 39],
        ] {
            set_ecn(&mut bytes, Ecn::Ce);
            let _ = (ecn(&bytes), flow(&bytes), ports(&bytes));
        }
    }
}
