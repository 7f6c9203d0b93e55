//! The network path that a study asks for.

mod capacity;
mod impairment;
mod link;
mod red;
mod shipped_traces;
mod trace;
mod tuning;
mod window;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use impairment::Impairment;
pub use link::{DelayDistribution, GilbertElliott, Link, QueueDiscipline, RateOf};
pub use red::RedThresholds;
pub use shipped_traces::{SHIPPED_TRACES, ShippedTrace};
pub use trace::DeliveryTrace;
pub use tuning::{
    HOST_SETTINGS, HostSetting, HostTuning, HostValue, Setting as SysctlSetting, Tuning,
    differing_sysctls,
};

use crate::{
    named::is_default,
    units::{Bytes, QueueSize, nanos},
    warning::{Phrase, phrase},
};

/// Network path between the two hosts under a name: one [`Link`] each way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Name, unique in the study.
    pub name: String,
    /// Link from the connecting host (the client) to the listening one.
    pub forward: Link,
    /// Link from the listening host to the connecting one.
    pub reverse: Link,
    /// Largest IP packet that the path carries, in bytes.
    pub mtu_bytes: u32,
    /// Changes of the path during a trial, in the order of time; empty for a constant path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<Step>,
    /// Settings of the hosts' kernels and sockets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tuning: HostTuning,
}

/// Change of the path during a trial. Packets under way are not affected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Time since the trial's first connect call.
    #[serde(rename = "at_ns", with = "nanos")]
    pub at: Duration,
    /// Link from the connecting host to the listening one, from then on.
    pub forward: Link,
    /// Link from the listening host to the connecting one, from then on.
    pub reverse: Link,
}

/// Setting of the path from some time of a trial on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting<'a> {
    /// Time since the trial's first connect call.
    pub at: Duration,
    /// Link from the connecting host to the listening one.
    pub forward: &'a Link,
    /// Link from the listening host to the connecting one.
    pub reverse: &'a Link,
}

impl Setting<'_> {
    /// Returns the round-trip propagation delay, without jitter and queues.
    #[must_use]
    pub fn round_trip_delay(&self) -> Duration {
        self.forward.delay + self.reverse.delay
    }
}

impl Condition {
    /// Default largest IP packet, in bytes: that of Ethernet.
    pub const DEFAULT_MTU_BYTES: u32 = 1500;

    /// Largest MTU that can be configured, in bytes: that of the loopback.
    pub const LARGEST_MTU_BYTES: u32 = 65_536;

    /// Longest delay, jitter and time of a step that can be configured: 30 days.
    pub const LONGEST_TIME: Duration = Duration::from_secs(30 * 86_400);

