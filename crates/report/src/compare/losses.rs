//! Transports that respond differently to losses in two runs under one name of a congestion control.

use itertools::Itertools as _;
use regatta_model::WorkloadKind;

use super::types::PairOfRuns;
use crate::{
    RunData, Summary,
    analysis::{self, Apart, Stack, SummaryIndex},
};

/// Returns the largest difference between the responses to losses of a transport in both runs, among the cells of a
/// pair whose paths have losses.
pub fn apart<'a>(
    pair: &PairOfRuns,
    from: (&'a RunData, &'a Summary),
    to: (&'a RunData, &'a Summary),
) -> Option<Apart<'a>> {
    let runs = [(&pair.from, from.1), (&pair.to, to.1)];
    let runs = runs.map(|(name, summary)| (name, SummaryIndex::of(summary)));
    let study = &from.0.header.study;
    // What is short or waits for answers is decided by other things.
    let is_long = |name: &str| {
        let mut workloads = study.workloads.iter();
        workloads.any(|it| it.name == name && matches!(it.kind, WorkloadKind::Bulk { .. }))
    };
    let cells = pair.cells.iter().map(|cell| &cell.name);
    let cells = cells.filter(|cell| is_long(&cell.workload));
    let transports = cells.unique_by(|it| (&it.transport, &it.condition));
    let all = transports.filter_map(|cell| {
        let condition = study
            .conditions
            .iter()
            .find(|it| it.name == cell.condition)?;
        let stacks = runs.iter().filter_map(|(name, index)| {
            let label = format!("{} in {name}", cell.transport);
            Stack::find(index.stacks(&cell.condition), &cell.transport, label)
        });
        Some(analysis::apart(condition, stacks))
    });
    all.flatten().max_by(|a, b| a.ratio().total_cmp(&b.ratio()))
}
