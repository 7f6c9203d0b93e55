//! Transports that respond differently to losses in two runs under one name of a congestion control.

use itertools::Itertools as _;

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
    let conditions = &from.0.header.study.conditions;
    let cells = pair.cells.iter().map(|cell| &cell.name);
    let transports = cells.unique_by(|it| (&it.transport, &it.condition));
    let all = transports.filter_map(|cell| {
        let condition = conditions.iter().find(|it| it.name == cell.condition)?;
        let stacks = runs.iter().filter_map(|(name, index)| {
            let label = format!("{} in {name}", cell.transport);
            Stack::find(index.stacks(&cell.condition), &cell.transport, label)
        });
        Some(analysis::apart(condition, stacks))
    });
    all.flatten().max_by(|a, b| a.ratio().total_cmp(&b.ratio()))
}
