//! Series in the order of time: values that depend on the one before, and drift.

use statrs::function::erf::erfc;

/// Cap of the autocorrelation by which intervals are widened: the few rounds of a run cannot tell higher ones apart.
const MAX: f64 = 0.9;

/// Returns the probability that a standard normal variable is above `z`.
fn above(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

/// Returns the lag-1 autocorrelation of a series about its mean, as a ratio; `None` for fewer than
/// three values and for equal ones.
///
/// Source: Box, Jenkins and Reinsel 1994, Time Series Analysis, 2.1.5.
#[must_use]
pub fn lag1(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    if values.len() < 3 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let scale = values.iter().fold(0.0_f64, |scale, v| scale.max(v.abs()));
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let products: f64 = values
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    let floor = n * (8.0 * f64::EPSILON * scale).powi(2);
    (squares > floor && squares.is_finite()).then(|| products / squares)
}

/// Returns the lag-1 autocorrelation that several series share, tested and estimated over all of
/// them; 0 where it is not above zero at a one-sided level of 5 %.
///
/// `degrees` is the number of series that are independent: of all differences between k columns it
/// is k − 1. For each series the expectation −1/n and the variance (n − 2)² / (n² (n − 1)) of its
/// coefficient under independence are taken; the estimate is the mean coefficient less that
/// expectation, cut at 0.9.
///
/// Source: Moran 1948, Biometrika 35, 255–260 (moments).
#[must_use]
pub fn autocorrelation(series: &[Vec<f64>], degrees: usize, level: f64) -> f64 {
    let (mut z, mut rho, mut count) = (0.0, 0.0, 0.0);
    for values in series {
        let Some(r) = lag1(values) else { continue };
        let n = values.len() as f64;
        let deviation = (n - 2.0) / (n * (n - 1.0).sqrt());
        z += (r + 1.0 / n) / deviation;
        rho += r + 1.0 / n;
        count += 1.0;
    }
    if count == 0.0 || above(z / count * (degrees.max(1) as f64).sqrt()) > level {
        return 0.0;
    }
    (rho / count).clamp(0.0, MAX)
}

/// Returns the lag-1 autocorrelation that the series of a run share, from 0 to 0.9: the mean of those of all series that vary,
/// each corrected for the bias of short ones. It is estimated and not tested: a test of a few rounds finds a memory only
/// by chance, and the width of intervals would then jump from run to run.
///
/// Up to six values have a correction of their own, by simulation: the usual one would widen independent rounds too much.
///
/// Source: Marriott and Pope 1954, Biometrika 41, 390–402 (bias −(1 + 4ρ)/n).
#[must_use]
pub fn shared_autocorrelation(series: &[Vec<f64>]) -> f64 {
    let corrected = |values: &Vec<f64>| {
        let (r, n) = (lag1(values)?, values.len() as f64);
        Some(match values.len() {
            ..=6 => (r + 1.0 / n) * n / (n - 2.5),
            _ => (n * r + 1.0) / (n - 4.0),
        })
    };
    let (sum, count) = (series.iter().filter_map(corrected))
        .fold((0.0, 0.0), |(sum, count), rho| (sum + rho, count + 1.0));
    match count > 0.0 {
        true => (sum / count).clamp(0.0, MAX),
        false => 0.0,
    }
}

/// Effect of a series' autocorrelation on the error of its mean.
pub(crate) struct Memory {
    /// Factor by which the squared standard error that the sample's variance gives is too small.
    pub(crate) inflation: f64,
    /// Share of the degrees of freedom of the sample's variance that remain.
    share: f64,
}

impl Memory {
    /// Lower bound of the share of the true variance that the variance of an autocorrelated sample shows.
    const LEAST_SHOWN: f64 = 0.15;

    /// Minimum of the remaining degrees of freedom, where the sample has as many.
    const LEAST_DEGREES: f64 = 1.5;

    /// Computes the effect for an autoregressive series of first order with `n` values. The variance of their mean is that
    /// of independent values times 1 + 2 Σ (1 − k/n) ρᵏ, and the variance of the sample is too small accordingly.
    ///
    /// Source: Bayley and Hammersley 1946, J. R. Statist. Soc. Suppl. 8, 184–197.
    pub(crate) fn of(rho: f64, n: usize) -> Self {
        let rho = rho.clamp(0.0, MAX);
        let (mut sum, mut power) = (1.0, 1.0);
        for k in 1..n {
            power *= rho;
            sum += 2.0 * (1.0 - k as f64 / n as f64) * power;
        }
        let shown = 1.0 - (sum - 1.0) / (n as f64 - 1.0);
        Self {
            inflation: sum / shown.max(Self::LEAST_SHOWN),
            share: (1.0 - rho * rho) / (1.0 + rho * rho),
        }
    }

    /// Returns the degrees of freedom that remain of `df`.
    pub(crate) fn degrees(&self, df: f64) -> f64 {
        (df * self.share).max(Self::LEAST_DEGREES.min(df))
    }
}

/// Tests a series for a steady change. Returns the two-sided p-value of "there is none", by the normal approximation;
/// `None` for fewer than four values.
///
/// Sources: Mann 1945, Econometrica 13, 245–259; Kendall 1975, Rank Correlation Methods (variance
/// with ties, correction for continuity).
#[must_use]
pub fn trend_p_value(values: &[f64]) -> Option<f64> {
    if values.len() < 4 || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let n = values.len() as f64;
    let mut sorted = values.to_vec();
    let falling = sort_counting(&mut sorted, |later, earlier| later < earlier) as f64;
    let equal = || {
        let groups = sorted.chunk_by(|a, b| a == b);
        groups.map(|equal| equal.len() as f64)
    };
    let tied: f64 = equal().map(|n| n * (n - 1.0) / 2.0).sum();
    // Pairs that rise less those that fall.
    let sum = n * (n - 1.0) / 2.0 - tied - 2.0 * falling;
    let part = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let variance = (part(n) - equal().map(part).sum::<f64>()) / 18.0;
    let distance = (f64::abs(sum) - 1.0).max(0.0);
    Some(match variance > 0.0 {
        true => (2.0 * above(distance / variance.sqrt())).min(1.0),
        false => 1.0,
    })
}

/// Maximum number of values of which every pair has its slope computed.
const MAX_PAIRED: usize = 2000;

/// Returns the median change from one value of a series to the next, over all pairs; `None` for fewer than two values.
///
/// Of more than 2000 values it is the lower median, found by bisection.
///
/// Source: Sen 1968, J. Am. Stat. Assoc. 63, 1379–1389.
#[must_use]
pub fn sen_slope(values: &[f64]) -> Option<f64> {
    if values.len() < 2 || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    if values.len() > MAX_PAIRED {
        return Some(slope_by_bisection(values));
    }
    let mut slopes = Vec::with_capacity(values.len() * (values.len() - 1) / 2);
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate().skip(i + 1) {
            slopes.push((b - a) / (j - i) as f64);
        }
    }
    Some(median(&mut slopes))
}

