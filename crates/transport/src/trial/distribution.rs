//! Distributions of delays, and their metrics in a report.

use std::time::Duration;

use hdrhistogram::Histogram as Hdr;
use regatta_model::{metric::DelayMetrics, units::signed_nanoseconds};

use super::findings::Findings;
use crate::{
    clock::MonotonicTime,
    probe::{MIN_FOR_P99, encode, new_histogram, record},
};

/// A distribution of delays, of which the mean and the maximum are kept exactly and the others to
/// three digits.
#[derive(Debug)]
pub(crate) struct Distribution {
    histogram: Hdr<u64>,
    sum_ns: f64,
    max_ns: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            histogram: new_histogram(),
            sum_ns: 0.0,
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
        let ns = signed_nanoseconds(delay);
        record(&mut self.histogram, ns, 1);
        self.sum_ns += ns as f64;
        self.max_ns = self.max_ns.max(ns as f64);
    }

    pub(crate) fn len(&self) -> u64 {
        self.histogram.len()
    }

    fn mean(&self) -> Option<f64> {
        (self.len() > 0).then(|| self.sum_ns / self.len() as f64)
    }

    fn quantile(&self, quantile: f64) -> Option<f64> {
        // A value stands for the range of equal first digits that it ends; the largest of all is
        // known better.
        (self.len() > 0)
            .then(|| (self.histogram.value_at_quantile(quantile) as f64).min(self.max_ns))
    }

    /// Writes mean, median, 95th percentile, of 100 delays or more the 99th, and the maximum if there
    /// is a metric for it, and the histogram under the name of the mean.
    pub(crate) fn report(&self, names: DelayMetrics, side: &str, findings: &mut Findings) {
        findings.metric(names.mean, self.mean());
        findings.metric(names.p50, self.quantile(0.5));
        findings.metric(names.p95, self.quantile(0.95));
        if self.len() >= MIN_FOR_P99 {
            findings.metric(names.p99, self.quantile(0.99));
        }
        if let Some(max) = names.max {
            findings.metric(max, (self.len() > 0).then_some(self.max_ns));
        }
        findings.histogram(encode(names.mean, side, &self.histogram));
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
