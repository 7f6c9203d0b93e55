//! Figures of the report, one file each, and their common code.

mod bars;
mod by_trial;
pub mod changes;
mod columns;
mod delay;
mod distribution;
mod drawing;
mod frame;
mod heat;
pub mod hosts;
mod means;
mod over_time;
mod steps;
mod style;
mod svg;
mod sweep;

use regatta_model::{MetricDefinition, metric, metric::id};
use serde::Serialize;

use crate::{RunData, Summary, data::CellGroup, labels::Labels};
pub use drawing::{Datum, DrawnPanel};
pub(crate) use style::Styles;
pub use svg::escape;
pub(crate) use sweep::all_lines as sweep_lines;

/// Figure with its panels.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// Anchor on the page.
    pub id: String,
    /// Title: the finding of the figure.
    pub title: String,
    /// Caption: the method of the measurement, and how to read the figure.
    pub caption: String,
    /// Panels.
    pub panels: Vec<DrawnPanel>,
}

/// Figures by their place on the page.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Figures on the first screen.
    pub headline: Vec<Figure>,
    /// Figures of the sweeps by other metrics than those of the rankings.
    pub sweeps: Vec<Figure>,
    /// Figures of other means, with published values.
    pub means: Vec<Figure>,
    /// Figures of quantities over the time of a trial.
    pub over_time: Vec<Figure>,
    /// Figures of every trial.
    pub trials: Vec<Figure>,
    /// Figures of the distributions of message delay.
    pub delay: Vec<Figure>,
    /// Figures of the transports' internal state.
    pub inside: Vec<Figure>,
    /// Figures of interfaces and system of both ends over the time of a trial.
    pub both_ends: Vec<Figure>,
    /// Figures of the hosts over the time of the run.
    pub hosts: Vec<Figure>,
}

impl Figures {
    /// Changes every drawing.
    pub fn each_panel(&mut self, change: impl Fn(&mut String)) {
        let places = [
            &mut self.headline,
            &mut self.sweeps,
            &mut self.means,
            &mut self.over_time,
            &mut self.trials,
            &mut self.delay,
            &mut self.inside,
            &mut self.both_ends,
            &mut self.hosts,
        ];
        let figures = places.into_iter().flatten();
        figures
            .flat_map(|figure| &mut figure.panels)
            .for_each(|panel| change(&mut panel.svg));
    }

    /// Iterates over the figures in the order of the page.
    pub fn all(&self) -> impl Iterator<Item = &Figure> {
        let places = [
            &self.headline,
            &self.sweeps,
            &self.means,
            &self.over_time,
            &self.trials,
            &self.delay,
            &self.inside,
            &self.both_ends,
            &self.hosts,
        ];
        places.into_iter().flatten()
    }
}

/// Draws every figure for which there are values.
pub fn all(data: &RunData, summary: &Summary) -> Figures {
    // What each kind of work is ranked by, each once.
    let mut primary: Vec<&str> = Vec::new();
    for workload in &data.header.study.workloads {
        let name = data.header.study.primary_metric(workload);
        if !primary.contains(&name) {
            primary.push(name);
        }
    }
    let metrics = |names: &[&str], draw: &dyn Fn(&MetricDefinition) -> Option<Figure>| {
        let found = names.iter().filter_map(|name| metric::find(name));
        found.filter_map(draw).collect::<Vec<Figure>>()
    };
    let means = |names: &[&str]| metrics(names, &|metric| means::draw(data, summary, metric));
    let mut headline = means(&primary);
    headline.extend(metrics(&[id::MESSAGE_DELAY_P95_NS], &|metric| {
        means::draw_spread(data, summary, metric)
    }));
    let mut trials = metrics(
        &[
            id::GOODPUT_BPS,
            id::MESSAGE_DELAY_P95_NS,
            id::TIME_TO_COMPLETION_P50_NS,
            id::ROUND_TRIP_DELAY_NS,
            id::GOODPUT_PER_CORE_PERCENT_BPS,
        ],
        &|metric| distribution::draw(data, metric),
    );
    trials.extend(metrics(
        &[id::GOODPUT_BPS, id::ROUND_TRIP_DELAY_NS, id::CPU_HOST_RATIO],
        &|metric| by_trial::draw(data, metric),
    ));
    let over_time = |series: &[over_time::What]| {
        let drawn = series.iter().filter_map(|what| over_time::draw(data, what));
        drawn.collect()
    };
    let styles = Styles::of(data);
    let mut sweeps = Vec::new();
    for (number, result) in summary.sweeps.iter().enumerate() {
        let lines = sweep::draw(summary, &styles, result, number);
        if result.is_primary && bars::has_bars(result) {
            headline.extend(bars::draw(data, summary, &styles, (result, number)));
            sweeps.extend(lines);
        } else if result.is_primary {
            headline.extend(lines);
            headline.extend(heat::draw(summary, &styles, result, number));
        } else {
            sweeps.extend(lines);
        }
    }
    Figures {
        headline,
        sweeps,
        means: means(&[
            id::TIME_TO_FIRST_BYTE_P50_NS,
            id::ROUND_TRIP_DELAY_NS,
            id::CPU_HOST_RATIO,
            id::GOODPUT_PER_CORE_PERCENT_BPS,
        ]),
        over_time: over_time(&over_time::TRANSFER),
        trials,
        delay: delay::HISTOGRAMS
            .iter()
            .filter_map(|histogram| delay::draw(data, histogram))
            .collect(),
        inside: over_time(&over_time::INSIDE),
        both_ends: over_time(&over_time::BOTH_ENDS),
        hosts: hosts::draw(&data.hosts, Some(data)),
    }
}

