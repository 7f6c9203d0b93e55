//! Counters of one direction of a path.

use serde::{Deserialize, Serialize};

/// Counters of one direction that this emulator cannot provide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedCounters {
    /// Packets that entered: with offloads on some counters count packets of the wire and others
    /// the larger packets that the host hands over at once.
    pub offered: bool,
    /// Packets that found the queue full: they are among those lost at random.
    pub queue_drops: bool,
    /// Packets lost in bursts: they are among those lost at random.
    pub burst_drops: bool,
    /// Packets of which a bit was flipped.
    pub corrupted: bool,
    /// Packets that were sent on twice: they are among those offered.
    pub duplicated: bool,
    /// Most bytes in the queue.
    pub queue_max_bytes: bool,
    /// Lateness of the packets that left.
    pub lateness: bool,
}

/// Counters of one direction of the path since its condition was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Packets that entered the path.
    pub offered: u64,
    /// Packets that left the path.
    pub delivered: u64,
    /// Packets lost at random, each on its own. Where netem loses packets both so and in bursts,
    /// all are counted here; so are, at the ends with a rate and a loss, those that found the queue
    /// full ([`UnsupportedCounters::queue_drops`]).
    pub loss_drops: u64,
    /// Packets lost in bursts.
    pub burst_drops: u64,
    /// Packets lost because the condition names them.
    pub list_drops: u64,
    /// Packets that found the bottleneck's queue full.
    pub queue_drops: u64,
    /// Packets that the queue's discipline (CoDel) dropped.
    pub codel_drops: u64,
    /// Packets larger than the path's largest.
    pub mtu_drops: u64,
    /// Packets that never reached the path or its other end: the sending host's device was full
    /// because the emulator did not keep up, or the receiving host's device refused them. They are
    /// no part of the requested condition.
    pub refused_drops: u64,
    /// Packets of which a bit was flipped.
    pub corrupted: u64,
    /// Packets that were duplicated: delivered once more than they were offered.
    pub duplicated: u64,
    /// Packets that skipped the propagation delay.
    pub reordered: u64,
    /// Most bytes that waited for the bottleneck at one moment. With netem the most that was
    /// sampled every 20 ms, or the limit of a queue that overflowed.
    pub queue_max_bytes: u64,
    /// Packets delivered later after they were due than [`regatta_model::Condition::late_after`].
    pub late_packets: u64,
    /// Upper bound of the mean time between a packet's being due and its delivery, in nanoseconds.
    /// It is a bound because the time that a packet waited in the sending host's device before the
    /// emulator read it is bounded, not known. That time counts by what it delays the bottleneck;
    /// without a bottleneck the device is the path's queue.
    pub lateness_mean_ns: f64,
    /// Longest time between a packet's being due and its delivery, in nanoseconds; an upper bound,
    /// too.
    pub lateness_max_ns: u64,
    /// Counters that are 0 only because this emulator cannot provide them.
    pub unsupported: UnsupportedCounters,
}

impl LinkCounters {
    /// Returns the packets lost on the wire, for whatever cause: at random, in bursts, by list.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.loss_drops + self.burst_drops + self.list_drops
    }

    /// Returns the packets that were dropped, for whatever cause.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lost() + self.queue_drops + self.codel_drops + self.mtu_drops + self.refused_drops
    }
}
