//! One direction of a path, and its parts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::named::{is_default, named};

use super::{Impairment, trace::DeliveryTrace};
use crate::{
    metric::PacketCounter,
    units::{BitRate, Bytes, Ratio, nanos, optional_nanos},
    warning::{Phrase, phrase},
};

/// Distribution of the random part of a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DelayDistribution {
    /// Uniform between `delay` − `jitter` and `delay` + `jitter`, as netem without a distribution.
    #[default]
    Uniform,
    /// Gaussian with standard deviation `jitter`, cut off at four standard deviations; negative
    /// delays become zero.
    Normal,
    /// Pareto with shape 3, cut off at `delay` + 4 `jitter`, shifted to mean `delay` and scaled to
    /// standard deviation `jitter`: the long tail of wide-area paths. It begins at `delay` − 0.82
    /// `jitter`.
    Pareto,
}

named!(DelayDistribution: "uniform" => Uniform, "normal" => Normal, "pareto" => Pareto);

impl DelayDistribution {
    /// Returns the largest deviation of a delay above its mean, in units of `jitter`.
    #[must_use]
    pub const fn reach(self) -> u32 {
        match self {
            Self::Uniform => 1,
            Self::Normal | Self::Pareto => 4,
        }
    }
}

/// Loss in bursts: the two-state Markov chain of Gilbert and Elliott. It begins in the good state;
/// each packet is lost with the probability of the state it finds, then the state may change.
///
/// Source: Elliott, *Estimates of error rates for codes on burst-noise channels*, Bell System
/// Technical Journal 42 (1963); parameters as netem's `loss gemodel P R 1-H 1-K`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GilbertElliott {
    /// Probability with which a good state turns bad, for each packet: P.
    pub to_bad_ratio: Ratio,
    /// Probability with which a bad state turns good, for each packet: R.
    pub to_good_ratio: Ratio,
    /// Probability of loss in the bad state: 1 − H.
    pub bad_loss_ratio: Ratio,
    /// Probability of loss in the good state: 1 − K.
    pub good_loss_ratio: Ratio,
}

impl GilbertElliott {
    /// Returns the mean probability of loss in the long run.
    #[must_use]
    pub fn mean_loss(&self) -> Ratio {
        let changes = self.to_bad_ratio.0 + self.to_good_ratio.0;
        // A chain that never changes stays in its first state, which is the good one.
        let bad = if changes > 0.0 {
            self.to_bad_ratio.0 / changes
        } else {
            0.0
        };
        Ratio(bad * self.bad_loss_ratio.0 + (1.0 - bad) * self.good_loss_ratio.0)
    }
}

/// Queue discipline of a bottleneck: the choice of the packets to drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QueueDiscipline {
    /// Drop of packets that arrive at a full queue.
    #[default]
    DropTail,
    /// Drop-tail, and drops from the head when all packets have waited longer than `target` for
    /// longer than `interval`: Controlled Delay, RFC 8289.
    Codel {
        /// Acceptable standing queueing delay.
        #[serde(rename = "target_ns", with = "nanos")]
        target: Duration,
        /// Time within which the delay must fall below the target.
        #[serde(rename = "interval_ns", with = "nanos")]
        interval: Duration,
    },
    /// Drops at random when packets arrive, with a probability that follows the queueing delay: Proportional Integral
    /// controller Enhanced, RFC 8033.
    Pie {
        /// Queueing delay that it aims at.
        #[serde(rename = "target_ns", with = "nanos")]
        target: Duration,
    },
    /// A queue for each flow, which take turns, each under Controlled Delay: RFC 8290. A full queue drops from the longest.
    FqCodel {
        /// Acceptable standing queueing delay.
        #[serde(rename = "target_ns", with = "nanos")]
        target: Duration,
        /// Time within which the delay must fall below the target.
        #[serde(rename = "interval_ns", with = "nanos")]
        interval: Duration,
    },
    /// A queue for packets with ECT(1), which are marked early, and one for all others, coupled: RFC 9332.
    DualPi2 {
        /// Delay of the queue of the others that it aims at.
        #[serde(rename = "target_ns", with = "nanos")]
        target: Duration,
        /// Whether packets with ECT(0) are among those with ECT(1), as with `any_ect` of Linux.
        #[serde(default, skip_serializing_if = "is_default")]
        any_ect: bool,
    },
    /// Drops at random when packets arrive, with a probability that follows the average length of the queue: Random Early
    /// Detection. Its thresholds follow from the rate: see [`RedThresholds`](super::RedThresholds).
    Red {
        /// Mean queueing delay that it aims at.
        #[serde(rename = "target_ns", with = "nanos")]
        target: Duration,
    },
    /// A queue for each flow, which take turns, each under PIE. Only the kernel has it.
    FqPie {
        /// Queueing delay that it aims at.
        #[serde(rename = "target_ns", with = "nanos")]
        target: Duration,
    },
    /// Common Applications Kept Enhanced: flows of each host take turns, under CoDel and BLUE. Only the kernel has it.
    Cake {
        /// Acceptable standing queueing delay.
        #[serde(rename = "target_ns", with = "nanos")]
        target: Duration,
        /// Time within which the delay must fall below the target.
        #[serde(rename = "interval_ns", with = "nanos")]
        interval: Duration,
    },
}

