//! Corrections for looking at many comparisons at once.

/// Level at which each of `comparisons` intervals must be made so that all of them hold together
/// with `level`: 1 − (1 − level) / comparisons.
///
/// For none or one comparison it is `level` itself.
///
/// Source: Bonferroni's inequality; Dunn 1961, J. Am. Stat. Assoc. 56, 52–64.
#[must_use]
pub fn bonferroni_confidence(level: f64, comparisons: usize) -> f64 {
    1.0 - (1.0 - level) / comparisons.max(1) as f64
}

/// p-values adjusted by Holm's step-down procedure, in the order given.
///
/// An adjusted value below α is significant while all comparisons together raise a false alarm
/// with probability at most α, however they depend on one another. A value that is not a
/// probability (not a number, or outside 0 to 1) is treated as 1: it counts as a comparison that
/// was made and showed nothing.
///
/// Source: Holm 1979, Scand. J. Statist. 6, 65–70; as R's `p.adjust(p, "holm")`.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let p: Vec<f64> = p_values
        .iter()
        .map(|&p| if (0.0..=1.0).contains(&p) { p } else { 1.0 })
        .collect();
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, &i) in order.iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[i]).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}
