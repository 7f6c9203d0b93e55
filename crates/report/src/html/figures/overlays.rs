//! Parts of the figure of a sweep that were not measured: lines of formulas, and published values.

use std::collections::BTreeMap;

use regatta_model::{Curve, FormulaInputs, Published};

use super::{
    labels,
    marks::{Line, Mark, PublishedMark},
    parameter_axis::{ParameterAxis, cells_at},
    style::Styles,
    svg::Point,
};
use crate::{
    RunData,
    analysis::{SweepCell, SweepResult},
};

/// Number of points of a formula between two values of the parameter.
const POINTS: u32 = 24;

/// Returns the lines of the formulas of a sweep's metric in a panel; none over categories.
pub fn formulas<'a>(
    data: &'a RunData,
    sweep: &SweepResult,
    combination: &[u32],
    x_axis: &ParameterAxis,
) -> Vec<Mark<'a>> {
    let study = &data.header.study;
    let axis = &x_axis.axis;
    if axis.has_categories() {
        return Vec::new();
    }
    let place = |cell: &SweepCell| {
        let condition = study
            .conditions
            .iter()
            .find(|it| it.name == cell.condition)?;
        let workload = study.workloads.iter().find(|it| it.name == cell.workload)?;
        let position = *cell.at.first()?;
        let x = *x_axis.values.get(position as usize)?;
        Some((position, (x, FormulaInputs::of(condition, workload)?)))
    };
    // Every line has the same path and work at a value.
    let places: BTreeMap<u32, (f64, FormulaInputs)> =
        cells_at(sweep, combination).filter_map(place).collect();
    let places: Vec<(f64, FormulaInputs)> = places.into_values().collect();
    let of_formula = |(number, curve): (usize, &'a Curve)| {
        let between = |pair: &[(f64, FormulaInputs)]| {
            let [(from, inputs), (to, next)] = [pair[0], pair[1]];
            let point = move |n: u32| {
                let share = f64::from(n) / f64::from(POINTS);
                let inputs = inputs.between(&next, share, axis.is_logarithmic());
                let value = curve.formula.value(&inputs);
                (axis.between([from, to], share), value.unwrap_or(f64::NAN))
            };
            (0..=POINTS).map(point).collect::<Vec<Point>>()
        };
        let points = places.windows(2).flat_map(between);
        Line::of(number + 1, &curve.label, points).map(Mark::Formula)
    };
    let curves = of_metric(data, sweep).enumerate();
    curves.filter_map(of_formula).collect()
}

/// Iterates over the formulas of a sweep's metric.
pub fn of_metric<'a>(data: &'a RunData, sweep: &SweepResult) -> impl Iterator<Item = &'a Curve> {
    let curves = data.header.study.curves.iter();
    curves.filter(|curve| curve.formula.metric() == sweep.metric)
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

/// Returns the marks of the published values in a panel.
pub fn published_marks<'a>(
    data: &'a RunData,
    sweep: &'a SweepResult,
    combination: &[u32],
    styles: &Styles,
    x_axis: &ParameterAxis,
) -> Vec<Mark<'a>> {
    let here = published_of(data, sweep).filter(|(cell, _)| cell.at.get(1..) == Some(combination));
    here.filter_map(|(cell, published)| {
        let value = *cell.at.first()?;
        let is_own = cell.transport == published.transport;
        let line = sweep.lines.iter().position(|line| *line == cell.line);
        let place = match line.filter(|_| is_own) {
            Some(line) => x_axis.place(value, line, sweep.lines.len()),
            None => x_axis.values.get(value as usize).copied(),
        };
        Some(Mark::Published(PublishedMark {
            label: if is_own {
                &cell.line
            } else {
                &published.transport
            },
            series: is_own.then(|| styles.get(&cell.line)),
            at: (place?, published.value),
        }))
    })
    .collect()
}
