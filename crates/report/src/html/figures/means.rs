//! Figure of means with their interval, every trial, and published values, one row for each
//! transport.

use std::borrow::Cow;

use itertools::Itertools as _;
use regatta_model::{MetricDefinition, Outcome, Unit, Workload, WorkloadKind};

use super::{
    Datum, Figure, PanelData, anchor, defined, drawn,
    frame::{
        Chart, LABEL_CHARACTERS, Panel, YAxis, axis_end, largest, linear_ticks, log_ticks,
        room_for_rows, tick,
    },
    labels, panels, published,
    style::Styles,
    svg::{ColourRole, Svg, Text},
    title_of, values,
};
use crate::{
    RunData, Summary,
    analysis::Cell,
    data::{CellGroup, CellKey},
    format::Scale,
    labels::Labels,
    language::tr,
};

const ROW: f64 = 34.0;

/// Longest label of a transport and a workload, in characters.
const SPREAD_LABEL_CHARACTERS: usize = 27;

/// Most ticks of a logarithmic axis.
const TICKS: usize = 6;

/// Ratio of the largest to the smallest trial above which an axis of times is logarithmic: sizes that span decades would
/// leave nothing to see of the small ones.
const WIDE: f64 = 40.0;

/// Horizontal axis of the values.
#[derive(Debug, Clone, Copy)]
struct Axis {
    scale: Scale,
    is_log: bool,
}

impl Axis {
    /// Returns the position of a value, which a logarithmic axis keeps above zero.
    fn position(self, value: f64) -> f64 {
        match self.is_log {
            true => self.scale.apply(value).max(f64::MIN_POSITIVE).ln(),
            false => self.scale.apply(value),
        }
    }
}

/// One transport in one panel.
struct Row<'a> {
    transport: &'a str,
    label: Cow<'a, str>,
    /// Style; `None` for a transport that is only in the publication.
    series: Option<usize>,
    cell: Option<&'a Cell>,
    trials: Vec<f64>,
    published: Option<f64>,
}

/// Draws the figure of one metric, or nothing if no trial has it.
pub fn draw(data: &RunData, summary: &Summary, definition: &MetricDefinition) -> Option<Figure> {
    let name = definition.name;
    let mut panels = panels(data, |series, cell| {
        Some(row(data, summary, name, series, cell))
    });
    for (panel, group) in panels.iter_mut().zip(data.plain_groups()) {
        panel.rows.extend(only_published(data, name, group));
    }
    // A workload that has other metrics has no panel here.
    panels.retain(|panel| panel.rows.iter().any(|row| !row.trials.is_empty()));
    let title = title_of(definition);
    let title = tr!("{}: each transport under each condition", title);
    let id = format!("mean-{}", anchor(name));
    figure(definition, &panels, &id, title, LABEL_CHARACTERS)
}

/// Draws one metric of every workload that spreads messages, side by side, which shows the cost of
/// blocking by the loss of another message. `None` if the study has fewer than two of them.
pub fn draw_spread(
    data: &RunData,
    summary: &Summary,
    definition: &MetricDefinition,
) -> Option<Figure> {
    let study = &data.header.study;
    let is_spread = |it: &&Workload| matches!(it.kind, WorkloadKind::MultiStream { .. });
    let spread = study.workloads.iter().filter(is_spread);
    if spread.clone().count() < 2 {
        return None;
    }
    let styles = Styles::of(data);
    let panels = study.conditions.iter().map(|condition| {
        let rows = labels(data).cartesian_product(spread.clone());
        let rows = rows.map(|(label, Workload { name: workload, .. })| Row {
            label: format!("{label}, {workload}").into(),
            ..row(
                data,
                summary,
                definition.name,
                styles.get(label),
                [label, &condition.name, workload],
            )
        });
        PanelData {
            condition: &condition.name,
            heading: condition.name.clone(),
            rows: rows.filter(|row| !row.trials.is_empty()).collect(),
        }
    });
    let panels = panels.filter(|panel| !panel.rows.is_empty());
    let panels: Vec<PanelData<'_, Row<'_>>> = panels.collect();
    let title = tr!("{}: the same messages, spread", title_of(definition));
    let id = format!("spread-{}", anchor(definition.name));
    figure(definition, &panels, &id, title, SPREAD_LABEL_CHARACTERS)
}