/// Returns the lower median of the slopes of all pairs. The pairs whose slope is at most `m` are those that do not rise
/// after a line of slope `m` is taken off.
fn slope_by_bisection(values: &[f64]) -> f64 {
    let pairs = values.len() as u64 * (values.len() as u64 - 1) / 2;
    let is_enough = |slope: f64| {
        let lines = values.iter().enumerate();
        let mut flat: Vec<f64> = lines.map(|(i, value)| value - slope * i as f64).collect();
        sort_counting(&mut flat, |later, earlier| later <= earlier) >= pairs.div_ceil(2)
    };
    let changes = values.windows(2).map(|pair| pair[1] - pair[0]);
    let (mut low, mut high) = changes
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
            (low.min(it), high.max(it))
        });
    // Each slope is a mean of changes. A bit of the result for each step.
    for _ in 0..64 {
        let middle = low + (high - low) / 2.0;
        match is_enough(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    high
}

/// Sorts values and returns the number of pairs, of an earlier and a later value, for which `counts` holds. Its
/// arguments are the later and the earlier value; if it holds, it holds for every smaller later value, too.
fn sort_counting(values: &mut [f64], counts: fn(f64, f64) -> bool) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let (earlier, later) = values.split_at_mut(values.len() / 2);
    let mut count = sort_counting(earlier, counts) + sort_counting(later, counts);
    let mut before = 0;
    for value in earlier.iter() {
        before += later[before..]
            .iter()
            .take_while(|it| counts(**it, *value))
            .count();
        count += before as u64;
    }
    values.sort_by(f64::total_cmp);
    count
}

/// Returns the median without sorting all values: there is a slope for each pair of values.
fn median(values: &mut [f64]) -> f64 {
    let is_odd = values.len() % 2 == 1;
    let (below, middle, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    let below = below.iter().copied().max_by(f64::total_cmp);
    match below.filter(|_| !is_odd) {
        Some(below) => crate::describe::median_of_sorted(&[below, *middle]),
        None => *middle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the slopes of the pairs are 1, 1, 2, 2.5, 2.5 and 4.
    #[test]
    fn bisection_finds_the_lower_median_of_the_slopes() {
        let slope = slope_by_bisection(&[0.0, 1.0, 5.0, 6.0]);
        assert!((slope - 2.0).abs() < 1e-12, "{slope}");
    }
}
