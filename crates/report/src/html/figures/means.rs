//! Figure of means with their interval, every trial, and published values, one row for each
//! transport.

use std::borrow::Cow;

use itertools::Itertools as _;
use regatta_model::{
    MetricDefinition, Outcome, Unit, Workload, WorkloadKind,
    metric::{Place, id, names_in},
};

use super::{
    Figure, LABEL_CHARACTERS, PanelData, Source, anchor,
    axis::{XAxis, axis_end, largest, log_ticks, tick},
    defined, labels,
    marks::{Mark, Mean, Row, RowHead},
    of_metrics, panels,
    plot::{Axes, Panel, Plot},
    published, title_of, values,
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

/// Maximum number of ticks of a logarithmic axis.
const TICKS: usize = 6;

/// Ratio of the largest to the smallest trial above which an axis of times is logarithmic: sizes that span decades would
/// leave nothing to see of the small ones.
const WIDE: f64 = 40.0;

/// One transport in one panel.
struct Values<'a> {
    transport: &'a str,
    label: Cow<'a, str>,
    /// Style; `None` for a transport that is only in the publication.
    series: Option<usize>,
    cell: Option<&'a Cell>,
    trials: Vec<f64>,
    published: Option<f64>,
}

/// Draws the metrics of the rankings, each once.
pub fn of_rankings(source: &Source<'_>) -> Vec<Figure> {
    let study = &source.data.header.study;
    let primary = study.workloads.iter().map(|it| study.primary_metric(it));
    let primary: Vec<&str> = primary.unique().collect();
    of_metrics(&primary, |metric| draw(source, metric))
}

/// Draws the other means, with published values.
pub fn further(source: &Source<'_>) -> Vec<Figure> {
    of_metrics(&Vec::from_iter(names_in(Place::Means)), |metric| {
        draw(source, metric)
    })
}

/// Draws the delay of messages that are spread in several ways.
pub fn spread(source: &Source<'_>) -> Vec<Figure> {
    let delay = [id::MESSAGE_DELAY_P95_NS];
    of_metrics(&delay, |metric| draw_spread(source, metric))
}

/// Draws the figure of one metric, or nothing if no trial has it.
fn draw(source: &Source<'_>, definition: &MetricDefinition) -> Option<Figure> {
    let (data, summary) = (source.data, source.summary);
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
    figure(definition, panels, &id, title, LABEL_CHARACTERS)
}