fn figure(
    definition: &MetricDefinition,
    panels: &[PanelData<'_, Row<'_>>],
    id: &str,
    title: String,
    longest_label: usize,
) -> Option<Figure> {
    let name = definition.name;
    if panels.is_empty() {
        return None;
    }
    let rows = || panels.iter().flat_map(|panel| &panel.rows);
    let ends = rows().filter_map(|row| mean(row, name)?.1);
    let highest_end = largest(ends.map(|[_, high]| high));
    let values = rows().flat_map(|row| row.trials.iter().copied().chain(row.published));
    let highest_value = largest(values);
    // An interval of very few trials can be far wider than anything that was measured; the axis
    // follows the values and lets such an interval run out of the panel.
    let highest = highest_value.max(highest_end).min(highest_value * 1.5);
    let scale = Scale::for_largest(definition.unit, highest);
    let axis = scale.heading(definition.title);
    let end = axis_end(scale.apply(highest));
    let all = rows().flat_map(|row| &row.trials);
    let least = all.copied().fold(f64::INFINITY, f64::min);
    let is_log = definition.unit == Unit::Nanoseconds && least > 0.0 && highest / least > WIDE;
    let axis_of_values = Axis { scale, is_log };
    let (range, ticks) = match is_log {
        true => {
            let range = scale.apply(least) / 1.25..end;
            let ticks = log_ticks(&range, TICKS).into_iter();
            let ticks = ticks.map(|value| (value.ln(), tick(value))).collect();
            (range.start.ln()..range.end.ln(), ticks)
        }
        false => (0.0..end, linear_ticks(&(0.0..end))),
    };
    let logarithmic = match is_log {
        true => tr!(" The axis is logarithmic."),
        false => String::new(),
    };

    let shown = Labels::new(rows().map(|row| &*row.label), longest_label);
    let drawn = drawn(panels, |number, panel| {
        let text = |row: &Row<'_>| Some(scale.text(mean(row, name)?.0));
        let mut means =
            (panel.rows.iter()).filter_map(|row| Some(format!("{} {}", row.label, text(row)?)));
        Panel {
            id: &format!("{id}-{number}"),
            title: &tr!("Mean {} under {}", axis, panel.heading),
            description: &format!("{}.", means.join("; ")),
            heading: &panel.heading,
            y_title: "",
            x_title: &axis,
            height: Panel::height_of_rows(panel.rows.len(), ROW),
            left: room_for_rows(&shown).min(54.0 + 6.0 * longest_label as f64),
            right: 54.0,
            labels: &shown,
        }
        .draw_with(
            range.clone(),
            &ticks,
            YAxis::Rows(panel.rows.len()),
            |svg, chart| {
                for (position, row) in panel.rows.iter().enumerate() {
                    let y = chart.y(position as f64 + 0.5);
                    record(svg, row, name, scale);
                    svg.value(row.transport, &value_label(row, name, scale), |svg| {
                        let labelled = (row, shown.get(&row.label));
                        draw_row(svg, chart, labelled, y, name, axis_of_values);
                    });
                }
            },
        )
    });
    let published = match rows().any(|row| row.published.is_some()) {
        true => tr!(" Hollow mark: published value, see the notes below its table."),
        false => String::new(),
    };
    Some(Figure {
        id: format!("figure-{id}"),
        title,
        caption: tr!(
            "Large mark and bar: mean and its 95 % confidence interval, of each transport alone. Small dots: every measured trial.{}{}",
            published,
            logarithmic
        ),
        definition: defined(definition),
        panels: drawn,
    })
}

/// Returns the row of a cell, whose transport has the style `series`.
fn row<'a>(
    data: &'a RunData,
    summary: &'a Summary,
    name: &str,
    series: usize,
    cell: CellKey<'a>,
) -> Row<'a> {
    let [label, condition, workload] = cell;
    Row {
        transport: label,
        label: label.into(),
        series: Some(series),
        cell: summary.cell(label, condition, workload),
        trials: values(data, cell, name),
        published: published(data, name, cell),
    }
}

