//! Distributions of delays, and their metrics in a report.

use std::time::Duration;

use hdrhistogram::Histogram as Hdr;
use regatta_model::{metric::DelayMetrics, units::signed_nanoseconds};

use super::findings::Findings;
use crate::{
    clock::MonotonicTime,
    probe::{MIN_FOR_P99, encode, new_histogram, record},
};

/// Maximum number of delays of which quantiles are exact.
const MAX_EXACT: usize = 10_000;

/// Distribution of delays. Mean, minimum and maximum are exact, and quantiles are where there are at most [`MAX_EXACT`]
/// delays. Of more they are interpolated within the buckets of a histogram of three digits.
#[derive(Debug)]
pub(crate) struct Distribution {
    histogram: Hdr<u64>,
    /// All delays in the order in which they came, as long as there are at most [`MAX_EXACT`].
    exact: Vec<i64>,
    sum_ns: f64,
    min_ns: f64,
    max_ns: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            histogram: new_histogram(),
            exact: Vec::new(),
            sum_ns: 0.0,
            min_ns: f64::INFINITY,
            max_ns: 0.0,
        }
    }
}

impl Distribution {
    /// Adds the time from `from` to `to`; zero if `to` is earlier.
    pub(crate) fn add(&mut self, from: MonotonicTime, to: MonotonicTime) {
        self.add_duration(to.since(from));
    }

    pub(crate) fn add_duration(&mut self, delay: Duration) {
        self.add_nanoseconds(signed_nanoseconds(delay));
    }

