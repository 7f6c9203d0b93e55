//! Bars of a metric by message size: a group of bars for each size, one for each transport, with the
//! published values, as publications show their times by message and by buffer size.

use itertools::Itertools as _;
use regatta_model::metric;

use super::{
    Datum, DrawnPanel, Figure, anchor, defined,
    frame::{Chart, LABEL_CHARACTERS, Panel, Tick, YAxis, axis_end, largest, room_for_labels},
    parameter_axis::cells_at,
    published,
    style::Styles,
    svg::{ColourRole, Svg, Text, rectangle},
    sweep::{all_lines, combinations, heading_of, texts_of_lines, unshown_text},
    title_of,
};
use crate::{
    RunData, Summary,
    analysis::{SweepCell, SweepResult},
    format::Scale,
    labels::Labels,
    language::{self, tr},
};

/// Key of the axis whose values have bars.
const KEY: &str = "workload.message";

const HEIGHT: f64 = 300.0;

/// Most groups of bars in a panel.
const MAX_GROUPS: usize = 8;

/// Most panels of a figure.
const MAX_PANELS: usize = 6;

/// Ratio of the largest to the smallest value above which the axis is logarithmic.
const WIDE: f64 = 40.0;

/// Share of the distance between two groups that the bars of one take.
const GROUP: f64 = 0.8;

/// Whether a sweep has bars by message size instead of lines.
pub fn has_bars(sweep: &SweepResult) -> bool {
    let axis = sweep.axes.first();
    axis.is_some_and(|axis| axis.key == KEY && axis.values.len() <= MAX_GROUPS)
}

/// Draws the bars of one metric.
pub fn draw(
    data: &RunData,
    summary: &Summary,
    styles: &Styles,
    (sweep, number): (&SweepResult, usize),
) -> Option<Figure> {
    let definition = metric::find(&sweep.metric)?;
    let axis = sweep.axes.first()?;
    let (title, x_title) = (title_of(definition), language::text(&axis.title));
    let published = |cell: &SweepCell| {
        let key = [&cell.transport, &cell.condition, &cell.workload].map(String::as_str);
        published(data, &sweep.metric, key)
    };
    let values = || {
        let cells = sweep.cells.iter();
        cells.flat_map(|cell| cell.value.into_iter().chain(published(cell)))
    };
    let highest = largest(values());
    let least = values()
        .filter(|it| *it > 0.0)
        .fold(f64::INFINITY, f64::min);
    let scale = Scale::for_largest(definition.unit, highest);
    let is_log = highest / least > WIDE;
    let y_axis = || match is_log {
        true => YAxis::Decades(scale.apply(least) / 2.0, scale.apply(highest) * 1.4),
        false => YAxis::Linear(axis_end(scale.apply(highest))),
    };
    let ticks: Vec<Tick> = (axis.values.iter().enumerate())
        .map(|(position, value)| (position as f64 + 0.5, language::swept(&value.text)))
        .collect();
    let labels = Labels::new(all_lines(summary), LABEL_CHARACTERS);
    let (shown, all) = combinations(sweep, MAX_PANELS);
    let id = format!("bars-{number}-{}", anchor(&sweep.metric));
    let panels = shown.iter().enumerate().map(|(position, combination)| {
        let heading = heading_of(sweep, combination);
        Panel {
            id: &format!("{id}-{position}"),
            title: &tr!("{} by {}, {}", title, x_title, heading),
            description: &describe(sweep, combination, scale),
            heading: &heading,
            y_title: &scale.heading(definition.title),
            x_title,
            height: HEIGHT,
            left: Panel::LEFT,
            right: room_for_labels(&labels),
            labels: &labels,
        }
        .draw_with(0.0..ticks.len() as f64, &ticks, y_axis(), |svg, chart| {
            let cells: Vec<&SweepCell> = cells_at(sweep, combination).collect();
            let drawing = (sweep, styles, &labels);
            paint(svg, chart, drawing, &cells, scale, published);
        })
    });
    let panels: Vec<DrawnPanel> = panels.collect();
    Some(Figure {
        id: format!("figure-{id}"),
        title: tr!("{} by message size: {}", title, sweep.heading(summary)),
        caption: caption(
            is_log,
            sweep.cells.iter().any(|cell| published(cell).is_some()),
            [panels.len(), all],
        ),
        definition: defined(definition),
        panels,
    })
}

