//! Counters of one direction of a path.

use std::time::Duration;

use regatta_model::{Fate, IpProtocol, PacketCounters};
use serde::{Deserialize, Serialize};

/// Counters of one direction that this emulator cannot provide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedCounters {
    /// Packets that entered: with offloads on some counters count packets of the wire and others
    /// the larger packets that the host hands over at once.
    pub offered: bool,
    /// Counters of packets: where a queue and losses cannot be told apart, those that found the queue full are among those
    /// lost at random, and so are those lost in bursts.
    #[serde(flatten)]
    pub packets: PacketCounters<bool>,
    /// Maximum number of bytes in the queue.
    pub queue_max_bytes: bool,
    /// Lateness of the packets that left.
    pub lateness: bool,
}

/// Flow of a competition, as a path tells it apart from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompetingFlow {
    /// Port on which its server listens.
    pub server_port: u16,
    /// Protocol of this port; `None` if it is not known.
    pub protocol: Option<IpProtocol>,
    /// Delay of its packets each way beside the condition's, beyond the bottleneck.
    pub delay: Duration,
}

/// Counters of the packets of one flow, of both directions, since the flow was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounters {
    /// Packets that entered the path.
    pub offered: u64,
    /// Packets that a queue of the path dropped.
    pub dropped: u64,
    /// Packets that a queue of the path marked.
    pub marked: u64,
}

/// Counters of one direction of the path since its condition was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Packets that entered the path.
    pub offered: u64,
    /// Packets that left the path.
    pub delivered: u64,
    /// Packets that were dropped or impaired. Where netem loses packets both at random and in bursts, all are
    /// [`regatta_model::PacketCounter::Loss`]; so are, at the ends with a rate and a loss, those that found the queue full
    /// ([`UnsupportedCounters::packets`]).
    #[serde(flatten)]
    pub packets: PacketCounters<u64>,
    /// Maximum number of bytes that waited for the bottleneck at one moment. With netem the most that was
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
        self.packets.with_fate(Fate::Lost)
    }

    /// Returns the packets that were dropped, for whatever cause.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lost() + self.packets.with_fate(Fate::Dropped)
    }
}
