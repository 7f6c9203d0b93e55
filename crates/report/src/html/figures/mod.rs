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

use itertools::Itertools as _;
use regatta_model::{MetricDefinition, metric, metric::id};
use serde::{Serialize, Serializer};

use crate::{
    RunData, Summary,
    data::{CellGroup, CellKey},
    format::capital,
    labels::Labels,
    language,
};
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

/// Figures by section of the page, in its order.
#[derive(Debug)]
pub struct Figures([(&'static str, Vec<Figure>); 9]);

impl Figures {
    /// Changes every drawing.
    pub fn each_panel(&mut self, change: impl Fn(&mut String)) {
        let figures = self.0.iter_mut().flat_map(|(_, figures)| figures);
        let panels = figures.flat_map(|figure| &mut figure.panels);
        panels.for_each(|panel| change(&mut panel.svg));
    }

    /// Iterates over the figures in the order of the page.
    pub fn all(&self) -> impl Iterator<Item = &Figure> {
        self.0.iter().flat_map(|(_, figures)| figures)
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(section, figures)| (section, figures)))
    }
}

/// Draws every figure for which there are values.
pub fn all(data: &RunData, summary: &Summary) -> Figures {
    // The metric of the ranking of each kind of work, each once.
    let study = &data.header.study;
    let primary = study.workloads.iter().map(|it| study.primary_metric(it));
    let primary: Vec<&str> = primary.unique().collect();
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
            id::ROUND_TRIP_DELAY_P50_NS,
            id::GOODPUT_PER_CORE_PERCENT_BPS,
        ],
        &|metric| distribution::draw(data, metric),
    );
    trials.extend(metrics(
        &[
            id::GOODPUT_BPS,
            id::ROUND_TRIP_DELAY_P50_NS,
            id::CPU_HOST_RATIO,
        ],
        &|metric| by_trial::draw(data, metric),
    ));
    let over_time = |series: &[over_time::Quantity]| -> Vec<Figure> {
        let drawn = series.iter().filter_map(|it| over_time::draw(data, it));
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
    let other_means = means(&[
        id::TIME_TO_FIRST_BYTE_P50_NS,
        id::ROUND_TRIP_DELAY_P50_NS,
        id::CPU_HOST_RATIO,
        id::GOODPUT_PER_CORE_PERCENT_BPS,
    ]);
    let delays = delay::HISTOGRAMS.iter();
    let delays = delays.filter_map(|histogram| delay::draw(data, histogram));
    Figures([
        // On the first screen.
        ("headline", headline),
        // Sweeps by other metrics than those of the rankings.
        ("sweeps", sweeps),
        // Other means, with published values.
        ("means", other_means),
        // Quantities over the time of a trial.
        ("over_time", over_time(&over_time::TRANSFER)),
        // Every trial.
        ("trials", trials),
        // Distributions of message delay.
        ("delay", delays.collect()),
        // Internal state of the transports.
        ("inside", over_time(&over_time::INSIDE)),
        // Interfaces and system of both ends over the time of a trial.
        ("both_ends", over_time(&over_time::BOTH_ENDS)),
        // Hosts over the time of the run.
        ("hosts", hosts::draw(&data.hosts, Some(data))),
    ])
}

/// Panel of a figure under construction: one condition and workload of the study.
struct PanelData<'a, T> {
    condition: &'a str,
    heading: String,
    /// One for each transport that has values.
    rows: Vec<T>,
}

/// Longest heading of a panel, in characters.
const LONGEST_HEADING: usize = 44;

/// Returns the panels of a figure. `row` makes the row or line of a transport from its style and its cell; `None` if it
/// has no values.
fn panels<'a, T>(
    data: &'a RunData,
    row: impl Fn(usize, CellKey<'a>) -> Option<T>,
) -> Vec<PanelData<'a, T>> {
    let styles = Styles::of(data);
    let headings: Vec<String> = data.plain_groups().map(|group| group.heading()).collect();
    let headings = Labels::new(&headings, LONGEST_HEADING);
    let panel = |group: CellGroup<'a>| PanelData {
        condition: &group.condition.name,
        heading: headings.get(&group.heading()).to_owned(),
        rows: labels(data)
            .filter_map(|label| row(styles.get(label), group.cell(label)))
            .collect(),
    };
    data.plain_groups().map(panel).collect()
}

/// Draws the panels that have rows; `draw` gets a panel and its number.
fn drawn<T>(
    panels: &[PanelData<'_, T>],
    draw: impl Fn(usize, &PanelData<'_, T>) -> DrawnPanel,
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
fn values<'a>(data: &'a RunData, cell: CellKey<'a>, name: &str) -> Vec<f64> {
    data.measured(cell)
        .filter_map(|trial| trial.measurements.metrics.get(name).copied())
        .filter(|value| value.is_finite())
        .collect()
}

/// Returns the published value of a metric of a cell.
fn published(
    data: &RunData,
    name: &str,
    [transport, condition, workload]: CellKey<'_>,
) -> Option<f64> {
    let mut published = data.header.study.published.iter();
    let of_cell = published.find(|it| {
        it.metric == name
            && it.transport == transport
            && it.condition == condition
            && it.is_of_workload(workload)
    });
    of_cell.map(|it| it.value)
}

/// Returns the title of a metric for the beginning of a sentence.
fn title_of(metric: &MetricDefinition) -> String {
    capital(language::text(metric.title))
}

/// Converts a name such as `goodput_bps` to a part of an anchor.
fn anchor(name: &str) -> String {
    name.replace('_', "-")
}
