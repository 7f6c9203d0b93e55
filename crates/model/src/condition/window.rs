//! Flow-control windows: one policy for all transports.

use std::time::Duration;

use super::Condition;
use crate::{units::Bytes, workload::Direction};

/// Pause in which a process that waits for a processor does not read what arrives.
const READING_PAUSE: Duration = Duration::from_millis(20);

/// Smallest window, in bytes: two messages of 64 KiB.
const MIN_BYTES: f64 = 131_072.0;

/// Ratio of a full packet's payload to the bytes that queues and rates count.
const PAYLOAD_RATIO: f64 = 15.0 / 16.0;

impl Condition {
    /// Returns the flow-control window of one flow in a direction, in bytes of payload; `None`
    /// where a link of that direction has no rate.
    ///
    /// The payload that the path holds with its queue full: a single flow then neither waits for
    /// the window nor overflows the queue in slow start. At least
    /// - two bandwidth-delay products, so that where the queue is shorter the flow goes on while a
    ///   lost packet is sent again;
    /// - what arrives in one round trip and 20 ms, in which a process may wait for a processor;
    /// - 128 KiB.
    ///
    /// Of the steps of a schedule, and of both directions, the largest window is taken.
    #[must_use]
    pub fn flow_control_window(&self, direction: Direction) -> Option<Bytes> {
        let round_trip = self.longest_round_trip_delay();
        let mut largest = MIN_BYTES;
        for setting in self.settings() {
            let [link, opposite] = direction.data_first([setting.forward, setting.reverse]);
            let directions = [(link, opposite), (opposite, link)];
            let carry_data = 1 + usize::from(direction == Direction::Both);
            for (link, opposite) in directions.into_iter().take(carry_data) {
                let bytes_per_second = link.mean_rate()?.0 as f64 / 8.0;
                let with_queue = self
                    .typical_one_way(link)
                    .saturating_add(opposite.longest_propagation());
                let span = with_queue
                    .max(2 * round_trip)
                    .max(round_trip + READING_PAUSE);
                largest = largest.max(bytes_per_second * span.as_secs_f64() * PAYLOAD_RATIO);
            }
        }
        Some(Bytes(largest as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        condition::{Link, SHIPPED_TRACES, Step},
        units::BitRate,
    };

    /// Returns a path with the same link each way.
    fn path(milliseconds: u64, rate: u64) -> Condition {
        let link = Link {
            delay: Duration::from_millis(milliseconds) / 2,
            rate: Some(BitRate(rate)),
            ..Link::default()
        };
        Condition {
            name: "path".into(),
            forward: link.clone(),
            reverse: link,
            mtu_bytes: Condition::DEFAULT_MTU_BYTES,
            schedule: Vec::new(),
            tuning: crate::condition::HostTuning::default(),
        }
    }

    fn window(condition: &Condition) -> u64 {
        let window = condition.flow_control_window(Direction::Forward);
        window.expect("a path with a rate").0
    }

    #[test]
    fn a_window_fits_path_and_queue() {
        // 375 kB under way, as much in the queue, and a packet that is being sent.
        assert_eq!(window(&path(30, 100_000_000)), 751_500 * 15 / 16);
        assert_eq!(window(&path(300, 100_000_000)), 7_501_500 * 15 / 16);
        let mut long_queue = path(30, 100_000_000);
        long_queue.forward.queue = Some(Bytes(2_000_000));
        assert_eq!(window(&long_queue), 2_376_500 * 15 / 16);
    }

    /// A transport that is not limited by its window then has the same queue ahead of it as over a constant rate.
    #[test]
    fn a_window_over_a_trace_is_that_of_its_mean_rate() {
        for shipped in SHIPPED_TRACES {
            let mut traced = path(20, 1);
            for link in traced.links_mut() {
                link.rate = None;
                link.trace = Some(shipped.trace());
            }
            let rate = shipped.trace().mean_rate().0;
            assert_eq!(window(&traced), window(&path(20, rate)), "{}", shipped.name);
        }
    }

    #[test]
    fn a_window_holds_two_bandwidth_delay_products_and_a_pause() {
        let mut short_queue = path(300, 100_000_000);
        short_queue.forward.queue = Some(Bytes(30_000));
        assert_eq!(window(&short_queue), 7_500_000 * 15 / 16);
        // One round trip of 1 ms and 20 ms at 1 Gbit/s.
        assert_eq!(window(&path(1, 1_000_000_000)), 2_625_000 * 15 / 16);
        assert_eq!(window(&path(10, 1_000_000)), 152_750 * 15 / 16);
    }

    #[test]
    fn the_direction_of_the_data_counts_and_the_largest_step() {
        let mut condition = path(30, 100_000_000);
        condition.reverse.rate = Some(BitRate(1_000_000));
        assert_eq!(window(&condition), 751_500 * 15 / 16);
        let both = condition.flow_control_window(Direction::Both);
        assert_eq!(both, condition.flow_control_window(Direction::Forward));
        let back = condition.flow_control_window(Direction::Reverse);
        assert_eq!(back, Some(Bytes(155_250 * 15 / 16)));

        let mut condition = path(30, 100_000_000);
        let later = path(300, 100_000_000);
        condition.schedule.push(Step {
            at: Duration::from_secs(5),
            forward: later.forward.clone(),
            reverse: later.reverse.clone(),
        });
        assert_eq!(window(&condition), window(&later));
    }

    #[test]
    fn a_path_without_a_rate_has_no_such_window() {
        let mut condition = path(30, 100_000_000);
        condition.reverse.rate = None;
        assert!(condition.flow_control_window(Direction::Forward).is_some());
        assert_eq!(condition.flow_control_window(Direction::Both), None);
    }
}