    /// Adds a delay; one below zero counts as zero.
    pub(crate) fn add_nanoseconds(&mut self, delay: i64) {
        let delay = delay.max(0);
        record(&mut self.histogram, delay);
        if self.exact.len() < MAX_EXACT {
            self.exact.push(delay);
        }
        let ns = delay as f64;
        self.sum_ns += ns;
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all delays of another distribution.
    pub(crate) fn merge(&mut self, other: &Self) {
        // A histogram that resizes itself takes every other.
        let _ = self.histogram.add(&other.histogram);
        let room = MAX_EXACT - self.exact.len();
        self.exact.extend(other.exact.iter().take(room));
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub(crate) fn len(&self) -> u64 {
        self.histogram.len()
    }

    fn mean(&self) -> Option<f64> {
        (self.len() > 0).then(|| self.sum_ns / self.len() as f64)
    }

    /// Returns the delay with this rank from 1, in nanoseconds; `None` if there are fewer. Where they are not all kept, those
    /// of a bucket are taken as evenly distributed over the part of it between minimum and maximum.
    fn ranked(&self, rank: u64) -> Option<f64> {
        if rank <= 1 || rank >= self.len() {
            let value = if rank <= 1 { self.min_ns } else { self.max_ns };
            return (1..=self.len()).contains(&rank).then_some(value);
        }
        if self.exact.len() as u64 == self.len() {
            let index = usize::try_from(rank - 1).ok()?;
            let mut delays = self.exact.clone();
            let (_, delay, _) = delays.select_nth_unstable(index);
            return Some(*delay as f64);
        }
        let mut below = 0;
        for bucket in self.histogram.iter_recorded() {
            let count = bucket.count_since_last_iteration();
            if rank <= below + count {
                let value = bucket.value_iterated_to();
                let lowest = self.histogram.lowest_equivalent(value) as f64;
                let highest = self.histogram.highest_equivalent(value) as f64;
                let (lowest, highest) = (lowest.max(self.min_ns), highest.min(self.max_ns));
                let position = ((rank - below) as f64 - 0.5) / count as f64;
                return Some(lowest + position * (highest - lowest));
            }
            below += count;
        }
        None
    }

    fn quantile(&self, quantile: f64) -> Option<f64> {
        let rank = (quantile * self.len() as f64).ceil() as u64;
        self.ranked(rank.clamp(1, self.len().max(1)))
    }

    /// Returns the median in nanoseconds, the mean of the middle two for an even number.
    fn median(&self) -> Option<f64> {
        let (lower, upper) = (self.len().div_ceil(2), self.len() / 2 + 1);
        Some(f64::midpoint(self.ranked(lower)?, self.ranked(upper)?))
    }

    /// Writes mean, median, 95th percentile, of 100 delays or more the 99th, and the maximum if there
    /// is a metric for it, and the histogram.
    pub(crate) fn report(&self, names: DelayMetrics, side: &str, findings: &mut Findings) {
        findings.metric(names.mean, self.mean());
        findings.metric(names.p50, self.median());
        findings.metric(names.p95, self.quantile(0.95));
        if self.len() >= MIN_FOR_P99 {
            findings.metric(names.p99, self.quantile(0.99));
        }
        if let Some(max) = names.max {
            findings.metric(max, (self.len() > 0).then_some(self.max_ns));
        }
        findings.histogram(encode(names.distribution, side, &self.histogram));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_exact_and_quantiles_have_three_digits() {
        let mut delays = Distribution::default();
        for ms in 1..=100_u64 {
            delays.add_duration(Duration::from_millis(ms));
        }
        assert_eq!(delays.mean(), Some(50.5e6));
        let near = |value: Option<f64>, expected: f64| {
            let value = value.expect("there are delays");
            assert!((value / expected - 1.0).abs() < 1e-3, "{value}");
        };
        near(delays.median(), 50.5e6);
        near(delays.quantile(0.5), 50e6);
        near(delays.quantile(0.95), 95e6);
        assert_eq!(delays.quantile(1.0), Some(100e6));
        let mut findings = Findings::default();
        delays.report(DelayMetrics::MESSAGE, "receiver", &mut findings);
        assert_eq!(
            findings.0.measurements.metrics["message_delay_max_ns"],
            100e6
        );
        assert_eq!(
            findings.0.measurements.histograms[0].name,
            "message_delay_ns"
        );
    }

    #[test]
    fn quantiles_of_few_delays_are_exact() {
        let (mut delays, mut others) = (Distribution::default(), Distribution::default());
        for step in 0..500_i64 {
            delays.add_nanoseconds(50_000_003 + step * 20_011);
            others.add_nanoseconds(70_000_007 + step * 20_011);
        }
        delays.merge(&others);
        let (below, above) = (50_000_003 + 499 * 20_011, 70_000_007);
        assert_eq!(delays.median(), Some((below + above) as f64 / 2.0));
        assert_eq!(
            delays.quantile(0.95),
            Some((70_000_007 + 449 * 20_011) as f64)
        );
    }

    /// A bucket near 50 ms is 33 us wide.
    #[test]
    fn quantiles_do_not_stand_at_the_edges_of_buckets() {
        let medians = [0, 7, 20].map(|shift| {
            let mut delays = Distribution::default();
            for step in 0..20_001 {
                delays.add_nanoseconds(50_000_000 + shift * 1000 + (step - 10_000) / 2);
            }
            let truth = 50e6 + shift as f64 * 1e3;
            let median = delays.median().expect("there are delays");
            assert!((median - truth).abs() < 2e3, "{median} beside {truth}");
            median
        });
        assert!(medians[0] < medians[1] && medians[1] < medians[2]);
    }

    #[test]
    fn quantiles_of_equal_delays_are_exact() {
        let (mut delays, mut others) = (Distribution::default(), Distribution::default());
        for _ in 0..3 {
            delays.add_nanoseconds(50_001_234);
            others.add_nanoseconds(50_001_234);
        }
        delays.merge(&others);
        assert_eq!(delays.len(), 6);
        for value in [delays.median(), delays.quantile(0.95), delays.mean()] {
            assert_eq!(value, Some(50_001_234.0));
        }
        assert_eq!(Distribution::default().median(), None);
    }

    #[test]
    fn p99_requires_a_hundred_delays() {
        for (delays, reported) in [(99, false), (100, true)] {
            let mut distribution = Distribution::default();
            for ms in 1..=delays {
                distribution.add_duration(Duration::from_millis(ms));
            }
            let mut findings = Findings::default();
            distribution.report(DelayMetrics::MESSAGE, "receiver", &mut findings);
            let metrics = findings.0.measurements.metrics;
            assert_eq!(
                metrics.contains_key("message_delay_p99_ns"),
                reported,
                "{delays}"
            );
            assert!(metrics.contains_key("message_delay_p95_ns"));
        }
    }

    #[test]
    fn no_delays_report_no_metrics() {
        let mut findings = Findings::default();
        Distribution::default().report(DelayMetrics::MESSAGE, "receiver", &mut findings);
        assert!(
            findings.0.measurements.metrics.is_empty()
                && findings.0.measurements.histograms.is_empty()
        );
    }
}
