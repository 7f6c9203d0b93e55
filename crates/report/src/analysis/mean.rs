//! Means over every trial of a cell that was started, those included that failed.
//!
//! A failed trial has the worst value of the metric that its work is ranked by: a rate of zero, or a time without end.
//! Means without these trials would call a transport that hangs now and then as fast as one that does not.

use regatta_stats::Estimate;
use serde::{Deserialize, Serialize};

use super::CONFIDENCE;

/// One-sided level at which the rounds of one cell count as correlated.
pub const CORRELATED_CELL: f64 = 0.01;

/// Ratio of the ends of an interval up to which it is given of a mean with failures: the spread of its logarithm is that of
/// the rates to first order only, and a wider interval reaches beyond what the path can carry.
const WIDEST_RATIO: f64 = 3.0;

/// Kind of a mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeanKind {
    /// Geometric mean, of values that are all finite and above zero.
    Geometric,
    /// Arithmetic mean, where a value is zero: the rate of a trial that failed.
    Arithmetic,
    /// Harmonic mean, the inverse of the mean rate, where a value is infinite: the time of a trial that failed.
    Harmonic,
}

impl MeanKind {
    /// Returns the kind of mean that is defined for all the values; `None` where none is, as for zero beside infinity.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (mut zero, mut endless) = (false, false);
        for value in values {
            zero |= value == 0.0;
            endless |= value == f64::INFINITY;
            if value < 0.0 || value.is_nan() {
                return None;
            }
        }
        match (zero, endless) {
            (false, false) => Some(Self::Geometric),
            (true, false) => Some(Self::Arithmetic),
            (false, true) => Some(Self::Harmonic),
            (true, true) => None,
        }
    }

    /// Returns a series whose mean is the logarithm of the mean of the values, and whose spread is that of this logarithm
    /// to first order (the delta method; Casella and Berger 2002, 5.5.4). `None` if the mean is zero or infinite.
    #[must_use]
    pub fn series(self, values: &[f64]) -> Option<Vec<f64>> {
        let about = |rates: Vec<f64>, sign: f64| -> Vec<f64> {
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            let deviation = rates
                .iter()
                .map(|rate| sign * (rate / mean - 1.0 + mean.ln()));
            deviation.collect()
        };
        let series: Vec<f64> = match self {
            Self::Geometric => values.iter().map(|value| value.ln()).collect(),
            Self::Arithmetic => about(values.to_vec(), 1.0),
            Self::Harmonic => about(values.iter().map(|value| value.recip()).collect(), -1.0),
        };
        series
            .iter()
            .all(|value| value.is_finite())
            .then_some(series)
    }
}

/// Mean of a metric over every trial of a cell that was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeanOfAll {
    /// Kind of the mean.
    pub kind: MeanKind,
    /// Number of trials, those included that failed or delivered nothing.
    pub n: u64,
    /// The mean, in the unit of the metric.
    pub mean: f64,
    /// 95 % confidence interval, Student's t of the logarithm; absent for one trial, and where some failed and the upper end
    /// is more than three times the lower one.
    pub ci95: Option<[f64; 2]>,
}

impl MeanOfAll {
    /// Returns the mean of these values, in the order of the rounds; `None` without any, and where the mean is zero or
    /// infinite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let kind = MeanKind::of(values.iter().copied())?;
        let series = [kind.series(values)?];
        let rho = regatta_stats::autocorrelation(&series, 1, CORRELATED_CELL);
        let estimate = Estimate::of(&series[0], rho)?;
        let interval = shown_interval(&estimate).map(|interval| interval.map(f64::exp));
        let is_narrow =
            |[low, high]: &[f64; 2]| kind == MeanKind::Geometric || *high <= low * WIDEST_RATIO;
        Some(Self {
            kind,
            n: values.len() as u64,
            mean: estimate.mean.exp(),
            ci95: interval.filter(is_narrow),
        })
    }

    /// Whether there are too few trials for an interval, with those that failed.
    #[must_use]
    pub fn lacks_rounds(&self) -> bool {
        self.n > 1 && self.ci95.is_none()
    }
}