impl QueueDiscipline {
    /// Returns the name in studies, without the times.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DropTail => "drop-tail",
            Self::Codel { .. } => "codel",
            Self::Pie { .. } => "pie",
            Self::FqCodel { .. } => "fq-codel",
            Self::DualPi2 { .. } => "dualpi2",
            Self::Red { .. } => "red",
            Self::FqPie { .. } => "fq-pie",
            Self::Cake { .. } => "cake",
        }
    }

    /// Whether only the kernel has it, and not Regatta's own emulator.
    #[must_use]
    pub const fn needs_kernel(self) -> bool {
        matches!(self, Self::FqPie { .. } | Self::Cake { .. })
    }

    /// Whether the discipline marks packets in any case, whatever [`Link::ecn`] says.
    #[must_use]
    pub const fn always_marks(self) -> bool {
        matches!(self, Self::DualPi2 { .. } | Self::Cake { .. })
    }

    /// Returns the queueing delay that it aims at; `None` if it has none.
    #[must_use]
    pub fn target(mut self) -> Option<Duration> {
        self.target_mut().copied()
    }

    /// Returns the time within which the delay must fall below the target; `None` if it has none.
    #[must_use]
    pub fn interval(mut self) -> Option<Duration> {
        self.interval_mut().copied()
    }

    /// Returns the place of [`Self::target`].
    pub const fn target_mut(&mut self) -> Option<&mut Duration> {
        match self {
            Self::DropTail => None,
            Self::Codel { target, .. }
            | Self::Pie { target }
            | Self::FqCodel { target, .. }
            | Self::DualPi2 { target, .. }
            | Self::Red { target }
            | Self::FqPie { target }
            | Self::Cake { target, .. } => Some(target),
        }
    }

    /// Returns the place of [`Self::interval`].
    pub const fn interval_mut(&mut self) -> Option<&mut Duration> {
        match self {
            Self::DropTail
            | Self::Pie { .. }
            | Self::DualPi2 { .. }
            | Self::Red { .. }
            | Self::FqPie { .. } => None,
            Self::Codel { interval, .. }
            | Self::FqCodel { interval, .. }
            | Self::Cake { interval, .. } => Some(interval),
        }
    }
}

/// Bytes that a link's rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateOf {
    /// Bytes of whole IP packets.
    #[default]
    Ip,
    /// Bytes that an Ethernet of this rate sends: header, check sequence, preamble, start delimiter
    /// and gap beside the packet, and padding of a short one.
    Ethernet,
}

named!(RateOf: "ip" => Ip, "ethernet" => Ethernet);

impl RateOf {
    /// Shortest payload of an Ethernet frame, in bytes.
    const SHORTEST_PAYLOAD: u64 = 46;

    /// Overhead of a frame beside its payload, in bytes: header (14), frame check sequence (4),
    /// preamble and start delimiter (8), gap (12).
    ///
    /// Source: IEEE 802.3, clauses 3 and 4.4.2.
    const AROUND_PAYLOAD: u64 = 38;

    /// Returns the number of bytes that the rate counts for an IP packet of `packet` bytes.
    #[must_use]
    pub const fn bytes_of(self, packet: u64) -> u64 {
        match self {
            Self::Ip => packet,
            Self::Ethernet if packet < Self::SHORTEST_PAYLOAD => {
                Self::SHORTEST_PAYLOAD + Self::AROUND_PAYLOAD
            }
            Self::Ethernet => packet + Self::AROUND_PAYLOAD,
        }
    }
}

