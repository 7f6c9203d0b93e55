//! Limit of the rate of payload, over all connections together.

use std::time::Duration;

/// Limits of a sender's rate, in the reference's terms: an average and a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Average payload per second since the first byte, in bytes; a pause is made up for.
    pub average_bytes: u64,
    /// Payload per second while a pause is made up for, in bytes.
    pub peak_bytes: u64,
    /// Payload that may be sent at once, in bytes: the depth of the peak's token bucket.
    pub burst_bytes: u64,
}

impl RateLimit {
    /// Returns a limit of `bytes` per second on average, with the reference's peak of 1.2 times
    /// that and bursts of half a second.
    #[must_use]
    pub fn average(bytes: u64) -> Self {
        Self::with_peak(bytes, bytes.saturating_add(bytes / 5))
    }

    /// Returns a limit with both rates and bursts of half a second of the peak.
    #[must_use]
    pub fn with_peak(average_bytes: u64, peak_bytes: u64) -> Self {
        Self {
            average_bytes,
            peak_bytes,
            burst_bytes: (peak_bytes / 2).max(1),
        }
    }

    /// Returns the bytes that one of `ports` connections sends at a time, so that each has its turn
    /// twice a second and no receiver takes it for silent.
    pub(super) fn part_bytes(&self, ports: usize) -> u64 {
        let share = self.average_bytes / 2 / (ports as u64).max(1);
        share.min(self.burst_bytes).max(1)
    }
}

/// State of a [`RateLimit`].
#[derive(Debug)]
pub(super) struct Throttle {
    limit: RateLimit,
    /// Time of the first payload; absent before.
    began: Option<Duration>,
    bytes: u64,
    /// Tokens in bytes at `filled_at`; below zero after a burst that was too large.
    bucket: f64,
    filled_at: Duration,
}

impl Throttle {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            began: None,
            bytes: 0,
            bucket: limit.burst_bytes as f64,
            filled_at: Duration::ZERO,
        }
    }

    /// Counts payload that was sent; returns the time at which more may be.
    pub(super) fn sent(&mut self, bytes: u64, now: Duration) -> Duration {
        let began = *self.began.get_or_insert(now);
        self.bytes += bytes;
        let peak = self.limit.peak_bytes.max(1) as f64;
        let filled = now.saturating_sub(self.filled_at).as_secs_f64() * peak;
        self.bucket = (self.bucket + filled).min(self.limit.burst_bytes as f64) - bytes as f64;
        self.filled_at = now;
        let by_average =
            began + seconds(self.bytes as f64 / self.limit.average_bytes.max(1) as f64);
        by_average.max(now + seconds(-self.bucket / peak))
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes sent until `end` in parts of 100, one after another, from `now` on.
    fn run(throttle: &mut Throttle, now: &mut Duration, end: Duration) -> u64 {
        let mut bytes = 0;
        while *now < end {
            bytes += 100;
            *now = (*now).max(throttle.sent(100, *now));
        }
        bytes
    }

    #[test]
    fn throttle_keeps_its_average_and_catches_up_at_the_peak_rate() {
        let second = Duration::from_secs;
        let mut throttle = Throttle::new(RateLimit::average(10_000));
        let mut now = second(5);
        assert_eq!(run(&mut throttle, &mut now, second(15)), 100_000);
        // Ten seconds without a byte.
        now = second(25);
        let burst = 6_000;
        let made_up = run(&mut throttle, &mut now, second(30));
        assert!(made_up.abs_diff(5 * 12_000 + burst) <= 100, "{made_up}");
        // The average is reached again, and kept.
        run(&mut throttle, &mut now, second(100));
        assert_eq!(throttle.bytes, 950_000);
    }

    #[test]
    fn part_is_half_a_second_of_the_rate_of_a_connection() {
        let limit = RateLimit::average(80_000);
        assert_eq!(limit.part_bytes(8), 5_000);
        assert_eq!(limit.part_bytes(1), 40_000);
        assert_eq!(RateLimit::average(1).part_bytes(8), 1);
    }
}
