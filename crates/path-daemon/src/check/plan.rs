//! Numbers and intervals of the packets that measure a link: enough for the figures, within the
//! time, and never so many that the measurement fills the queue.

use std::time::Duration;

use regatta_model::{Condition, DeliveryTrace, Link};

use super::expected::{self, LossPosition};

/// Smallest IP packet that is sent.
pub(super) const SMALL_PACKET_BYTES: u64 = 64;

/// Maximum number of round trips of a check.
pub const ROUND_TRIPS: u64 = 300;

/// Maximum number of round trips of a check on a network without an emulator. Fewer than [`ROUND_TRIPS`] suffice: only
/// their median is compared with that of earlier checks, and a pause of the machine does not change a median.
pub const NETWORK_ROUND_TRIPS: u64 = 150;

/// Shortest time between two round trips. A pause of the machine of a few milliseconds, which
/// virtual machines have now and then, then meets one or two, not one in a hundred.
const ROUND_TRIP_INTERVAL: Duration = Duration::from_millis(2);

/// Time over which round trips are spread on a link without jitter.
const ROUND_TRIPS_TIMEOUT: Duration = Duration::from_millis(600);

/// The same with jitter, which needs more time between them.
const ROUND_TRIPS_WITHIN_JITTER: Duration = Duration::from_millis(800);

/// Number of correlation times of the jitter ([`Link::jitter_span`]) over which round trips are spread, where it is
/// correlated in time.
const SPANS: u32 = 20;

/// Maximum duration of these round trips.
const MAX_ROUND_TRIPS_TIMEOUT: Duration = Duration::from_secs(4);

/// Longest time for trains over such a link; they carry more packets.
const MAX_TRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Correlation times that are worth one independent delay: delays closer than that are correlated.
/// In simulations the mean over 20 of them deviates 1.2 times as much as that of 20 independent
/// delays.
pub(super) const SPANS_PER_DELAY: f64 = 1.5;

/// Time over which a train of packets is spread.
const TRAIN_TIMEOUT: Duration = Duration::from_millis(300);

/// The same at low rates.
const TRAIN_WITHIN_SLOW: Duration = Duration::from_millis(1000);

/// Packets of a train where no other limit applies.
const TRAIN_PACKETS: u64 = 2_000;

/// Maximum number of packets of a train: 120 ms at 1 Gbit/s and 1500 bytes.
const TRAIN_PACKETS_MAX: u64 = 10_000;

/// The same where jitter is correlated in time: 1.2 s.
const TRAIN_PACKETS_MAX_JITTER: u64 = 100_000;

/// Minimum number of packets of a train from which a rate can be computed.
const TRAIN_PACKETS_MIN: u64 = 5;

/// Target number of packets of a train. At rates that carry fewer full packets the train is longer, and its packets are
/// smaller.
const TARGET_TRAIN_PACKETS: u64 = 100;

/// Time for which the packets that a train sends at once at the start keep the bottleneck busy if
/// the sender is held up.
const HEAD_START: Duration = Duration::from_millis(10);

/// Maximum number of packets that a train sends at once at the start: a host's device holds 2000.
const HEAD_START_PACKETS: u64 = 500;

/// Returns the transmission time of `bytes` on a link.
pub(super) fn transmission(link: &Link, bytes: u64) -> Duration {
    let bytes = link.rate_of.bytes_of(bytes);
    link.rate.map_or(Duration::ZERO, |rate| {
        Duration::from_secs_f64(bytes as f64 * 8.0 / rate.0.max(1) as f64)
    })
}

/// Returns the time over which a train is spread so that it meets enough independent delays.
fn jitter_time(link: &Link) -> Duration {
    link.jitter_span()
        .map_or(Duration::ZERO, |span| (span * SPANS).min(MAX_TRAIN_TIMEOUT))
}

/// Round trips of small packets, one at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RoundTrips {
    pub(super) count: u64,
    pub(super) interval: Duration,
    /// Largest number of round trips whose delays can be independent of one another.
    pub(super) independent: f64,
    /// Time that a round trip spends in transmission at both bottlenecks; it is not part of the
    /// delay.
    pub(super) transmission: Duration,
    /// Longest time that a round trip takes on a sound path.
    pub(super) longest: Duration,
}

