//! Bars of a metric by message size: a group of bars for each size, one for each transport, with the
//! published values, as publications show their times by message and by buffer size.

use itertools::Itertools as _;
use regatta_model::metric;

use super::{
    Figure, LABEL_CHARACTERS, Source, anchor,
    axis::{Tick, XAxis, YAxis, YRange, axis_end, largest},
    defined,
    marks::{Bar, Mark},
    parameter_axis::cells_at,
    plot::{Axes, Panel, Plot},
    published,
    sweep::{all_lines, combinations, heading_of, texts_of_lines, unshown_text},
    title_of,
};
use crate::{
    analysis::{SweepCell, SweepResult},
    format::Scale,
    labels::Labels,
    language::{self, tr},
};

/// Key of the axis whose values have bars.
const KEY: &str = "workload.message";

const HEIGHT: f64 = 300.0;

/// Maximum number of groups of bars in a panel.
const MAX_GROUPS: usize = 8;

/// Maximum number of panels of a figure.
const MAX_PANELS: usize = 6;

/// Ratio of the largest to the smallest value above which the axis is logarithmic.
const WIDE: f64 = 40.0;

/// Whether a sweep has bars by message size instead of lines.
pub fn has_bars(sweep: &SweepResult) -> bool {
    let axis = sweep.axes.first();
    axis.is_some_and(|axis| axis.key == KEY && axis.values.len() <= MAX_GROUPS)
}

/// Draws the bars of one metric.
pub fn draw(source: &Source<'_>, sweep: &SweepResult, number: usize) -> Option<Figure> {
    let (data, summary, styles) = (source.data, source.summary, &source.styles);
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
    let range = match is_log {
        true => YRange::Decades(scale.apply(least) / 2.0, scale.apply(highest) * 1.4),
        false => YRange::Linear(axis_end(scale.apply(highest))),
    };
    let ticks: Vec<Tick> = (axis.values.iter().enumerate())
        .map(|(position, value)| (position as f64 + 0.5, language::swept(&value.text)))
        .collect();
    let (shown, all) = combinations(sweep, MAX_PANELS);
    let panels = shown.iter().map(|combination| {
        let heading = heading_of(sweep, combination);
        let bar = |cell: &SweepCell| {
            Some(Bar {
                group: *cell.at.first()?,
                value: cell.value,
                interval: cell.ci95,
                n: cell.n,
                published: published(cell),
            })
        };
        let bars_of = |line: &str| {
            let cells = cells_at(sweep, combination).filter(|cell| cell.line == line);
            cells.filter_map(bar).collect()
        };
        let lines = sweep.lines.iter();
        let lines = lines.map(|line| (line.as_str(), styles.get(line), bars_of(line)));
        Panel {
            title: tr!("{} by {}, {}", title, x_title, heading),
            description: describe(sweep, combination, scale),
            heading,
            marks: vec![Mark::Bars(lines.collect())],
            ..Panel::default()
        }
    });
    let panels: Vec<Panel<'_>> = panels.collect();
    Plot {
        id: format!("bars-{number}-{}", anchor(&sweep.metric)),
        title: tr!("{} by message size: {}", title, sweep.heading(summary)),
        caption: caption(
            is_log,
            sweep.cells.iter().any(|cell| published(cell).is_some()),
            [panels.len(), all],
        ),
        definition: defined(definition),
        labels: Labels::new(all_lines(summary), LABEL_CHARACTERS),
        axes: Axes::Values {
            x: XAxis::categories(x_title.to_owned(), 0.0..ticks.len() as f64, ticks),
            y: YAxis {
                title: scale.heading(definition.title),
                scale,
                range,
            },
            height: HEIGHT,
        },
        panels,
    }
    .draw()
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

/// Describes a panel for readers who do not see it.
fn describe(sweep: &SweepResult, combination: &[u32], scale: Scale) -> String {
    let mut lines = (texts_of_lines(sweep, combination, scale).into_iter())
        .map(|(line, texts)| format!("{line}: {}", texts.join(", ")));
    format!("{}.", lines.join("; "))
}
