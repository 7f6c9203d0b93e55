//! Figure of every trial in the order in which they ran, which shows drift of the machine.

use itertools::Itertools as _;
use regatta_model::{MetricDefinition, TrialRecord, metric::id};

use super::{
    Figure, anchor, defined, drawn,
    frame::{Curve, Marks, Panel, YAxis, axis_end, largest, room_for_labels, time_axis},
    line_labels, panels,
    svg::Point,
    title_of,
};
use crate::{RunData, format::Scale, language::tr};

const HEIGHT: f64 = 270.0;

/// Draws the figure of one metric, or nothing if fewer than two trials of any cell have it.
pub fn draw(data: &RunData, definition: &MetricDefinition) -> Option<Figure> {
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
        let points: Vec<Point> = points.sorted_by(|a, b| a.0.total_cmp(&b.0)).collect();
        (!points.is_empty()).then_some(Curve {
            series,
            label: cell[0],
            points,
        })
    });
    let curves = || panels.iter().flat_map(|panel| &panel.rows);
    if !curves().any(|curve| curve.points.len() > 1) {
        return None;
    }
    let points = || curves().flat_map(|curve| &curve.points);
    let highest = largest(points().map(|point| point.1));
    let scale = Scale::for_largest(definition.unit, highest);
    let y_end = axis_end(scale.apply(highest));
    let elapsed = largest(points().map(|point| point.0));
    let (divisor, unit) = time_axis(elapsed);
    let x_end = axis_end(elapsed / divisor);
    let x_title = match is_series {
        true => tr!("time since the series began, {}", unit),
        false => tr!("time since the run began, {}", unit),
    };
    let name = anchor(definition.name);
    let title = title_of(definition);

    let shown = line_labels(data);
    let drawn = drawn(&panels, |number, panel| {
        let heading = &panel.heading;
        Panel {
            id: &format!("trial-{name}-{number}"),
            title: &tr!("{}: every trial under {}", title, heading),
            description: &tr!("One mark for each measured trial, over {}.", x_title),
            heading,
            y_title: &scale.heading(definition.title),
            x_title: &x_title,
            height: HEIGHT,
            left: Panel::LEFT,
            right: room_for_labels(&shown),
            labels: &shown,
        }
        .draw(0.0..x_end, YAxis::Linear(y_end), |svg, chart| {
            let curves: Vec<Curve<'_>> = (panel.rows.iter())
                .map(|curve| curve.map(|(t, value)| (t / divisor, scale.apply(value))))
                .collect();
            chart.curves(svg, &curves, 1.0, Marks::Each);
        })
    });
    Some(Figure {
        id: format!("figure-trial-{name}"),
        title: tr!("{}: every trial, in the order in which they ran", title),
        caption: tr!(
            "One mark for each measured trial at the time of its start. Within each round the order is random. A slope that all transports share is drift of the machine."
        ),
        definition: defined(definition),
        panels: drawn,
    })
}
