//! The network path that a study asks for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{BitRate, Bytes, Ratio, nanos};

/// One direction of the path: what happens to each IP packet that enters it.
///
/// A packet meets the parts in this order: the queue of the bottleneck (drop when full), the
/// bottleneck's rate, random loss on the wire, propagation delay with its jitter.
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
