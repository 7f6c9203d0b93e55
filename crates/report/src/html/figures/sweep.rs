//! Figures of a metric against the parameter of a sweep: one line for each transport.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regatta_model::{FormulaInputs, Published, Unit, metric};

use super::{
    Datum, DrawnPanel, Figure, anchor, defined,
    frame::{
        Chart, Curve, LABEL_CHARACTERS, Marks, Panel, Tick, YAxis, axis_end, largest, log_ticks,
        room_for_labels,
    },
    labels,
    style::Styles,
    svg::{ColourRole, Svg, Text, rectangle},
    title_of,
};
use crate::{
    RunData, Summary,
    analysis::{SweepAxis, SweepCell, SweepCrossing, SweepResult},
    format::{Scale, list, number, without_zeros},
    labels::Labels,
    language::{self, quantity, tr},
};

const HEIGHT: f64 = 290.0;

/// Most panels of a sweep of several parameters.
const MAX_PANELS: usize = 6;

/// Most ticks with text on the axis of a parameter.
const MAX_TICKS: usize = 7;

/// Longest text of a value on an axis, in characters.
pub const LONGEST_VALUE: usize = 10;

/// Ratio of the largest to the smallest value above which the metric's axis is logarithmic.
const WIDE: f64 = 40.0;

/// The same for times over a logarithmic axis: sizes that span decades leave nothing to see of the short ones.
const WIDE_TIMES: f64 = 10.0;

/// Share of the distance between two categories over which the marks of the lines are spread.
const SPREAD: f64 = 0.5;

/// Horizontal axis of a parameter.
pub struct ParameterAxis {
    /// Positions of the values.
    pub positions: Vec<f64>,
    /// Ticks with their texts.
    pub ticks: Vec<Tick>,
    /// Title with its unit.
    pub title: String,
    scale: Option<(Scale, bool)>,
}

impl ParameterAxis {
    pub fn of(axis: &SweepAxis) -> Self {
        let values: Option<Vec<f64>> = axis.values.iter().map(|value| value.value).collect();
        let unit = axis.unit.as_deref().and_then(unit_of);
        let (Some(values), Some(unit)) = (values, unit) else {
            return Self::words(axis);
        };
        let scale = Scale::for_largest(unit, largest(values.iter().copied()));
        let on_axis = |value: f64| match axis.logarithmic {
            true => scale.apply(value).ln(),
            false => scale.apply(value),
        };
        let positions: Vec<f64> = values.iter().map(|value| on_axis(*value)).collect();
        let texts = values.iter().map(|value| number_of(scale.apply(*value)));
        let all: Vec<Tick> = positions.iter().copied().zip(texts).collect();
        let ends =
            [values.first(), values.last()].map(|end| end.map_or(1.0, |end| scale.apply(*end)));
        let ticks = if all.len() <= MAX_TICKS && are_apart(&all) {
            all
        } else if axis.logarithmic {
            let values = log_ticks(&(ends[0]..ends[1]), MAX_TICKS).into_iter();
            values.map(|value| (value.ln(), number_of(value))).collect()
        } else {
            super::frame::linear_ticks(&(ends[0]..ends[1]))
        };
        Self {
            positions,
            ticks,
            title: scale.heading(&axis.title),
            scale: Some((scale, axis.logarithmic)),
        }
    }

    /// Returns the axis of values that are no quantities, at equal distances.
    fn words(axis: &SweepAxis) -> Self {
        let texts = || axis.values.iter().map(|value| value.text.as_str());
        let shown = Labels::new(texts(), LONGEST_VALUE);
        let all: Vec<Tick> = (texts().enumerate())
            .map(|(position, text)| (position as f64, shown.get(text).to_owned()))
            .collect();
        let every = all.len().div_ceil(MAX_TICKS);
        Self {
            positions: all.iter().map(|(position, _)| *position).collect(),
            ticks: all.into_iter().step_by(every.max(1)).collect(),
            title: axis.title.clone(),
            scale: None,
        }
    }

    /// Whether the values are categories: no quantities, so that nothing lies between them.
    const fn has_categories(&self) -> bool {
        self.scale.is_none()
    }

    /// Returns the distance from a category at which the mark of a line is drawn, so that marks do not hide one another;
    /// 0 for quantities.
    fn offset(&self, line: usize, lines: usize) -> f64 {
        match self.has_categories() {
            true => SPREAD * ((line as f64 + 0.5) / lines as f64 - 0.5),
            false => 0.0,
        }
    }

