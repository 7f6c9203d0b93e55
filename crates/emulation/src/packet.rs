//! Packet as a link handles it.

/// Packet as a link handles it.
pub trait Packet: Sized {
    /// Bytes of the whole IP packet.
    fn size(&self) -> usize;

    /// Returns a copy of the packet.
    #[must_use]
    fn duplicate(&self) -> Self;

    /// Flips one bit of the IP packet, chosen by `draw`: any number, all equally likely.
    fn flip_bit(&mut self, draw: u64);

    /// Notes that the packet skips the propagation delay, and so goes ahead of others.
    fn skips_delay(&mut self) {}
}

impl Packet for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn flip_bit(&mut self, draw: u64) {
        let bits = 8 * self.len() as u64;
        if let Some(bit) = draw.checked_rem(bits) {
            self[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit 3 of the second of two bytes is the twelfth; 16 bits later come the same.
    #[test]
    fn a_flipped_bit_changes_whatever_it_was() {
        for draw in [11, 27] {
            for (before, after) in [([0, 0], [0, 8]), ([0xff, 0xff], [0xff, 0xf7])] {
                let mut packet: Vec<u8> = before.to_vec();
                packet.flip_bit(draw);
                assert_eq!(packet, after);
            }
        }
        let mut empty = Vec::<u8>::new();
        empty.flip_bit(11);
        assert!(empty.is_empty());
    }
}
