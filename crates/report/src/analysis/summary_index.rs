//! Parts of a summary by condition and workload, found without a search through all cells.

use std::collections::HashMap;

use itertools::Itertools as _;

use super::summary::{Cell, Comparison, StackRow, Summary};
use crate::data::CellGroup;

/// Name of a condition and of a workload.
type GroupKey<'a> = (&'a str, &'a str);

/// Index of a summary.
pub struct SummaryIndex<'a> {
    cells: HashMap<GroupKey<'a>, Vec<&'a Cell>>,
    comparisons: HashMap<GroupKey<'a>, Vec<&'a Comparison>>,
    stacks: HashMap<&'a str, Vec<&'a StackRow>>,
    /// Metric of the study's own ranking.
    pub rank_by: Option<&'a str>,
    /// Largest difference that counts as none, as a ratio less 1.
    pub equivalence: f64,
}

impl<'a> SummaryIndex<'a> {
    /// Builds the index.
    pub fn of(summary: &'a Summary) -> Self {
        let rank_by = summary.rank_by.as_deref();
        let equivalence = summary.statistics.equivalence;
        Self {
            stacks: (summary.stacks.iter()).into_group_map_by(|row| &*row.condition),
            ..Self::of_cells(&summary.cells, &summary.comparisons, (rank_by, equivalence))
        }
    }

    /// Builds an index without stacks; `rank_by` and `equivalence` are those of the study.
    pub fn of_cells(
        cells: &'a [Cell],
        comparisons: &'a [Comparison],
        (rank_by, equivalence): (Option<&'a str>, f64),
    ) -> Self {
        let comparisons = comparisons.iter();
        Self {
            cells: (cells.iter()).into_group_map_by(|it| (&*it.condition, &*it.workload)),
            comparisons: comparisons.into_group_map_by(|it| (&*it.condition, &*it.workload)),
            stacks: HashMap::new(),
            rank_by,
            equivalence,
        }
    }

    /// Returns the cells of a group, in the order of the study.
    pub fn cells<'s>(&'s self, group: CellGroup<'s>) -> &'s [&'a Cell] {
        slice(self.cells.get(&key(group)))
    }

    /// Returns the comparisons of a group.
    pub fn comparisons<'s>(&'s self, group: CellGroup<'s>) -> &'s [&'a Comparison] {
        slice(self.comparisons.get(&key(group)))
    }

    /// Returns the facts about the stacks under a condition.
    pub fn stacks(&self, condition: &str) -> &[&'a StackRow] {
        slice(self.stacks.get(condition))
    }
}

fn key(group: CellGroup<'_>) -> GroupKey<'_> {
    (&group.condition.name, &group.workload.name)
}

fn slice<T>(found: Option<&Vec<T>>) -> &[T] {
    found.map_or(&[], Vec::as_slice)
}
