//! Figures of a metric against the parameter of a sweep: one line for each transport.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use regatta_model::{Unit, metric};

use super::{
    Datum, Figure, anchor, defined,
    frame::{
        Chart, Curve, LABEL_CHARACTERS, Marks, Panel, YAxis, axis_end, largest, room_for_labels,
    },
    overlays::{
        formulas, of_metric, paint_formula, paint_published, published_marks, published_of,
    },
    parameter_axis::{ParameterAxis, cells_at},
    style::Styles,
    svg::{ColourRole, Svg, Text, rectangle},
    title_of,
};
use crate::{
    RunData, Summary,
    analysis::{SweepCell, SweepCrossing, SweepResult},
    format::{Scale, list},
    labels::Labels,
    language::{self, swept, tr},
};

const HEIGHT: f64 = 290.0;

/// Most panels of a sweep of several parameters.
const MAX_PANELS: usize = 6;

/// Ratio of the largest to the smallest value above which the metric's axis is logarithmic.
const WIDE: f64 = 40.0;

/// The same for times over a logarithmic axis: sizes that span decades leave nothing to see of the short ones.
const WIDE_TIMES: f64 = 10.0;

/// Returns the labels of the lines of all sweeps, in their order.
pub fn all_lines(summary: &Summary) -> impl Iterator<Item = &str> {
    let lines = summary.sweeps.iter().flat_map(|sweep| &sweep.lines);
    lines.map(String::as_str).unique()
}

/// Returns the combinations of the further parameters that have panels, and the number of all.
pub fn combinations(sweep: &SweepResult, most: usize) -> (Vec<Vec<u32>>, usize) {
    let combinations = sweep.cells.iter().filter_map(|cell| cell.at.get(1..));
    let combinations: BTreeSet<&[u32]> = combinations.collect();
    let all = combinations.len();
    // The first and the last are shown, and others at equal distances.
    let shown = all.min(most);
    let is_shown =
        |position: usize| (0..shown).any(|n| n * (all - 1) / (shown - 1).max(1) == position);
    let combinations = combinations.into_iter().enumerate();
    let combinations = combinations.filter(|(position, _)| is_shown(*position));
    (
        combinations
            .map(|(_, combination)| combination.to_vec())
            .collect(),
        all,
    )
}

/// Names a combination of values on the axes from `first` on.
pub fn combination_label(sweep: &SweepResult, first: usize, combination: &[u32]) -> String {
    let mut labels = sweep.axes[first..]
        .iter()
        .zip(combination)
        .map(|(axis, value)| {
            let text = swept(axis.text_of(*value));
            format!("{} {text}", language::text(&axis.title))
        });
    labels.join(", ")
}

/// Returns the heading of the panel of a combination of the further parameters.
pub fn heading_of(sweep: &SweepResult, combination: &[u32]) -> String {
    match combination_label(sweep, 1, combination) {
        label if label.is_empty() => format!("{}, {}", sweep.condition, sweep.workload),
        label => label,
    }
}

/// Returns the lines of the panel of a combination, each with its values as texts.
pub fn texts_of_lines<'a>(
    sweep: &'a SweepResult,
    combination: &[u32],
    scale: Scale,
) -> Vec<(&'a String, Vec<String>)> {
    let of_line = |line: &'a String| {
        let cells = cells_at(sweep, combination).filter(|cell| cell.line == *line);
        let texts = cells.filter_map(|cell| Some(scale.text(cell.value?)));
        (line, texts.collect())
    };
    sweep.lines.iter().map(of_line).collect()
}

/// Returns the sentence of a caption about the combinations that have no panel; empty if all of them have. `counts` are
/// those of the combinations with a panel and of all.
pub fn unshown_text([shown, all]: [usize; 2]) -> String {
    match shown < all {
        true => tr!(
            " {} of {} combinations of the further parameters are shown; all are in summary.json.",
            shown,
            all
        ),
        false => String::new(),
    }
}

