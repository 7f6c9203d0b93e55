//! Published figures beside the measured ones.

use super::summary::{PublishedBeside, Summary};
use crate::RunData;

/// Returns a comparison for each published figure of the study, in its order.
pub fn all(data: &RunData, summary: &Summary) -> Vec<PublishedBeside> {
    data.header
        .study
        .published
        .iter()
        .map(|published| {
            let measured: Option<(f64, Option<[f64; 2]>)> = summary
                .cells
                .iter()
                .filter(|cell| {
                    cell.transport == published.transport
                        && cell.condition == published.condition
                        && published.is_of_workload(&cell.workload)
                })
                .find_map(|cell| cell.shown(&published.metric));
            PublishedBeside {
                transport: published.transport.clone(),
                condition: published.condition.clone(),
                workload: published.workload.clone(),
                metric: published.metric.clone(),
                unit: regatta_model::metric::find(&published.metric)
                    .map_or_else(String::new, |metric| metric.unit.name().to_owned()),
                published: published.value,
                measured: measured.map(|m| m.0),
                measured_ci95: measured.and_then(|m| m.1),
                ratio: measured
                    .filter(|_| published.value != 0.0)
                    .map(|m| m.0 / published.value),
                note: published.note.clone(),
                path_permits: published.path_permits,
            }
        })
        .collect()
}
