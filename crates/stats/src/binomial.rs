//! Intervals of proportions.

use crate::{
    distribution::{bisect, incomplete_beta},
    usable,
};

/// Exact (Clopper–Pearson) interval of a proportion, as ratios from 0 to 1.
///
/// Holds the true proportion with at least `confidence`, whatever the proportion: it is wider than
/// needed rather than narrower. Without trials nothing is known: `[0, 1]`; the same for a
/// `confidence` that is not between 0 and 1. More successes than trials count as all of them.
///
/// Source: Clopper and Pearson 1934, Biometrika 26, 404–413.
#[must_use]
pub fn binomial_interval(successes: u64, trials: u64, confidence: f64) -> [f64; 2] {
    if trials == 0 || !usable(confidence) {
        return [0.0, 1.0];
    }
    let successes = successes.min(trials);
    let tail = (1.0 - confidence) / 2.0;
    let (k, n) = (successes as f64, trials as f64);
    let low = if successes == 0 {
        0.0
    } else {
        bisect(0.0, 1.0, |p| incomplete_beta(k, n - k + 1.0, p) < tail)
    };
    let high = if successes == trials {
        1.0
    } else {
        // 1 − I_p(k+1, n−k) is written as its mirror image, so that small tails keep their digits.
        bisect(0.0, 1.0, |p| {
            incomplete_beta(n - k, k + 1.0, 1.0 - p) > tail
        })
    };
    [low, high]
}
