//! Claims of the study, checked with the intervals of the run.
//!
//! An order, a ratio and a trend are decided by the ratios of pairs of cells: those of the run's own comparisons where they
//! are among these, and others as one more family whose intervals hold together ([`claims::of_cells`]). A value is decided by
//! the interval of its cell. Nothing is decided without an interval.

mod checker;
mod ratio;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use itertools::Itertools as _;
use regatta_model::study::ClaimedCell;

use super::{
    claim_result::ClaimResult,
    claims::{self, CellPair},
    index::Index,
    summary::{Cell, Comparison},
};
use crate::data::CellKey;
use checker::Checker;
use ratio::{Ratio, pairs};

/// Returns the claims of the study with their outcomes, in its order.
pub fn all(index: &Index<'_>, cells: &[Cell], comparisons: &[Comparison]) -> Vec<ClaimResult> {
    let study = &index.data.header.study;
    if study.claims.is_empty() {
        return Vec::new();
    }
    let cells: HashMap<CellKey<'_>, &Cell> = cells.iter().map(|it| (it.key(), it)).collect();
    let mut ratios: HashMap<CellPair<'_>, Ratio> = (comparisons.iter())
        .map(|it| {
            let [a, b] = [&it.a, &it.b].map(|label| [&**label, &*it.condition, &*it.workload]);
            let pair = CellPair {
                a,
                b,
                metric: &it.metric,
            };
            (pair, Ratio::of(&it.claim))
        })
        .collect();
    let needed = study.claims.iter().flat_map(|claim| {
        let pairs = pairs(&claim.relation).into_iter();
        pairs.map(|[a, b]| CellPair {
            a: key(a),
            b: key(b),
            metric: &claim.metric,
        })
    });
    let is_known =
        |pair: &CellPair<'_>| ratios.contains_key(pair) || ratios.contains_key(&pair.turned());
    let further: Vec<CellPair<'_>> = needed.unique().filter(|pair| !is_known(pair)).collect();
    let found = claims::of_cells(index, &further);
    ratios.extend(further.into_iter().zip(found.iter().map(Ratio::of)));
    let check = |claim| {
        Checker {
            study,
            cells: &cells,
            ratios: &ratios,
            claim,
        }
        .result()
    };
    study.claims.iter().map(check).collect()
}

fn key(cell: &ClaimedCell) -> CellKey<'_> {
    cell.each_ref().map(String::as_str)
}