    /// Returns the position of a value in the parameter's unit.
    fn position(&self, value: f64) -> Option<f64> {
        let (scale, is_log) = self.scale?;
        let shown = scale.apply(value);
        Some(if is_log { shown.ln() } else { shown })
    }

    /// Returns a panel whose data have the parameter's values instead of positions on this axis.
    fn with_values(&self, mut panel: DrawnPanel) -> DrawnPanel {
        for x in panel.data.iter_mut().filter_map(|datum| datum.x.as_mut()) {
            *x = match self.scale {
                Some((_, true)) => x.exp(),
                Some((_, false)) => *x,
                None => x.round(),
            };
        }
        panel
    }

    /// Returns the range of the axis, with a margin.
    fn range(&self) -> std::ops::Range<f64> {
        let ends =
            [self.positions.first(), self.positions.last()].map(|end| end.copied().unwrap_or(0.0));
        let margin = match self.has_categories() {
            true => 0.5,
            false => ((ends[1] - ends[0]) * 0.03).max(1e-9),
        };
        ends[0] - margin..ends[1] + margin
    }
}

/// Whether the ticks of all values have room for their texts.
fn are_apart(ticks: &[Tick]) -> bool {
    let ends = [ticks.first(), ticks.last()].map(|end| end.map_or(0.0, |(position, _)| *position));
    let least = (ends[1] - ends[0]) / 10.0;
    ticks.windows(2).all(|pair| pair[1].0 - pair[0].0 >= least)
}

/// Formats a value without needless zeros.
pub fn number_of(value: f64) -> String {
    let text = number(value);
    match text.contains('.') && !text.contains('e') {
        true => without_zeros(&text).to_owned(),
        false => text,
    }
}

/// Returns the unit with this name.
pub fn unit_of(name: &str) -> Option<Unit> {
    let units = [
        Unit::BitsPerSecond,
        Unit::Nanoseconds,
        Unit::Bytes,
        Unit::Count,
        Unit::Ratio,
    ];
    units.into_iter().find(|unit| unit.name() == name)
}

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
            let text = quantity(axis.text_of(*value));
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

/// Returns the cells of a combination of the further parameters.
pub fn cells_at<'a>(
    sweep: &'a SweepResult,
    combination: &[u32],
) -> impl Iterator<Item = &'a SweepCell> + Clone {
    let cells = sweep.cells.iter();
    cells.filter(move |cell| cell.at.get(1..) == Some(combination))
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
    let wide = match (definition.unit, x_axis.scale) {
        (Unit::Nanoseconds, Some((_, true))) => WIDE_TIMES,
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

/// Line of a formula: its label, and its points in the units of the axis and of the metric.
struct FormulaLine<'a> {
    label: &'a str,
    points: Vec<Option<(f64, f64)>>,
}

/// Number of points of a formula between two values of the parameter.
const POINTS: u32 = 24;

/// Returns the lines of the formulas of a sweep's metric in a panel.
fn formulas<'a>(
    data: &'a RunData,
    sweep: &SweepResult,
    combination: &[u32],
    x_axis: &ParameterAxis,
) -> Vec<FormulaLine<'a>> {
    let study = &data.header.study;
    let is_log = matches!(x_axis.scale, Some((_, true)));
    let place = |cell: &SweepCell| {
        let condition = study
            .conditions
            .iter()
            .find(|it| it.name == cell.condition)?;
        let workload = study.workloads.iter().find(|it| it.name == cell.workload)?;
        let position = *cell.at.first()?;
        let x = *x_axis.positions.get(position as usize)?;
        Some((position, (x, FormulaInputs::of(condition, workload)?)))
    };
    // Every line has the same path and work at a value.
    let places: BTreeMap<u32, (f64, FormulaInputs)> =
        cells_at(sweep, combination).filter_map(place).collect();
    let places: Vec<(f64, FormulaInputs)> = places.into_values().collect();
    let of_formula = |curve: &'a regatta_model::Curve| {
        let between = |pair: &[(f64, FormulaInputs)]| {
            let [(from, inputs), (to, next)] = [pair[0], pair[1]];
            let point = move |n: u32| {
                let share = f64::from(n) / f64::from(POINTS);
                let value = curve.formula.value(&inputs.between(&next, share, is_log))?;
                Some((from + (to - from) * share, value))
            };
            (0..=POINTS).map(point).collect::<Vec<_>>()
        };
        FormulaLine {
            label: &curve.label,
            points: places.windows(2).flat_map(between).collect(),
        }
    };
    let curves = of_metric(data, sweep).filter(|_| !x_axis.has_categories());
    curves.map(of_formula).collect()
}

