//! Outcomes of the packets that are offered to a link, and their counters.

use regatta_model::{Fate, PacketCounter, PacketCounters};

/// Outcome of offering a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer<P> {
    /// The packet will come out of [`crate::EmulatedLink::poll`], unless the queue's discipline drops it before.
    Carried,
    /// The packet was dropped and is given back, for its buffer.
    Dropped {
        /// The packet.
        packet: P,
        /// Cause of the drop.
        cause: PacketCounter,
    },
}

/// Packet that leaves the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due<P> {
    /// Time at which the packet was due, in nanoseconds; never after the time of the poll.
    pub at: u64,
    /// The packet.
    pub packet: P,
}

/// Packet that the queue's discipline dropped after the link had accepted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded<P> {
    /// Time of the drop, in nanoseconds.
    pub at: u64,
    /// The packet.
    pub packet: P,
    /// Cause of the drop.
    pub cause: PacketCounter,
}

/// Counters of a link's packets so far.
///
/// Offered plus duplicated packets equal delivered plus lost plus dropped packets plus those
/// [in flight](crate::EmulatedLink::in_flight).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived at the link.
    pub offered: u64,
    /// Packets that left the link.
    pub delivered: u64,
    /// Packets that were dropped or impaired.
    pub packets: PacketCounters<u64>,
    /// Maximum number of bytes that waited for the bottleneck at one moment, the packet under transmission not
    /// counted.
    pub queue_max_bytes: u64,
}

impl Counters {
    /// Returns the number of packets that were lost or dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.packets.with_fate(Fate::Lost) + self.packets.with_fate(Fate::Dropped)
    }
}