/// Draws the lines of one metric of a sweep.
pub fn draw(
    data: &RunData,
    summary: &Summary,
    styles: &Styles,
    sweep: &SweepResult,
    number: usize,
) -> Option<Figure> {
    let definition = metric::find(&sweep.metric)?;
    let x_axis = ParameterAxis::of(sweep.axes.first()?);
    let title = title_of(definition);
    let published_values = || published_of(data, sweep).map(|(_, published)| published.value);
    let values = || {
        let measured = sweep.cells.iter().filter_map(|cell| cell.value);
        measured.chain(published_values())
    };
    let highest_end = largest(sweep.cells.iter().filter_map(|cell| Some(cell.ci95?[1])));
    let highest_value = largest(values());
    // As in the figure of means, a very wide interval runs out of the panel.
    let highest = highest_value.max(highest_end).min(highest_value * 1.5);
    let scale = Scale::for_largest(definition.unit, highest);
    let end = axis_end(scale.apply(highest));
    let least = values().fold(f64::INFINITY, f64::min);
    let wide = match (definition.unit, x_axis.is_logarithmic()) {
        (Unit::Nanoseconds, true) => WIDE_TIMES,
        _ => WIDE,
    };
    let is_log = least > 0.0 && highest_value / least > wide;
    let y_axis = || match is_log {
        true => YAxis::Decades(scale.apply(least) / 1.25, end),
        false => YAxis::Linear(end),
    };
    let labels = Labels::new(all_lines(summary), LABEL_CHARACTERS);
    let (combinations, all) = combinations(sweep, MAX_PANELS);
    let id = format!("sweep-{number}-{}", anchor(&sweep.metric));
    let panels = combinations
        .iter()
        .enumerate()
        .map(|(position, combination)| {
            let heading = heading_of(sweep, combination);
            let curves = curves(sweep, combination, styles, &x_axis, scale);
            let published = published_marks(data, sweep, combination, styles, &x_axis);
            let panel = Panel {
                id: &format!("{id}-{position}"),
                title: &tr!("{} against {}, {}", title, x_axis.title, heading),
                description: &describe(sweep, combination, scale),
                heading: &heading,
                y_title: &scale.heading(definition.title),
                x_title: &x_axis.title,
                height: HEIGHT,
                left: Panel::LEFT,
                right: room_for_labels(&labels),
                labels: &labels,
            }
            .draw_with(x_axis.range(), &x_axis.ticks, y_axis(), |svg, chart| {
                crossings(svg, chart, sweep, combination, &x_axis);
                let marks = match x_axis.has_categories() {
                    true => Marks::Alone,
                    false => Marks::Each,
                };
                paint(svg, chart, &curves, scale, marks);
                paint_published(svg, chart, &published, scale);
                for (number, curve) in formulas(data, sweep, combination, &x_axis)
                    .iter()
                    .enumerate()
                {
                    paint_formula(svg, chart, number, curve, scale);
                }
            });
            x_axis.with_values(panel)
        });
    Some(Figure {
        id: format!("figure-{id}"),
        title: format!("{title}: {}", sweep.heading(summary)),
        caption: caption(data, sweep, &x_axis, is_log, [combinations.len(), all]),
        definition: defined(definition),
        panels: panels.collect(),
    })
}

fn caption(
    data: &RunData,
    sweep: &SweepResult,
    x_axis: &ParameterAxis,
    is_log: bool,
    counts: [usize; 2],
) -> String {
    let mut text = tr!("Mark: mean of the tables; bar: its 95 % confidence interval.");
    if !x_axis.has_categories() {
        text += &tr!(" The lines between the marks are interpolated.");
    }
    if published_of(data, sweep).next().is_some() {
        text += &tr!(" Hollow mark: published value.");
    }
    for curve in of_metric(data, sweep).filter(|_| !x_axis.has_categories()) {
        text += &tr!(
            " Line without marks, {}: the formula {}.",
            curve.label,
            curve.formula.text()
        );
    }
    if sweep.crossings.iter().any(|crossing| crossing.axis == 0) {
        text += &tr!(
            " Grey: interval of the value at which one transport overtakes another; dotted: the value."
        );
    }
    if is_log {
        text += &tr!(" The vertical axis is logarithmic.");
    }
    for axis in sweep.axes.iter().filter(|axis| !axis.zipped.is_empty()) {
        text += &tr!(
            " The values of {} go together with those of {}.",
            list(&axis.zipped),
            axis.key
        );
    }
    text += &unshown_text(counts);
    text
}

/// Line of a transport: its points, with the ends of their intervals.
struct Line<'a> {
    curve: Curve<'a>,
    bars: Vec<Bar>,
}

/// Point of a line: its position, the ends of its interval, and its description.
struct Bar {
    at: (f64, f64),
    ends: Option<[f64; 2]>,
    n: u64,
    text: String,
}

