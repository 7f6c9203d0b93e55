//! Trials that failed in one run and not in the other.

use std::collections::BTreeMap;

use regatta_stats::{more_failures_p_value, simultaneous};

use super::types::{CellPair, MoreFailures};
use crate::analysis::CONFIDENCE;

/// Returns the cells, and the transports over all their cells, of which more trials failed in the second run: in virtual
/// time all, else those that the exact test detects.
pub fn detected(cells: &[CellPair], is_virtual: bool) -> Vec<MoreFailures> {
    let mut all = counted(cells);
    let p_value = |it: &MoreFailures| {
        let [from, to] = [0, 1].map(|side| [it.failed[side], it.started[side]]);
        more_failures_p_value(from, to)
    };
    let p_values: Vec<f64> = all.iter().map(p_value).collect();
    let mut decisions = simultaneous(&p_values, 1.0 - CONFIDENCE).into_iter();
    all.retain_mut(|it| {
        let decision = decisions.next().filter(|_| !is_virtual);
        it.p_adjusted = decision.as_ref().map(|decision| decision.adjusted);
        let share = |side: usize| it.failed[side] as f64 / it.started[side].max(1) as f64;
        share(1) > share(0) && decision.is_none_or(|decision| decision.significant)
    });
    all
}

/// Returns the counts of every cell, and those of every transport with several.
fn counted(cells: &[CellPair]) -> Vec<MoreFailures> {
    let of_cell = |cell: &CellPair| MoreFailures {
        transport: cell.name.transport.clone(),
        cell: Some(cell.name.clone()),
        started: cell.started,
        failed: cell.failed,
        p_adjusted: None,
    };
    let mut transports: BTreeMap<&str, Vec<&CellPair>> = BTreeMap::new();
    for cell in cells {
        transports
            .entry(&cell.name.transport)
            .or_default()
            .push(cell);
    }
    let several = transports.into_iter().filter(|(_, cells)| cells.len() > 1);
    let of_transports = several.map(|(transport, cells)| {
        let sum = |of: fn(&CellPair) -> [u64; 2]| {
            [0, 1].map(|side: usize| cells.iter().map(|cell| of(cell)[side]).sum())
        };
        MoreFailures {
            transport: transport.to_owned(),
            cell: None,
            started: sum(|cell| cell.started),
            failed: sum(|cell| cell.failed),
            p_adjusted: None,
        }
    });
    cells.iter().map(of_cell).chain(of_transports).collect()
}

impl MoreFailures {
    /// Returns the sentence part about the failures: "`tcp` under `a` with `bulk`: 1 of 6 trials against 0 of 6".
    #[must_use]
    pub fn text(&self) -> String {
        let name = match &self.cell {
            Some(cell) => cell.text(),
            None => format!("`{}` over all its cells", self.transport),
        };
        let ([before, after], [of_before, of_after]) = (self.failed, self.started);
        let p_adjusted = self
            .p_adjusted
            .map(|p_adjusted| format!(" (p = {p_adjusted:.2})"));
        let p_adjusted = p_adjusted.map(|text| text.replace("p = 0.00", "p < 0.01"));
        format!(
            "{name}: {after} of {of_after} trials failed against {before} of {of_before}{}",
            p_adjusted.unwrap_or_default()
        )
    }
}