impl RoundTrips {
    /// Returns the same with at most this number of round trips.
    pub(super) fn at_most(self, most: u64) -> Self {
        let count = self.count.min(most);
        Self { count, ..self }
    }

    pub(super) fn new(condition: &Condition) -> Self {
        let links = [&condition.forward, &condition.reverse];
        let transmissions = links.map(|link| transmission(link, SMALL_PACKET_BYTES));
        let reach = links.map(|link| link.jitter * link.jitter_distribution.reach());
        // Jitter that changes in time neither pushes packets back nor needs them apart.
        let spans = links.map(|link| link.jitter_span());
        let span = spans.into_iter().flatten().max().unwrap_or_default();
        let jitter = match spans {
            [None, None] => reach[0].max(reach[1]),
            _ => Duration::ZERO,
        };
        // Packets must neither wait for one another at the bottleneck nor push one another back
        // where jitter keeps their order.
        let interval = ROUND_TRIP_INTERVAL
            .max(2 * jitter)
            .max(2 * transmissions[0].max(transmissions[1]));
        let within = match (span.is_zero(), jitter.is_zero()) {
            (false, _) => (span * SPANS).clamp(ROUND_TRIPS_WITHIN_JITTER, MAX_ROUND_TRIPS_TIMEOUT),
            (true, false) => ROUND_TRIPS_WITHIN_JITTER,
            (true, true) => ROUND_TRIPS_TIMEOUT,
        };
        let interval = interval.max(within / ROUND_TRIPS as u32);
        let count = (within.as_nanos() / interval.as_nanos()) as u64;
        Self {
            count: count.clamp(2, ROUND_TRIPS),
            interval,
            independent: if span.is_zero() {
                f64::INFINITY
            } else {
                (within.as_secs_f64() / span.as_secs_f64() / SPANS_PER_DELAY).max(1.0)
            },
            transmission: transmissions[0] + transmissions[1],
            longest: transmissions[0]
                + transmissions[1]
                + links
                    .into_iter()
                    .map(|link| link.longest_propagation() + expected::longest_wait(link))
                    .sum::<Duration>(),
        }
    }
}

/// A train of packets in one direction that keeps the bottleneck busy without filling its queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Train {
    pub(super) packets: u64,
    pub(super) packet_bytes: u64,
    /// Packets that are sent at once at the start.
    pub(super) head_start: u64,
    /// Time between the other packets.
    pub(super) interval: Duration,
    /// Whether the train can measure the link's rate: there is one, and the queue has room for the
    /// packets sent at once at the start.
    pub(super) measures_rate: bool,
    /// Longest time that the last packet may be under way.
    pub(super) longest: Duration,
}

impl Train {
    pub(super) fn new(condition: &Condition, link: &Link, losses: LossPosition) -> Self {
        let mtu = u64::from(condition.mtu_bytes);
        if link.trace.is_some() {
            return Self::over_trace(condition, link);
        }
        let jitter_within = jitter_time(link);
        let Some(rate) = link.rate else {
            let interval = Duration::from_micros(50);
            let packets = (jitter_within.as_nanos() / interval.as_nanos()) as u64;
            return Self {
                packets: packets.max(TRAIN_PACKETS),
                packet_bytes: SMALL_PACKET_BYTES.min(mtu),
                head_start: 1,
                interval,
                measures_rate: false,
                longest: link.longest_propagation(),
            };
        };
        let bytes_in = |time: Duration| (rate.0 as f64 / 8.0 * time.as_secs_f64()) as u64;
        let queue = condition.queue_limit(link).0;
        let within = match bytes_in(TRAIN_TIMEOUT) >= TARGET_TRAIN_PACKETS * mtu {
            true => TRAIN_TIMEOUT,
            false => TRAIN_WITHIN_SLOW,
        };
        let within = within.max(jitter_within);
        let most = match jitter_within.is_zero() {
            true => TRAIN_PACKETS_MAX,
            false => TRAIN_PACKETS_MAX_JITTER,
        };
        let budget = bytes_in(within);
        // Smaller packets where full ones would be too few, or too large for a short queue.
        let packet_bytes = (budget / TARGET_TRAIN_PACKETS)
            .min(queue / 8)
            .clamp(SMALL_PACKET_BYTES.min(mtu), mtu);
        let packets = (budget / packet_bytes).clamp(TRAIN_PACKETS_MIN, most);
        let ahead = HEAD_START.min(expected::longest_standing(link));
        let head_start = (bytes_in(ahead) / packet_bytes)
            .max(4)
            .min(queue / 2 / packet_bytes)
            .clamp(1, HEAD_START_PACKETS);
        // What is lost before the rate is made up for, so that the bottleneck stays busy.
        let passes = match losses {
            LossPosition::BeforeRate => (1.0 - link.mean_loss().0).max(0.1),
            LossPosition::AfterRate => 1.0,
        };
        let interval = transmission(link, packet_bytes).mul_f64(passes);
        Self {
            packets,
            packet_bytes,
            head_start,
            interval,
            measures_rate: 4 * packet_bytes <= queue && interval < Duration::from_millis(500),
            longest: transmission(link, (head_start + 2) * packet_bytes)
                + link.longest_propagation(),
        }
        .bounded()
    }

