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
