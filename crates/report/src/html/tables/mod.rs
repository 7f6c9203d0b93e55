//! Tables of the page.

mod answer;
mod background;
mod claims;
mod compared;
mod results;
mod sweeps;

use itertools::Itertools as _;
use regatta_model::{MetricDefinition, metric};
use serde::Serialize;

use super::figures::Styles;
use crate::{
    Summary,
    analysis::{Cell, MeanOfAll},
    data::CellGroup,
    format::{Scale, is_of_equals},
    language::tr,
};
pub use answer::{answer, telling};
pub use background::{
    conditions, facts, hosts, outcomes, path, stacks, transports, unlisted_path_checks,
};
pub use claims::claims;
pub use compared::{comparisons, differences, published, published_notes};
pub use results::{columns, descriptions, every_metric, loss, means};
pub use sweeps::sweeps;

/// Table under a caption.
#[derive(Debug, Serialize)]
pub struct Table {
    caption: String,
    head: Vec<String>,
    rows: Vec<Row>,
    /// Name of the condition of all rows; empty without one.
    condition: String,
    /// Whether the table is folded when the page opens.
    folded: bool,
    /// Name to which links lead; empty without one.
    anchor: String,
}

/// Row of a table: its heading and its cells.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Style of the transport, for its mark; `-1` for rows of other things.
    series: i64,
    heading: String,
    cells: Vec<Entry>,
    /// Name to which links lead; empty without one.
    anchor: String,
}

/// Cell of a table.
#[derive(Debug, Default, Serialize)]
pub struct Entry {
    text: String,
    /// Second line in smaller type: an interval, or a note.
    sub: String,
    /// Whether the cell has text instead of a figure.
    words: bool,
    /// Links to rows and tables of the page.
    links: Vec<Link>,
}

/// Link within the page.
#[derive(Debug, Serialize)]
pub struct Link {
    /// Name of the row or table.
    anchor: String,
    text: String,
}

impl Table {
    fn new<H: Into<String>>(
        caption: impl Into<String>,
        head: impl IntoIterator<Item = H>,
        rows: impl IntoIterator<Item = Row>,
    ) -> Self {
        Self {
            caption: caption.into(),
            head: head.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
            condition: String::new(),
            folded: false,
            anchor: String::new(),
        }
    }

    /// Names the condition of all rows.
    fn under(self, condition: &str) -> Self {
        Self {
            condition: condition.to_owned(),
            ..self
        }
    }

    fn folded(self, folded: bool) -> Self {
        Self { folded, ..self }
    }

    fn anchored(self, anchor: String) -> Self {
        Self { anchor, ..self }
    }
}

/// Returns the headings of a table whose rows are transports.
fn after_transport(further: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    std::iter::once(tr!("transport")).chain(further)
}

/// Creates a row of something other than a transport.
fn row(heading: impl Into<String>, cells: impl IntoIterator<Item = Entry>) -> Row {
    Row {
        series: -1,
        heading: heading.into(),
        cells: cells.into_iter().collect(),
        anchor: String::new(),
    }
}

/// Creates the row of the transport with this label, without a mark for one that only a publication measured.
fn transport_row(styles: &Styles, label: &str, cells: impl IntoIterator<Item = Entry>) -> Row {
    Row {
        series: styles.known(label).map_or(-1, |style| style as i64),
        ..row(label, cells)
    }
}

fn figure(text: impl Into<String>) -> Entry {
    Entry {
        text: text.into(),
        ..Entry::default()
    }
}

/// Creates a figure with a second line.
fn figure_over(text: impl Into<String>, sub: impl Into<String>) -> Entry {
    Entry {
        sub: sub.into(),
        ..figure(text)
    }
}

fn text_cell(text: impl Into<String>) -> Entry {
    Entry {
        words: true,
        ..figure(text)
    }
}

fn none() -> Entry {
    figure("–")
}

/// Formats an interval as `[low, high]`; empty without one.
fn interval(ends: Option<[String; 2]>) -> String {
    ends.map_or_else(String::new, |[low, high]| format!("[{low}, {high}]"))
}

/// Metrics in the columns of a table with their scales.
struct Columns(Vec<(&'static MetricDefinition, Scale)>);

impl Columns {
    /// Returns the columns of those `metrics` that occur in at least one cell for which `of` is true.
    fn present(
        summary: &Summary,
        metrics: &[&'static MetricDefinition],
        of: impl Fn(&Cell) -> bool,
    ) -> Self {
        let is_present = |metric: &MetricDefinition| {
            let mut cells = summary.cells.iter();
            cells.any(|cell| of(cell) && cell.metrics.contains_key(metric.name))
        };
        let present = metrics.iter().filter(|metric| is_present(metric));
        Self(present.map(|m| (*m, scale(summary, m))).collect())
    }

    fn headings(&self) -> impl Iterator<Item = String> {
        let columns = self.0.iter();
        columns.map(|(metric, scale)| scale.heading(metric.title))
    }

    /// Returns the means of a cell.
    fn means(&self, cell: &Cell) -> impl Iterator<Item = Entry> {
        let columns = self.0.iter();
        columns.map(|(metric, scale)| mean_entry(cell, metric.name, *scale))
    }
}

fn definitions(names: &[&str]) -> Vec<&'static MetricDefinition> {
    names.iter().filter_map(|name| metric::find(name)).collect()
}

/// Returns the scale of a metric over the whole report, so that tables can be compared.
fn scale(summary: &Summary, definition: &MetricDefinition) -> Scale {
    let shown = (summary.cells.iter()).filter_map(|cell| cell.shown(definition.name));
    let largest = shown.map(|(value, _)| value).fold(0.0, f64::max);
    Scale::for_largest(definition.unit, largest)
}

fn cells_of<'a>(summary: &'a Summary, group: CellGroup<'a>) -> impl Iterator<Item = &'a Cell> {
    let cells = summary.cells.iter();
    cells.filter(move |cell| group.is(&cell.condition, &cell.workload))
}

/// Returns the mean of a cell with its interval.
fn mean_entry(cell: &Cell, name: &str, scale: Scale) -> Entry {
    let Some((value, ends)) = cell.shown(name) else {
        return none();
    };
    let all = (cell.metrics.get(name)).and_then(|metric| metric.of_all.as_ref());
    let sub = match ends {
        None if all.is_some_and(MeanOfAll::lacks_rounds) => String::new(),
        None => tr!("no interval: one trial"),
        Some(ends) if is_of_equals(ends) => tr!("equal in all trials"),
        Some(ends) => interval(Some(scale.ends(value, ends))),
    };
    let kind = cell.kind_of_mean(name).into_iter();
    let sub = [sub]
        .into_iter()
        .filter(|sub| !sub.is_empty())
        .chain(kind)
        .join(", ");
    figure_over(cell.text(name, value, scale), sub)
}
