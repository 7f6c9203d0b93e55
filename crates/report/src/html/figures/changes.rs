//! Figure of the changes from one run to another: one row for each cell, by the metric of its
//! workload's ranking.

use itertools::Itertools as _;

use super::{
    Datum, DrawnPanel, Figure, LONGEST_HEADING,
    frame::{Chart, LABEL_CHARACTERS, Panel, YAxis, axis_end, largest, room_for_rows},
    style::Styles,
    svg::{ColourRole, Svg, Text},
    under,
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
    let labels = Labels::new(transports(), LABEL_CHARACTERS);
    let groups = grouped(cells.iter().filter_map(|cell| {
        let label = cell.name.transport.as_str();
        let row = Row {
            condition: &cell.name.condition,
            label,
            series: styles.get(label),
            metric: cell.primary().filter(|metric| metric.ratio.is_some())?,
        };
        let heading = format!("{}, {}", cell.name.condition, cell.name.workload);
        Some((heading, row))
    }));
    let rows = || groups.iter().flat_map(|(_, rows)| rows);
    let values = largest(rows().map(|row| row.change().abs()));
    let ends = rows().filter_map(Row::interval).flatten().map(f64::abs);
    // As in the figure of means, an interval of very few rounds may run out of the panel.
    let end = axis_end(largest(ends).min(values * 3.0).max(values).max(NARROWEST));
    let id = format!("change-{}-{}", pair.from, pair.to);
    let headings = Labels::new(groups.iter().map(|(heading, _)| heading), LONGEST_HEADING);
    let panels = groups.iter().enumerate().map(|(number, (heading, rows))| {
        let (id, heading) = (format!("{id}-{number}"), headings.get(heading));
        let panel = panel(pair, &id, heading, (rows, &labels), end);
        under(rows[0].condition, panel)
    });
    let panels: Vec<DrawnPanel> = panels.collect();
    (!panels.is_empty()).then(|| Figure {
        id: format!("figure-{id}"),
        title: format!("Change of each cell from {} to {}", pair.from, pair.to),
        caption: format!(
            "Mark and bar: change of the mean from {} to {} with the interval by which it was \
             decided. Filled: better or worse for certain. Hollow: the same, or undecided. By the metric of each \
             workload's ranking.",
            pair.from, pair.to
        ),
        definition: String::new(),
        panels,
    })
}

/// One cell.
struct Row<'a> {
    condition: &'a str,
    label: &'a str,
    /// Style of the transport.
    series: usize,
    metric: &'a MetricPair,
}

impl Row<'_> {
    /// Returns the change in per cent.
    fn change(&self) -> f64 {
        percent(self.metric.ratio.unwrap_or(1.0))
    }

    fn interval(&self) -> Option<[f64; 2]> {
        Some(
            self.metric
                .interval
                .filter(|ends| is_narrow(*ends))?
                .map(percent),
        )
    }

    /// Describes the row: both means, the change with its interval, the numbers of rounds.
    fn label_text(&self, pair: &PairOfRuns) -> String {
        let [from, to] = figures(self.metric);
        format!(
            "{}: {}\n{}: {}, n = {}\n{}: {}, n = {}",
            self.label,
            outcome(self.metric),
            pair.from,
            from,
            self.metric.n[0],
            pair.to,
            to,
            self.metric.n[1]
        )
    }
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn panel(
    pair: &PairOfRuns,
    id: &str,
    heading: &str,
    (rows, labels): (&[Row<'_>], &Labels),
    end: f64,
) -> DrawnPanel {
    let title = title_with_mean(rows[0].metric);
    // Nothing falls by more than all of it.
    let x_axis = -end.min(100.0)..end;
    let changes = rows.iter();
    let mut changes =
        changes.map(|row| format!("{} {}", row.label, signed_percent(row.change() / 100.0)));
    Panel {
        id,
        title: &format!(
            "Change of {title} from {} to {} under {heading}",
            pair.from, pair.to
        ),
        description: &format!("{}.", changes.join("; ")),
        heading,
        y_title: "",
        x_title: &format!("{title}, change in %"),
        height: Panel::height_of_rows(rows.len(), ROW),
        left: room_for_rows(labels),
        right: 58.0,
        labels,
    }
    .draw(x_axis, YAxis::Rows(rows.len()), |svg, chart| {
        let zero = chart.x(0.0);
        svg.line(
            &[(zero, chart.top), (zero, chart.bottom)],
            ColourRole::Axis,
            1.0,
        );
        for (position, row) in rows.iter().enumerate() {
            svg.record(Datum {
                label: row.label.to_owned(),
                kind: "change",
                value: Some(row.change()),
                interval: row.interval(),
                ..Datum::default()
            });
            svg.value(row.label, &row.label_text(pair), |svg| {
                draw_row(svg, chart, (row, labels), chart.y(position as f64 + 0.5));
            });
        }
    })
}

fn draw_row(svg: &mut Svg, chart: &Chart, (row, labels): (&Row<'_>, &Labels), y: f64) {
    let ink = ColourRole::Series(row.series);
    svg.mark(row.series, (7.0, y), 4.5, false);
    svg.text((17.0, y), labels.get(row.label), Text::LABEL);
    if let Some(ends) = row.interval() {
        chart.interval(svg, ends, y, 6.0, ink);
    }
    let is_hollow = !row.metric.conclusion.is_difference();
    svg.mark(row.series, (chart.x(row.change()), y), 5.0, is_hollow);
    let change = signed_percent(row.change() / 100.0);
    svg.text((Panel::WIDTH - 1.0, y), &change, Text::VALUE);
}
