//! Figures of the report, one file each, and their common code.

mod axis;
mod bars;
mod by_trial;
pub mod changes;
mod chart;
mod columns;
mod competition;
mod delay;
mod distribution;
mod drawing;
mod heat;
pub mod hosts;
mod marks;
mod means;
mod over_time;
mod overlays;
mod parameter_axis;
mod phase;
mod plot;
mod steps;
mod style;
mod svg;
mod sweep;
mod sweeps;

use std::collections::BTreeSet;

use regatta_model::{Condition, METRICS, MetricDefinition, Workload, metric};
use serde::{Serialize, Serializer};

use crate::{
    RunData, Summary,
    analysis::{SweepCell, SweepResult},
    data::{CellGroup, CellKey},
    format::capital,
    labels::Labels,
    language::{self, tr},
};
pub use drawing::{Datum, DrawnPanel};
use plot::Panel;
pub(crate) use style::Styles;
pub use svg::{colour_and_mark, escape};
pub(crate) use sweep::all_lines as sweep_lines;

/// Figure with its panels.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// Anchor on the page.
    pub id: String,
    /// Title: the finding of the figure.
    pub title: String,
    /// Caption: how to read the figure.
    pub caption: String,
    /// Definition of what is shown, and the method of its measurement.
    pub definition: String,
    /// Panels.
    pub panels: Vec<DrawnPanel>,
}

impl Figure {
    /// Whether all values of the figure are zero.
    fn is_zero(&self) -> bool {
        let data = || self.panels.iter().flat_map(|panel| &panel.data);
        let is_zero = |datum: &Datum| {
            let ends = datum.interval.into_iter().flatten();
            datum
                .value
                .into_iter()
                .chain(ends)
                .all(|value| value == 0.0)
        };
        data().next().is_some() && data().all(is_zero)
    }
}

/// Takes the figures whose values are all zero out of a list; returns their titles.
pub fn take_zeros(figures: &mut Vec<Figure>) -> Vec<String> {
    let zero = figures.extract_if(.., |figure| figure.is_zero());
    zero.map(|figure| figure.title).collect()
}

/// Returns the sentence about figures that are left out because all of their values are zero; empty if none is.
pub fn about_zeros(titles: &[String]) -> String {
    match titles.is_empty() {
        true => String::new(),
        false => tr!(
            "Zero throughout, and therefore without a figure: {}.",
            titles.join("; ")
        ),
    }
}

/// Figures by section of the page, in its order.
#[derive(Debug)]
pub struct Figures {
    sections: Vec<(&'static str, Vec<Figure>)>,
    /// Titles of figures that are left out because all of their values are zero.
    zero: Vec<String>,
}

impl Figures {
    /// Changes every drawing.
    pub fn each_panel(&mut self, change: impl Fn(&mut String)) {
        let figures = self.sections.iter_mut().flat_map(|(_, figures)| figures);
        let panels = figures.flat_map(|figure| &mut figure.panels);
        panels.for_each(|panel| change(&mut panel.svg));
    }

    /// Iterates over the figures in the order of the page.
    pub fn all(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|(_, figures)| figures)
    }

    /// Leaves the definition of a quantity to the first figure that shows it. `listed` is whether the definitions of
    /// metrics are listed elsewhere in the document.
    pub fn define_once(&mut self, listed: bool) {
        let mut seen = BTreeSet::new();
        if listed {
            seen.extend(METRICS.iter().map(defined));
        }
        let figures = self.sections.iter_mut().flat_map(|(_, figures)| figures);
        for figure in figures {
            if !seen.insert(figure.definition.clone()) {
                figure.definition.clear();
            }
        }
    }

    /// Returns the sentence about the figures that are left out because all of their values are zero; empty if none is.
    pub fn about_zeros(&self) -> String {
        about_zeros(&self.zero)
    }

    /// Leaves out the figures whose values are all zero, but for those of the first screen, which answer the question.
    fn without_zeros(mut sections: Vec<(&'static str, Vec<Figure>)>) -> Self {
        let mut zero = Vec::new();
        for (_, figures) in sections.iter_mut().filter(|(name, _)| *name != "headline") {
            zero.extend(take_zeros(figures));
        }
        Self { sections, zero }
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(
            self.sections
                .iter()
                .map(|(section, figures)| (section, figures)),
        )
    }
}

/// Run whose figures are drawn.
struct Source<'a> {
    data: &'a RunData,
    summary: &'a Summary,
    styles: Styles,
    /// Cells that no sweep made.
    plain: Vec<Group<'a>>,
    /// Cells of some values of each sweep.
    swept: Vec<Group<'a>>,
}

