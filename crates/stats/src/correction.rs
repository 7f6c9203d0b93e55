//! Corrections for making many claims at once.

/// Decision of a correction on one test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// p-value adjusted for the other tests, at least the test's own.
    pub adjusted: f64,
    /// Whether the claim is made.
    pub significant: bool,
    /// Confidence of the interval that belongs to the decision.
    pub confidence: f64,
}

/// Decides tests by Holm's step-down procedure, with simultaneous intervals: the probability that any claim is false, or
/// any interval misses the truth, is at most `alpha`, however the tests depend on one another.
///
/// `p_values` are two-sided; one that is not a probability counts as 1, a test that showed nothing. Decisions are in the
/// order of `p_values`.
///
/// Intervals of claims have the confidence 1 − `alpha` / n with n the number of all tests; one that includes "no
/// difference", because its claim was made at a later step, has to be cut there by the caller. Intervals of the other
/// tests have n = the number of tests without a claim.
///
/// Sources: Holm 1979, Scand. J. Statist. 6, 65–70; Guilbaud 2008, Biom. J. 50, 678–692 (intervals).
#[must_use]
pub fn simultaneous(p_values: &[f64], alpha: f64) -> Vec<Decision> {
    let count = p_values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| probability(p_values[*a]).total_cmp(&probability(p_values[*b])));
    let mut adjusted = vec![1.0; count];
    let mut largest: f64 = 0.0;
    for (position, index) in order.into_iter().enumerate() {
        largest = largest.max(probability(p_values[index]) * (count - position) as f64);
        adjusted[index] = largest.min(1.0);
    }
    let left = adjusted.iter().filter(|p| **p > alpha).count();
    let decision = |adjusted: f64| {
        let significant = adjusted <= alpha;
        let tests = if significant { count } else { left };
        Decision {
            adjusted,
            significant,
            confidence: 1.0 - alpha / tests as f64,
        }
    };
    adjusted.into_iter().map(decision).collect()
}

/// Decides tests with control of the false discovery rate: on average at most a share `alpha` of the claims is false, and
/// at most this share of the claims' intervals misses the truth, however the tests depend on one another. Arguments and
/// order are those of [`simultaneous`].
///
/// Sources: Benjamini and Yekutieli 2001, Ann. Statist. 29, 1165–1188, theorem 1.3; their intervals: 2005, J. Am. Stat.
/// Assoc. 100, 71–81, corollary 1.
#[must_use]
pub fn false_discoveries(p_values: &[f64], alpha: f64) -> Vec<Decision> {
    let count = p_values.len();
    let harmonic: f64 = (1..=count).map(|rank| 1.0 / rank as f64).sum();
    let total = count as f64 * harmonic;
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| probability(p_values[*a]).total_cmp(&probability(p_values[*b])));
    let mut adjusted = vec![1.0; count];
    let mut smallest: f64 = 1.0;
    for (position, index) in order.iter().enumerate().rev() {
        smallest = smallest.min(probability(p_values[*index]) * total / (position + 1) as f64);
        adjusted[*index] = smallest;
    }
    let claims = adjusted.iter().filter(|p| **p <= alpha).count();
    let confidence = 1.0 - claims.max(1) as f64 * alpha / total;
    let decision = |adjusted: f64| Decision {
        adjusted,
        significant: adjusted <= alpha,
        confidence,
    };
    adjusted.into_iter().map(decision).collect()
}

fn probability(p_value: f64) -> f64 {
    match (0.0..=1.0).contains(&p_value) {
        true => p_value,
        false => 1.0,
    }
}