fn curves<'a>(
    sweep: &'a SweepResult,
    combination: &[u32],
    styles: &Styles,
    x_axis: &ParameterAxis,
    scale: Scale,
) -> Vec<Line<'a>> {
    let of_line = |(number, line): (usize, &'a String)| {
        let offset = x_axis.offset(number, sweep.lines.len());
        let cells = cells_at(sweep, combination).filter(|cell| cell.line == *line);
        let cells = cells.sorted_by_key(|cell| cell.at.first().copied());
        let placed = cells.filter_map(|cell| {
            let position = *cell.at.first()? as usize;
            Some((*x_axis.positions.get(position)? + offset, cell))
        });
        let placed: Vec<(f64, &SweepCell)> = placed.collect();
        let points = (placed.iter()).map(|(x, cell)| (*x, cell.value.unwrap_or(f64::NAN)));
        let bars = placed.iter().filter_map(|(x, cell)| {
            let value = cell.value?;
            Some(Bar {
                at: (*x, value),
                ends: cell.ci95,
                n: cell.n,
                text: format!(
                    "{line}: {}\n{}",
                    scale.estimate(value, cell.ci95, cell.n),
                    combination_label(sweep, 0, &cell.at)
                ),
            })
        });
        Line {
            curve: Curve {
                series: styles.get(line),
                label: line,
                points: points.collect(),
            },
            bars: bars.collect(),
        }
    };
    let lines = sweep.lines.iter().enumerate().map(of_line);
    let has_values = |line: &Line<'_>| line.curve.points.iter().any(|(_, y)| !y.is_nan());
    lines.filter(has_values).collect()
}

fn paint(svg: &mut Svg, chart: &Chart, lines: &[Line<'_>], scale: Scale, marks: Marks) {
    for line in lines {
        let ink = ColourRole::Series(line.curve.series);
        for bar in &line.bars {
            let at = |value: f64| chart.at((bar.at.0, scale.apply(value)));
            svg.record(Datum {
                label: line.curve.label.to_owned(),
                kind: "line",
                x: Some(bar.at.0),
                interval: bar.ends.map(|ends| ends.map(|end| scale.apply(end))),
                n: Some(bar.n),
                value: None,
            });
            svg.value(line.curve.label, &bar.text, |svg| {
                // The value's mark comes with its line; here it has room for a pointer.
                svg.dot(at(bar.at.1), 5.0, ink, 0.0);
                let Some(ends) = bar.ends else {
                    return;
                };
                svg.line(&ends.map(at), ink, 1.6);
                // An interval that runs out of the panel does not end there.
                for end in ends.iter().filter(|end| chart.has_y(scale.apply(**end))) {
                    let (x, y) = at(*end);
                    svg.line(&[(x - 3.0, y), (x + 3.0, y)], ink, 1.6);
                }
            });
        }
    }
    let curves: Vec<Curve<'_>> = (lines.iter())
        .map(|line| line.curve.map(|(x, y)| (x, scale.apply(y))))
        .collect();
    chart.curves(svg, &curves, 1.8, marks);
}

/// Draws the crossings of a panel: a band over their interval, and a line at their value.
fn crossings(
    svg: &mut Svg,
    chart: &Chart,
    sweep: &SweepResult,
    combination: &[u32],
    x_axis: &ParameterAxis,
) {
    let here = |crossing: &&SweepCrossing| crossing.axis == 0 && crossing.others == combination;
    for crossing in sweep.crossings.iter().filter(here) {
        let Some(at) = x_axis.position(crossing.value) else {
            continue;
        };
        let [low, high] = crossing.ci95.map(|end| x_axis.position(end?));
        let range = x_axis.range();
        let low = chart.x(low.unwrap_or(range.start));
        let high = chart.x(high.unwrap_or(range.end));
        let band = rectangle([low, high], [chart.top, chart.bottom]);
        svg.polygon(&band, ColourRole::Axis, 0.18);
        let at = chart.x(at);
        svg.line(
            &[(at, chart.top), (at, chart.bottom)],
            ColourRole::Leader,
            1.2,
        );
    }
    if cells_at(sweep, combination).all(|cell| cell.value.is_none()) {
        let at = (chart.left + 6.0, chart.top + 12.0);
        svg.text(at, &tr!("nothing was measured"), Text::NOTE);
    }
}

/// Describes a panel for readers who do not see it.
fn describe(sweep: &SweepResult, combination: &[u32], scale: Scale) -> String {
    let of_line = |(line, texts): (&String, Vec<String>)| match &texts[..] {
        [first, .., last] => tr!(
            "{}: {} values from {} to {}",
            line,
            texts.len(),
            first,
            last
        ),
        _ => format!("{line}: {}", texts.concat()),
    };
    let mut lines = texts_of_lines(sweep, combination, scale)
        .into_iter()
        .map(of_line);
    format!("{}.", lines.join("; "))
}