/// Iterates over the formulas of a sweep's metric.
fn of_metric<'a>(
    data: &'a RunData,
    sweep: &SweepResult,
) -> impl Iterator<Item = &'a regatta_model::Curve> {
    let curves = data.header.study.curves.iter();
    curves.filter(|curve| curve.formula.metric() == sweep.metric)
}

/// Draws a formula as far as the axes have it, with its label above its end.
fn paint_formula(
    svg: &mut Svg,
    chart: &Chart,
    number: usize,
    line: &FormulaLine<'_>,
    scale: Scale,
) {
    let ink = ColourRole::Plain(number + 1);
    let shown = |point: &Option<(f64, f64)>| {
        let (x, value) = point.map(|(x, value)| (x, scale.apply(value)))?;
        chart.has_y(value).then_some((x, value))
    };
    let points: Vec<Option<(f64, f64)>> = line.points.iter().map(shown).collect();
    for (x, value) in points.iter().flatten() {
        svg.record(Datum {
            label: line.label.to_owned(),
            kind: "formula",
            x: Some(*x),
            value: Some(*value),
            ..Datum::default()
        });
    }
    svg.of_line("line", line.label, |svg| {
        for part in points.split(Option::is_none).filter(|part| part.len() > 1) {
            let part: Vec<(f64, f64)> = part
                .iter()
                .flatten()
                .map(|point| chart.at(*point))
                .collect();
            svg.line(&part, ink, 1.2);
        }
        let start = points.iter().flatten().next().map(|point| chart.at(*point));
        if let Some((x, y)) = start {
            svg.text(
                (x + 6.0, (y - 8.0).max(chart.top + 6.0)),
                line.label,
                Text::NOTE,
            );
        }
    });
}

/// Returns the published values of a sweep's metric, each with a cell of its condition and workload: that of its
/// transport, or any for a transport that the study does not run.
fn published_of<'a>(
    data: &'a RunData,
    sweep: &'a SweepResult,
) -> impl Iterator<Item = (&'a SweepCell, &'a Published)> {
    let study = &data.header.study;
    let published = study.published.iter();
    let of_metric = published.filter(|published| published.metric == sweep.metric);
    of_metric.filter_map(|published| {
        let here = || {
            sweep.cells.iter().filter(|cell| {
                cell.condition == published.condition && published.is_of_workload(&cell.workload)
            })
        };
        let mut own = here().filter(|cell| cell.transport == published.transport);
        let is_run = || labels(data).any(|label| label == published.transport);
        let cell = own.next().or_else(|| here().next().filter(|_| !is_run()))?;
        Some((cell, published))
    })
}

/// Published value in a panel.
struct PublishedMark<'a> {
    label: &'a str,
    /// Style; `None` for a transport that the study does not run.
    series: Option<usize>,
    at: (f64, f64),
}

fn published_marks<'a>(
    data: &'a RunData,
    sweep: &'a SweepResult,
    combination: &[u32],
    styles: &Styles,
    x_axis: &ParameterAxis,
) -> Vec<PublishedMark<'a>> {
    let here = published_of(data, sweep).filter(|(cell, _)| cell.at.get(1..) == Some(combination));
    here.filter_map(|(cell, published)| {
        let position = *cell.at.first()? as usize;
        let is_own = cell.transport == published.transport;
        let line = sweep.lines.iter().position(|line| *line == cell.line);
        let offset = line
            .filter(|_| is_own)
            .map_or(0.0, |line| x_axis.offset(line, sweep.lines.len()));
        Some(PublishedMark {
            label: if is_own {
                &cell.line
            } else {
                &published.transport
            },
            series: is_own.then(|| styles.get(&cell.line)),
            at: (x_axis.positions.get(position)? + offset, published.value),
        })
    })
    .collect()
}

fn paint_published(svg: &mut Svg, chart: &Chart, marks: &[PublishedMark<'_>], scale: Scale) {
    for PublishedMark { label, series, at } in marks {
        let value = scale.apply(at.1);
        svg.record(Datum {
            label: (*label).to_owned(),
            kind: "published",
            x: Some(at.0),
            value: Some(value),
            ..Datum::default()
        });
        let text = format!("{label}{}", tr!("\npublished: {}", scale.quantity(at.1)));
        svg.value(label, &text, |svg| {
            let place = chart.at((at.0, value));
            match series {
                Some(series) => svg.mark(*series, place, 5.0, true),
                None => {
                    svg.ring(place, 4.5, ColourRole::Muted, 1.5);
                    svg.text((place.0 + 8.0, place.1), label, Text::NOTE);
                }
            }
        });
    }
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