    /// Returns a train over a trace of deliveries: packets that fit into half the queue, so that
    /// none is lost however long the trace pauses. Such a train measures no rate, as the trace has
    /// its own.
    fn over_trace(condition: &Condition, link: &Link) -> Self {
        let packet_bytes = SMALL_PACKET_BYTES.min(u64::from(condition.mtu_bytes));
        let room = link
            .queue_packets
            .unwrap_or_else(|| condition.queue_limit(link).0 / packet_bytes);
        let packets = (room / 2).clamp(1, TRAIN_PACKETS);
        let bytes = packets * (packet_bytes + DeliveryTrace::PACKET_HEADER_BYTES);
        let opportunities = bytes.div_ceil(DeliveryTrace::OPPORTUNITY_BYTES) + 1;
        let queueing = link
            .trace
            .as_ref()
            .map_or(Duration::ZERO, |trace| trace.longest_time_of(opportunities));
        Self {
            packets,
            packet_bytes,
            head_start: 1,
            interval: Duration::from_micros(50),
            measures_rate: false,
            longest: queueing + link.longest_propagation(),
        }
    }

    /// Limits the train to one packet on a link so slow that even the fewest packets take too long.
    fn bounded(self) -> Self {
        if self.interval < Duration::from_millis(500) {
            return self;
        }
        Self {
            packets: 1,
            head_start: 1,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::{BitRate, Bytes};

    use super::*;

    fn condition(rate_bps: u64, delay: Duration, queue: Option<u64>) -> Condition {
        let link = Link {
            delay,
            rate: Some(BitRate(rate_bps)),
            queue: queue.map(Bytes),
            ..Link::default()
        };
        Condition {
            name: "c".into(),
            forward: link.clone(),
            reverse: link,
            mtu_bytes: 1500,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        }
    }

    #[test]
    fn the_usual_path_takes_full_packets_for_300_ms() {
        let condition = condition(100_000_000, Duration::from_millis(15), None);
        let train = Train::new(&condition, &condition.forward, LossPosition::AfterRate);
        assert_eq!((train.packets, train.packet_bytes), (2500, 1500));
        assert_eq!(train.head_start, 83);
        assert!(train.measures_rate);
        assert_eq!(RoundTrips::new(&condition).count, 300);
    }

    #[test]
    fn trains_fit_their_queue_and_their_time_on_any_path() {
        for rate_bps in [100, 8_000, 64_000, 1_000_000, 1_000_000_000, 40_000_000_000] {
            for queue in [None, Some(100), Some(3_000), Some(1 << 30)] {
                let condition = condition(rate_bps, Duration::from_secs(1), queue);
                let link = &condition.forward;
                let train = Train::new(&condition, link, LossPosition::AfterRate);
                let limit = condition.queue_limit(link).0;
                assert!(
                    !train.measures_rate || train.head_start * train.packet_bytes <= limit,
                    "{rate_bps} {queue:?} {train:?}"
                );
                let lasts = train.interval * (train.packets - train.head_start) as u32;
                assert!(lasts <= Duration::from_millis(2500), "{rate_bps} {train:?}");
                let trips = RoundTrips::new(&condition);
                let lasts = trips.interval * trips.count as u32;
                assert!(
                    rate_bps < 8_000 || lasts < Duration::from_secs(1),
                    "{trips:?}"
                );
            }
        }
    }
}
