//! Transports of which one has the lowest median of a delay, and another the lowest 99th percentile.

use regatta_model::metric::{self, DelayMetrics};

use super::summary::Cell;
use crate::{format::CommonUnit, language::tr};

/// Transports, by which percentile each is best, with their figures.
#[derive(Debug, PartialEq)]
pub struct Disagreement<'a> {
    /// Transport with the lowest median: its own, and that of the other.
    by_median: (&'a str, [f64; 2]),
    /// Transport with the lowest 99th percentile: its own, and that of the other.
    by_p99: (&'a str, [f64; 2]),
}

/// Returns the disagreement of the percentiles of a delay that work is ranked by, `None` for any other metric; both
/// differences are beyond the 95 % intervals of the cells.
pub fn disagreement<'a>(ranked_by: &str, cells: &[&'a Cell]) -> Option<Disagreement<'a>> {
    let mut families = DelayMetrics::ALL.iter();
    let family = families.find(|it| [it.p50, it.p95, it.p99].contains(&ranked_by))?;
    let best = |metric: &str| {
        let shown = cells
            .iter()
            .filter_map(|cell| Some((*cell, cell.shown(metric)?.0)));
        let best = shown.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        Some(best.0)
    };
    let (by_median, by_p99) = (best(family.p50)?, best(family.p99)?);
    let certain = |metric: &str, low: &Cell, high: &Cell| {
        let [(low, of_low), (high, of_high)] = [low.shown(metric)?, high.shown(metric)?];
        (of_low?[1] < of_high?[0]).then_some([low, high])
    };
    let medians = certain(family.p50, by_median, by_p99)?;
    let tails = certain(family.p99, by_p99, by_median)?;
    Some(Disagreement {
        by_median: (&by_median.transport, medians),
        by_p99: (&by_p99.transport, tails),
    })
}

impl Disagreement<'_> {
    /// Returns the note on a group of transports.
    pub fn text(&self, ranked_by: &str) -> String {
        let unit = metric::find(ranked_by).map_or(metric::Unit::Nanoseconds, |it| it.unit);
        let all = [self.by_median.1, self.by_p99.1].concat();
        let common_unit = CommonUnit::of(unit, all);
        let shown = |values: [f64; 2]| values.map(|value| common_unit.quantity(value));
        let (median, tail) = (shown(self.by_median.1), shown(self.by_p99.1));
        tr!(
            "The median and the 99th percentile disagree: `{}` has the lower median ({} against {}), `{}` the lower 99th percentile ({} against {})",
            self.by_median.0,
            median[0],
            median[1],
            self.by_p99.0,
            tail[0],
            tail[1]
        )
    }
}