/// Function that draws figures for which there are values.
type Draw = fn(&Source<'_>) -> Vec<Figure>;

/// All figures in the order of the page: their section, and the function that draws them.
const FIGURES: [(&str, Draw); 14] = [
    // On the first screen.
    ("headline", means::of_rankings),
    ("headline", means::spread),
    ("headline", sweeps::of_rankings),
    ("headline", competition::matrix),
    // Sweeps by other metrics than those of the rankings.
    ("sweeps", sweeps::further),
    // Other means, with published values.
    ("means", means::further),
    // Quantities over the time of a trial.
    ("over_time", |it| over_time::all(it, &over_time::TRANSFER)),
    ("over_time", phase::all),
    // Every trial.
    ("trials", distribution::all),
    ("trials", by_trial::all),
    // Distributions of message delay.
    ("delay", delay::all),
    // Internal state of the transports.
    ("inside", |it| over_time::all(it, &over_time::INSIDE)),
    // Interfaces and system of both ends over the time of a trial.
    ("both_ends", |it| over_time::all(it, &over_time::BOTH_ENDS)),
    // Hosts over the time of the run.
    ("hosts", |it| hosts::draw(&it.data.hosts, Some(it.data))),
];

/// Draws every figure for which there are values.
pub fn all(data: &RunData, summary: &Summary) -> Figures {
    let styles = Styles::of(data);
    let source = Source {
        data,
        summary,
        plain: plain(data),
        swept: swept(data, summary, &styles),
        styles,
    };
    let sections = FIGURES.chunk_by(|a, b| a.0 == b.0).map(|of_section| {
        let figures = of_section.iter().flat_map(|(_, draw)| draw(&source));
        (of_section[0].0, figures.collect())
    });
    Figures::without_zeros(sections.collect())
}

/// Draws a figure of each of these metrics.
fn of_metrics(names: &[&str], draw: impl Fn(&MetricDefinition) -> Option<Figure>) -> Vec<Figure> {
    let found = names.iter().filter_map(|name| metric::find(name));
    found.filter_map(draw).collect()
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

/// Longest label beside a panel, in characters.
const LABEL_CHARACTERS: usize = 16;

/// Cells that share a panel: one condition and workload, and a line for each transport.
struct Group<'a> {
    condition: &'a Condition,
    workload: &'a Workload,
    heading: String,
    /// Whether other values of its sweep have no group.
    is_selected: bool,
    /// Style, label and cell of each line.
    lines: Vec<(usize, &'a str, CellKey<'a>)>,
}

/// Returns the groups of the cells that no sweep made.
fn plain<'a>(data: &'a RunData) -> Vec<Group<'a>> {
    let styles = Styles::of(data);
    let headings: Vec<String> = data.plain_groups().map(|group| group.heading()).collect();
    let headings = Labels::new(&headings, LONGEST_HEADING);
    let group = |group: CellGroup<'a>| Group {
        condition: group.condition,
        workload: group.workload,
        heading: headings.get(&group.heading()).to_owned(),
        is_selected: false,
        lines: labels(data)
            .filter(|label| data.header.study.has_cell(label, group.workload))
            .map(|label| (styles.get(label), label, group.cell(label)))
            .collect(),
    };
    data.plain_groups().map(group).collect()
}

/// Maximum number of groups of a sweep that are shown over time.
const MAX_SWEPT: usize = 4;

