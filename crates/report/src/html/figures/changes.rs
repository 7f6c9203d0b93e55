//! Figure of the changes from one run to another: one row for each cell, by the metric of its
//! workload's ranking.

use itertools::Itertools as _;

use super::{
    Figure, LABEL_CHARACTERS, LONGEST_HEADING,
    axis::{PLAIN, XAxis, axis_end, largest},
    marks::{Mark, Mean, Row, RowHead},
    plot::{Axes, Panel, Plot},
    style::Styles,
};
use crate::{
    compare::{CellPair, MetricPair, PairOfRuns, figures, outcome, title_with_mean},
    format::{grouped, is_narrow, signed_percent},
    labels::Labels,
};

const ROW: f64 = 26.0;

/// Half of the narrowest axis, in per cent.
const NARROWEST: f64 = 1.0;

/// Draws the changes of the cells of a pair, one panel for each condition and workload; `None` if
/// no cell has a ratio. `cells` are those to draw.
pub fn draw(pair: &PairOfRuns, cells: &[&CellPair]) -> Option<Figure> {
    let transports = || pair.cells.iter().map(|cell| cell.name.transport.as_str());
    let styles = Styles::new(transports());
    let groups = grouped(cells.iter().filter_map(|cell| {
        let label = cell.name.transport.as_str();
        let change = Change {
            condition: &cell.name.condition,
            label,
            series: styles.get(label),
            metric: cell.primary().filter(|metric| metric.ratio.is_some())?,
        };
        let heading = format!("{}, {}", cell.name.condition, cell.name.workload);
        Some((heading, change))
    }));
    let changes = || groups.iter().flat_map(|(_, changes)| changes);
    let values = largest(changes().map(|change| change.percent().abs()));
    let ends = changes().filter_map(Change::interval);
    let ends = ends.flatten().map(f64::abs);
    // As in the figure of means, an interval of very few rounds may run out of the panel.
    let end = axis_end(largest(ends).min(values * 3.0).max(values).max(NARROWEST));
    // Nothing falls by more than all of it.
    let x = |title| XAxis::linear(title, PLAIN, -end.min(100.0)..end);
    let headings = Labels::new(groups.iter().map(|(heading, _)| heading), LONGEST_HEADING);
    let panels = groups.iter().map(|(heading, changes)| {
        let heading = headings.get(heading);
        let title = title_with_mean(changes[0].metric);
        let texts = changes.iter();
        let mut texts = texts.map(|change| format!("{} {}", change.label, change.text()));
        let rows = changes.iter().map(|change| change.row(pair));
        Panel {
            condition: Some(changes[0].condition),
            heading: heading.to_owned(),
            title: format!(
                "Change of {title} from {} to {} under {heading}",
                pair.from, pair.to
            ),
            description: format!("{}.", texts.join("; ")),
            x: Some(x(format!("{title}, change in %"))),
            marks: [Mark::Rule(0.0)].into_iter().chain(rows).collect(),
        }
    });
    let panels = panels.collect();
    Plot {
        id: format!("change-{}-{}", pair.from, pair.to),
        title: format!("Change of each cell from {} to {}", pair.from, pair.to),
        caption: format!(
            "Mark and bar: change of the mean from {} to {} with the interval by which it was \
             decided. Filled: better or worse for certain. Hollow: the same, or undecided. By the metric of each \
             workload's ranking.",
            pair.from, pair.to
        ),
        definition: String::new(),
        labels: Labels::new(transports(), LABEL_CHARACTERS),
        panels,
        axes: Axes::Rows {
            x: x(String::new()),
            height: ROW,
            labels: f64::INFINITY,
            values: 58.0,
        },
    }
    .draw()
}

/// Change of one cell.
struct Change<'a> {
    condition: &'a str,
    label: &'a str,
    /// Style of the transport.
    series: usize,
    metric: &'a MetricPair,
}

impl<'a> Change<'a> {
    /// Returns the change in per cent.
    fn percent(&self) -> f64 {
        percent(self.metric.ratio.unwrap_or(1.0))
    }

    fn text(&self) -> String {
        signed_percent(self.percent() / 100.0)
    }

    fn interval(&self) -> Option<[f64; 2]> {
        let ends = self.metric.interval.filter(|ends| is_narrow(*ends))?;
        Some(ends.map(percent))
    }

    /// Returns the row: the change with its interval, and as its text both means and the numbers of rounds, too.
    fn row(&self, pair: &PairOfRuns) -> Mark<'a> {
        let [from, to] = figures(self.metric);
        let text = format!(
            "{}: {}\n{}: {}, n = {}\n{}: {}, n = {}",
            self.label,
            outcome(self.metric),
            pair.from,
            from,
            self.metric.n[0],
            pair.to,
            to,
            self.metric.n[1]
        );
        Mark::Row(Row {
            head: RowHead {
                transport: self.label,
                label: self.label.into(),
                series: Some(self.series),
                text,
                value: self.text(),
            },
            mean: Some(Mean {
                kind: "change",
                value: self.percent(),
                interval: self.interval(),
                n: None,
                is_hollow: !self.metric.conclusion.is_difference(),
                cap: 6.0,
            }),
            note: String::new(),
            trials: Vec::new(),
            published: None,
        })
    }
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}
