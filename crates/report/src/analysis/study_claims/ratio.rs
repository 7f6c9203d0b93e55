//! Ratios of pairs of cells, and the pairs that decide each relation.

use itertools::Itertools as _;
use regatta_model::study::{ClaimedCell, Relation, Trend, TrendLine};

use crate::{
    analysis::{comparison::Conclusion, summary::Claim},
    format::{is_narrow, number, signed},
    language::tr,
};

/// Ratio of a metric in two cells, as the run has it.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    pub value: Option<f64>,
    pub interval: Option<[f64; 2]>,
    /// Conclusion, seen from the first cell.
    pub conclusion: Conclusion,
}

impl Ratio {
    /// Returns the ratio of a claim of the run.
    pub fn of(claim: &Claim) -> Self {
        Self {
            value: claim.ratio,
            interval: claim.interval,
            conclusion: claim.conclusion,
        }
    }

    /// Returns the ratio seen from the second cell.
    pub fn turned(self) -> Self {
        Self {
            value: self.value.map(f64::recip),
            interval: self.interval.map(|[low, high]| [high.recip(), low.recip()]),
            conclusion: self.conclusion.turned(),
        }
    }

    /// Formats the ratio with its interval.
    pub fn text(self) -> String {
        self.with_interval(number, "")
    }

    /// Formats the change from the second cell to the first with its interval.
    pub fn change_text(self) -> String {
        self.with_interval(|ratio| signed(ratio - 1.0), " %")
    }

    /// Formats the value and the ends of its interval, which is left out where it is narrower than the digits.
    fn with_interval(self, text: impl Fn(f64) -> String, unit: &str) -> String {
        let ends = self.interval.filter(|ends| is_narrow(*ends));
        let Some((value, [low, high])) = self.value.zip(ends) else {
            return tr!("too few rounds");
        };
        match [value, low, high].map(text) {
            [value, low, high] if low == high => format!("{value}{unit}"),
            [value, low, high] => format!("{value}{unit} [{low}, {high}]"),
        }
    }
}

/// Returns the pairs of cells whose ratios decide a relation.
pub fn pairs(relation: &Relation) -> Vec<[&ClaimedCell; 2]> {
    match relation {
        Relation::NotSeen { .. } | Relation::Value { .. } => Vec::new(),
        Relation::Order { places } => places.iter().flat_map(|place| ordered(place)).collect(),
        Relation::Crossing { places } | Relation::Ratio { places, .. } => {
            places.iter().map(|pair| pair.each_ref()).collect()
        }
        Relation::Same { places, .. } => {
            let pairs = places
                .iter()
                .flat_map(|cells| cells.iter().tuple_combinations());
            pairs.map(|(a, b)| [a, b]).collect()
        }
        Relation::Trend { is, lines, .. } => {
            lines.iter().flat_map(|line| along(line, *is)).collect()
        }
    }
}

/// Returns the pairs of an order: each cell of a group with each of the next one.
fn ordered(place: &[Vec<ClaimedCell>]) -> impl Iterator<Item = [&ClaimedCell; 2]> {
    let neighbours = place.iter().tuple_windows();
    neighbours.flat_map(|(better, worse)| {
        let pairs = better.iter().cartesian_product(worse);
        pairs.map(|(a, b)| [a, b])
    })
}

/// Returns the pairs of a trend: of a ratio at each value, of steady values all, otherwise the last cell with the first, and
/// each with the one before.
pub fn along(line: &TrendLine, is: Trend) -> Vec<[&ClaimedCell; 2]> {
    let of = &line.of;
    if !line.to.is_empty() {
        return of.iter().zip(&line.to).map(|(of, to)| [of, to]).collect();
    }
    if is == Trend::Steady {
        let pairs = of.iter().tuple_combinations();
        return pairs.map(|(before, after)| [after, before]).collect();
    }
    let ends = of.last().zip(of.first()).map(|(last, first)| [last, first]);
    let steps = of
        .iter()
        .tuple_windows()
        .map(|(before, after)| [after, before]);
    ends.into_iter().chain(steps).unique().collect()
}
