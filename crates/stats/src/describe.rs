//! One sample: mean, spread, quartiles.

use serde::Serialize;

use crate::{distribution::t_critical, usable};

/// Descriptive statistics of the values of one metric in one cell. In the unit of the values,
/// except `n` and `cv`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Description {
    /// Number of values, at least one.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with n − 1 in the denominator; absent for one value.
    pub sd: Option<f64>,
    /// Coefficient of variation, sd over the absolute mean, as a ratio; absent for one value and
    /// for a mean of zero.
    pub cv: Option<f64>,
    /// 95 % confidence interval of the mean (Student's t, n − 1 degrees of freedom); absent for
    /// one value. Equal values give an interval without width.
    pub ci95: Option<[f64; 2]>,
    /// Median: the mean of the middle two for an even number of values.
    pub median: f64,
    /// First quartile, see [`quantile`].
    pub q1: f64,
    /// Third quartile, see [`quantile`].
    pub q3: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// Describes a sample.
///
/// `None` for no values, if any value is not finite (a figure drawn from the others would hide
/// it), and if the values are so large that their spread is not a finite number.
#[must_use]
pub fn describe(values: &[f64]) -> Option<Description> {
    let (mean, sd) = mean_and_sd(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(Description {
        n: values.len(),
        mean,
        sd,
        cv: sd.map(|sd| sd / mean.abs()).filter(|cv| cv.is_finite()),
        ci95: sd.and_then(|sd| student_interval(values.len(), mean, sd, 0.95)),
        median: median_of_sorted(&sorted),
        q1: sorted_quantile(&sorted, 0.25),
        q3: sorted_quantile(&sorted, 0.75),
        min: sorted[0],
        max: sorted[sorted.len() - 1],
    })
}

/// Returns the confidence interval of a described mean at another level (Student's t, n − 1 degrees
/// of freedom). `None` for one value and for a `confidence` that is not between 0 and 1.
///
/// Source: NIST/SEMATECH e-Handbook, 1.3.5.2.
#[must_use]
pub fn mean_interval(description: &Description, confidence: f64) -> Option<[f64; 2]> {
    student_interval(description.n, description.mean, description.sd?, confidence)
}

/// Returns the quantile at `probability` (0 to 1): the smallest value that this part of the values
/// does not exceed. The percentiles of delays in a trial are computed in the same way.
///
/// `None` for no values, a value that is not finite, a probability outside 0 to 1.
///
/// Source: RFC 2330, 11.3 (percentile); type 1 of Hyndman and Fan 1996, The American Statistician
/// 50, 361–365.
#[must_use]
pub fn quantile(values: &[f64], probability: f64) -> Option<f64> {
    let usable = !values.is_empty()
        && values.iter().all(|value| value.is_finite())
        && (0.0..=1.0).contains(&probability);
    usable.then(|| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted_quantile(&sorted, probability)
    })
}

fn sorted_quantile(sorted: &[f64], probability: f64) -> f64 {
    let rank = (probability * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Returns the median of sorted values.
///
/// Source: RFC 2330, 11.3.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// Returns the mean and standard deviation (n − 1), computed in two passes, the second corrected
/// for the rounding of the first.
///
/// Source: Chan, Golub and LeVeque 1983, The American Statistician 37, 242–247, eq. 1.7.
pub(crate) fn mean_and_sd(values: &[f64]) -> Option<(f64, Option<f64>)> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let n = values.len() as f64;
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| {
            (low.min(value), high.max(value))
        });
    // Deviations from the first value keep the digits that sums of large values lose; the limits
    // make the mean of equal values that value.
    let shift = values[0];
    let mean = (shift + values.iter().map(|value| value - shift).sum::<f64>() / n).clamp(low, high);
    if !mean.is_finite() {
        return None;
    }
    if values.len() == 1 {
        return Some((mean, None));
    }
    let (mut squares, mut rest) = (0.0, 0.0);
    for value in values {
        let deviation = value - mean;
        squares += deviation * deviation;
        rest += deviation;
    }
    let sd = ((squares - rest * rest / n).max(0.0) / (n - 1.0)).sqrt();
    sd.is_finite().then_some((mean, Some(sd)))
}

/// Returns mean ± t · sd / √n.
pub(crate) fn student_interval(n: usize, mean: f64, sd: f64, confidence: f64) -> Option<[f64; 2]> {
    if n < 2 || !usable(confidence) {
        return None;
    }
    let half = t_critical(confidence, (n - 1) as f64) * sd / (n as f64).sqrt();
    let interval = [mean - half, mean + half];
    interval
        .iter()
        .all(|end| end.is_finite())
        .then_some(interval)
}
