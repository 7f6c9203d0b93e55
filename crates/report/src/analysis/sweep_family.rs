//! Families of the cells of sweeps, which differ in the values of the same axes only.

use std::collections::BTreeMap;

use regatta_model::{Part, Sweep, Sweeps};

use crate::RunData;

/// One transport, condition or workload of the study, with its position in the sweeps.
#[derive(Clone)]
struct Entry<'a> {
    name: &'a str,
    base: &'a str,
    /// Position of the value by position of the sweep.
    at: BTreeMap<usize, usize>,
}

/// Cells that differ in the values of the same axes only.
pub(super) struct Family<'a> {
    pub(super) condition: &'a str,
    pub(super) workload: &'a str,
    /// First workload of the family, whose kind all have.
    pub(super) kind: &'a str,
    /// Axes: the first sweep of each.
    pub(super) axes: Vec<usize>,
    /// Lines in the order of the study.
    pub(super) lines: Vec<Line<'a>>,
}

/// Cells of one transport, of which the axes may be a part.
pub(super) struct Line<'a> {
    pub(super) label: String,
    /// Transport, condition and workload of each cell, by its positions on the axes.
    pub(super) cells: BTreeMap<Vec<usize>, [&'a str; 3]>,
}

/// Returns the entries of a part of the study.
fn entries<'a>(
    sweeps: &'a Sweeps,
    part: Part,
    names: impl Iterator<Item = &'a String>,
) -> Vec<Entry<'a>> {
    let of_part = sweeps.entries.iter().filter(|entry| entry.part == part);
    let known: BTreeMap<&String, _> = of_part.map(|entry| (&entry.name, entry)).collect();
    let entry = |name: &'a String| {
        let swept = known.get(name);
        let at = swept.into_iter().flat_map(|entry| &entry.at);
        Entry {
            name,
            base: swept.map_or(name, |entry| &entry.base),
            at: at
                .map(|[sweep, value]| (*sweep as usize, *value as usize))
                .collect(),
        }
    };
    names.map(entry).collect()
}

/// Returns the label of the line of a transport among the lines of its sweeps: the label in the study
/// file, unless the transport differs in something that is no quantity.
pub fn line_label(sweeps: &Sweeps, label: &str) -> String {
    let Some(entry) = sweeps.entry(Part::Transport, label) else {
        return label.to_owned();
    };
    let suffixes = sweeps.parameters(entry);
    let suffixes = suffixes.filter(|(sweep, _)| sweep.unit.is_none());
    let suffixes = suffixes.map(|(sweep, value)| format!(":{}", sweep.in_name(&value.text)));
    entry.base.clone() + &suffixes.collect::<String>()
}

/// Returns the families of cells of a study.
pub(super) fn families(data: &RunData) -> Vec<Family<'_>> {
    let study = &data.header.study;
    let sweeps = &study.sweeps;
    let transports = study.transports.iter().map(|it| &it.label);
    let transports = entries(sweeps, Part::Transport, transports);
    let conditions = study.conditions.iter().map(|it| &it.name);
    let conditions = entries(sweeps, Part::Condition, conditions);
    let workloads = study.workloads.iter().map(|it| &it.name);
    let workloads = entries(sweeps, Part::Workload, workloads);
    let labels: BTreeMap<&str, String> = (transports.iter())
        .map(|it| (it.name, line_label(sweeps, it.name)))
        .collect();
    let axes = sweeps.axes();
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut known: BTreeMap<(&str, &str, Vec<usize>), usize> = BTreeMap::new();
    for workload in &workloads {
        for condition in &conditions {
            for transport in &transports {
                // A sweep of a transport without a unit makes lines.
                let is_line_sweep = |sweep: usize| {
                    let sweep = &sweeps.sweeps[sweep];
                    sweep.part == Part::Transport && sweep.unit.is_none()
                };
                let position_on = |axis: &Vec<usize>| {
                    axis.iter().find_map(|sweep| {
                        let parts = [transport, condition, workload];
                        let value = parts.iter().find_map(|it| it.at.get(sweep))?;
                        (!is_line_sweep(*sweep)).then_some((*sweep, *value))
                    })
                };
                let positions: Vec<(usize, usize)> = axes.iter().filter_map(position_on).collect();
                if positions.is_empty() {
                    continue;
                }
                let of_axes: Vec<usize> = positions.iter().map(|(sweep, _)| *sweep).collect();
                let key = (condition.base, workload.base, of_axes.clone());
                let position = *known.entry(key).or_insert_with(|| {
                    families.push(Family {
                        condition: condition.base,
                        workload: workload.base,
                        kind: workload.name,
                        axes: of_axes,
                        lines: Vec::new(),
                    });
                    families.len() - 1
                });
                let lines = &mut families[position].lines;
                let label = &labels[transport.name];
                let known = lines.iter().position(|known| known.label == *label);
                let line = known.unwrap_or_else(|| {
                    lines.push(Line {
                        label: label.clone(),
                        cells: BTreeMap::new(),
                    });
                    lines.len() - 1
                });
                let at = positions.into_iter().map(|(_, value)| value).collect();
                (lines[line].cells).insert(at, [transport.name, condition.name, workload.name]);
            }
        }
    }
    for family in &mut families {
        let of_transports = |axis: &usize| sweeps.sweeps[*axis].part == Part::Transport;
        if family.axes.iter().any(of_transports) {
            let others = transports.iter().filter(|it| it.at.is_empty());
            add_references(family, others.map(|it| it.name));
        }
    }
    families
}

/// Adds the lines of transports that no sweep made beside those of which it varies a quantity: each has the same cell at
/// every value.
fn add_references<'a>(family: &mut Family<'a>, transports: impl Iterator<Item = &'a str>) {
    let cells = family.lines.iter().flat_map(|line| &line.cells);
    let places: BTreeMap<Vec<usize>, [&'a str; 2]> = cells
        .map(|(at, [_, condition, workload])| (at.clone(), [*condition, *workload]))
        .collect();
    for name in transports {
        let cells = places.iter();
        let cells =
            cells.map(|(at, [condition, workload])| (at.clone(), [name, *condition, *workload]));
        family.lines.push(Line {
            label: name.to_owned(),
            cells: cells.collect(),
        });
    }
}

/// Returns the positions of the values of a sweep in the order of its axis.
pub(super) fn order(sweep: &Sweep) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sweep.values.len()).collect();
    let value = |position: &usize| sweep.values[*position].value.unwrap_or(0.0);
    order.sort_by(|a, b| value(a).total_cmp(&value(b)));
    order
}
