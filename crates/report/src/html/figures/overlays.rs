//! Parts of the figure of a sweep that were not measured: lines of formulas, and published values.

use std::collections::BTreeMap;

use regatta_model::{Curve, FormulaInputs, Published};

use super::{
    Datum,
    frame::Chart,
    labels,
    parameter_axis::{ParameterAxis, cells_at},
    style::Styles,
    svg::{ColourRole, Svg, Text},
};
use crate::{
    RunData,
    analysis::{SweepCell, SweepResult},
    format::Scale,
    language::tr,
};

/// Line of a formula: its label, and its points in the units of the axis and of the metric.
pub struct FormulaLine<'a> {
    label: &'a str,
    points: Vec<Option<(f64, f64)>>,
}

/// Number of points of a formula between two values of the parameter.
const POINTS: u32 = 24;

/// Returns the lines of the formulas of a sweep's metric in a panel.
pub fn formulas<'a>(
    data: &'a RunData,
    sweep: &SweepResult,
    combination: &[u32],
    x_axis: &ParameterAxis,
) -> Vec<FormulaLine<'a>> {
    let study = &data.header.study;
    let is_log = x_axis.is_logarithmic();
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
    let of_formula = |curve: &'a Curve| {
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
pub fn of_metric<'a>(data: &'a RunData, sweep: &SweepResult) -> impl Iterator<Item = &'a Curve> {
    let curves = data.header.study.curves.iter();
    curves.filter(|curve| curve.formula.metric() == sweep.metric)
}

/// Draws a formula as far as the axes have it, with its label above its end.
pub fn paint_formula(
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
pub fn published_of<'a>(
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
pub struct PublishedMark<'a> {
    label: &'a str,
    /// Style; `None` for a transport that the study does not run.
    series: Option<usize>,
    at: (f64, f64),
}

pub fn published_marks<'a>(
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

pub fn paint_published(svg: &mut Svg, chart: &Chart, marks: &[PublishedMark<'_>], scale: Scale) {
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