    /// Whether the path is left as it is: no delay, loss, rate or other impairment at any time.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        let untouched = Link::default();
        self.links().all(|link| *link == untouched)
    }

    /// Iterates over the path's settings: the initial one, then the schedule's steps.
    pub fn settings(&self) -> impl Iterator<Item = Setting<'_>> {
        let first = Setting {
            at: Duration::ZERO,
            forward: &self.forward,
            reverse: &self.reverse,
        };
        let steps = self.schedule.iter().map(|step| Setting {
            at: step.at,
            forward: &step.forward,
            reverse: &step.reverse,
        });
        std::iter::once(first).chain(steps)
    }

    /// Returns the path's initial setting and each of its steps as a condition without a schedule,
    /// with the time of the step; repeated settings are left out.
    #[must_use]
    pub fn fixed_steps(&self) -> Vec<(Duration, Self)> {
        let mut steps: Vec<(Duration, Self)> = Vec::new();
        for setting in self.settings() {
            let fixed = |link: &Link| Link {
                // Sized for the whole schedule.
                queue: (link.has_bottleneck())
                    .then(|| link.queue.unwrap_or_else(|| self.queue_limit(link))),
                queue_packets: self.queue_packets(link),
                ..link.clone()
            };
            let step = Self {
                name: self.name.clone(),
                forward: fixed(setting.forward),
                reverse: fixed(setting.reverse),
                mtu_bytes: self.mtu_bytes,
                schedule: Vec::new(),
                tuning: self.tuning.clone(),
            };
            if !steps.iter().any(|(_, known)| *known == step) {
                steps.push((setting.at, step));
            }
        }
        steps
    }

    /// Iterates over all links that the path has at some time, both ways.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.settings()
            .flat_map(|setting| [setting.forward, setting.reverse])
    }

    /// Iterates over all links that the path has at some time, both ways, to change them.
    pub fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        let first = [&mut self.forward, &mut self.reverse];
        let steps = self.schedule.iter_mut();
        let steps = steps.flat_map(|step| [&mut step.forward, &mut step.reverse]);
        first.into_iter().chain(steps)
    }

    /// Returns the shortest propagation delay, one way, that the path has at some time.
    #[must_use]
    pub fn shortest_delay(&self) -> Duration {
        let delays = self.links().map(|link| link.delay);
        delays.min().unwrap_or_default()
    }

    /// Returns the time after which a delivered packet counts as late, because the machine did not keep up: 5 % of
    /// the shortest delay, and at least 2 ms. A path check allows round trips as much.
    #[must_use]
    pub fn late_after(&self) -> Duration {
        (self.shortest_delay() / 20).max(Duration::from_millis(2))
    }

    /// Whether the path's behaviour depends on the time since a trial's transfer began: it has a
    /// schedule, or a trace of deliveries.
    #[must_use]
    pub fn follows_a_clock(&self) -> bool {
        !self.schedule.is_empty() || self.links().any(|link| link.trace.is_some())
    }

    /// Whether a link has a discipline that only the kernel has.
    #[must_use]
    pub fn needs_kernel(&self) -> bool {
        self.links().any(|link| link.discipline.needs_kernel())
    }

    /// Whether packets always leave in the order in which they arrived.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        self.links().all(Link::keeps_order)
    }

    /// Whether every packet of the idle path arrives once, whole and always after the same delay, in both directions at
    /// the same rate.
    #[must_use]
    pub fn treats_alike(&self) -> bool {
        self.schedule.is_empty()
            && self.forward.rate == self.reverse.rate
            && self.links().all(Link::treats_alike)
    }

    /// Returns the round-trip propagation delay at the beginning, without jitter and queues.
    #[must_use]
    pub fn round_trip_delay(&self) -> Duration {
        self.forward.delay + self.reverse.delay
    }

    /// Adds a delay to each way, at all times.
    pub fn lengthen(&mut self, by: Duration) {
        let steps = self.schedule.iter_mut();
        let steps = steps.flat_map(|step| [&mut step.forward, &mut step.reverse]);
        for link in steps.chain([&mut self.forward, &mut self.reverse]) {
            link.delay += by;
        }
    }

    /// Returns the longest round-trip propagation delay that the path ever has, without jitter and
    /// queues.
    #[must_use]
    pub fn longest_round_trip_delay(&self) -> Duration {
        let delays = self.settings().map(|setting| setting.round_trip_delay());
        delays.max().unwrap_or_default()
    }

    /// Returns the bandwidth-delay product of one of this condition's links: bottleneck rate (of a
    /// trace the mean) × longest round-trip delay; `None` without a rate.
    ///
    /// Source: RFC 6349 §3.
    #[must_use]
    pub fn bdp(&self, link: &Link) -> Option<Bytes> {
        let rate = link.mean_rate()?.0 as f64;
        let bytes = rate / 8.0 * self.longest_round_trip_delay().as_secs_f64();
        Some(Bytes(bytes.ceil() as u64))
    }

    /// Returns the limit of the queue of one of this condition's links, in bytes;
    /// [`Link::queue_packets`] may be a further limit.
    ///
    /// The link's own limit, or else one bandwidth-delay product and at least 100 full packets, so
    /// that one loss-based flow can fill the link. Without a rate there is no standing queue and
    /// the limit only guards memory: 64 MiB. A step to another delay does not change it.
    #[must_use]
    pub fn queue_limit(&self, link: &Link) -> Bytes {
        if let Some(packets) = self.queue_packets(link) {
            return Bytes(packets.saturating_mul(u64::from(self.mtu_bytes)));
        }
        link.queue.unwrap_or_else(|| match self.bdp(link) {
            Some(bdp) => Bytes(bdp.0.max(100 * u64::from(self.mtu_bytes))),
            None => Bytes(64 << 20),
        })
    }

    /// Returns the limit of the queue of one of this condition's links in packets, if it has one: the link's own, or the
    /// kernel's where the hosts have its defaults and the bottleneck no limit of its own.
    #[must_use]
    pub fn queue_packets(&self, link: &Link) -> Option<u64> {
        let is_kernels =
            self.tuning.base == Tuning::Defaults && link.has_bottleneck() && link.queue.is_none();
        link.queue_packets
            .or(is_kernels.then_some(HostTuning::QUEUE_PACKETS))
    }

    /// Returns the condition with the limits of its queues in packets, also where they are the kernel's.
    #[must_use]
    pub fn with_kernel_queues(&self) -> Self {
        let packets: Vec<_> = self.links().map(|link| self.queue_packets(link)).collect();
        let mut with = self.clone();
        for (link, packets) in with.links_mut().zip(packets) {
            link.queue_packets = packets;
        }
        with
    }

    /// Describes the limit of the queue of one of this condition's links.
    #[must_use]
    pub fn queue_text(&self, link: &Link) -> Phrase {
        let in_packets = self.queue_packets(link).map(QueueSize::Packets);
        phrase::queue_limit(in_packets.unwrap_or_else(|| QueueSize::Bytes(self.queue_limit(link))))
    }

    /// Converts a queue's size to the form in which a link holds it: bytes and packets. A multiple
    /// of the bandwidth-delay product is at least one packet; without a rate there is no such
    /// product, and the queue's size is left to [`Condition::queue_limit`].
    #[must_use]
    pub fn queue_of(&self, link: &Link, size: QueueSize) -> (Option<Bytes>, Option<u64>) {
        let mtu = u64::from(self.mtu_bytes);
        let bytes_of =
            |Bytes(bdp), times: f64| Bytes(((bdp as f64 * times).ceil() as u64).max(mtu));
        match size {
            QueueSize::Bytes(bytes) => (Some(bytes), None),
            QueueSize::Packets(packets) => (None, Some(packets)),
            QueueSize::Bdps(times) => (self.bdp(link).map(|bdp| bytes_of(bdp, times)), None),
        }
    }

    /// Returns the longest time that a packet can stay in one direction under one of this
    /// condition's links: a full queue that empties at the worst moment of a trace, propagation, jitter.
    ///
    /// It bounds what may still arrive. How long a transport has to wait, or how much it has to have under way, is a
    /// matter of [`Condition::typical_one_way`] or of the delay of the idle path.
    #[must_use]
    pub fn longest_one_way(&self, link: &Link) -> Duration {
        let Some(trace) = &link.trace else {
            return self.typical_one_way(link);
        };
        let full_packet = DeliveryTrace::OPPORTUNITY_BYTES - DeliveryTrace::PACKET_HEADER_BYTES;
        // The packet itself, which may not use up the rest of an opportunity.
        let packets = self
            .queue_limit(link)
            .0
            .div_ceil(full_packet)
            .saturating_add(2);
        let queueing = trace.longest_time_of(packets);
        queueing.saturating_add(link.longest_propagation())
    }

    /// Returns the time that a packet stays in one direction under one of this condition's links behind a full queue
    /// that empties at the link's mean rate, with the longest propagation and jitter.
    #[must_use]
    pub fn typical_one_way(&self, link: &Link) -> Duration {
        let mtu = u64::from(self.mtu_bytes);
        let bits = self.queue_limit(link).0.saturating_add(mtu) as f64 * 8.0;
        let queueing = match link.mean_rate() {
            Some(rate) if rate.0 > 0 => seconds(bits / rate.0 as f64),
            _ => Duration::ZERO,
        };
        queueing.saturating_add(link.longest_propagation())
    }

    /// Returns the longest time that a packet can stay in either direction, over all settings of
    /// the path.
    #[must_use]
    pub fn longest_one_way_ever(&self) -> Duration {
        let times = self.links().map(|link| self.longest_one_way(link));
        times.max().unwrap_or_default()
    }

    /// Returns the larger of [`Condition::typical_one_way`] of both directions, over all settings of the path.
    #[must_use]
    pub fn typical_one_way_ever(&self) -> Duration {
        let times = self.links().map(|link| self.typical_one_way(link));
        times.max().unwrap_or_default()
    }
}

