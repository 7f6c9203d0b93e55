//! Outcomes of the packets that are offered to a link, and their counters.

/// Cause of a packet's drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The packet is larger than the path's largest packet.
    Mtu,
    /// The bottleneck's queue has no room for it.
    Queue,
    /// The queue's discipline (CoDel) dropped the packet, so that the queue becomes shorter.
    Discipline,
    /// The packet was lost at random on the wire.
    Loss,
    /// The packet was lost on the wire in a burst.
    Burst,
    /// The packet is one of those that the condition names.
    List,
}

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
        cause: Cause,
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
}

/// Counters of a link's packets so far.
///
/// `offered` + `duplicated` = `delivered` + the six drops + [`crate::EmulatedLink::in_flight`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived at the link.
    pub offered: u64,
    /// Packets that left the link.
    pub delivered: u64,
    /// Packets lost at random, each on its own.
    pub loss_drops: u64,
    /// Packets lost in bursts.
    pub burst_drops: u64,
    /// Packets lost because the condition names them.
    pub list_drops: u64,
    /// Packets that found the queue full.
    pub queue_drops: u64,
    /// Packets that CoDel dropped, without those that were to be lost on the wire: these are
    /// counted as such.
    pub codel_drops: u64,
    /// Packets larger than the path's largest packet.
    pub mtu_drops: u64,
    /// Packets of which a bit was flipped.
    pub corrupted: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets that skipped the propagation delay.
    pub reordered: u64,
    /// Most bytes that waited for the bottleneck at one moment, the packet under transmission not
    /// counted.
    pub queue_max_bytes: u64,
}