/// Returns the 95 % interval of one cell. Equal values give an interval of zero width: it shows that
/// the values did not vary, not that they cannot.
pub fn shown_interval(estimate: &Estimate) -> Option<[f64; 2]> {
    match estimate.is_constant() {
        true => Some([estimate.mean; 2]),
        false => estimate.interval(CONFIDENCE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_all_trials_are_those_of_their_kind() {
        let cases = [
            ([2.0, 8.0], MeanKind::Geometric, 4.0),
            ([0.0, 8.0], MeanKind::Arithmetic, 4.0),
            ([4.0, f64::INFINITY], MeanKind::Harmonic, 8.0),
        ];
        for (values, kind, mean) in cases {
            let found = MeanOfAll::of(&values).expect("a mean");
            assert_eq!((found.kind, found.n), (kind, 2));
            assert!((found.mean - mean).abs() < 1e-12, "{found:?}");
        }
        assert_eq!(MeanOfAll::of(&[0.0, 0.0]), None);
        assert_eq!(MeanOfAll::of(&[f64::INFINITY; 2]), None);
        assert_eq!(MeanOfAll::of(&[0.0, f64::INFINITY]), None);
    }

    #[test]
    fn values_below_zero_have_no_mean() {
        assert_eq!(MeanKind::of([1.0, -1.0]), None);
        assert_eq!(MeanKind::of([1.0, f64::NAN]), None);
    }

    /// By hand: rates of 0 and 8 are 1 below and 1 above their mean of 4, as a part of it; times have the opposite sign.
    #[test]
    fn a_series_lies_around_the_logarithm_of_its_mean() {
        let mean = 4.0_f64.ln();
        let rates = MeanKind::Arithmetic.series(&[0.0, 8.0]);
        assert_eq!(rates, Some(vec![mean - 1.0, mean + 1.0]));
        let times = MeanKind::Harmonic.series(&[f64::INFINITY, 0.125]);
        assert_eq!(times, Some(vec![1.0 - mean, -1.0 - mean]));
        assert_eq!(MeanKind::Geometric.series(&[0.0, 8.0]), None);
    }

    /// Of three trials, one of which failed, the interval of the logarithm would reach from 0.8 to 60.
    #[test]
    fn means_with_failures_of_few_trials_have_no_interval() {
        let few = MeanOfAll::of(&[0.0, 10.0, 11.0]).expect("a mean");
        assert!((few.mean - 7.0).abs() < 1e-12, "{few:?}");
        assert_eq!(few.ci95, None);
        assert!(few.lacks_rounds());
        let one = MeanOfAll::of(&[10.0]).expect("a mean");
        assert!(one.ci95.is_none() && !one.lacks_rounds(), "{one:?}");
        let mut rates = vec![10.0; 9];
        rates.push(0.0);
        let many = MeanOfAll::of(&rates).expect("a mean");
        assert!(many.ci95.is_some() && !many.lacks_rounds(), "{many:?}");
    }

    /// A rate and the time that is its inverse are the same figure.
    #[test]
    fn harmonic_means_mirror_arithmetic_ones() {
        let rates = [0.0, 5.0, 8.0, 7.0].repeat(10);
        let of_rates = MeanOfAll::of(&rates).expect("a mean");
        let times: Vec<f64> = rates.iter().map(|rate| rate.recip()).collect();
        let of_times = MeanOfAll::of(&times).expect("a mean");
        assert!((of_rates.mean * of_times.mean - 1.0).abs() < 1e-12);
        let [low, high] = of_rates.ci95.expect("an interval");
        let [from, to] = of_times.ci95.expect("an interval");
        assert!((low * to - 1.0).abs() < 1e-12 && (high * from - 1.0).abs() < 1e-12);
    }
}