/// Converts seconds to a [`Duration`], limited to its largest value.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{BitRate, Ratio};

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
            tuning: HostTuning::default(),
        }
    }

    #[test]
    fn a_path_treats_packets_alike_unless_it_impairs_some() {
        assert!(s0().treats_alike());
        let impairments: [fn(&mut Link); 8] = [
            |link| link.rate = Some(BitRate(1_000_000)),
            |link| link.loss = Ratio(0.01),
            |link| link.jitter = Duration::from_millis(1),
            |link| link.loss_list = vec![3],
            |link| link.reorder_ratio = Ratio(0.01),
            |link| link.duplicate_ratio = Ratio(0.01),
            |link| link.corrupt_ratio = Ratio(0.01),
            |link| {
                link.loss_bursts = Some(GilbertElliott {
                    to_bad_ratio: Ratio(0.1),
                    to_good_ratio: Ratio(0.5),
                    bad_loss_ratio: Ratio(1.0),
                    good_loss_ratio: Ratio(0.0),
                });
            },
        ];
        for (index, impair) in impairments.iter().enumerate() {
            let mut condition = s0();
            impair(&mut condition.reverse);
            assert!(!condition.treats_alike(), "impairment {index}");
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

    #[test]
    fn a_queue_of_a_kernel_with_its_defaults_holds_1000_packets() {
        let mut condition = s0();
        condition.tuning.base = Tuning::Defaults;
        let packets = |condition: &Condition| {
            let queues = condition.with_kernel_queues();
            (
                queues.forward.queue_packets,
                condition.queue_limit(&condition.forward),
            )
        };
        assert_eq!(packets(&condition), (Some(1000), Bytes(1_500_000)));
        condition.forward.queue = Some(Bytes(20_000));
        assert_eq!(packets(&condition), (None, Bytes(20_000)));
        condition.forward.rate = None;
        condition.forward.queue = None;
        assert_eq!(packets(&condition), (None, Bytes(64 << 20)));
    }

    #[test]
    fn a_packet_waits_no_longer_than_a_trace_pauses() {
        let mut condition = s0();
        condition.forward.rate = None;
        // A packet a millisecond for 100 ms, then none for 2 s.
        let times = (1..=100).chain([2100]).collect();
        condition.forward.trace = Some(DeliveryTrace {
            name: "pause".to_owned(),
            opportunities_ms: times,
        });
        condition.forward.queue = Some(Bytes(15_000));
        let longest = condition.longest_one_way(&condition.forward).as_millis();
        // 15 ms of propagation, the pause, and eleven more packets.
        assert!((2015..2030).contains(&longest), "{longest}");
        let typical = condition.typical_one_way(&condition.forward).as_millis();
        // Eleven packets at 577 kbit/s.
        assert!((230..250).contains(&typical), "{typical}");
        for shipped in SHIPPED_TRACES {
            condition.forward.trace = Some(shipped.trace());
            condition.forward.queue = None;
            let longest = condition.longest_one_way(&condition.forward);
            assert!(
                longest < Duration::from_secs(2),
                "{}: {longest:?}",
                shipped.name
            );
        }
    }

    #[test]
    fn a_packet_is_late_by_a_part_of_the_shortest_delay() {
        let mut condition = s0();
        assert_eq!(condition.late_after(), Duration::from_millis(2));
        for link in condition.links_mut() {
            link.delay = Duration::from_millis(150);
        }
        assert_eq!(condition.late_after(), Duration::from_micros(7500));
        condition.reverse.delay = Duration::from_millis(100);
        assert_eq!(condition.late_after(), Duration::from_millis(5));
    }

    #[test]
    fn a_queue_is_sized_for_the_longest_delay_of_the_schedule() {
        let mut condition = s0();
        let at = |seconds, ms| Step {
            at: Duration::from_secs(seconds),
            forward: Link {
                delay: Duration::from_millis(ms),
                ..s0().forward
            },
            reverse: Link {
                delay: Duration::from_millis(ms),
                ..s0().reverse
            },
        };
        condition.schedule = vec![at(20, 150), at(40, 25)];
        assert_eq!(
            condition.longest_round_trip_delay(),
            Duration::from_millis(300)
        );
        for link in condition.links() {
            assert_eq!(condition.queue_limit(link), Bytes(3_750_000));
        }
        let steps = condition.fixed_steps();
        assert_eq!(steps.len(), 3);
        for (setting, (at, step)) in condition.settings().zip(&steps) {
            assert_eq!(
                (setting.at, setting.forward.delay),
                (*at, step.forward.delay)
            );
            assert_eq!(step.queue_limit(&step.forward), Bytes(3_750_000));
        }
        let mut back = condition.clone();
        back.schedule.push(at(60, 15));
        assert_eq!(
            back.fixed_steps().len(),
            3,
            "the last step is the first again"
        );
        let link = &condition.forward;
        let (bytes, packets) = condition.queue_of(link, QueueSize::Bdps(2.0));
        assert_eq!((bytes, packets), (Some(Bytes(7_500_000)), None));
        let (bytes, packets) = condition.queue_of(link, QueueSize::Packets(100));
        assert_eq!((bytes, packets), (None, Some(100)));
    }

    #[test]
    fn losses_of_both_kinds_add_up() {
        let link = Link {
            loss: Ratio(0.1),
            loss_bursts: Some(GilbertElliott {
                to_bad_ratio: Ratio(0.01),
                to_good_ratio: Ratio(0.04),
                bad_loss_ratio: Ratio(1.0),
                good_loss_ratio: Ratio(0.0),
            }),
            ..Link::default()
        };
        assert!((link.mean_loss().0 - 0.28).abs() < 1e-12);
    }
}
