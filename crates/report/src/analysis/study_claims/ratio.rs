//! Ratios of pairs of cells, and the pairs that decide each relation.

use itertools::Itertools as _;
use regatta_model::study::{ClaimedCell, Relation, Trend, TrendLine};

use crate::{
    analysis::{comparison::Conclusion, summary::Claim},
    format::{ahead, is_narrow, number, signed, two_digits},
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

    /// Formats how far the first cell is ahead. `None` without a ratio, and where its interval is too wide to be shown.
    pub fn lead_text(self) -> Option<String> {
        let value = self.value?;
        match self.interval {
            None => Some(tr!("{} (no interval)", number(value) + " ×")),
            // Of a wide one that begins at a factor of two, the beginning is shown.
            Some(ends) if !is_narrow(ends) && ends[0] < 2.0 => None,
            ends => Some(ahead(value, ends)),
        }
    }

    /// Formats the ratio of the cells of these names with its interval, `a / b = 0.98 [0.97, 0.99]`, or its [`bound`](Self::bound),
    /// `a / b < 0.075`. `None` as of [`lead_text`](Self::lead_text).
    pub fn text(self, names: &str) -> Option<String> {
        match self.bound() {
            Some((sign, end)) => Some(format!("{names} {sign} {}", two_digits(end))),
            None => Some(format!("{names} = {}", self.with_interval(number, "")?)),
        }
    }

    /// Formats the change from the second cell to the first with its interval, or its bound. `None` as of
    /// [`lead_text`](Self::lead_text).
    pub fn change_text(self) -> Option<String> {
        let change = |ratio: f64| signed(ratio - 1.0);
        match self.bound() {
            // Of a change beyond the digits the text has the sign itself.
            Some((sign, end)) => Some(match change(end) {
                text if text.starts_with(sign) => format!("{text} %"),
                text => format!("{sign} {text} %"),
            }),
            None => self.with_interval(change, " %"),
        }
    }

    /// Returns the bound to show instead of an interval that is too wide: `('>', low)` for an interval above 1, `('<',
    /// high)` for one below 1, rounded to two digits away from the ratio. `None` for a narrow interval, and for one
    /// that includes 1.
    fn bound(self) -> Option<(char, f64)> {
        let (sign, end) = match self.interval? {
            ends if is_narrow(ends) => return None,
            [_, high] if high < 1.0 => ('<', high),
            [low, _] if low > 1.0 => ('>', low),
            _ => return None,
        };
        // Two digits, rounded away from the ratio.
        let unit = 10_f64.powf(1.0 - end.log10().floor());
        let digits = match sign {
            '<' => (end * unit).ceil(),
            _ => (end * unit).floor(),
        };
        Some((sign, digits / unit))
    }

    /// Formats the value and the ends of its interval, which is left out where it is narrower than the digits. A value without
    /// an interval, as of one round, says so; there is no text of one with an interval that is too wide to be shown.
    fn with_interval(self, text: impl Fn(f64) -> String, unit: &str) -> Option<String> {
        let value = self.value?;
        let Some(ends) = self.interval else {
            return Some(tr!("{} (no interval)", text(value) + unit));
        };
        is_narrow(ends).then(|| match [value, ends[0], ends[1]].map(text) {
            [value, low, high] if low == high => format!("{value}{unit}"),
            [value, low, high] => format!("{value}{unit} [{low}, {high}]"),
        })
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
