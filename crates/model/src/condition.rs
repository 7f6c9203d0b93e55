//! The network path that a study asks for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{BitRate, Bytes, Ratio, nanos};

/// How the random part of a delay is distributed around the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayDistribution {
    /// Evenly between `delay` − `jitter` and `delay` + `jitter`, as netem without a distribution.
    #[default]
    Uniform,
    /// Gaussian with standard deviation `jitter`; draws below zero delay are zero.
    Normal,
    /// Pareto with shape 3, shifted to mean `delay` and scaled to standard deviation `jitter`; the
    /// long tail of wide-area paths.
    Pareto,
}

/// Loss in bursts: the two-state Markov chain of Gilbert and Elliott. The state may change before
/// each packet; every state has its own probability of losing the packet.
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

/// Opportunities to deliver a packet, as Mahimahi's traces list them: at each of these times the
/// link carries up to 1504 bytes. The list is repeated from its beginning when it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryTrace {
    /// Name of the file it was read from, for readers.
    pub name: String,
    /// Milliseconds since the beginning, not falling; the last one is the period.
    pub opportunities_ms: Vec<u32>,
}

impl DeliveryTrace {
    /// Bytes that one opportunity carries at most.
    pub const OPPORTUNITY_BYTES: u64 = 1504;
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
    /// Amplitude of the random delay: each packet is delayed by `delay` ± a uniform draw of at
    /// most this. Order is kept unless `jitter_reorders`: a packet whose draw would let it overtake
    /// waits for the one before it, so that in a dense flow the mean delay rises towards
    /// `delay` + `jitter`.
    #[serde(rename = "jitter_ns", with = "nanos")]
    pub jitter: Duration,
    /// Whether a packet may overtake another through jitter, as with netem without a rate.
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
    /// Limit of the bottleneck's queue in packets, instead of bytes.
    #[serde(default)]
    pub queue_packets: Option<u64>,
    /// Which packets the queue drops.
    #[serde(default)]
    pub discipline: QueueDiscipline,
    /// When the bottleneck can carry packets, instead of a rate.
    #[serde(default)]
    pub trace: Option<DeliveryTrace>,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            jitter_reorders: false,
            loss: Ratio(0.0),
            rate: None,
            queue: None,
            jitter_distribution: DelayDistribution::default(),
            loss_bursts: None,
            loss_list: Vec::new(),
            reorder_ratio: Ratio(0.0),
            duplicate_ratio: Ratio(0.0),
            corrupt_ratio: Ratio(0.0),
            burst_bytes: None,
            queue_packets: None,
            discipline: QueueDiscipline::default(),
            trace: None,
        }
    }
}

/// The path between the two hosts, one [`Link`] each way, under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Unique in the study.
    pub name: String,
    /// From the connecting host (the client) to the listening one.
    pub forward: Link,
    /// From the listening host to the connecting one.
    pub reverse: Link,
    /// Largest IP packet that the path carries, in bytes.
    pub mtu_bytes: u32,
    /// What changes while a trial goes on, in the order of time; empty for a path that stays as it
    /// is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<Step>,
}

/// A change of the path in mid-trial. Packets under way keep the fate that they were given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When, since the trial's first connect call.
    #[serde(rename = "at_ns", with = "nanos")]
    pub at: Duration,
    /// The link from the connecting host to the listening one, from then on.
    pub forward: Link,
    /// The link from the listening host to the connecting one, from then on.
    pub reverse: Link,
}

impl Condition {
    /// Default largest IP packet, in bytes: that of Ethernet.
    pub const DEFAULT_MTU_BYTES: u32 = 1500;

    /// Round-trip propagation delay, without jitter and queues.
    #[must_use]
    pub fn round_trip_delay(&self) -> Duration {
        self.forward.delay + self.reverse.delay
    }

    /// Bandwidth-delay product of one direction: bottleneck rate × round-trip delay; `None`
    /// without a rate.
    ///
    /// Source: RFC 6349 §3.
    #[must_use]
    pub fn bdp(&self, link: &Link) -> Option<Bytes> {
        let rate = link.rate?.0 as f64;
        Some(Bytes(
            (rate / 8.0 * self.round_trip_delay().as_secs_f64()).ceil() as u64,
        ))
    }

    /// Limit of the queue of one of this condition's links, in bytes.
    ///
    /// What was asked for, or else one bandwidth-delay product and at least 100 full packets, so
    /// that one loss-based flow can fill the link. Without a rate there is no standing queue and
    /// the limit only guards memory: 64 MiB.
    #[must_use]
    pub fn queue_limit(&self, link: &Link) -> Bytes {
        link.queue.unwrap_or_else(|| match self.bdp(link) {
            Some(bdp) => Bytes(bdp.0.max(100 * u64::from(self.mtu_bytes))),
            None => Bytes(64 << 20),
        })
    }

    /// Longest that a packet can stay in one direction: full queue, propagation, jitter.
    #[must_use]
    pub fn longest_one_way(&self, link: &Link) -> Duration {
        let queueing = match link.rate {
            Some(rate) if rate.0 > 0 => Duration::from_secs_f64(
                (self.queue_limit(link).0 + u64::from(self.mtu_bytes)) as f64 * 8.0 / rate.0 as f64,
            ),
            _ => Duration::ZERO,
        };
        queueing + link.delay + link.jitter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s0() -> Condition {
        let link = Link {
            delay: Duration::from_millis(15),
            rate: Some(BitRate(100_000_000)),
            ..Link::default()
        };
        Condition {
            name: "baseline".into(),
            forward: link.clone(),
            reverse: link,
            mtu_bytes: Condition::DEFAULT_MTU_BYTES,
            schedule: Vec::new(),
        }
    }

    #[test]
    fn bdp_is_rate_times_round_trip_delay() {
        let condition = s0();
        assert_eq!(condition.bdp(&condition.forward), Some(Bytes(375_000)));
        assert_eq!(condition.queue_limit(&condition.forward), Bytes(375_000));
        assert_eq!(
            condition.longest_one_way(&condition.forward),
            Duration::from_micros(15_000 + 30_000 + 120)
        );
    }
}