/// Configuration of one direction of the path.
///
/// A packet meets the parts in this order: the queue of the bottleneck (drop when full, or by its
/// discipline), the bottleneck's rate, loss on the wire (independent, in bursts, by list),
/// corruption, duplication, propagation delay with its jitter and reordering.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Link {
    /// Propagation delay, one way.
    #[serde(rename = "delay_ns", with = "nanos")]
    pub delay: Duration,
    /// Amplitude of the random delay: packets are delayed by `delay` ± a draw of this size, see
    /// [`DelayDistribution`]. [`Link::jitter_span`] is the time between independent draws.
    #[serde(rename = "jitter_ns", with = "nanos")]
    pub jitter: Duration,
    /// Whether a packet may overtake another through jitter or a step to a shorter delay, as with
    /// netem without a rate: each packet has a draw of its own.
    pub jitter_reorders: bool,
    /// Time after which the random delay is independent of its earlier value; zero gives each
    /// packet its own draw. If absent it is sized from the jitter: see [`Link::jitter_span`].
    #[serde(rename = "jitter_correlation_ns", default, with = "optional_nanos")]
    pub jitter_correlation: Option<Duration>,
    /// Probability with which each packet is lost, independently of the others.
    #[serde(rename = "loss_ratio")]
    pub loss: Ratio,
    /// Rate of the bottleneck, which counts the bytes of `rate_of`; unlimited if absent.
    #[serde(rename = "link_rate_bps")]
    pub rate: Option<BitRate>,
    /// Bytes that the rate counts. Queue and bursts always count whole IP packets.
    #[serde(default)]
    pub rate_of: RateOf,
    /// Limit of the bottleneck's queue, in bytes of whole IP packets. If absent it is sized from
    /// the path: see [`super::Condition::queue_limit`].
    #[serde(rename = "queue_bytes")]
    pub queue: Option<Bytes>,
    /// Distribution of the jitter.
    #[serde(default)]
    pub jitter_distribution: DelayDistribution,
    /// Loss in bursts, in addition to the independent loss.
    #[serde(default)]
    pub loss_bursts: Option<GilbertElliott>,
    /// Packets that are always lost, by their position in the direction's sequence of packets since
    /// the condition was set, from 1, in ascending order.
    #[serde(default)]
    pub loss_list: Vec<u64>,
    /// Probability with which a packet skips the propagation delay and so overtakes packets under
    /// way, as netem's `reorder`.
    #[serde(default)]
    pub reorder_ratio: Ratio,
    /// Probability with which a packet arrives twice.
    #[serde(default)]
    pub duplicate_ratio: Ratio,
    /// Probability with which one random bit of a packet is flipped.
    #[serde(default)]
    pub corrupt_ratio: Ratio,
    /// Number of bytes that may pass the bottleneck at once after it was idle: depth of its token
    /// bucket. If absent, packets leave one after another at the rate.
    #[serde(default)]
    pub burst_bytes: Option<Bytes>,
    /// Limit of the bottleneck's queue in packets, instead of bytes. The packet under transmission
    /// does not count.
    #[serde(default)]
    pub queue_packets: Option<u64>,
    /// Queue discipline.
    #[serde(default)]
    pub discipline: QueueDiscipline,
    /// Whether the discipline marks packets that can be marked (RFC 3168), instead of dropping them.
    #[serde(default)]
    pub ecn: bool,
    /// Probability with which the ECN field of a packet is cleared on the wire.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ecn_bleach_ratio: Ratio,
    /// Probability with which a packet with ECT(0) has ECT(1) after the wire.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ecn_remark_ratio: Ratio,
    /// Probability with which a packet whose sender asks for ECN (ECT or CE) is lost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ect_loss_ratio: Ratio,
    /// Delivery opportunities of the bottleneck, instead of a rate.
    #[serde(default)]
    pub trace: Option<DeliveryTrace>,
}

