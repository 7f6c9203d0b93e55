//! Published figures beside the measured ones.

use regatta_model::{Published, Study};

use super::{
    path_limits,
    summary::{PublishedBeside, Summary},
};
use crate::RunData;

/// Returns a comparison for each published figure of the study, in its order.
pub fn all(data: &RunData, summary: &Summary) -> Vec<PublishedBeside> {
    let study = &data.header.study;
    let mut all: Vec<PublishedBeside> = (study.published.iter())
        .map(|published| {
            let mut cells = summary.cells.iter().filter(|cell| {
                cell.transport == published.transport
                    && cell.condition == published.condition
                    && published.is_of_workload(&cell.workload)
            });
            let measured = cells.find_map(|cell| cell.shown(&published.metric));
            let limits = path_limits::of(study, published, under_first(study, published));
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
                published_change: None,
                measured_change: None,
                note: published.note.clone(),
                path_permits: (published.path_permits).or_else(|| limits.permits(published.value)),
                path_at_least: limits.at_least,
                path_at_most: limits.at_most,
            }
        })
        .collect();
    if let Some(first) = study.conditions.first() {
        add_changes(&mut all, &first.name);
    }
    all
}

/// Returns the figure of the same transport, workload and metric that is published under the first condition.
fn under_first(study: &Study, figure: &Published) -> Option<f64> {
    let key = |it: &Published| (it.transport.clone(), it.workload.clone(), it.metric.clone());
    let first = study.conditions.first()?;
    let mut of_first = study.published.iter();
    let found = of_first.find(|it| it.condition == first.name && key(it) == key(figure));
    found.map(|it| it.value)
}

/// Adds the changes from the first condition.
fn add_changes(all: &mut [PublishedBeside], first: &str) {
    let of_first: Vec<PublishedBeside> = (all.iter())
        .filter(|it| it.condition == first)
        .cloned()
        .collect();
    for figure in all.iter_mut().filter(|it| it.condition != first) {
        let key =
            |it: &PublishedBeside| (it.transport.clone(), it.workload.clone(), it.metric.clone());
        let Some(before) = of_first.iter().find(|it| key(it) == key(figure)) else {
            continue;
        };
        let ratio = |now: f64, before: f64| (before != 0.0).then(|| now / before);
        figure.published_change = ratio(figure.published, before.published);
        figure.measured_change =
            (figure.measured.zip(before.measured)).and_then(|(now, before)| ratio(now, before));
    }
}
