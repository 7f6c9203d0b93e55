//! Correction for making many claims at once.

/// A test among those that are corrected together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Two-sided p-value of the test. A value that is not a probability counts as 1: a test that
    /// was made and showed nothing.
    pub p_value: f64,
    /// Weight of the test, its share of the error, in any unit, above zero.
    pub weight: f64,
}

/// Decision of the correction on one test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// p-value adjusted for the other tests, at least the test's own.
    pub adjusted: f64,
    /// Whether the claim is made.
    pub significant: bool,
    /// Confidence of the interval that belongs to the decision: the level of the step at which it
    /// was made. The interval leaves out "no difference" exactly where the claim is made.
    pub confidence: f64,
}

/// Decides tests by Holm's step-down procedure with weights, in the order given.
///
/// The probability of one false claim or more is at most `alpha`, however the tests depend on one
/// another. With equal weights it is the usual procedure, R's `p.adjust(p, "holm")`.
///
/// Source: Holm 1979, Scand. J. Statist. 6, 65–70 (section 4 has the weights).
#[must_use]
pub fn holm(tests: &[Test], alpha: f64) -> Vec<Decision> {
    let p = |i: usize| match tests[i].p_value {
        p if (0.0..=1.0).contains(&p) => p,
        _ => 1.0,
    };
    let mut order: Vec<usize> = (0..tests.len()).collect();
    order.sort_by(|&i, &j| (p(i) / tests[i].weight).total_cmp(&(p(j) / tests[j].weight)));
    // From the last to the first, so that each sum is exact for what is left.
    let mut remaining_weight = vec![0.0; tests.len()];
    let mut sum = 0.0;
    for &i in order.iter().rev() {
        sum += tests[i].weight;
        remaining_weight[i] = sum;
    }
    let mut decisions = vec![
        Decision {
            adjusted: 1.0,
            significant: false,
            confidence: 1.0 - alpha,
        };
        tests.len()
    ];
    let mut largest: f64 = 0.0;
    // Remaining weight when the first claim fails, by which all that follow are judged.
    let mut weight_at_failure = None;
    for &i in &order {
        let adjusted = p(i) * remaining_weight[i] / tests[i].weight;
        largest = largest.max(adjusted).min(1.0);
        let significant = weight_at_failure.is_none() && adjusted <= alpha;
        if !significant {
            weight_at_failure.get_or_insert(remaining_weight[i]);
        }
        decisions[i] = Decision {
            adjusted: largest,
            significant,
            confidence: 1.0
                - alpha * tests[i].weight / weight_at_failure.unwrap_or(remaining_weight[i]),
        };
    }
    decisions
}
