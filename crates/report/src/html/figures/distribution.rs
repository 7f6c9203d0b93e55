//! Figure of every trial as a point beside its box, relative to the median of its cell, which shows
//! how steady a transport is.
//!
//! On an axis from zero the boxes of a steady run are thinner than their lines; the figure is about
//! spread, so spread is the axis.

use itertools::Itertools as _;
use regatta_model::MetricDefinition;
use regatta_stats::Description;

use super::{
    Datum, Figure, anchor, defined, drawn,
    frame::{Chart, Panel, YAxis, axis_end, largest, room_for_rows},
    line_labels, panels,
    svg::{ColourRole, Svg, Text},
    values,
};
use crate::{
    RunData,
    format::{Scale, number, signed_percent},
    labels::Labels,
    language::{self, tr},
};

const ROW: f64 = 40.0;

/// One transport in one panel.
struct Row<'a> {
    series: usize,
    label: &'a str,
    /// Median in the metric's unit.
    median: f64,
    /// Deviations from the median, in per cent.
    deviations: Vec<f64>,
}

fn row<'a>(series: usize, label: &'a str, values: &[f64]) -> Option<Row<'a>> {
    let median = regatta_stats::describe(values)?.median;
    let deviations = values.iter().map(|value| (value / median - 1.0) * 100.0);
    (median > 0.0).then(|| Row {
        series,
        label,
        median,
        deviations: deviations.collect(),
    })
}

/// Draws the figure of one metric, or nothing if no trial has it.
pub fn draw(data: &RunData, definition: &MetricDefinition) -> Option<Figure> {
    let name = anchor(definition.name);
    let panels = panels(data, |series, cell| {
        row(series, cell[0], &values(data, cell, definition.name))
    });
    let all = || panels.iter().flat_map(|panel| &panel.rows);
    if !all().any(|row| row.deviations.len() > 1) {
        return None;
    }
    let deviations = all().flat_map(|row| &row.deviations);
    let end = axis_end(largest(deviations.map(|deviation| deviation.abs())).max(1.0));
    let scale = Scale::for_largest(definition.unit, largest(all().map(|row| row.median)));
    let x_title = tr!(
        "{} against the median of its cell, %",
        language::text(definition.title)
    );

    let shown = line_labels(data);
    let drawn = drawn(&panels, |position, panel| {
        let mut quartiles = panel.rows.iter().filter_map(|row| {
            let d = regatta_stats::describe(&row.deviations)?;
            Some(tr!(
                "{}: median {}, quartiles at {} % and {} % of it",
                row.label,
                scale.text(row.median),
                number(d.q1),
                number(d.q3)
            ))
        });
        // Nothing is less than nothing.
        let x_axis = -end.min(100.0)..end;
        let y_axis = YAxis::Rows(panel.rows.len());
        Panel {
            id: &format!("box-{name}-{position}"),
            title: &tr!("Spread of {}, under {}", x_title, panel.heading),
            description: &format!("{}.", quartiles.join("; ")),
            heading: &panel.heading,
            y_title: "",
            x_title: &x_title,
            height: Panel::height_of_rows(panel.rows.len(), ROW),
            left: room_for_rows(&shown).min(150.0),
            right: 54.0,
            labels: &shown,
        }
        .draw(x_axis, y_axis, |svg, chart| {
            plot(svg, chart, (&panel.rows, &shown), scale);
        })
    });
    Some(Figure {
        id: format!("figure-box-{name}"),
        title: tr!(
            "How steady: every trial beside its box, {}",
            language::text(definition.title)
        ),
        caption: tr!(
            "Box: lower to upper quartile, with the median as a thick line; whiskers: smallest and largest trial; below it every trial. All against the median of the same transport under the same condition, which stands at the right ({}).",
            match scale.unit {
                "" => tr!("a count"),
                unit => unit.to_owned(),
            }
        ),
        definition: defined(definition),
        panels: drawn,
    })
}

/// Draws the rows of one panel.
fn plot(svg: &mut Svg, chart: &Chart, (rows, labels): (&[Row<'_>], &Labels), scale: Scale) {
    for (position, row) in rows.iter().enumerate() {
        let Some(d) = regatta_stats::describe(&row.deviations) else {
            continue;
        };
        let datum = |kind, value: f64| Datum {
            label: row.label.to_owned(),
            kind,
            value: Some(value),
            ..Datum::default()
        };
        svg.record(Datum {
            interval: Some([d.q1, d.q3]),
            n: Some(row.deviations.len() as u64),
            ..datum("median", d.median)
        });
        for deviation in &row.deviations {
            svg.record(datum("trial", *deviation));
        }
        let text = format!("{}: {}", row.label, spread_label(row, &d, scale));
        svg.value(row.label, &text, |svg| {
            let label = labels.get(row.label);
            plot_row(svg, chart, (position, row, label), &d, scale);
        });
    }
}

/// Describes a row.
fn spread_label(row: &Row<'_>, d: &Description, scale: Scale) -> String {
    let percent = |deviation: f64| signed_percent(deviation / 100.0);
    tr!(
        "median {}\nquartiles {} and {} of it, range {} to {}\nn = {}",
        scale.quantity(row.median),
        percent(d.q1),
        percent(d.q3),
        percent(d.min),
        percent(d.max),
        row.deviations.len()
    )
}

fn plot_row(
    svg: &mut Svg,
    chart: &Chart,
    (position, row, label): (usize, &Row<'_>, &str),
    d: &Description,
    scale: Scale,
) {
    let ink = ColourRole::Series(row.series);
    let y = chart.y(position as f64) + 14.0;
    let (upper, lower, middle) = (y - 6.0, y + 6.0, y + 4.0);
    svg.mark(row.series, (7.0, middle), 4.5, false);
    svg.text((17.0, middle), label, Text::LABEL);
    let median = scale.text(row.median);
    svg.text((Panel::WIDTH - 1.0, middle), &median, Text::VALUE);
    if row.deviations.len() > 1 {
        let [least, q1, median, q3, most] =
            [d.min, d.q1, d.median, d.q3, d.max].map(|value| chart.x(value));
        let corners = [(q1, upper), (q3, upper), (q3, lower), (q1, lower)];
        svg.polygon(&corners, ink, 0.2);
        let closed: Vec<_> = corners.iter().chain(&corners[..2]).copied().collect();
        svg.line(&closed, ink, 1.2);
        svg.line(&[(least, y), (q1, y)], ink, 1.2);
        svg.line(&[(q3, y), (most, y)], ink, 1.2);
        svg.line(&[(median, upper), (median, lower)], ink, 3.0);
    }
    for (number, value) in row.deviations.iter().enumerate() {
        // Points alternate between three heights, so that equal trials stay visible.
        let y = y + 11.0 + 3.0 * (number % 3) as f64;
        svg.dot((chart.x(*value), y), 2.0, ink, 0.7);
    }
}
