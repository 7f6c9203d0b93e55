//! Tables of the page.

mod background;
mod results;

use regatta_model::{MetricDefinition, Outcome, metric};
use serde::Serialize;

use crate::{
    RunData, Summary,
    analysis::{Cell, MetricSummary},
    format::Scale,
};
pub use background::{conditions, facts, hosts, outcomes, path, path_left_out, stacks, transports};
pub use results::{
    comparisons, descriptions, differences, every_metric, loss, means, published, published_notes,
};

/// Table under a caption.
#[derive(Debug, Serialize)]
pub struct Table {
    caption: String,
    head: Vec<String>,
    rows: Vec<Row>,
    /// Whether the table is folded when the page opens.
    folded: bool,
}

/// Row of a table: its heading and its cells.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Position of the transport in the study, for its mark; `-1` for rows of other things.
    series: i64,
    heading: String,
    cells: Vec<Entry>,
}

/// Cell of a table.
#[derive(Debug, Default, Serialize)]
pub struct Entry {
    text: String,
    /// Second line in smaller type: an interval.
    sub: String,
    /// Whether the cell has words instead of a figure.
    words: bool,
}

fn figure(text: impl Into<String>) -> Entry {
    Entry {
        text: text.into(),
        ..Entry::default()
    }
}

fn words(text: impl Into<String>) -> Entry {
    Entry {
        text: text.into(),
        words: true,
        ..Entry::default()
    }
}

fn none() -> Entry {
    figure("–")
}

fn definitions(names: &[&str]) -> Vec<&'static MetricDefinition> {
    names.iter().filter_map(|name| metric::find(name)).collect()
}

/// Returns the scale of a metric over the whole report, so that tables can be compared.
fn scale(summary: &Summary, definition: &MetricDefinition) -> Scale {
    let largest = summary
        .cells
        .iter()
        .filter_map(|cell| Some(cell.shown(definition.name)?.0))
        .fold(0.0, f64::max);
    Scale::for_largest(definition.unit, largest)
}

fn series(data: &RunData, label: &str) -> i64 {
    data.header
        .study
        .transports
        .iter()
        .position(|transport| transport.label == label)
        .map_or(-1, |position| position as i64)
}

fn places(data: &RunData) -> Vec<(String, &str, &str)> {
    let study = &data.header.study;
    let several = study.workloads.len() > 1;
    let mut places = Vec::new();
    for workload in &study.workloads {
        for condition in &study.conditions {
            let heading = if several {
                format!("`{}` with `{}`", condition.name, workload.name)
            } else {
                format!("`{}`", condition.name)
            };
            places.push((heading, condition.name.as_str(), workload.name.as_str()));
        }
    }
    places
}

fn cells_of<'a>(
    summary: &'a Summary,
    condition: &'a str,
    workload: &'a str,
) -> impl Iterator<Item = &'a Cell> {
    summary
        .cells
        .iter()
        .filter(move |cell| cell.condition == condition && cell.workload == workload)
}

/// Returns the words that a cell without figures shows instead.
fn outcome_words(cell: &Cell) -> String {
    let parts: Vec<String> = Outcome::ALL
        .into_iter()
        .filter(|outcome| *outcome != Outcome::Measured && cell.outcome(*outcome) > 0)
        .map(|outcome| outcome.name().replace('_', " "))
        .collect();
    if parts.is_empty() {
        "not run".to_owned()
    } else {
        parts.join(", ")
    }
}

fn mean_entry(name: &str, metric: &MetricSummary, scale: Scale) -> Entry {
    let (value, interval) = metric.shown(name);
    Entry {
        text: scale.text(value),
        sub: match interval {
            None => "no interval: one trial".to_owned(),
            // Nothing varies where every trial has the same value.
            Some([low, high]) if low >= high => String::new(),
            Some([low, high]) => format!("[{}, {}]", scale.text(low), scale.text(high)),
        },
        words: false,
    }
}
