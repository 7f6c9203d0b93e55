//! Figures of a metric against the parameter of a sweep: one line for each transport.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use regatta_model::{Unit, metric};

use super::{
    Figure, LABEL_CHARACTERS, Source, anchor,
    axis::{YAxis, YRange, axis_end, largest},
    defined,
    marks::{Line, Look, Mark, Sample},
    overlays::{formulas, of_metric, published_marks, published_of},
    parameter_axis::{ParameterAxis, cells_at},
    plot::{Axes, Panel, Plot},
    style::Styles,
    title_of,
};
use crate::{
    RunData, Summary,
    analysis::{SweepCrossing, SweepResult},
    format::{Scale, list},
    labels::Labels,
    language::{self, swept, tr},
};

const HEIGHT: f64 = 290.0;

/// Maximum number of panels of a sweep of several parameters.
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
pub fn draw(source: &Source<'_>, sweep: &SweepResult, number: usize) -> Option<Figure> {
    let (data, summary, styles) = (source.data, source.summary, &source.styles);
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
    let wide = match (definition.unit, x_axis.axis.is_logarithmic()) {
        (Unit::Nanoseconds, true) => WIDE_TIMES,
        _ => WIDE,
    };
    let is_log = least > 0.0 && highest_value / least > wide;
    let range = match is_log {
        true => YRange::Decades(scale.apply(least) / 1.25, end),
        false => YRange::Linear(end),
    };
    let (combinations, all) = combinations(sweep, MAX_PANELS);
    let panels = combinations.iter().map(|combination| {
        let heading = heading_of(sweep, combination);
        let lines = lines(sweep, combination, styles, &x_axis, scale);
        let look = match x_axis.axis.has_categories() {
            true => Look::Apart,
            false => Look::Points,
        };
        let mut marks = crossings(sweep, combination, &x_axis);
        marks.push(Mark::Lines(lines, look, 1.8));
        marks.extend(published_marks(data, sweep, combination, styles, &x_axis));
        marks.extend(formulas(data, sweep, combination, &x_axis));
        Panel {
            title: tr!("{} against {}, {}", title, x_axis.axis.title, heading),
            description: describe(sweep, combination, scale),
            heading,
            marks,
            ..Panel::default()
        }
    });
    let panels = panels.collect();
    Plot {
        id: format!("sweep-{number}-{}", anchor(&sweep.metric)),
        title: format!("{title}: {}", sweep.heading(summary)),
        caption: caption(data, sweep, &x_axis, is_log, [combinations.len(), all]),
        definition: defined(definition),
        labels: Labels::new(all_lines(summary), LABEL_CHARACTERS),
        panels,
        axes: Axes::Values {
            x: x_axis.axis,
            y: YAxis {
                title: scale.heading(definition.title),
                scale,
                range,
            },
            height: HEIGHT,
        },
    }
    .draw()
}

fn caption(
    data: &RunData,
    sweep: &SweepResult,
    x_axis: &ParameterAxis,
    is_log: bool,
    counts: [usize; 2],
) -> String {
    let mut text = tr!("Mark: mean of the tables; bar: its 95 % confidence interval.");
    if !x_axis.axis.has_categories() {
        text += &tr!(" The lines between the marks are interpolated.");
    }
    if published_of(data, sweep).next().is_some() {
        text += &tr!(" Hollow mark: published value.");
    }
    for curve in of_metric(data, sweep).filter(|_| !x_axis.axis.has_categories()) {
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

/// Returns the lines of a panel that have values.
fn lines<'a>(
    sweep: &'a SweepResult,
    combination: &[u32],
    styles: &Styles,
    x_axis: &ParameterAxis,
    scale: Scale,
) -> Vec<Line<'a>> {
    let of_line = |(number, line): (usize, &'a String)| {
        let cells = cells_at(sweep, combination).filter(|cell| cell.line == *line);
        let cells = cells.sorted_by_key(|cell| cell.at.first().copied());
        let samples = cells.filter_map(|cell| {
            let place = x_axis.place(*cell.at.first()?, number, sweep.lines.len())?;
            let text = |value| {
                format!(
                    "{line}: {}\n{}",
                    scale.estimate(value, cell.ci95, cell.n),
                    combination_label(sweep, 0, &cell.at)
                )
            };
            Some(Sample {
                at: (place, cell.value.unwrap_or(f64::NAN)),
                interval: cell.ci95,
                n: Some(cell.n),
                text: cell.value.map_or_else(String::new, text),
            })
        });
        let samples: Vec<Sample> = samples.collect();
        let has_values = samples.iter().any(|sample| !sample.at.1.is_nan());
        has_values.then(|| Line {
            label: line,
            style: styles.get(line),
            samples,
            extremes: Vec::new(),
        })
    };
    let lines = sweep.lines.iter().enumerate();
    lines.filter_map(of_line).collect()
}

/// Returns the crossings of a panel, and the note of one without values.
fn crossings<'a>(
    sweep: &SweepResult,
    combination: &[u32],
    x_axis: &ParameterAxis,
) -> Vec<Mark<'a>> {
    let here = |it: &&SweepCrossing| it.axis == 0 && it.others == combination;
    let here = sweep.crossings.iter().filter(here);
    let here = here.filter(|_| !x_axis.axis.has_categories());
    let mut marks: Vec<Mark<'_>> = here
        .map(|crossing| {
            let [low, high] = crossing.ci95;
            let ends = [
                low.unwrap_or(f64::NEG_INFINITY),
                high.unwrap_or(f64::INFINITY),
            ];
            Mark::Range(crossing.value, ends)
        })
        .collect();
    if cells_at(sweep, combination).all(|cell| cell.value.is_none()) {
        marks.push(Mark::Note(tr!("nothing was measured")));
    }
    marks
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
