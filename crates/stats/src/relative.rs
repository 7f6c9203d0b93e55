//! Two conditions: how much a mean changes from the one to the other.

use serde::Serialize;

use crate::{
    describe::Description,
    distribution::{t_critical, t_two_sided},
    usable,
};

/// A difference of two means of independent samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WelchDifference {
    /// Mean of `to` minus mean of `from`.
    pub difference: f64,
    /// Degrees of freedom (Welch–Satterthwaite); absent if neither sample has any spread.
    pub degrees_of_freedom: Option<f64>,
    /// Interval at the confidence asked for; absent as the degrees of freedom.
    pub interval: Option<[f64; 2]>,
    /// Two-sided p-value of "the means are equal"; absent as the degrees of freedom.
    pub p_value: Option<f64>,
}

/// A relative difference of two means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RelativeDifference {
    /// (mean of `to` − mean of `from`) / mean of `from`, as a ratio: −0.098 is −9.8 %.
    pub relative: f64,
    /// Its interval at the confidence asked for; absent if a sample has one value, if neither has
    /// any spread, or if the mean of `from` is so uncertain that zero is among its likely values
    /// (then no bounded interval exists).
    pub interval: Option<[f64; 2]>,
}

/// Difference of means, `to` − `from`, without supposing equal variances.
///
/// `None` for a sample of one value or a `confidence` that is not between 0 and 1.
///
/// Source: Welch 1947, Biometrika 34, 28–35; as R's `t.test(to, from)`.
#[must_use]
pub fn welch_difference(
    from: &Description,
    to: &Description,
    confidence: f64,
) -> Option<WelchDifference> {
    if !usable(confidence) {
        return None;
    }
    let difference = to.mean - from.mean;
    let (square_from, square_to) = (squared_error(from)?, squared_error(to)?);
    let square = square_from + square_to;
    let degrees_of_freedom = welch_satterthwaite(square_from, from.n, square_to, to.n);
    let error = square.sqrt();
    Some(WelchDifference {
        difference,
        degrees_of_freedom,
        interval: degrees_of_freedom.map(|df| {
            let half = t_critical(confidence, df) * error;
            [difference - half, difference + half]
        }),
        p_value: degrees_of_freedom.map(|df| t_two_sided(difference / error, df)),
    })
}

/// Relative difference of means from one condition to another, as `from` → `to`.
///
/// The two samples are treated as independent (Welch), not paired by round: the two conditions of
/// a round are different paths, and an interval that supposes nothing common to them is at most
/// too wide. The interval is Fieller's for a ratio of means with unequal variances and
/// Welch–Satterthwaite degrees of freedom taken at the estimated ratio.
///
/// `None` if the mean of `from` is zero or negative (a percentage of it means nothing) or the
/// `confidence` is not between 0 and 1.
///
/// Sources: Fieller 1954, J. R. Statist. Soc. B 16, 175–185; Tamhane and Logan 2004, Stat. Med.
/// 23, 3213 (unequal variances); as `ttestratio` of R's package `mratios`.
#[must_use]
pub fn relative_difference(
    from: &Description,
    to: &Description,
    confidence: f64,
) -> Option<RelativeDifference> {
    if !usable(confidence) || from.mean <= 0.0 {
        return None;
    }
    let ratio = to.mean / from.mean;
    if !ratio.is_finite() {
        return None;
    }
    Some(RelativeDifference {
        relative: ratio - 1.0,
        interval: fieller(from, to, ratio, confidence).map(|ends| ends.map(|end| end - 1.0)),
    })
}

/// The ratios r at which Welch's t of mean(to) − r · mean(from) does not reach its critical value.
fn fieller(from: &Description, to: &Description, ratio: f64, confidence: f64) -> Option<[f64; 2]> {
    let (square_from, square_to) = (squared_error(from)?, squared_error(to)?);
    let df = welch_satterthwaite(ratio * ratio * square_from, from.n, square_to, to.n)?;
    let t = t_critical(confidence, df);
    // Everything relative to the mean of `from`, so that no unit overflows a square.
    let from_part = t * t * (square_from / from.mean) / from.mean;
    let to_part = t * t * (square_to / from.mean) / from.mean;
    // r² (1 − from_part) − 2 r ratio + ratio² − to_part ≤ 0
    let leading = 1.0 - from_part;
    let root = (ratio * ratio * from_part + to_part * leading).sqrt();
    let interval = [(ratio - root) / leading, (ratio + root) / leading];
    (leading > 0.0 && interval.iter().all(|end| end.is_finite())).then_some(interval)
}

/// Squared standard error of a mean.
fn squared_error(sample: &Description) -> Option<f64> {
    sample.sd.map(|sd| sd * sd / sample.n as f64)
}

/// Degrees of freedom of a sum of two squared errors; `None` if both are zero or they overflow.
///
/// Source: Satterthwaite 1946, Biometrics Bulletin 2, 110–114.
fn welch_satterthwaite(square_a: f64, n_a: usize, square_b: f64, n_b: usize) -> Option<f64> {
    let sum = square_a + square_b;
    if !(sum > 0.0 && sum.is_finite()) {
        return None;
    }
    // Shares rather than the squares themselves: these neither overflow nor vanish.
    let (share_a, share_b) = (square_a / sum, square_b / sum);
    Some(1.0 / (share_a * share_a / (n_a as f64 - 1.0) + share_b * share_b / (n_b as f64 - 1.0)))
}
