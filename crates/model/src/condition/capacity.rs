//! Upper bound of the bytes that a path can carry in a time.

use std::time::Duration;

use super::{Condition, DeliveryTrace, Link, Setting};

/// Longest time by which a machine may begin the schedule or a trace late, or take a step late.
const LATE_STEP: Duration = Duration::from_millis(50);

/// Time by which a link may run ahead of its rate: the token bucket before CoDel, which makes up for late timers, and
/// rounding.
const AHEAD: Duration = Duration::from_millis(1);

impl Condition {
    /// Returns an upper bound of the bytes of IP packets that leave a link within `time` from the beginning of the
    /// transfer; `None` if the link has no limit at some moment of it. `link` selects one of the directions.
    ///
    /// It is the integral of the rate over the schedule, or the number of delivery opportunities of the trace, and what
    /// may leave at once: the burst of a token bucket, and the packets of the queue that a step finds there.
    #[must_use]
    pub fn capacity_bytes(&self, link: fn(Setting<'_>) -> &Link, time: Duration) -> Option<f64> {
        let steps: Vec<(Duration, &Link)> = self
            .settings()
            .take_while(|setting| {
                setting.at.is_zero() || setting.at <= time.saturating_add(LATE_STEP)
            })
            .map(|setting| (setting.at, link(setting)))
            .collect();
        let ends = steps.iter().skip(1).map(|(at, _)| *at).chain([time]);
        let has_steps = steps.len() > 1;
        let mut all = 2.0 * f64::from(self.mtu_bytes);
        for ((at, link), end) in steps.iter().zip(ends) {
            let mut span = end.saturating_sub(*at).saturating_add(AHEAD);
            if has_steps {
                span = span.saturating_add(LATE_STEP);
                all += self.queue_limit(link).0 as f64;
            }
            all += link.burst_bytes.map_or(0.0, |burst| burst.0 as f64);
            all += match (&link.trace, link.rate) {
                (Some(trace), _) => {
                    // A trace that a step begins may be at any of its moments.
                    let opportunities = match has_steps {
                        true => trace.most_opportunities_in(span),
                        false => (trace.opportunities_by(span))
                            .saturating_add(trace.most_opportunities_in(LATE_STEP)),
                    };
                    let packet =
                        DeliveryTrace::OPPORTUNITY_BYTES - DeliveryTrace::PACKET_HEADER_BYTES;
                    opportunities as f64 * packet as f64
                }
                (None, Some(rate)) => rate.0 as f64 / 8.0 * span.as_secs_f64(),
                (None, None) => return None,
            };
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        condition::Step,
        units::{BitRate, Bytes},
    };

    fn condition(link: Link) -> Condition {
        Condition {
            name: "c".into(),
            forward: link,
            reverse: Link::default(),
            mtu_bytes: 1500,
            schedule: Vec::new(),
            tuning: crate::condition::HostTuning::default(),
        }
    }

    fn rate(rate: u64) -> Link {
        Link {
            rate: Some(BitRate(rate)),
            ..Link::default()
        }
    }

    fn forward(condition: &Condition, milliseconds: u64) -> Option<f64> {
        let time = Duration::from_millis(milliseconds);
        let bytes = condition.capacity_bytes(|setting| setting.forward, time);
        bytes.map(f64::round)
    }

    #[test]
    fn a_rate_carries_its_bytes_its_burst_and_two_packets() {
        let mut link = rate(8_000_000);
        // 1001 ms at 1 kB a millisecond.
        let expected = 1_001_000.0 + 3000.0;
        assert_eq!(forward(&condition(link.clone()), 1000), Some(expected));
        link.burst_bytes = Some(Bytes(50_000));
        assert_eq!(forward(&condition(link), 1000), Some(expected + 50_000.0));
        assert_eq!(forward(&condition(Link::default()), 1000), None);
    }

    #[test]
    fn a_schedule_is_integrated_over_its_steps() {
        let mut condition = condition(rate(8_000_000));
        condition.forward.queue = Some(Bytes(20_000));
        condition.schedule = vec![Step {
            at: Duration::from_secs(1),
            forward: Link {
                queue: Some(Bytes(20_000)),
                ..rate(80_000_000)
            },
            reverse: Link::default(),
        }];
        // Before the step nothing of it counts.
        assert_eq!(forward(&condition, 500), Some(501_000.0 + 3000.0));
        let first = 1_051_000.0 + 20_000.0;
        let second = 1_051.0 * 10_000.0 + 20_000.0;
        assert_eq!(forward(&condition, 2000), Some(first + second + 3000.0));
        // A path that loses its limit has none from then on.
        condition.schedule[0].forward = Link::default();
        assert_eq!(forward(&condition, 2000), None);
        assert!(forward(&condition, 500).is_some());
    }

    #[test]
    fn a_trace_carries_a_packet_at_each_opportunity() {
        // 100 packets in the first 100 ms, none in the 900 ms after them.
        let opportunities_ms = (1..=100).chain([1000]).collect();
        let condition = condition(Link {
            trace: Some(DeliveryTrace {
                name: "t".to_owned(),
                opportunities_ms,
            }),
            ..Link::default()
        });
        let packets = |milliseconds| forward(&condition, milliseconds).map(|it| it / 1500.0);
        // What may come at once while the trace begins late, 51 packets, and two more packets.
        assert_eq!(packets(49), Some(50.0 + 51.0 + 2.0));
        assert_eq!(packets(900), Some(100.0 + 51.0 + 2.0));
        assert_eq!(packets(2049), Some(2.0 * 101.0 + 50.0 + 51.0 + 2.0));
    }
}
