//! Claims about pairs in `summary.json`: which is better by a metric, by how much, how sure.

use regatta_model::{Better, metric};
use regatta_stats::Estimate;
use serde::{Deserialize, Serialize};

use super::mean::MeanKind;

/// Conclusion of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conclusion {
    /// One side is better than the other by this metric.
    #[serde(rename = "faster")]
    Faster,
    /// One side is worse than the other by this metric.
    #[serde(rename = "slower")]
    Slower,
    /// The interval lies within the study's margin of no difference.
    #[serde(rename = "same")]
    Same,
    /// Neither: the interval includes no difference, and reaches beyond the margin or is not known.
    #[serde(rename = "undecided")]
    Undecided,
}

impl Conclusion {
    /// Returns the name in files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Undecided => "undecided",
        }
    }

    /// Whether one side is better than the other.
    #[must_use]
    pub const fn is_difference(self) -> bool {
        matches!(self, Self::Faster | Self::Slower)
    }

    /// Returns the conclusion seen from the other side.
    #[must_use]
    pub const fn turned(self) -> Self {
        match self {
            Self::Faster => Self::Slower,
            Self::Slower => Self::Faster,
            same => same,
        }
    }
}

/// Value that is not saved. A summary that is read equals the one that was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsaved<T>(pub(crate) Option<T>);

impl<T> Default for Unsaved<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> PartialEq for Unsaved<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Ratio with the run's claim about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Number of rounds that have both sides.
    pub n: u64,
    /// Kind of the means.
    pub mean_kind: MeanKind,
    /// Ratio of the means.
    pub ratio: Option<f64>,
    /// Interval of the ratio at `confidence`: it leaves out 1 exactly where a difference is
    /// claimed.
    pub interval: Option<[f64; 2]>,
    /// Level of the interval, by which the claim was decided: that at which all intervals by the metrics of the rankings
    /// hold together, or, of another claim, that of the claims made.
    pub confidence: f64,
    /// Two-sided p-value of "the ratio is 1" by itself.
    pub p_value: Option<f64>,
    /// p-value adjusted for the other tests of its family.
    pub p_adjusted: Option<f64>,
    /// Smallest ratio above 1 that these rounds detect with a power of 80 %, of a claim that is undecided.
    pub detectable_ratio: Option<f64>,
    /// Estimate of the logarithm of the ratio.
    #[serde(skip)]
    pub(crate) estimate: Unsaved<Estimate>,
    /// Lag-1 autocorrelation of the rounds for which the interval is widened: that of all pairs of the run by this metric.
    pub autocorrelation: f64,
    /// Conclusion.
    pub conclusion: Conclusion,
}

/// Comparison of two transports under one condition and workload, by one metric, paired by round.
/// The ratio is `a / b`, the conclusion seen from `a`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the metric.
    pub metric: String,
    /// Label of one transport.
    pub a: String,
    /// Label of the other.
    pub b: String,
    /// Mean of `a` over the rounds that both have.
    pub mean_a: Option<f64>,
    /// Mean of `b` over the same rounds.
    pub mean_b: Option<f64>,
    /// Ratio and the claim about it.
    #[serde(flatten)]
    pub claim: Claim,
}

/// Difference of one transport under one condition from the first condition of the study, paired by
/// round. The ratio is `to / from`, the conclusion seen from `to`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Label of the transport.
    pub transport: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the metric.
    pub metric: String,
    /// Name of the first condition.
    pub from: String,
    /// Name of the other condition.
    pub to: String,
    /// Mean under `from` over the rounds that have both.
    pub mean_from: f64,
    /// Mean under `to` over the same rounds.
    pub mean_to: f64,
    /// Ratio and the claim about it.
    #[serde(flatten)]
    pub claim: Claim,
}

/// Difference of one transport with one workload from another of the same kind, paired by round. The ratio is
/// `to / from`, the conclusion seen from `to`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadDifference {
    /// Label of the transport.
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the metric: that of the workloads' rankings.
    pub metric: String,
    /// Name of the first workload.
    pub from: String,
    /// Name of the other workload.
    pub to: String,
    /// Mean with `from` over the rounds that have both.
    pub mean_from: f64,
    /// Mean with `to` over the same rounds.
    pub mean_to: f64,
    /// Ratio and the claim about it.
    #[serde(flatten)]
    pub claim: Claim,
}

/// Returns the direction of a metric that is better.
pub(crate) fn better(name: &str) -> Better {
    metric::find(name).map_or(Better::Higher, |metric| metric.better)
}
