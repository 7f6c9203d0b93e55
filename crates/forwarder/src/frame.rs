//! Packet on its way through the forwarder.

use regatta_emulation::{Ecn, Packet};

use crate::{
    HEADER_BYTES,
    capture::{
        AHEAD, BLEACHED, CAPTURED, COPY, CORRUPTED, CaptureSender, MARKED, REMARKED, Verdict,
    },
    corruption, ip,
};

/// A packet as the device gives it: its header, then the IP packet.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) buffer: Box<[u8]>,
    /// Length in bytes with the header; both fit, whatever the largest packet.
    pub(crate) length: u16,
    /// Marks for a capture: what the path did to the packet.
    pub(crate) marks: u16,
    /// Number of the packet in the capture, if `marks` has [`CAPTURED`].
    pub(crate) number: u32,
    /// Lateness of the packet when it was read, in nanoseconds; see [`crate::lateness::Lateness::enter`].
    pub(crate) lag_ns: u32,
}

impl Frame {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..usize::from(self.length)]
    }

    /// Records the outcome of the packet in the capture, if it is captured.
    pub(crate) fn ended(&self, tap: &mut CaptureSender, at: u64, verdict: Verdict) {
        if self.marks & CAPTURED != 0 {
            tap.ended(self.number, at, verdict, self.marks);
        }
    }
}

impl Packet for Frame {
    fn size(&self) -> usize {
        usize::from(self.length) - HEADER_BYTES
    }

    fn duplicate(&self) -> Self {
        Self {
            buffer: self.buffer.clone(),
            marks: self.marks | COPY,
            ..*self
        }
    }

    fn flip_bit(&mut self, draw: u64) {
        self.marks |= CORRUPTED;
        corruption::flip_bit(&mut self.buffer[..usize::from(self.length)], draw);
    }

    fn skips_delay(&mut self) {
        self.marks |= AHEAD;
    }

    fn flow(&self) -> u32 {
        ip::flow(&self.bytes()[HEADER_BYTES..])
    }

    fn ports(&self) -> Option<(u8, [u16; 2])> {
        ip::ports(&self.bytes()[HEADER_BYTES..])
    }

    fn ecn(&self) -> Ecn {
        ip::ecn(&self.bytes()[HEADER_BYTES..])
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        let length = usize::from(self.length);
        ip::set_ecn(&mut self.buffer[HEADER_BYTES..length], ecn);
        self.marks |= match ecn {
            Ecn::Ce => MARKED,
            Ecn::NotEct => BLEACHED,
            Ecn::Ect0 | Ecn::Ect1 => REMARKED,
        };
    }
}
