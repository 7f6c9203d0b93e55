//! Estimators, intervals and comparisons for the values of trials. Pure: numbers in, numbers out.
//!
//! Every function refuses what has no sound answer by returning `None`: no values, a value that
//! is not finite, a confidence that is not between 0 and 1. Nothing here panics on any input, and
//! nothing is replaced by a default that a reader could take for a measurement.
//!
//! Intervals are two-sided. Those of means are Student's, so they suppose that the means (not the
//! values) are close to normal.

pub mod binomial;
pub mod clocks;
pub mod correction;
mod crossing;
mod describe;
mod distribution;
mod estimate;
mod letters;
mod sequential;
mod serial;
mod settling;

pub use binomial::{binomial_interval, more_failures_p_value, plausible_counts};
pub use correction::{Decision, false_discoveries, simultaneous};
pub use crossing::{Crossing, MAX_RESAMPLED_ROUNDS, crossings};
pub use describe::{Description, describe, mean_interval, quantile};
pub use estimate::{Estimate, blocks_differ, rounds_to_detect};
pub use letters::compact_letters;
pub use sequential::sequential_rounds_to_detect;
pub use serial::{autocorrelation, lag1, sen_slope, shared_autocorrelation, trend_p_value};
pub use settling::{SETTLING_BAND, Settling, settling_time};

/// Whether a confidence level can be used: strictly between 0 and 1.
fn usable(confidence: f64) -> bool {
    confidence > 0.0 && confidence < 1.0
}
