//! Two transports, round by round.

use serde::Serialize;

use crate::{
    describe::{mean_and_sd, student_interval},
    distribution::t_two_sided,
    usable,
};

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RatioEstimate {
    /// The estimate.
    pub ratio: f64,
    /// Its interval at the comparison's confidence; absent where the pairs allow none.
    pub interval: Option<[f64; 2]>,
}

/// The comparison of `a` with `b` over pairs (a, b) of the same round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairedComparison {
    /// Number of pairs, at least one.
    pub n: usize,
    /// Confidence of the intervals, as it was asked for.
    pub confidence: f64,
    /// Mean of a.
    pub mean_a: f64,
    /// Mean of b.
    pub mean_b: f64,
    /// Mean of a − b, in the unit of the values.
    pub mean_difference: f64,
    /// Interval of the mean difference; absent where the pairs allow none.
    pub difference_interval: Option<[f64; 2]>,
    /// Two-sided p-value of "the mean difference is zero"; absent for one pair. Not corrected for
    /// the number of comparisons, see [`crate::holm`].
    pub p_value: Option<f64>,
    /// Ratio of the geometric means, a over b; absent if any value is zero or negative.
    pub ratio: Option<RatioEstimate>,
}

/// Compares pairs (a, b) with the paired t-test; the ratio is had from the logarithms in the same
/// way.
///
/// Pairs of one round share whatever drifted between rounds, so it cancels.
///
/// Differences that are all the same show no spread from which t could be computed, and no spread
/// is not certainty: counters are often equal for two rounds and not in the third. Then the sign
/// test speaks, which supposes nothing about the distribution: the p-value is 2^(1−n) (1 if the
/// difference is zero), and the interval is the difference itself if [min, max] of n differences
/// covers their median with the confidence asked for, that is if 2^(1−n) ≤ 1 − confidence;
/// otherwise it is absent.
///
/// `None` for no pairs, a value that is not finite, a `confidence` that is not between 0 and 1, or
/// values so large that their differences are not finite.
///
/// Sources: Student 1908, Biometrika 6, 1–25 (paired t); NIST/SEMATECH e-Handbook, 7.3.1; Conover
/// 1999, Practical Nonparametric Statistics, 3.2 and 3.4 (order-statistic interval, sign test).
#[must_use]
pub fn compare_paired(pairs: &[(f64, f64)], confidence: f64) -> Option<PairedComparison> {
    if !usable(confidence) {
        return None;
    }
    let column = |take: fn(&(f64, f64)) -> f64| pairs.iter().map(take).collect::<Vec<f64>>();
    let (mean_a, _) = mean_and_sd(&column(|pair| pair.0))?;
    let (mean_b, _) = mean_and_sd(&column(|pair| pair.1))?;
    // Differences of values that carry rounding errors vary by as much without meaning it.
    let scale = pairs
        .iter()
        .fold(0.0_f64, |scale, (a, b)| scale.max(a.abs()).max(b.abs()));
    let differences = one_sample(&column(|(a, b)| a - b), scale, confidence)?;

    let ratio = pairs
        .iter()
        .all(|&(a, b)| a > 0.0 && b > 0.0)
        .then(|| one_sample(&column(log_ratio), 1.0, confidence))
        .flatten()
        .and_then(|logs| {
            let ratio = logs.mean.exp();
            let interval = logs
                .interval
                .map(|ends| ends.map(f64::exp))
                .filter(|ends| ends.iter().all(|end| end.is_finite()));
            ratio
                .is_finite()
                .then_some(RatioEstimate { ratio, interval })
        });

    Some(PairedComparison {
        n: pairs.len(),
        confidence,
        mean_a,
        mean_b,
        mean_difference: differences.mean,
        difference_interval: differences.interval,
        p_value: differences.p_value,
        ratio,
    })
}

/// ln(a / b), also where the quotient does not fit a double.
fn log_ratio(&(a, b): &(f64, f64)) -> f64 {
    let quotient = a / b;
    if quotient.is_normal() {
        quotient.ln()
    } else {
        a.ln() - b.ln()
    }
}

struct OneSample {
    mean: f64,
    interval: Option<[f64; 2]>,
    p_value: Option<f64>,
}

/// The test that a mean is zero. `scale` is the size of the values whose rounding errors the
/// values carry.
fn one_sample(values: &[f64], scale: f64, confidence: f64) -> Option<OneSample> {
    let (mean, sd) = mean_and_sd(values)?;
    let n = values.len();
    let Some(sd) = sd else {
        return Some(OneSample {
            mean,
            interval: None,
            p_value: None,
        });
    };
    let rounding = 8.0 * f64::EPSILON * scale;
    if sd <= rounding {
        let same_sign_by_chance = 0.5_f64.powf((n - 1) as f64);
        return Some(OneSample {
            mean,
            interval: (same_sign_by_chance <= 1.0 - confidence).then_some([mean, mean]),
            p_value: Some(if mean.abs() <= rounding {
                1.0
            } else {
                same_sign_by_chance
            }),
        });
    }
    let t = mean / (sd / (n as f64).sqrt());
    Some(OneSample {
        mean,
        interval: student_interval(n, mean, sd, confidence),
        p_value: Some(t_two_sided(t, (n - 1) as f64)),
    })
}
