//! Intervals of proportions, and counts that a proportion can explain.

use statrs::stats_tests::{Alternative, fishers_exact};

use crate::{
    distribution::{bisect, incomplete_beta},
    usable,
};

/// Returns the exact (Clopper–Pearson) interval of a proportion, as ratios from 0 to 1.
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

/// Returns the one-sided p-value of the hypothesis that no larger share fails in `to` than in `from`, by Fisher's exact
/// test. Both are `[failures, trials]`; more failures than trials count as all of them.
///
/// Source: Fisher 1935, J. R. Statist. Soc. 98, 39–82.
#[must_use]
pub fn more_failures_p_value(from: [u64; 2], to: [u64; 2]) -> f64 {
    let [from, to] =
        [from, to].map(|[failed, trials]| [failed.min(trials), trials - failed.min(trials)]);
    // As few failures as these, or fewer, in `from`: a sum over the failures, of which there are few.
    let table = [from[0], from[1], to[0], to[1]];
    fishers_exact(&table, Alternative::Less).map_or(1.0, |p_value| p_value.min(1.0))
}

/// Returns the lowest and the highest plausible number of successes of `n` trials at a probability of `p`: numbers
/// outside of this range occur with a probability of at most `false_alarms`, half of it on each side.
///
/// Exact sums, no normal approximation.
#[must_use]
pub fn plausible_counts(n: u64, p: f64, false_alarms: f64) -> (u64, u64) {
    if p <= 0.0 {
        return (0, 0);
    }
    if p >= 1.0 {
        return (n, n);
    }
    let lowest = tail(n, p, false_alarms / 2.0);
    let highest = n - tail(n, 1.0 - p, false_alarms / 2.0);
    (lowest.min(highest), highest.max(lowest))
}

/// Returns the largest k with P(X < k) ≤ `limit`, for X binomial.
fn tail(n: u64, p: f64, limit: f64) -> u64 {
    // In logarithms, since (1 − p)^n underflows.
    let mut log_mass = n as f64 * (-p).ln_1p();
    let odds = p.ln() - (-p).ln_1p();
    let mut below = 0.0;
    for k in 0..=n {
        below += log_mass.exp();
        if below > limit {
            return k;
        }
        log_mass += ((n - k) as f64).ln() - ((k + 1) as f64).ln() + odds;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Binomial(20, 0.5): P(X ≤ 5) = 0.020695, P(X ≤ 6) = 0.057659 (tables of the distribution).
    #[test]
    fn agrees_with_tabulated_values() {
        assert_eq!(plausible_counts(20, 0.5, 0.05), (6, 14));
        assert_eq!(plausible_counts(20, 0.5, 0.12), (7, 13));
        // Half of the false alarms on each side: 0.0205 are less than 0.020695.
        assert_eq!(plausible_counts(20, 0.5, 0.041), (5, 15));
        // 0 and 2 of two together have a probability of 0.5.
        assert_eq!(plausible_counts(2, 0.5, 0.5), (1, 1));
    }

    /// The tasting of eight cups of tea (Fisher 1935, The Design of Experiments): 17 of 70 and 1 of 70.
    #[test]
    fn more_failures_are_tested_exactly() {
        let is = |from, to, p_value: f64| {
            let found = more_failures_p_value(from, to);
            assert!((found - p_value).abs() < 1e-12, "{from:?} {to:?}: {found}");
        };
        is([1, 4], [3, 4], 17.0 / 70.0);
        is([0, 4], [4, 4], 1.0 / 70.0);
        is([4, 4], [0, 4], 1.0);
        is([0, 6], [0, 6], 1.0);
        is([0, 0], [3, 3], 1.0);
        is([9, 4], [9, 4], 1.0);
    }

    #[test]
    fn certain_events_have_one_plausible_count() {
        assert_eq!(plausible_counts(100, 0.0, 1e-4), (0, 0));
        assert_eq!(plausible_counts(100, 1.0, 1e-4), (100, 100));
        assert_eq!(plausible_counts(0, 0.3, 1e-4), (0, 0));
    }

    #[test]
    fn range_is_symmetric_and_contains_the_mean() {
        for (n, p) in [(1, 0.5), (10, 0.01), (2500, 0.05), (40_000, 0.3)] {
            let (low, high) = plausible_counts(n, p, 1e-4);
            let mean = n as f64 * p;
            assert!(low as f64 <= mean && mean <= high as f64 + 1.0, "{n} {p}");
            assert_eq!(plausible_counts(n, 1.0 - p, 1e-4), (n - high, n - low));
        }
    }
}