/// Returns the rows of transports that are only in the publication.
fn only_published<'a>(
    data: &'a RunData,
    name: &str,
    group: CellGroup<'a>,
) -> impl Iterator<Item = Row<'a>> {
    let study = &data.header.study;
    (study.published.iter())
        .filter(move |it| it.condition == group.condition.name && it.metric == name)
        .filter(move |it| it.is_of_workload(&group.workload.name))
        .filter(|it| !labels(data).contains(&it.transport.as_str()))
        .map(|p| Row {
            transport: &p.transport,
            label: p.transport.as_str().into(),
            series: None,
            cell: None,
            trials: Vec::new(),
            published: Some(p.value),
        })
}

fn mean(row: &Row<'_>, name: &str) -> Option<(f64, Option<[f64; 2]>)> {
    row.cell?.shown(name)
}

/// Records the values of a row.
fn record(svg: &mut Svg, row: &Row<'_>, name: &str, scale: Scale) {
    let datum = |kind, value: f64| Datum {
        label: row.label.to_string(),
        kind,
        value: Some(scale.apply(value)),
        ..Datum::default()
    };
    if let (Some((value, interval)), Some(cell)) = (mean(row, name), row.cell) {
        svg.record(Datum {
            interval: interval.map(|ends| ends.map(|end| scale.apply(end))),
            n: cell.metrics.get(name).map(|metric| metric.n),
            ..datum("mean", value)
        });
    }
    for value in &row.trials {
        svg.record(datum("trial", *value));
    }
    if let Some(value) = row.published {
        svg.record(datum("published", value));
    }
}

/// Describes a row: value, interval, number of trials, published value.
fn value_label(row: &Row<'_>, name: &str, scale: Scale) -> String {
    let value = match (mean(row, name), row.cell) {
        (Some((value, interval)), Some(cell)) => {
            let n = cell.metrics.get(name).map_or(0, |metric| metric.n);
            scale.estimate(value, interval, n)
        }
        (_, Some(cell)) => absence(cell),
        _ => tr!("only published"),
    };
    let published = row.published.map_or_else(String::new, |value| {
        tr!("\npublished: {}", scale.quantity(value))
    });
    format!("{}: {value}{published}", row.label)
}

/// Returns the reason for which a row has no value.
fn absence(cell: &Cell) -> String {
    let reasons = [
        (Outcome::Unsupported, tr!("unsupported here")),
        (Outcome::Failed, tr!("failed")),
        (Outcome::TimedOut, tr!("timed out")),
        (Outcome::Invalid, tr!("invalid")),
    ];
    let occurred = (reasons.into_iter()).find(|(outcome, _)| cell.outcome(*outcome) > 0);
    occurred.map_or_else(|| tr!("not measured"), |(_, reason)| reason)
}

fn draw_row(
    svg: &mut Svg,
    chart: &Chart,
    (row, label): (&Row<'_>, &str),
    y: f64,
    name: &str,
    axis: Axis,
) {
    let x = |value: f64| chart.x(axis.position(value));
    let ink = row.series.map_or(ColourRole::Muted, ColourRole::Series);
    if let Some(series) = row.series {
        svg.mark(series, (7.0, y), 4.5, false);
    }
    svg.text((17.0, y), label, Text::LABEL);
    for value in &row.trials {
        svg.dot((x(*value), y + 9.0), 2.0, ink, 0.65);
    }
    match (row.published, row.series) {
        (Some(value), Some(series)) => svg.mark(series, (x(value), y), 7.0, true),
        (Some(value), None) => svg.ring((x(value), y), 6.0, ink, 1.5),
        (None, _) => {}
    }
    match (mean(row, name), row.series, row.cell) {
        (Some((value, interval)), Some(series), _) => {
            if let Some(ends) = interval {
                chart.interval(svg, ends.map(|end| axis.position(end)), y, 8.0, ink);
            }
            svg.mark(series, (x(value), y), 5.0, false);
            svg.text(
                (Panel::WIDTH - 1.0, y),
                &axis.scale.text(value),
                Text::VALUE,
            );
        }
        (None, _, Some(cell)) => svg.text((chart.left + 6.0, y), &absence(cell), Text::NOTE),
        _ => {}
    }
}
