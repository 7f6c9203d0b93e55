//! Packet as a link handles it.

/// Explicit Congestion Notification codepoint of an IP packet (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Not ECN-capable: the sender does not react to marks.
    #[default]
    NotEct,
    /// ECN-capable: the packet can be marked.
    Ect0,
    /// It can be marked, and its sender slows down in proportion to marks (RFC 9331).
    Ect1,
    /// It is marked: congestion experienced.
    Ce,
}

impl Ecn {
    /// Returns the two low bits of the traffic class.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect0 => 0b10,
            Self::Ect1 => 0b01,
            Self::Ce => 0b11,
        }
    }

    /// Returns the codepoint of the two low bits of the traffic class.
    #[must_use]
    pub const fn of_bits(traffic_class: u8) -> Self {
        match traffic_class & 0b11 {
            0b00 => Self::NotEct,
            0b10 => Self::Ect0,
            0b01 => Self::Ect1,
            _ => Self::Ce,
        }
    }
}

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

    /// Returns a number that all packets of a flow share: a hash of their addresses, protocol and ports.
    fn flow(&self) -> u32 {
        0
    }

    /// Returns the number of the packet's protocol over IP, and its source and destination port, where it has them.
    fn ports(&self) -> Option<(u8, [u16; 2])> {
        None
    }

    /// Returns the packet's ECN codepoint.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Sets the packet's ECN codepoint.
    fn set_ecn(&mut self, _: Ecn) {}
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
