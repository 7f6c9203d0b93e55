//! Figure of every trial as a point beside its box, relative to the median of its cell, which shows
//! how steady a transport is.
//!
//! On an axis from zero the boxes of a steady run are thinner than their lines; the figure is about
//! spread, so spread is the axis.

use itertools::Itertools as _;
use regatta_model::{
    MetricDefinition,
    metric::{Place, names_in},
};
use regatta_stats::Description;

use super::{
    Figure, Source, anchor,
    axis::{PLAIN, XAxis, axis_end, largest},
    defined, line_labels,
    marks::{BoxRow, Mark, RowHead},
    of_metrics, panels,
    plot::{Axes, Panel, Plot},
    values,
};
use crate::{
    RunData,
    analysis::own_metrics,
    format::{Scale, number, signed_percent},
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
    /// Description of the deviations.
    description: Description,
}

fn row<'a>(series: usize, label: &'a str, values: &[f64]) -> Option<Row<'a>> {
    let median = regatta_stats::describe(values)?.median;
    let deviations = values.iter().map(|value| (value / median - 1.0) * 100.0);
    let deviations: Vec<f64> = deviations.collect();
    let description = regatta_stats::describe(&deviations).filter(|_| median > 0.0)?;
    Some(Row {
        series,
        label,
        median,
        deviations,
        description,
    })
}

/// Draws the metrics of the rankings, and others by which transports are compared.
pub fn all(source: &Source<'_>) -> Vec<Figure> {
    let own = own_metrics(&source.data.header.study);
    let names: Vec<&str> = own.chain(names_in(Place::Spread)).collect();
    of_metrics(&names, |metric| draw(source.data, metric))
}

/// Draws the figure of one metric, or nothing if no trial has it.
fn draw(data: &RunData, definition: &MetricDefinition) -> Option<Figure> {
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
    let panels = panels.into_iter().map(|panel| {
        let (panel, rows) = panel.split();
        let mut quartiles = rows.iter().map(|row| {
            tr!(
                "{}: median {}, quartiles at {} % and {} % of it",
                row.label,
                scale.text(row.median),
                number(row.description.q1),
                number(row.description.q3)
            )
        });
        Panel {
            title: tr!("Spread of {}, under {}", x_title, panel.heading),
            description: format!("{}.", quartiles.join("; ")),
            marks: rows.into_iter().map(|row| row.mark(scale)).collect(),
            ..panel
        }
    });
    let panels = panels.collect();
    Plot {
        id: format!("box-{}", anchor(definition.name)),
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
        labels: line_labels(data),
        panels,
        axes: Axes::Rows {
            // Nothing is less than nothing.
            x: XAxis::linear(x_title, PLAIN, -end.min(100.0)..end),
            height: ROW,
            labels: 150.0,
            values: 54.0,
        },
    }
    .draw()
}

impl<'a> Row<'a> {
    /// Returns the mark of the row; `scale` is that of the median.
    fn mark(self, scale: Scale) -> Mark<'a> {
        Mark::Box(BoxRow {
            head: RowHead {
                transport: self.label,
                label: self.label.into(),
                series: Some(self.series),
                text: format!("{}: {}", self.label, self.text(scale)),
                value: scale.text(self.median),
            },
            description: self.description,
            trials: self.deviations,
        })
    }

    /// Describes the row.
    fn text(&self, scale: Scale) -> String {
        let percent = |deviation: f64| signed_percent(deviation / 100.0);
        let d = &self.description;
        tr!(
            "median {}\nquartiles {} and {} of it, range {} to {}\nn = {}",
            scale.quantity(self.median),
            percent(d.q1),
            percent(d.q3),
            percent(d.min),
            percent(d.max),
            self.deviations.len()
        )
    }
}
