//! Names of cells of sweeps in sentences: by the values of the parameters.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use regatta_model::{Sweep, Sweeps};

use super::sweep_family::{families, order};
use crate::{
    RunData,
    format::list,
    language::{self, swept, tr},
};

/// Maximum number of values or cells that a sentence names; the others are counted.
const MAX_NAMED: usize = 5;

/// Minimum number of neighbouring values that are named by the first and the last of them.
const MIN_RANGE: usize = 4;

/// Positions of a cell on the axes of its sweep, as in [`SweepCell::at`](super::SweepCell).
pub type Position = Vec<u32>;

/// Names cells by their values on some axes, given as the first sweep of each: "0.02 % and 1.65 % loss".
pub fn text(sweeps: &Sweeps, axes: &[usize], cells: &BTreeSet<Position>) -> String {
    let on_axis = |axis: usize| -> BTreeSet<u32> {
        let positions = cells.iter().filter_map(|at| at.get(axis));
        positions.copied().collect()
    };
    let values: Vec<BTreeSet<u32>> = (0..axes.len()).map(on_axis).collect();
    let sweeps: Vec<&Sweep> = axes.iter().map(|axis| &sweeps.sweeps[*axis]).collect();
    // All combinations of these values, so that the values of each axis name them.
    if values.iter().map(BTreeSet::len).product::<usize>() == cells.len() {
        let is_whole = |(sweep, values): &(&&Sweep, &BTreeSet<u32>)| {
            values.len() == sweep.values.len() && axes.len() > 1
        };
        let parts = sweeps.iter().zip(&values).filter(|it| !is_whole(it));
        return parts
            .map(|(sweep, values)| values_text(sweep, values))
            .join(", ");
    }
    let cell = |at: &Position| {
        let values = sweeps.iter().zip(at);
        let values =
            values.map(|(sweep, position)| values_text(sweep, &BTreeSet::from([*position])));
        format!("({})", values.collect::<Vec<String>>().join(", "))
    };
    first_of(cells.iter().map(cell).collect())
}

/// Names values of a sweep, by their positions on its axis, with the name of the key: "0.02 % and 1.65 % loss".
fn values_text(sweep: &Sweep, positions: &BTreeSet<u32>) -> String {
    let order = order(sweep);
    let value = |position: &u32| {
        let value = order.get(*position as usize)?;
        Some(swept(&sweep.values[*value].text))
    };
    let values: Vec<String> = positions.iter().filter_map(value).collect();
    let ends = positions.first().zip(positions.last());
    let is_range = values.len() >= MIN_RANGE
        && ends.is_some_and(|(first, last)| (last - first) as usize + 1 == values.len());
    let values = match &values[..] {
        [first, .., last] if is_range => tr!("{} to {}", first, last),
        _ => first_of(values),
    };
    language::with_key(sweep, &values)
}

/// Lists texts; the last of many are counted.
fn first_of(texts: Vec<String>) -> String {
    match texts.len().saturating_sub(MAX_NAMED) {
        0 | 1 => list(texts),
        more => tr!("{} and {} more", texts[..MAX_NAMED].join(", "), more),
    }
}

/// Names groups of cells, each a condition and a workload, by their values: with the condition of the study file where
/// there are several sweeps. `None` where the transports are swept, which a group does not tell apart.
pub fn of_groups(data: &RunData, groups: &[(&str, &str)]) -> Option<String> {
    let sweeps = &data.header.study.sweeps;
    let families = families(data);
    let several = families.len() > 1;
    let mut parts = Vec::new();
    for family in &families {
        let orders: Vec<Vec<usize>> = (family.axes.iter())
            .map(|axis| order(&sweeps.sweeps[*axis]))
            .collect();
        let position = |at: &Vec<usize>| -> Position {
            let on_axes = at.iter().zip(&orders);
            let positions =
                on_axes.filter_map(|(value, order)| order.iter().position(|it| it == value));
            positions.map(|position| position as u32).collect()
        };
        let cells = family.lines.iter().flat_map(|line| &line.cells);
        let here: BTreeSet<(&str, &str, Position)> = cells
            .filter(|(_, [_, condition, workload])| groups.contains(&(condition, workload)))
            .map(|(at, [_, condition, workload])| (*condition, *workload, position(at)))
            .collect();
        let positions: BTreeSet<Position> = here.iter().map(|(.., at)| at.clone()).collect();
        let of_groups: BTreeSet<(&str, &str)> = here.iter().map(|it| (it.0, it.1)).collect();
        if of_groups.len() != positions.len() {
            return None;
        }
        if positions.is_empty() {
            continue;
        }
        let at = tr!("at {}", text(sweeps, &family.axes, &positions));
        parts.push(match several {
            true => tr!(
                "{} under `{}` with `{}`",
                at,
                family.condition,
                family.workload
            ),
            false => at,
        });
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