/// Panel of a figure under construction: one condition and workload of the study.
struct Place<'a, T> {
    condition: &'a str,
    heading: String,
    /// One for each transport that has values.
    rows: Vec<T>,
}

/// Longest heading of a panel, in characters.
const LONGEST_HEADING: usize = 44;

/// Returns the panels of a figure. `row` makes the row or line of a transport from its style, its label, the
/// condition and the workload; `None` if it has no values.
fn panels<'a, T>(
    data: &'a RunData,
    row: impl Fn(usize, &'a str, &'a str, &'a str) -> Option<T>,
) -> Vec<Place<'a, T>> {
    let styles = Styles::of(data);
    let headings: Vec<String> = data.plain_groups().map(|group| group.heading()).collect();
    let headings = Labels::new(headings.iter().map(String::as_str), LONGEST_HEADING);
    let panel = |group: CellGroup<'a>| Place {
        condition: &group.condition.name,
        heading: headings.get(&group.heading()).to_owned(),
        rows: labels(data)
            .filter_map(|label| {
                let (condition, workload) = (&group.condition.name, &group.workload.name);
                row(styles.get(label), label, condition, workload)
            })
            .collect(),
    };
    data.plain_groups().map(panel).collect()
}

/// Draws the panels that have rows; `draw` gets a panel and its number.
fn drawn<T>(
    panels: &[Place<'_, T>],
    draw: impl Fn(usize, &Place<'_, T>) -> DrawnPanel,
) -> Vec<DrawnPanel> {
    let with_rows = panels.iter().enumerate();
    with_rows
        .filter(|(_, panel)| !panel.rows.is_empty())
        .map(|(number, panel)| under(panel.condition, draw(number, panel)))
        .collect()
}

/// Names the condition of a drawing, which disappears when a reader switches the condition off.
fn under(condition: &str, panel: DrawnPanel) -> DrawnPanel {
    let condition = escape(condition);
    let class = "<svg class=\"panel\"";
    let named = format!("{class} data-c=\"{condition}\"");
    DrawnPanel {
        svg: panel.svg.replacen(class, &named, 1),
        ..panel
    }
}

/// Returns the labels of a study's transports.
fn labels(data: &RunData) -> impl Iterator<Item = &str> {
    let transports = data.header.study.transports.iter();
    transports.map(|transport| transport.label.as_str())
}

/// Returns the labels of a study's transports as lines show them.
fn line_labels(data: &RunData) -> Labels {
    Labels::new(labels(data), frame::LABEL_CHARACTERS)
}

/// Returns the finite values of a metric in the measured trials of a cell.
fn values<'a>(
    data: &'a RunData,
    label: &'a str,
    condition: &'a str,
    workload: &'a str,
    name: &str,
) -> Vec<f64> {
    data.measured(label, condition, workload)
        .filter_map(|trial| trial.measurements.metrics.get(name).copied())
        .filter(|value| value.is_finite())
        .collect()
}

/// Converts a name such as `goodput_bps` to a part of an anchor.
fn anchor(name: &str) -> String {
    name.replace('_', "-")
}
