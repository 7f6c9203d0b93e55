//! Claims: statements, such as those of a publication, that are checked against the results of a run.

mod choice;
mod read;

use serde::{Deserialize, Serialize};

use crate::{named::named, units::Ratio};
pub(super) use read::read_claims;

/// One `[[claim]]` of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudyClaim {
    /// The statement, a sentence without its full stop.
    pub text: String,
    /// Place in the publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Explanation of the outcome, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Name of the metric of the relation; empty for a statement that is not checked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub metric: String,
    /// Whether the relation has to hold at more than half of its places only, instead of at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_most: bool,
    /// Relation that the results are checked for.
    #[serde(flatten)]
    pub relation: Relation,
}

impl StudyClaim {
    /// Returns the cells of the relation, in no order.
    pub fn cells_mut(&mut self) -> Vec<&mut ClaimedCell> {
        match &mut self.relation {
            Relation::NotSeen { .. } => Vec::new(),
            Relation::Order { places } => places.iter_mut().flatten().flatten().collect(),
            Relation::Crossing { places } | Relation::Ratio { places, .. } => {
                places.iter_mut().flatten().collect()
            }
            Relation::Same { places, .. } => places.iter_mut().flatten().collect(),
            Relation::Value { cells, .. } => cells.iter_mut().collect(),
            Relation::Trend { lines, .. } => (lines.iter_mut())
                .flat_map(|line| line.of.iter_mut().chain(&mut line.to))
                .collect(),
        }
    }
}

/// Names of the transport, the condition and the workload of a cell.
pub type ClaimedCell = [String; 3];

/// Relation of a claim. A claim with several places comes out if its relation holds in each, or in
/// most of them ([`StudyClaim::in_most`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "relation", rename_all = "snake_case")]
pub enum Relation {
    /// None: the statement cannot be checked by a run.
    NotSeen {
        /// Reason for which it cannot.
        why: String,
    },
    /// Order of cells by the metric, in groups, the best first.
    Order {
        /// Groups of cells of each place.
        places: Vec<Vec<Vec<ClaimedCell>>>,
    },
    /// One transport overtakes another along a parameter: before, they have one order, and the other one after.
    Crossing {
        /// The better and the worse cell at each value of the parameter.
        places: Vec<[ClaimedCell; 2]>,
    },
    /// Cells that differ by no more than a margin.
    Same {
        /// Cells of each place.
        places: Vec<Vec<ClaimedCell>>,
        /// Largest difference, as a ratio less 1.
        within: Ratio,
    },
    /// Ratio of the metric in two cells, within bounds.
    Ratio {
        /// Numerator and denominator of each place.
        places: Vec<[ClaimedCell; 2]>,
        /// Bounds of the ratio.
        bounds: Bounds,
    },
    /// Value of the metric within bounds.
    Value {
        /// The cells.
        cells: Vec<ClaimedCell>,
        /// Bounds in the unit of the metric.
        bounds: Bounds,
        /// Whether every trial has to be within the bounds, instead of the mean.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        every_trial: bool,
    },
    /// Trend of the metric along a parameter.
    Trend {
        /// Direction.
        is: Trend,
        /// Largest difference between values that are steady, as a ratio less 1.
        within: Ratio,
        /// Lines along the parameter.
        lines: Vec<TrendLine>,
    },
}

/// Inclusive bounds of a value; one of them may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Smallest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Largest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

impl Bounds {
    /// Returns both ends, of an absent one an infinity.
    #[must_use]
    pub fn ends(&self) -> [f64; 2] {
        [
            self.at_least.unwrap_or(f64::NEG_INFINITY),
            self.at_most.unwrap_or(f64::INFINITY),
        ]
    }
}

/// Direction of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// The last value is larger than the first, and none is smaller than the one before.
    Rises,
    /// The last value is smaller than the first, and none is larger than the one before.
    Falls,
    /// No two values differ.
    Steady,
}

named!(Trend: "rises" => Rises, "falls" => Falls, "steady" => Steady);

/// Cells along a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrendLine {
    /// Cells in the order of the parameter's values.
    pub of: Vec<ClaimedCell>,
    /// Denominators: cells whose metric divides that of `of`, value by value; empty for a trend of the metric itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<ClaimedCell>,
}
