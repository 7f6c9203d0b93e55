//! Figure of every trial in the order in which they ran, which shows drift of the machine.

use itertools::Itertools as _;
use regatta_model::{
    MetricDefinition, TrialRecord,
    metric::{Place, id, names_in},
};

use super::{
    Figure, Source, anchor,
    axis::{XAxis, YAxis, largest, time_scale},
    defined, line_labels,
    marks::{Line, Look, Mark},
    of_metrics, panels,
    plot::{Axes, Panel, Plot},
    title_of,
};
use crate::{RunData, language::tr};

const HEIGHT: f64 = 270.0;

/// Draws the metrics that show drift.
pub fn all(source: &Source<'_>) -> Vec<Figure> {
    of_metrics(&Vec::from_iter(names_in(Place::Order)), |metric| {
        draw(source.data, metric)
    })
}

/// Draws the figure of one metric, or nothing if fewer than two trials of any cell have it.
fn draw(data: &RunData, definition: &MetricDefinition) -> Option<Figure> {
    let starts = data.trials.iter().map(|trial| trial.started_unix_ns);
    let began = starts.min().unwrap_or(data.header.started_unix_ns);
    let is_series = data.header.study.every.is_some();
    // A series in virtual time has no other time than its own.
    let time = |trial: &TrialRecord| {
        let in_series = trial.measurements.metrics.get(id::SERIES_TIME_NS);
        let since_begin = trial.started_unix_ns.saturating_sub(began) as f64;
        in_series.copied().unwrap_or(since_begin) / 1e9
    };
    // Seconds since the run began, and stored values.
    let panels = panels(data, |series, cell| {
        let values = data.values(cell, definition.name);
        let points = values.map(|(trial, value)| (time(trial), value));
        Line::of(
            series,
            cell[0],
            points.sorted_by(|a, b| a.0.total_cmp(&b.0)),
        )
    });
    let lines = || panels.iter().flat_map(|panel| &panel.rows);
    if !lines().any(|line| line.samples.len() > 1) {
        return None;
    }
    let points = || {
        lines()
            .flat_map(|line| &line.samples)
            .map(|sample| sample.at)
    };
    let highest = largest(points().map(|(_, value)| value));
    let elapsed = largest(points().map(|(seconds, _)| seconds));
    let scale = time_scale(elapsed);
    let x_title = match is_series {
        true => tr!("time since the series began, {}", scale.unit),
        false => tr!("time since the run began, {}", scale.unit),
    };
    let title = title_of(definition);
    let panels: Vec<Panel<'_>> = panels
        .into_iter()
        .map(|panel| {
            let (panel, lines) = panel.split();
            Panel {
                title: tr!("{}: every trial under {}", title, panel.heading),
                description: tr!("One mark for each measured trial, over {}.", x_title),
                marks: vec![Mark::Lines(lines, Look::Points, 1.0)],
                ..panel
            }
        })
        .collect();
    Plot {
        id: format!("trial-{}", anchor(definition.name)),
        title: tr!("{}: every trial, in the order in which they ran", title),
        caption: tr!(
            "One mark for each measured trial at the time of its start. Within each round the order is random. A slope that all transports share is drift of the machine."
        ),
        definition: defined(definition),
        labels: line_labels(data),
        panels,
        axes: Axes::Values {
            x: XAxis::to(x_title, scale, scale.apply(elapsed)),
            y: YAxis::from_zero(definition.unit, definition.title, highest),
            height: HEIGHT,
        },
    }
    .draw()
}
