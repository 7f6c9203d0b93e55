//! One direction of a path, and its parts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::trace::DeliveryTrace;
use crate::units::{BitRate, Bytes, Ratio, nanos};

/// How the random part of a delay is distributed around the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayDistribution {
    /// Evenly between `delay` − `jitter` and `delay` + `jitter`, as netem without a distribution.
    #[default]
    Uniform,
    /// Gaussian with standard deviation `jitter`, cut off at four of them; draws below zero delay
    /// are zero.
    Normal,
    /// Pareto with shape 3, cut off at `delay` + 4 `jitter`, shifted to mean `delay` and scaled to
    /// standard deviation `jitter`: the long tail of wide-area paths. It begins at `delay` − 0.82
    /// `jitter`.
    Pareto,
}

impl DelayDistribution {
    /// Every distribution, with its name in a study.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("uniform", Self::Uniform),
        ("normal", Self::Normal),
        ("pareto", Self::Pareto),
    ];

    /// Its name in a study.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Normal => "normal",
            Self::Pareto => "pareto",
        }
    }

    /// Longest that a delay can be above its mean, in amplitudes.
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
    /// Mean probability of loss in the long run.
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

/// Which packets a bottleneck's queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QueueDiscipline {
    /// A packet that finds the queue full.
    #[default]
    DropTail,
    /// Beside those, packets from the head when all have waited longer than `target` for longer
    /// than `interval`: Controlled Delay, RFC 8289.
    Codel {
        /// Acceptable standing queueing delay.
        #[serde(rename = "target_ns", with = "nanos")]
        target: Duration,
        /// Time within which the delay must fall below the target.
        #[serde(rename = "interval_ns", with = "nanos")]
        interval: Duration,
    },
}

/// One direction of the path: what happens to each IP packet that enters it.
///
/// A packet meets the parts in this order: the queue of the bottleneck (drop when full, or by its
/// discipline), the bottleneck's rate, loss on the wire (independent, in bursts, by list),
/// corruption, duplication, propagation delay with its jitter and reordering.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Propagation delay, one way.
    #[serde(rename = "delay_ns", with = "nanos")]
    pub delay: Duration,
    /// Amplitude of the random delay: each packet is delayed by `delay` ± a draw of this size, see
    /// [`DelayDistribution`]. Order is kept unless `jitter_reorders`: a packet whose draw would let
    /// it overtake waits for the one before it, so that in a dense flow the mean delay rises
    /// towards `delay` + `jitter`, and beyond where the distribution has a tail.
    #[serde(rename = "jitter_ns", with = "nanos")]
    pub jitter: Duration,
    /// Whether a packet may overtake another through jitter or a step to a shorter delay, as with
    /// netem without a rate.
    pub jitter_reorders: bool,
    /// Probability with which each packet is lost, independently of the others.
    #[serde(rename = "loss_ratio")]
    pub loss: Ratio,
    /// Rate of the bottleneck, counting whole IP packets; unlimited if absent.
    #[serde(rename = "link_rate_bps")]
    pub rate: Option<BitRate>,
    /// Limit of the bottleneck's queue, counting whole IP packets. If absent it is sized from the
    /// path: see [`Condition::queue_limit`].
    #[serde(rename = "queue_bytes")]
    pub queue: Option<Bytes>,
    /// How the jitter is distributed.
    #[serde(default)]
    pub jitter_distribution: DelayDistribution,
    /// Loss in bursts, beside the independent one.
    #[serde(default)]
    pub loss_bursts: Option<GilbertElliott>,
    /// Packets that are lost whatever else happens, by their position in the direction's sequence
    /// of packets since the condition was set, from 1, rising.
    #[serde(default)]
    pub loss_list: Vec<u64>,
    /// Probability with which a packet skips the propagation delay and so overtakes those under
    /// way, as netem's `reorder`.
    #[serde(default)]
    pub reorder_ratio: Ratio,
    /// Probability with which a packet arrives twice.
    #[serde(default)]
    pub duplicate_ratio: Ratio,
    /// Probability with which one random bit of a packet is flipped.
    #[serde(default)]
    pub corrupt_ratio: Ratio,
    /// Bytes that may pass the bottleneck at once after it was idle: depth of its token bucket.
    /// Absent, packets leave one after another at the rate.
    #[serde(default)]
    pub burst_bytes: Option<Bytes>,
    /// Limit of the bottleneck's queue in packets, instead of bytes. The one under transmission
    /// does not count.
    #[serde(default)]
    pub queue_packets: Option<u64>,
    /// Which packets the queue drops.
    #[serde(default)]
    pub discipline: QueueDiscipline,
    /// When the bottleneck can carry packets, instead of a rate.
    #[serde(default)]
    pub trace: Option<DeliveryTrace>,
}

impl Link {
    /// Whether packets wait for a bottleneck: there is a rate or a trace.
    #[must_use]
    pub fn has_bottleneck(&self) -> bool {
        self.rate.is_some() || self.trace.is_some()
    }

    /// Rate of the bottleneck, of a trace its mean; `None` without a limit.
    #[must_use]
    pub fn mean_rate(&self) -> Option<BitRate> {
        self.rate
            .or_else(|| self.trace.as_ref().map(DeliveryTrace::mean_rate))
    }

    /// Longest propagation delay that a packet can draw.
    #[must_use]
    pub fn longest_propagation(&self) -> Duration {
        self.delay + self.jitter * self.jitter_distribution.reach()
    }

    /// Whether packets leave in the order in which they came. Duplicates do.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        !self.jitter_reorders && self.reorder_ratio.0 <= 0.0
    }

    /// Mean probability of loss on the wire in the long run, independent and in bursts; the list
    /// of single packets is not in it.
    #[must_use]
    pub fn mean_loss(&self) -> Ratio {
        let bursts = self.loss_bursts.map_or(0.0, |bursts| bursts.mean_loss().0);
        Ratio(1.0 - (1.0 - self.loss.0) * (1.0 - bursts))
    }
}

impl Default for Link {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            jitter_reorders: false,
            loss: Ratio::ZERO,
            rate: None,
            queue: None,
            jitter_distribution: DelayDistribution::default(),
            loss_bursts: None,
            loss_list: Vec::new(),
            reorder_ratio: Ratio::ZERO,
            duplicate_ratio: Ratio::ZERO,
            corrupt_ratio: Ratio::ZERO,
            burst_bytes: None,
            queue_packets: None,
            discipline: QueueDiscipline::default(),
            trace: None,
        }
    }
}