/// Draws one metric of every workload that spreads messages, side by side, which shows the cost of
/// blocking by the loss of another message. `None` if the study has fewer than two of them.
fn draw_spread(source: &Source<'_>, definition: &MetricDefinition) -> Option<Figure> {
    let (data, summary, styles) = (source.data, source.summary, &source.styles);
    let study = &data.header.study;
    let is_spread = |it: &&Workload| matches!(it.kind, WorkloadKind::MultiStream { .. });
    let spread = study.workloads.iter().filter(is_spread);
    if spread.clone().count() < 2 {
        return None;
    }
    let panels = study.conditions.iter().map(|condition| {
        let rows = labels(data).cartesian_product(spread.clone());
        let rows = rows.map(|(label, Workload { name: workload, .. })| Values {
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
    let panels: Vec<PanelData<'_, Values<'_>>> = panels.collect();
    let title = tr!("{}: the same messages, spread", title_of(definition));
    let id = format!("spread-{}", anchor(definition.name));
    figure(definition, panels, &id, title, SPREAD_LABEL_CHARACTERS)
}

fn figure(
    definition: &MetricDefinition,
    panels: Vec<PanelData<'_, Values<'_>>>,
    id: &str,
    title: String,
    longest_label: usize,
) -> Option<Figure> {
    let name = definition.name;
    if panels.is_empty() {
        return None;
    }
    let rows = || panels.iter().flat_map(|panel| &panel.rows);
    let ends = rows().filter_map(|row| row.mean(name)?.1);
    let highest_end = largest(ends.map(|[_, high]| high));
    let values = rows().flat_map(|row| row.trials.iter().copied().chain(row.published));
    let highest_value = largest(values);
    // An interval of very few trials can be far wider than anything that was measured; the axis
    // follows the values and lets such an interval run out of the panel.
    let highest = highest_value.max(highest_end).min(highest_value * 1.5);
    let scale = Scale::for_largest(definition.unit, highest);
    let all = rows().flat_map(|row| &row.trials);
    let least = all.copied().fold(f64::INFINITY, f64::min);
    let is_log = definition.unit == Unit::Nanoseconds && least > 0.0 && highest / least > WIDE;
    let (title_of_axis, end) = (
        scale.heading(definition.title),
        axis_end(scale.apply(highest)),
    );
    let x = match is_log {
        true => {
            let range = scale.apply(least) / 1.25..end;
            let ticks = log_ticks(&range, TICKS).into_iter();
            let ticks = ticks.map(|value| (value, tick(value)));
            XAxis::logarithmic(title_of_axis, scale, &range, ticks.collect())
        }
        false => XAxis::linear(title_of_axis, scale, 0.0..end),
    };
    let published = match rows().any(|row| row.published.is_some()) {
        true => tr!(" Hollow mark: published value, see the notes below its table."),
        false => String::new(),
    };
    let logarithmic = match is_log {
        true => tr!(" The axis is logarithmic."),
        false => String::new(),
    };
    let shown = Labels::new(rows().map(|row| &*row.label), longest_label);
    let panels = panels.into_iter().map(|panel| {
        let (panel, rows) = panel.split();
        let text = |row: &Values<'_>| Some(scale.text(row.mean(name)?.0));
        let means = rows.iter();
        let mut means = means.filter_map(|row| Some(format!("{} {}", row.label, text(row)?)));
        Panel {
            title: tr!("Mean {} under {}", x.title, panel.heading),
            description: format!("{}.", means.join("; ")),
            marks: rows.into_iter().map(|row| row.mark(name, scale)).collect(),
            ..panel
        }
    });
    let panels = panels.collect();
    Plot {
        id: id.to_owned(),
        title,
        caption: tr!(
            "Large mark and bar: mean and its 95 % confidence interval, of each transport alone. Small dots: every measured trial.{}{}",
            published,
            logarithmic
        ),
        definition: defined(definition),
        panels,
        axes: Axes::Rows {
            x,
            height: ROW,
            labels: 54.0 + 6.0 * longest_label as f64,
            values: 54.0,
        },
        labels: shown,
    }
    .draw()
}

/// Returns the row of a cell, whose transport has the style `series`.
fn row<'a>(
    data: &'a RunData,
    summary: &'a Summary,
    name: &str,
    series: usize,
    cell: CellKey<'a>,
) -> Values<'a> {
    let [label, condition, workload] = cell;
    Values {
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
) -> impl Iterator<Item = Values<'a>> {
    let study = &data.header.study;
    (study.published.iter())
        .filter(move |it| it.condition == group.condition.name && it.metric == name)
        .filter(move |it| it.is_of_workload(&group.workload.name))
        .filter(|it| !labels(data).contains(&it.transport.as_str()))
        .map(|p| Values {
            transport: &p.transport,
            label: p.transport.as_str().into(),
            series: None,
            cell: None,
            trials: Vec::new(),
            published: Some(p.value),
        })
}

impl<'a> Values<'a> {
    fn mean(&self, name: &str) -> Option<(f64, Option<[f64; 2]>)> {
        self.cell?.shown(name)
    }

    /// Returns the row of a metric; `scale` is that of its texts.
    fn mark(self, name: &str, scale: Scale) -> Mark<'a> {
        let mean = self.mean(name);
        let n = || Some(self.cell?.metrics.get(name)?.n);
        Mark::Row(Row {
            mean: mean.map(|(value, interval)| Mean {
                kind: "mean",
                value,
                interval,
                n: n(),
                is_hollow: false,
                cap: 8.0,
            }),
            note: match (mean, self.cell) {
                (None, Some(cell)) => absence(cell),
                _ => String::new(),
            },
            head: RowHead {
                transport: self.transport,
                series: self.series,
                text: self.text(mean, n().unwrap_or(0), scale),
                value: mean.map_or_else(String::new, |(value, _)| scale.text(value)),
                label: self.label,
            },
            trials: self.trials,
            published: self.published,
        })
    }

    /// Describes the row: value, interval, number of trials, published value.
    fn text(&self, mean: Option<(f64, Option<[f64; 2]>)>, n: u64, scale: Scale) -> String {
        let value = match (mean, self.cell) {
            (Some((value, interval)), _) => scale.estimate(value, interval, n),
            (None, Some(cell)) => absence(cell),
            (None, None) => tr!("only published"),
        };
        let published = self.published.map_or_else(String::new, |value| {
            tr!("\npublished: {}", scale.quantity(value))
        });
        format!("{}: {value}{published}", self.label)
    }
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
