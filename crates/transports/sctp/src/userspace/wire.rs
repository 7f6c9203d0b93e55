//! Parser of the parts of SCTP packets that this driver needs, and encoder of ABORT and HEARTBEAT: the stack
//! counts no packets, sends the other end nothing when an association is aborted, and has no heartbeats.
//!
//! Source: RFC 9260 §3.

use crc::{CRC_32_ISCSI, Crc};

/// Size of the common header, in bytes: ports, verification tag, checksum.
pub(crate) const COMMON_HEADER_BYTES: usize = 12;

/// Size of a chunk header, in bytes: type, flags, length.
const CHUNK_HEADER_BYTES: usize = 4;

/// Size of the header of a DATA chunk, in bytes.
pub(crate) const DATA_HEADER_BYTES: usize = 16;

const DATA: u8 = 0;
const INIT: u8 = 1;
const SACK: u8 = 3;
const HEARTBEAT: u8 = 4;
const HEARTBEAT_ACK: u8 = 5;
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;

/// Parameter of a HEARTBEAT, which its answer repeats (RFC 9260 §3.3.6).
const HEARTBEAT_INFO: u16 = 1;

/// Error cause of an ABORT by the application (RFC 9260 §3.3.10.12).
const USER_INITIATED_ABORT: u16 = 12;

const CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// Chunk that this driver evaluates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// User data with this TSN.
    Data(u32),
    /// Acknowledgement of everything up to this TSN.
    Sack(u32),
    /// Abort of the association by the sender.
    Abort,
    /// Last packet of an association that was closed in good order.
    ShutdownComplete,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

/// Iterates over the chunks of a packet that this driver evaluates, up to the first truncated one.
pub(crate) fn chunks(packet: &[u8]) -> impl Iterator<Item = Chunk> + '_ {
    let mut rest = packet.get(COMMON_HEADER_BYTES..).unwrap_or_default();
    std::iter::from_fn(move || {
        while let [kind, _, high, low, ..] = *rest {
            let length = usize::from(u16::from_be_bytes([high, low])).max(CHUNK_HEADER_BYTES);
            let chunk = match kind {
                DATA => u32_at(rest, CHUNK_HEADER_BYTES).map(Chunk::Data),
                SACK => u32_at(rest, CHUNK_HEADER_BYTES).map(Chunk::Sack),
                ABORT => Some(Chunk::Abort),
                SHUTDOWN_COMPLETE => Some(Chunk::ShutdownComplete),
                _ => None,
            };
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            if chunk.is_some() {
                return chunk;
            }
        }
        None
    })
}

/// Returns the initiate tag of a packet that asks for an association; `None` for any other packet.
pub(crate) fn initiate_tag(packet: &[u8]) -> Option<u32> {
    if packet.get(COMMON_HEADER_BYTES) != Some(&INIT) {
        return None;
    }
    u32_at(packet, COMMON_HEADER_BYTES + CHUNK_HEADER_BYTES)
}

/// Whether a packet answers a HEARTBEAT.
pub(crate) fn is_heartbeat_ack(packet: &[u8]) -> bool {
    packet.get(COMMON_HEADER_BYTES) == Some(&HEARTBEAT_ACK)
}

/// Ports and verification tag of an association's packets, as in the header of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route([u8; 8]);

impl Route {
    /// Reads them from a packet that was sent; `None` for one that opens an association, which has
    /// no tag yet.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let route: [u8; 8] = packet.get(..8)?.try_into().ok()?;
        (route[4..] != [0; 4]).then_some(Self(route))
    }

    /// Returns the packet with which this end aborts the association.
    pub(crate) fn abort(self) -> Vec<u8> {
        self.packet(ABORT, USER_INITIATED_ABORT)
    }

    /// Returns a packet that the other end's stack answers.
    pub(crate) fn heartbeat(self) -> Vec<u8> {
        self.packet(HEARTBEAT, HEARTBEAT_INFO)
    }

    /// Returns a packet with a chunk that has one parameter or error cause without content.
    fn packet(self, chunk: u8, parameter: u16) -> Vec<u8> {
        let mut packet = self.0.to_vec();
        packet.extend([0; 4]);
        packet.extend([chunk, 0, 0, 8]);
        packet.extend(parameter.to_be_bytes());
        packet.extend([0, 4]);
        // The checksum is over the whole packet with zeros in its place, and stands in it with
        // its least byte first (RFC 9260, appendix A).
        let checksum = CHECKSUM.checksum(&packet);
        packet[8..COMMON_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(chunks: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x13, 0x88, 0x13, 0x88, 1, 2, 3, 4, 0, 0, 0, 0];
        packet.extend(chunks);
        packet
    }

    #[test]
    fn every_chunk_of_a_packet_is_parsed() {
        let mut bytes = vec![SACK, 0, 0, 16, 0, 0, 0, 7, 0, 1, 0, 0, 0, 0, 0, 0];
        // One byte of user data, padded to four.
        bytes.extend([DATA, 3, 0, 17, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 53]);
        bytes.extend([b'x', 0, 0, 0]);
        bytes.extend([ABORT, 0, 0, 4]);
        let found: Vec<_> = chunks(&packet(&bytes)).collect();
        assert_eq!(found, [Chunk::Sack(7), Chunk::Data(256), Chunk::Abort]);
    }

    #[test]
    fn truncated_packet_yields_no_chunk() {
        let complete = packet(&[DATA, 3, 0, 17, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 53, b'x']);
        for length in 0..complete.len() {
            assert!(chunks(&complete[..length]).count() <= 1);
            assert_eq!(initiate_tag(&complete[..length]), None);
        }
        // A length of zero would never end.
        assert_eq!(chunks(&packet(&[200, 0, 0, 0, 200, 0, 0, 0])).count(), 0);
    }

    #[test]
    fn initiate_tag_is_read_only_from_init() {
        assert_eq!(
            initiate_tag(&packet(&[INIT, 0, 0, 20, 9, 8, 7, 6])),
            Some(0x0908_0706)
        );
        assert_eq!(initiate_tag(&packet(&[INIT, 0, 0, 20])), None);
        assert_eq!(initiate_tag(&packet(&[DATA, 0, 0, 20, 9, 8, 7, 6])), None);
    }

    #[test]
    fn abort_packet_is_valid() {
        let route = Route::of(&packet(&[])).expect("a tag");
        let abort = route.abort();
        assert_eq!(abort.len(), 20);
        assert_eq!(chunks(&abort).collect::<Vec<_>>(), [Chunk::Abort]);
        let mut unchecked = abort.clone();
        unchecked[8..12].fill(0);
        let checksum = Crc::<u32>::new(&CRC_32_ISCSI).checksum(&unchecked);
        assert_eq!(abort[8..12], checksum.to_le_bytes());
        assert_eq!(Route::of(&[0; 20]), None, "an INIT has no tag");
        // The other end's stack takes only what has the right checksum.
        let heartbeat = route.heartbeat();
        assert_eq!(heartbeat[12..], [HEARTBEAT, 0, 0, 8, 0, 1, 0, 4]);
        assert!(!is_heartbeat_ack(&heartbeat));
        assert!(is_heartbeat_ack(&packet(&[
            HEARTBEAT_ACK,
            0,
            0,
            8,
            0,
            1,
            0,
            4
        ])));
    }
}
