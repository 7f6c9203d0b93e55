//! Estimators, intervals and comparisons for the values of trials. Pure: numbers in, numbers out.
//!
//! Every function refuses what has no sound answer by returning `None`: no values, a value that
//! is not finite, a confidence that is not between 0 and 1. Nothing here panics on any input, and
//! nothing is replaced by a default that a reader could take for a measurement.
//!
//! Intervals are two-sided. Those of means are Student's, so they suppose that the means (not the
//! values) are close to normal.

pub mod binomial;
pub mod correction;
mod describe;
mod distribution;
pub mod paired;
mod relative;
mod settling;

pub use binomial::{binomial_interval, plausible_counts};
pub use correction::{bonferroni_confidence, holm};
pub use describe::{Description, describe, mean_interval, quantile};
pub use paired::{PairedComparison, RatioEstimate, compare_paired};
pub use relative::{RelativeDifference, WelchDifference, relative_difference, welch_difference};
pub use settling::{SETTLING_BAND, Settling, settling_time};

/// Whether a confidence level can be used: strictly between 0 and 1.
fn usable(confidence: f64) -> bool {
    confidence > 0.0 && confidence < 1.0
}