fn caption(is_log: bool, has_published: bool, counts: [usize; 2]) -> String {
    let mut text = tr!("Bar: mean of the tables; line in it: its 95 % confidence interval.");
    if has_published {
        text += &tr!(" Hollow mark: published value.");
    }
    if is_log {
        text += &tr!(" The vertical axis is logarithmic and does not begin at zero.");
    }
    text += &unshown_text(counts);
    text
}

fn paint(
    svg: &mut Svg,
    chart: &Chart,
    (sweep, styles, shown): (&SweepResult, &Styles, &Labels),
    cells: &[&SweepCell],
    scale: Scale,
    published: impl Fn(&SweepCell) -> Option<f64>,
) {
    // Lines without any value have no room.
    let lines: Vec<&String> = (sweep.lines.iter())
        .filter(|line| {
            let mut of_line = cells.iter().filter(|cell| cell.line == **line);
            of_line.any(|cell| cell.value.is_some() || published(cell).is_some())
        })
        .collect();
    let width = GROUP / lines.len().max(1) as f64;
    let mut labels = Vec::new();
    for (position, line) in lines.iter().enumerate() {
        let series = styles.get(line);
        let mut last = chart.bottom;
        for cell in cells.iter().filter(|cell| cell.line == **line) {
            let Some(group) = cell.at.first() else {
                continue;
            };
            let start = f64::from(*group) + (1.0 - GROUP) / 2.0 + width * position as f64;
            let ends = [start + 0.06 * width, start + 0.94 * width].map(|x| chart.x(x));
            let bar = Bar {
                series,
                label: line,
                ends,
                published: published(cell),
            };
            if let Some(top) = bar.draw(svg, chart, cell, scale) {
                last = top;
            }
        }
        labels.push((series, line.as_str(), last));
    }
    let placed = chart.heights_of_labels(labels.iter().map(|(_, _, y)| *y));
    for ((series, label, _), y) in labels.into_iter().zip(placed) {
        svg.mark(series, (chart.right + 10.0, y), 4.0, false);
        svg.text((chart.right + 18.0, y), shown.get(label), Text::LABEL);
    }
}

/// Bar of a cell.
struct Bar<'a> {
    /// Style of the transport.
    series: usize,
    label: &'a str,
    /// Left and right edge.
    ends: [f64; 2],
    published: Option<f64>,
}

impl Bar<'_> {
    /// Draws the bar with interval and published value; returns the height at which it ends.
    fn draw(&self, svg: &mut Svg, chart: &Chart, cell: &SweepCell, scale: Scale) -> Option<f64> {
        let height = |value: f64| chart.y(scale.apply(value));
        let [left, right] = self.ends;
        let middle = f64::midpoint(left, right);
        let x = cell.at.first().map(|group| f64::from(*group) + 0.5);
        let datum = |kind, value: f64| Datum {
            label: self.label.to_owned(),
            kind,
            x,
            value: Some(scale.apply(value)),
            ..Datum::default()
        };
        let mut text = self.label.to_owned();
        if let Some(value) = cell.value {
            text += &format!(": {}", scale.estimate(value, cell.ci95, cell.n));
            svg.record(Datum {
                interval: cell.ci95.map(|ends| ends.map(|end| scale.apply(end))),
                n: Some(cell.n),
                ..datum("mean", value)
            });
        }
        if let Some(value) = self.published {
            text += &tr!("\npublished: {}", scale.quantity(value));
            svg.record(datum("published", value));
        }
        svg.value(self.label, &text, |svg| {
            if let Some(value) = cell.value {
                let top = height(value);
                let mut corners = rectangle(self.ends, [top, chart.bottom]);
                corners.rotate_right(1);
                svg.polygon(&corners, ColourRole::Series(self.series), 0.85);
            }
            if let Some(ends) = cell.ci95.filter(|[low, high]| low < high) {
                svg.line(
                    &ends.map(|end| (middle, height(end))),
                    ColourRole::Text,
                    1.2,
                );
            }
            if let Some(value) = self.published {
                svg.mark(self.series, (middle, height(value)), 4.0, true);
            }
        });
        cell.value.map(height)
    }
}

/// Describes a panel for readers who do not see it.
fn describe(sweep: &SweepResult, combination: &[u32], scale: Scale) -> String {
    let mut lines = (texts_of_lines(sweep, combination, scale).into_iter())
        .map(|(line, texts)| format!("{line}: {}", texts.join(", ")));
    format!("{}.", lines.join("; "))
}
