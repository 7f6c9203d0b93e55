//! One flipped bit in a packet, as a link that damages packets would have it.

use crate::HEADER_BYTES;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum is left to the device.
pub(crate) const NEEDS_CHECKSUM: u8 = 1;

/// Leading bits of the packet that are left alone: its version. With another version it is no IP
/// packet any more and no interface accepts it, so that nothing would be corrupted but the count.
const VERSION_BITS: u64 = 4;

/// Flips one bit of a packet as the device gives it: its header, then the IP packet.
///
/// A sending kernel may leave the checksum to the device, and the receiving one then believes that
/// it is right. It is therefore computed first, so that the receiver finds the damage as it would
/// on a wire.
pub(crate) fn flip_bit(frame: &mut [u8], draw: u64) {
    if frame.len() <= HEADER_BYTES {
        return;
    }
    let checksum = offloaded_checksum(frame);
    let (header, packet) = frame.split_at_mut(HEADER_BYTES);
    if let Some((at, checksum)) = checksum {
        packet[at..at + 2].copy_from_slice(&checksum);
    }
    // Neither left to do nor known to be right.
    header[0] = 0;
    let bits = 8 * packet.len() as u64 - VERSION_BITS;
    let bit = VERSION_BITS + draw % bits;
    packet[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
}

/// Returns the Internet checksum that the sending kernel has left to the device, and its position
/// in the IP packet, if it has. It covers everything from the place that the header names on, with
/// the sum of the pseudo-header in the place of the checksum.
///
/// Source: RFC 1071; Virtual I/O Device 1.2, 5.1.6.2.
pub(crate) fn offloaded_checksum(frame: &[u8]) -> Option<(usize, [u8; 2])> {
    let (header, packet) = frame.split_at_checked(HEADER_BYTES)?;
    if header[0] & NEEDS_CHECKSUM == 0 {
        return None;
    }
    let [start, offset] = [6, 8].map(|at| usize::from(native(header, at)));
    let at = start + offset;
    if at + 2 > packet.len() {
        return None;
    }
    // Zero would say that there is none.
    let checksum = match !internet_sum(&packet[start..]) {
        0 => 0xffff,
        checksum => checksum,
    };
    Some((at, checksum.to_be_bytes()))
}

/// Returns a field of the device's header.
pub(crate) fn native(frame: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([frame[at], frame[at + 1]])
}

/// Returns the one's complement sum of bytes in pairs, the last one filled up with zero.
///
/// Source: RFC 1071.
pub(crate) fn internet_sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sum over a datagram with its pseudo-header, whose checksum is right if this is
    /// 0xffff.
    fn sum(bytes: &[u8]) -> u32 {
        let mut sum: u32 = bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }

    /// Returns a UDP datagram from 10.60.0.1 to 10.60.0.2 with its checksum left to the device.
    fn frame() -> Vec<u8> {
        let mut frame = vec![NEEDS_CHECKSUM, 0, 0, 0, 0, 0];
        frame.extend(20u16.to_ne_bytes());
        frame.extend(6u16.to_ne_bytes());
        frame.extend([
            0x45, 0, 0, 33, 0, 0, 0, 0, 64, 17, 0, 0, 10, 60, 0, 1, 10, 60, 0, 2,
        ]);
        let pseudo = sum(&[10, 60, 0, 1, 10, 60, 0, 2, 0, 17, 0, 13]) as u16;
        frame.extend([0x10, 0, 0x20, 0, 0, 13]);
        frame.extend(pseudo.to_be_bytes());
        frame.extend([1, 2, 3, 4, 5]);
        frame
    }

    fn checked(packet: &[u8]) -> u32 {
        let mut covered = vec![10, 60, 0, 1, 10, 60, 0, 2, 0, 17, 0, 13];
        covered.extend(&packet[20..]);
        sum(&covered)
    }

    #[test]
    fn the_checksum_is_computed_before_a_bit_is_flipped() {
        let before = frame();
        // The last bit of the packet: in the data.
        let mut after = before.clone();
        let bits = 8 * (before.len() - HEADER_BYTES) as u64;
        flip_bit(&mut after, bits - VERSION_BITS - 1);
        assert_eq!(after[0], 0, "no word of a checksum that is right");
        assert_ne!(checked(&after[HEADER_BYTES..]), 0xffff);
        *after.last_mut().expect("data") ^= 1;
        assert_eq!(checked(&after[HEADER_BYTES..]), 0xffff);
    }

    #[test]
    fn exactly_one_bit_differs_and_never_one_of_the_version() {
        let mut packet = frame();
        flip_bit(&mut packet, 0);
        // Without a checksum to make, twice the same draw is the packet as it was.
        let clean = {
            let mut clean = packet.clone();
            flip_bit(&mut clean, 0);
            clean
        };
        for draw in 0..400 {
            let mut damaged = clean.clone();
            flip_bit(&mut damaged, draw);
            let differing: u32 = clean
                .iter()
                .zip(&damaged)
                .map(|(a, b)| (a ^ b).count_ones())
                .sum();
            assert_eq!(differing, 1, "{draw}");
            assert_eq!(damaged[HEADER_BYTES] >> 4, 4, "{draw}");
        }
    }

    #[test]
    fn an_inconsistent_header_does_not_panic() {
        for (start, offset) in [
            (0u16, 60_000u16),
            (60_000, 6),
            (32, 0),
            (u16::MAX, u16::MAX),
        ] {
            let mut frame = frame();
            frame[6..8].copy_from_slice(&start.to_ne_bytes());
            frame[8..10].copy_from_slice(&offset.to_ne_bytes());
            flip_bit(&mut frame, 77);
        }
        flip_bit(&mut [0; HEADER_BYTES], 1);
        flip_bit(&mut [], 1);
    }
}
