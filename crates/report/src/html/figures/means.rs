//! Figure of means with their interval, every trial, and published values, one row for each
//! transport.

use std::borrow::Cow;

use regatta_model::{MetricDefinition, Outcome, WorkloadKind};

use super::{
    Datum, Figure, Place, anchor, drawn,
    frame::{Chart, LABEL_CHARACTERS, Panel, YAxis, axis_end, largest, room_for_rows},
    labels, panels,
    style::Styles,
    svg::{Ink, Svg, Text},
    values,
};
use crate::{
    RunData, Summary,
    analysis::Cell,
    format::{Scale, capital},
    labels::Labels,
    language::{self, tr},
};

const ROW: f64 = 34.0;

/// Longest label of a transport and a workload, in characters.
const SPREAD_LABEL_CHARACTERS: usize = 27;

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
    let mut panels = panels(data, |series, label, condition, workload| {
        Some(row(
            data,
            summary,
            name,
            (series, label),
            condition,
            workload,
        ))
    });
    for (panel, group) in panels.iter_mut().zip(data.plain_groups()) {
        let (condition, workload) = (&group.condition.name, &group.workload.name);
        (panel.rows).extend(only_published(data, name, condition, workload));
    }
    // A workload that has other metrics has no panel here.
    panels.retain(|panel| panel.rows.iter().any(|row| !row.trials.is_empty()));
    let title = tr!(
        "{}: each transport under each condition",
        capital(language::text(definition.title))
    );
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
    let spread: Vec<&str> = study
        .workloads
        .iter()
        .filter(|workload| matches!(workload.kind, WorkloadKind::MultiStream { .. }))
        .map(|workload| workload.name.as_str())
        .collect();
    if spread.len() < 2 {
        return None;
    }
    let styles = Styles::of(data);
    let mut panels: Vec<Place<'_, Row<'_>>> = Vec::new();
    for condition in &study.conditions {
        let mut rows = Vec::new();
        for label in labels(data) {
            let transport = (styles.get(label), label);
            for workload in &spread {
                let name = definition.name;
                let mut row = row(data, summary, name, transport, &condition.name, workload);
                if !row.trials.is_empty() {
                    row.label = format!("{}, {workload}", row.label).into();
                    rows.push(row);
                }
            }
        }
        panels.push(Place {
            condition: &condition.name,
            heading: condition.name.clone(),
            rows,
        });
    }
    panels.retain(|panel| !panel.rows.is_empty());
    let title = tr!(
        "{}: the same messages, spread",
        capital(language::text(definition.title))
    );
    let id = format!("spread-{}", anchor(definition.name));
    figure(definition, &panels, &id, title, SPREAD_LABEL_CHARACTERS)
}

fn figure(
    definition: &MetricDefinition,
    panels: &[Place<'_, Row<'_>>],
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

    let shown = Labels::new(rows().map(|row| &*row.label), longest_label);
    let drawn = drawn(panels, |number, panel| {
        let said: Vec<String> = (panel.rows.iter())
            .filter_map(|row| Some(format!("{} {}", row.label, scale.text(mean(row, name)?.0))))
            .collect();
        let height = Panel::HEADING + Panel::BOTTOM + ROW * panel.rows.len() as f64;
        Panel {
            id: &format!("{id}-{number}"),
            title: &tr!("Mean {} under {}", axis, panel.heading),
            description: &format!("{}.", said.join("; ")),
            heading: &panel.heading,
            y_title: "",
            x_title: &axis,
            height,
            left: room_for_rows(&shown).min(54.0 + 6.0 * longest_label as f64),
            right: 54.0,
            labels: &shown,
        }
        .draw(0.0..end, YAxis::Rows(panel.rows.len()), |svg, chart| {
            for (position, row) in panel.rows.iter().enumerate() {
                let y = chart.y(position as f64 + 0.5);
                record(svg, row, name, scale);
                svg.value(row.transport, &in_words(row, name, scale), |svg| {
                    draw_row(svg, chart, (row, shown.get(&row.label)), y, name, scale);
                });
            }
        })
    });
    let published = if rows().any(|row| row.published.is_some()) {
        tr!(" Hollow mark: published value, see the notes below its table.")
    } else {
        String::new()
    };
    Some(Figure {
        id: format!("figure-{id}"),
        title,
        caption: tr!(
            "Large mark and bar: geometric mean and its 95 % confidence interval (Student's t). Small dots: every measured trial.{} {}",
            published,
            language::text(definition.definition)
        ),
        panels: drawn,
    })
}

/// Returns the row of a transport, given as its style and its label.
fn row<'a>(
    data: &'a RunData,
    summary: &'a Summary,
    name: &str,
    (series, label): (usize, &'a str),
    condition: &'a str,
    workload: &'a str,
) -> Row<'a> {
    let published = data.header.study.published.iter();
    let mut published = published.filter(|p| {
        p.transport == label
            && p.condition == condition
            && p.is_of_workload(workload)
            && p.metric == name
    });
    Row {
        transport: label,
        label: label.into(),
        series: Some(series),
        cell: summary.cell(label, condition, workload),
        trials: values(data, label, condition, workload, name),
        published: published.next().map(|p| p.value),
    }
}

/// Returns the rows of transports that are only in the publication.
fn only_published<'a>(
    data: &'a RunData,
    name: &str,
    condition: &str,
    workload: &str,
) -> impl Iterator<Item = Row<'a>> {
    let study = &data.header.study;
    (study.published.iter())
        .filter(move |p| p.condition == condition && p.is_of_workload(workload) && p.metric == name)
        .filter(|p| !study.transports.iter().any(|t| t.label == p.transport))
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
fn in_words(row: &Row<'_>, name: &str, scale: Scale) -> String {
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
    [
        Outcome::Unsupported,
        Outcome::Failed,
        Outcome::TimedOut,
        Outcome::Invalid,
    ]
    .into_iter()
    .find(|outcome| cell.outcome(*outcome) > 0)
    .map_or_else(
        || tr!("not measured"),
        |outcome| match outcome {
            Outcome::Unsupported => tr!("unsupported here"),
            Outcome::Failed => tr!("failed"),
            Outcome::TimedOut => tr!("timed out"),
            _ => tr!("invalid"),
        },
    )
}

fn draw_row(
    svg: &mut Svg,
    chart: &Chart,
    (row, label): (&Row<'_>, &str),
    y: f64,
    name: &str,
    scale: Scale,
) {
    let x = |value: f64| chart.x(scale.apply(value));
    let ink = row.series.map_or(Ink::Muted, Ink::Series);
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
                let bar = ends.map(|end| (x(end), y));
                svg.line(&bar, ink, 2.0);
                // An interval that runs out of the panel has no cap there.
                for (x, _) in (ends.iter().zip(bar))
                    .filter(|(end, _)| chart.has_x(scale.apply(**end)))
                    .map(|(_, at)| at)
                {
                    svg.line(&[(x, y - 8.0), (x, y + 8.0)], ink, 2.0);
                }
            }
            svg.mark(series, (x(value), y), 5.0, false);
            svg.text((Panel::WIDTH - 1.0, y), &scale.text(value), Text::VALUE);
        }
        (None, _, Some(cell)) => svg.text((chart.left + 6.0, y), &absence(cell), Text::NOTE),
        _ => {}
    }
}