/// Returns the groups of some values of each sweep: the first, the last and others at equal distances.
fn swept<'a>(data: &'a RunData, summary: &'a Summary, styles: &Styles) -> Vec<Group<'a>> {
    let study = &data.header.study;
    let sweeps = || summary.sweeps.iter().filter(|sweep| sweep.is_primary);
    let is_single = sweeps().count() == 1;
    let of_sweep = |sweep: &'a SweepResult| {
        let positions: BTreeSet<&[u32]> = sweep.cells.iter().map(|cell| &cell.at[..]).collect();
        let positions: Vec<&[u32]> = positions.into_iter().collect();
        let shown = positions.len().min(MAX_SWEPT);
        let is_selected = shown < positions.len();
        let at = move |n: usize| positions[n * (positions.len() - 1) / (shown - 1).max(1)];
        (0..shown).map(at).filter_map(move |at| {
            let cells = || sweep.cells.iter().filter(|cell| cell.at == at);
            let first = cells().next()?;
            let condition = study
                .conditions
                .iter()
                .find(|it| it.name == first.condition)?;
            let workload = study
                .workloads
                .iter()
                .find(|it| it.name == first.workload)?;
            let values = sweep::combination_label(sweep, 0, at);
            let key = |cell: &'a SweepCell| {
                [&cell.transport, &cell.condition, &cell.workload].map(String::as_str)
            };
            let line =
                |cell: &'a SweepCell| (styles.get(&cell.line), cell.line.as_str(), key(cell));
            Some(Group {
                condition,
                workload,
                heading: match is_single {
                    true => values,
                    false => format!("{}, {}, {values}", sweep.condition, sweep.workload),
                },
                is_selected,
                lines: cells().map(line).collect(),
            })
        })
    };
    let mut groups: Vec<Group<'_>> = sweeps().flat_map(of_sweep).collect();
    let headings = Labels::new(groups.iter().map(|it| &it.heading), LONGEST_HEADING);
    for group in &mut groups {
        group.heading = headings.get(&group.heading).to_owned();
    }
    groups
}

/// Returns the panels of a figure. `row` makes the row or line of a transport from its style and its cell; `None` if it
/// has no values.
fn panels<'a, T>(
    data: &'a RunData,
    row: impl Fn(usize, CellKey<'a>) -> Option<T>,
) -> Vec<PanelData<'a, T>> {
    panels_of_groups(&plain(data), |series, _, cell| row(series, cell))
}

/// Returns the panels of groups. `row` makes the row or line from its style, label and cell.
fn panels_of_groups<'a: 'g, 'g, T>(
    groups: impl IntoIterator<Item = &'g Group<'a>>,
    row: impl Fn(usize, &'a str, CellKey<'a>) -> Option<T>,
) -> Vec<PanelData<'a, T>> {
    let panel = |group: &Group<'a>| PanelData {
        condition: &group.condition.name,
        heading: group.heading.clone(),
        rows: group
            .lines
            .iter()
            .filter_map(|(series, label, cell)| row(*series, label, *cell))
            .collect(),
    };
    groups.into_iter().map(panel).collect()
}

impl<'a, T> PanelData<'a, T> {
    /// Returns the panel without contents, and its rows.
    fn split(self) -> (Panel<'a>, Vec<T>) {
        let panel = Panel {
            condition: Some(self.condition),
            heading: self.heading,
            ..Panel::default()
        };
        (panel, self.rows)
    }
}

/// Returns the labels of a study's transports.
fn labels(data: &RunData) -> impl Iterator<Item = &str> {
    let transports = data.header.study.transports.iter();
    transports.map(|transport| transport.label.as_str())
}

/// Returns the labels of a study's transports as lines show them.
fn line_labels(data: &RunData) -> Labels {
    Labels::new(labels(data), LABEL_CHARACTERS)
}

/// Returns the finite values of a metric in the measured trials of a cell.
fn values<'a>(data: &'a RunData, cell: CellKey<'a>, name: &str) -> Vec<f64> {
    data.values(cell, name).map(|(_, value)| value).collect()
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

/// Endings of the names of metrics that are defined by the mean of the same samples.
const STATISTICS: [&str; 5] = ["_p50_ns", "_p95_ns", "_p99_ns", "_max_ns", "_last_ns"];

/// Returns the definition of a metric for a caption that is read alone: with that of the mean where it refers to "the
/// same" samples.
fn defined(metric: &MetricDefinition) -> String {
    let definition = language::text(metric.definition);
    match mean_of(metric) {
        Some(base) => format!(
            "{}: {} {}: {definition}",
            title_of(base),
            language::text(base.definition),
            title_of(metric)
        ),
        None => definition.to_owned(),
    }
}

/// Returns the mean of the samples to which the definition of a metric refers as "the same"; `None` for others.
pub fn mean_of(metric: &MetricDefinition) -> Option<&'static MetricDefinition> {
    let mut endings = STATISTICS.into_iter();
    let stem = endings.find_map(|ending| metric.name.strip_suffix(ending))?;
    let mean = metric::find(&format!("{stem}_mean_ns"))?;
    metric.definition.contains(" the same ").then_some(mean)
}

/// Converts a name such as `goodput_bps` to a part of an anchor.
fn anchor(name: &str) -> String {
    name.replace('_', "-")
}