impl Link {
    /// Whether the link does what a counter counts. Where none of a condition does, its metric is absent, and not 0.
    #[must_use]
    pub fn asks_for(&self, counter: PacketCounter) -> bool {
        match counter {
            PacketCounter::Loss
            | PacketCounter::Queue
            | PacketCounter::Mtu
            | PacketCounter::Refused => true,
            PacketCounter::Burst => self.loss_bursts.is_some(),
            PacketCounter::List => !self.loss_list.is_empty(),
            PacketCounter::Discipline => self.discipline != QueueDiscipline::DropTail,
            PacketCounter::Marked => self.ecn,
            PacketCounter::Corrupted
            | PacketCounter::Duplicated
            | PacketCounter::Reordered
            | PacketCounter::EctLoss
            | PacketCounter::Bleached
            | PacketCounter::Remarked => {
                let mut counted = Impairment::ALL.iter().filter(|it| it.counter() == counter);
                counted.any(|it| it.of(self).0 > 0.0)
            }
        }
    }

    /// Default of [`Link::jitter_span`] in units of the widest deviation of the delay.
    pub const JITTER_SPANS: u32 = 4;

    /// Whether packets wait for a bottleneck: there is a rate or a trace.
    #[must_use]
    pub fn has_bottleneck(&self) -> bool {
        self.rate.is_some() || self.trace.is_some()
    }

    /// Returns the rate of the bottleneck, which is the mean rate if it is a trace; `None` without
    /// a limit.
    #[must_use]
    pub fn mean_rate(&self) -> Option<BitRate> {
        self.rate
            .or_else(|| self.trace.as_ref().map(DeliveryTrace::mean_rate))
    }

    /// Returns the longest propagation delay that a packet can draw.
    #[must_use]
    pub fn longest_propagation(&self) -> Duration {
        self.delay + self.jitter * self.jitter_distribution.reach()
    }

    /// Returns the shortest propagation delay that a packet can draw.
    #[must_use]
    pub fn shortest_propagation(&self) -> Duration {
        if self.reorder_ratio.0 > 0.0 {
            return Duration::ZERO;
        }
        let below = self.jitter * self.jitter_distribution.reach();
        self.delay.saturating_sub(below)
    }

    /// Returns the time after which the random delay is independent of its earlier value, while it
    /// changes steadily in between; `None` where each packet has a draw of its own.
    ///
    /// By default [`Link::JITTER_SPANS`] times the largest deviation of the delay from its mean.
    /// The delay then falls, with uniform jitter, by at most half a second per second, so that no
    /// packet overtakes the one before it, and the mean and the spread of the delay are the same
    /// for flows of any rate. Where packets that keep their order have draws of their own, one
    /// whose draw would let it overtake waits for the one before it, and in a dense flow the mean
    /// delay rises towards `delay` + `jitter`.
    #[must_use]
    pub fn jitter_span(&self) -> Option<Duration> {
        if self.jitter.is_zero() || self.jitter_reorders {
            return None;
        }
        let widest = self.jitter * self.jitter_distribution.reach();
        let span = self.jitter_correlation;
        Some(span.unwrap_or(widest * Self::JITTER_SPANS)).filter(|span| !span.is_zero())
    }

    /// Whether packets leave in the order in which they arrived; duplicates do.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        !self.jitter_reorders && self.reorder_ratio.0 <= 0.0
    }

    /// Whether every packet of an idle link arrives once, whole and after the same delay.
    #[must_use]
    pub fn treats_alike(&self) -> bool {
        let mut impairments = Impairment::ALL.iter();
        impairments.all(|it| !it.changes_arrival() || it.of(self).0 <= 0.0)
            && self.jitter.is_zero()
            && self.loss_bursts.is_none()
            && self.loss_list.is_empty()
            && self.trace.is_none()
    }

    /// Returns the mean probability of loss on the wire in the long run, independent and in bursts;
    /// the list of lost packets is not included.
    #[must_use]
    pub fn mean_loss(&self) -> Ratio {
        let bursts = self.loss_bursts.map_or(0.0, |bursts| bursts.mean_loss().0);
        Ratio(1.0 - (1.0 - self.loss.0) * (1.0 - bursts))
    }

    /// Describes the link's rate: a rate, a trace, or no limit.
    #[must_use]
    pub fn rate_text(&self) -> Phrase {
        match (&self.trace, self.rate) {
            (Some(trace), _) => phrase::rate_of_trace(&trace.name, trace.mean_rate()),
            (None, Some(rate)) => match self.rate_of {
                RateOf::Ip => phrase::rate(rate),
                RateOf::Ethernet => phrase::rate_of_ethernet(rate),
            },
            (None, None) => phrase::unlimited_rate(),
        }
    }
}
