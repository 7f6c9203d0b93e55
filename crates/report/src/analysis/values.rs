//! Values with which trials enter means and comparisons, those included that failed.

use regatta_model::{Better, Outcome, TrialRecord, metric::id};

use super::{
    comparison::better,
    failures::{best_goodput_bps, is_little},
};

/// Returns the worst value of a metric: a rate of zero, or a time without end.
fn worst(metric: &str) -> Option<f64> {
    match better(metric) {
        Better::Higher => Some(0.0),
        Better::Lower => Some(f64::INFINITY),
        Better::Neither => None,
    }
}

/// Returns the value of a metric with which a trial enters means and comparisons: of a measured trial its own, of one
/// that failed or timed out, or was measured without the metric, the worst if the work is ranked by this metric
/// (`is_primary`), or if it is the goodput.
#[must_use]
pub fn value_of(trial: &TrialRecord, metric: &str, is_primary: bool) -> Option<f64> {
    let value = trial.measurements.metrics.get(metric).copied();
    let value = value.filter(|value| value.is_finite() && *value >= 0.0);
    match trial.outcome {
        Outcome::Measured => value.or_else(|| worst(metric).filter(|_| is_primary)),
        Outcome::Failed | Outcome::TimedOut if is_primary || metric == id::GOODPUT_BPS => {
            worst(metric)
        }
        Outcome::Failed | Outcome::TimedOut | Outcome::Unsupported | Outcome::Invalid => None,
    }
}

/// Returns the values of a metric with which the trials of a cell enter means and comparisons, by round ([`value_of`]); that
/// of a trial that delivered little ([`is_little`]) is the worst as well.
pub fn values_of(trials: &[&TrialRecord], metric: &str, is_primary: bool) -> Vec<(u32, f64)> {
    let best_bps = best_goodput_bps(trials);
    let counts_failures = is_primary || metric == id::GOODPUT_BPS;
    let value = |trial: &&TrialRecord| {
        let value = match counts_failures && is_little(trial, best_bps) {
            true => worst(metric),
            false => value_of(trial, metric, is_primary),
        };
        Some((trial.round, value?))
    };
    trials.iter().filter_map(value).collect()
}
