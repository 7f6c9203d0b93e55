//! Parts of a summary by condition and workload, found without a search through all cells.

use std::collections::BTreeMap;

use super::summary::{Cell, Comparison, StackRow, Summary};
use crate::data::CellGroup;

/// Index of a summary.
pub struct Places<'a> {
    cells: BTreeMap<(&'a str, &'a str), Vec<&'a Cell>>,
    comparisons: BTreeMap<(&'a str, &'a str), Vec<&'a Comparison>>,
    stacks: BTreeMap<&'a str, Vec<&'a StackRow>>,
    /// Metric of the study's own ranking.
    pub rank_by: Option<&'a str>,
}

impl<'a> Places<'a> {
    /// Builds the index.
    pub fn of(summary: &'a Summary) -> Self {
        let mut places = Self {
            cells: BTreeMap::new(),
            comparisons: BTreeMap::new(),
            stacks: BTreeMap::new(),
            rank_by: summary.rank_by.as_deref(),
        };
        for cell in &summary.cells {
            let place = (&*cell.condition, &*cell.workload);
            places.cells.entry(place).or_default().push(cell);
        }
        for comparison in &summary.comparisons {
            let place = (&*comparison.condition, &*comparison.workload);
            places
                .comparisons
                .entry(place)
                .or_default()
                .push(comparison);
        }
        for row in &summary.stacks {
            places.stacks.entry(&row.condition).or_default().push(row);
        }
        places
    }

    /// Returns the cells of a group, in the order of the study.
    pub fn cells<'s>(&'s self, group: CellGroup<'s>) -> &'s [&'a Cell] {
        slice(
            self.cells
                .get(&(&*group.condition.name, &*group.workload.name)),
        )
    }

    /// Returns the comparisons of a group.
    pub fn comparisons<'s>(&'s self, group: CellGroup<'s>) -> &'s [&'a Comparison] {
        slice(
            self.comparisons
                .get(&(&*group.condition.name, &*group.workload.name)),
        )
    }

    /// Returns the facts about the stacks under a condition.
    pub fn stacks(&self, condition: &str) -> &[&'a StackRow] {
        slice(self.stacks.get(condition))
    }
}

fn slice<T>(found: Option<&Vec<T>>) -> &[T] {
    found.map_or(&[], Vec::as_slice)
}
