//! Thresholds of Random Early Detection that follow from a target delay and a rate.

use std::time::Duration;

/// Thresholds of Random Early Detection and the weight of its average, for the kernel's discipline and Regatta's own.
///
/// Source: Floyd, Gummadi and Shenker, *Adaptive RED: An Algorithm for Increasing the Robustness of RED's Active Queue
/// Management* (2001), §5: the lower threshold is half the target delay at the rate, at least five packets; the upper one
/// three times that, so that the average lies around the target. The weight is that of `tc` (`tc_red_eval_ewma`) for the
/// bursts that tc-red(8) recommends: a smaller one has the kernel, which drops all packets above the upper threshold, go on
/// dropping long after the queue of a slow start is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedThresholds {
    /// Average queue below which nothing is dropped, in bytes.
    pub min_bytes: u64,
    /// Average queue from which on each packet is dropped, in bytes.
    pub max_bytes: u64,
    /// Binary logarithm of 1 / weight of the current queue in the average.
    pub weight_log: u32,
}

impl RedThresholds {
    /// Probability of a drop at the upper threshold in the beginning; it adapts from then on.
    pub const INITIAL_PROBABILITY: f64 = 0.02;

    /// Minimum number of full packets of the lower threshold.
    const MIN_PACKETS: u64 = 5;

    /// Returns the thresholds for a queue that is served at `rate_bps`, whose full packets have `mtu_bytes`.
    #[must_use]
    pub fn of(target: Duration, rate_bps: u64, mtu_bytes: u64) -> Self {
        let mtu_bytes = mtu_bytes.max(1);
        let half_target = (rate_bps as f64 / 8.0 * target.as_secs_f64() / 2.0) as u64;
        let min_bytes = half_target.max(Self::MIN_PACKETS * mtu_bytes);
        let max_bytes = min_bytes.saturating_mul(3);
        let burst = (2 * min_bytes + max_bytes) as f64 / (3 * mtu_bytes) as f64;
        let wanted = burst + 1.0 - min_bytes as f64 / mtu_bytes as f64;
        // Packets of a burst, each with its weight in the average after it.
        let passed = |log: u32| {
            let weight = 2f64.powi(-log.cast_signed());
            (1.0 - (1.0 - weight).powf(burst)) / weight
        };
        // The kernel holds the average, shifted by the logarithm, in 32 bits.
        let most = max_bytes.leading_zeros().saturating_sub(33).clamp(1, 31);
        let weight_log = (1..most).find(|&log| wanted <= passed(log)).unwrap_or(most);
        Self {
            min_bytes,
            max_bytes,
            weight_log,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 5 ms at 100 Mbit/s are 62 500 bytes, of which the half. Of a burst of 34.7 packets 14.9 are above the lower
    /// threshold; at 1/16 14.3 pass, at 1/32 21.4.
    #[test]
    fn thresholds_lie_around_the_target() {
        let at = |mbps: u64| RedThresholds::of(Duration::from_millis(5), mbps * 1_000_000, 1500);
        let found = at(100);
        assert_eq!((found.min_bytes, found.max_bytes), (31_250, 93_750));
        assert_eq!(found.weight_log, 5);
        // Five packets at least.
        let slow = at(10);
        assert_eq!((slow.min_bytes, slow.max_bytes), (7500, 22_500));
        // Upper threshold and weight together have 31 bits.
        let fast = at(1_000_000);
        assert!(
            64 - fast.max_bytes.leading_zeros() + fast.weight_log <= 31,
            "{fast:?}"
        );
    }
}
