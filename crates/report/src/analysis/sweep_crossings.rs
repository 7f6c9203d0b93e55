//! Crossings of the lines of a sweep along each of its parameters that is a quantity, and the sentences about them.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regatta_model::{Better, MetricDefinition, Spacing, Sweep, Sweeps, Unit};
use regatta_stats::crossings;

use super::{
    CONFIDENCE,
    index::{Index, Shared, Values},
    sweep_family::{Family, order},
    sweep_places,
    sweep_result::{SweepCrossing, SweepResult},
};
use crate::{
    RunData,
    data::CellKey,
    format::{Scale, quantity},
    language::{self, tr},
};

/// Maximum number of crossings of one pair along one axis that have a sentence each; more of them share one.
const MAX_SINGLE: usize = 3;

/// Label of a line, and the values of its cells by their positions on the axes.
type LineValues<'a> = (&'a str, BTreeMap<&'a [usize], &'a Values>);

/// Returns the crossings of every pair of lines along each axis of quantities, for each combination of values on the other axes.
/// Cells that are not `ranked` have no values.
pub fn all(
    index: &Index<'_>,
    family: &Family<'_>,
    definition: &MetricDefinition,
    ranked: &BTreeSet<CellKey<'_>>,
) -> Vec<SweepCrossing> {
    let lines = family.lines.iter().map(|line| {
        let cells = line.cells.iter().filter(|(_, cell)| ranked.contains(*cell));
        let logs = cells.map(|(at, cell)| (at.as_slice(), index.values(*cell, definition.name)));
        (line.label.as_str(), logs.collect())
    });
    let lines: Vec<LineValues<'_>> = lines.collect();
    let higher_is_better = definition.better != Better::Lower;
    let axes = 0..family.axes.len();
    axes.flat_map(|axis| along(index.data, family, &lines, axis, higher_is_better))
        .collect()
}

/// Returns the crossings along the axis at a position of the family's axes.
fn along<'l>(
    data: &RunData,
    family: &Family<'_>,
    lines: &[LineValues<'l>],
    axis: usize,
    higher_is_better: bool,
) -> Vec<SweepCrossing> {
    let study = &data.header.study;
    let sweep = &study.sweeps.sweeps[family.axes[axis]];
    let order = order(sweep);
    let on_axis = |value: f64| match sweep.scale {
        Spacing::Linear => value,
        Spacing::Log => value.ln(),
    };
    let back = |value: f64| match sweep.scale {
        Spacing::Linear => value,
        Spacing::Log => value.exp(),
    };
    let Some(x) = (order.iter())
        .map(|value| sweep.values[*value].value.map(on_axis))
        .collect::<Option<Vec<f64>>>()
    else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for combination in combinations(family, axis) {
        let points = |logs: &BTreeMap<&[usize], &'l Values>| -> Vec<&'l Values> {
            let at = |value: &usize| {
                let mut at = combination.clone();
                at.insert(axis, *value);
                at
            };
            let points = order.iter().map(|value| logs.get(at(value).as_slice()));
            points
                .map(|logs| logs.copied().unwrap_or_default())
                .collect()
        };
        let lines: Vec<(&str, Vec<&Values>)> = (lines.iter())
            .map(|(label, logs)| (*label, points(logs)))
            .collect();
        for (a, b) in lines.iter().tuple_combinations() {
            let logs = ratios(&a.1, &b.1);
            for found in crossings(&x, &logs, CONFIDENCE, study.seed) {
                let (above, below) = match found.rises == higher_is_better {
                    true => (a.0, b.0),
                    false => (b.0, a.0),
                };
                let others = combination.iter().zip(others(family, axis));
                let others = others.map(|(value, other)| {
                    let mut order = self::order(&study.sweeps.sweeps[other]).into_iter();
                    let position = order.position(|it| it == *value);
                    position.unwrap_or_default() as u32
                });
                let mut crossing = SweepCrossing {
                    above: above.to_owned(),
                    below: below.to_owned(),
                    axis: axis as u32,
                    others: others.collect(),
                    value: back(found.at),
                    ci95: found.interval.map(|end| end.map(back)),
                    text: String::new(),
                };
                crossing.text = crossing_text(&study.sweeps, family, &crossing);
                all.push(crossing);
            }
        }
    }
    all
}

/// Returns the combinations of values on the axes of a family without this one, as positions in the study.
fn combinations(family: &Family<'_>, axis: usize) -> BTreeSet<Vec<usize>> {
    let cells = family.lines.iter().flat_map(|line| line.cells.keys());
    let combinations = cells.map(|at| {
        let mut combination = at.clone();
        combination.remove(axis);
        combination
    });
    combinations.collect()
}

/// Returns the sweeps of the axes of a family without this one.
fn others(family: &Family<'_>, axis: usize) -> impl Iterator<Item = usize> {
    let axes = family.axes.iter().enumerate();
    axes.filter(move |(position, _)| *position != axis)
        .map(|(_, sweep)| *sweep)
}

/// Returns the log ratios of two lines, by point and round; rounds that no point has are left out.
fn ratios(a: &[&Values], b: &[&Values]) -> Vec<Vec<Option<f64>>> {
    let rounds = a.iter().copied().flatten().map(|(round, _)| *round);
    let rounds: BTreeSet<u32> = rounds.collect();
    let point = |(a, b): (&&Values, &&Values)| {
        let shared = Shared::of(a, b);
        let mut found = shared.rounds.into_iter().zip(shared.ratios).peekable();
        let ratio = |round: &u32| Some(found.next_if(|(next, _)| next == round)?.1);
        rounds.iter().map(ratio).collect()
    };
    a.iter().zip(b).map(point).collect()
}

/// Returns the sentences about the crossings of a sweep, in their order: one for each, or one for all of a pair along an
/// axis if these are many.
pub fn sentences(sweeps: &Sweeps, family: &Family<'_>, result: &SweepResult) -> Vec<String> {
    let mut groups: BTreeMap<Kind<'_>, Vec<&SweepCrossing>> = BTreeMap::new();
    for crossing in &result.crossings {
        groups.entry(kind(crossing)).or_default().push(crossing);
    }
    let sentence = |crossing| match groups.get_mut(&kind(crossing)) {
        // The sentence of all was at the first of them.
        Some(group) if group.is_empty() => None,
        Some(group) if group.len() > MAX_SINGLE => {
            Some(range_text(sweeps, family, &std::mem::take(group)))
        }
        _ => Some(crossing.text.clone()),
    };
    result.crossings.iter().filter_map(sentence).collect()
}

/// Returns the number of crossings that the first sentence is about; `None` without any.
pub fn in_first_sentence(crossings: &[SweepCrossing]) -> Option<usize> {
    let first = crossings.first()?;
    let alike = crossings.iter().filter(|it| kind(it) == kind(first));
    let alike = alike.count();
    Some(if alike > MAX_SINGLE { alike } else { 1 })
}

/// Key of the crossings that share a sentence: axis, pair and direction, and whether the interval is open.
type Kind<'a> = (u32, [&'a str; 2], bool);

fn kind(crossing: &SweepCrossing) -> Kind<'_> {
    let SweepCrossing { above, below, .. } = crossing;
    (crossing.axis, [above, below], is_open(crossing))
}

/// Whether the interval reaches beyond the values of the sweep.
fn is_open(crossing: &SweepCrossing) -> bool {
    crossing.ci95.iter().any(Option::is_none)
}

/// Formats a value of a sweep.
fn value_text(sweep: &Sweep, value: f64) -> String {
    match sweep.unit {
        Some(Unit::Count) | None => crate::format::number(value),
        Some(unit) => quantity(unit, value),
    }
}

/// Formats the value of a crossing and the ends of its interval.
fn value_and_ends(sweep: &Sweep, crossing: &SweepCrossing) -> [String; 3] {
    let scale = sweep
        .unit
        .map(|unit| Scale::for_largest(unit, crossing.value));
    let end = |value: f64| match scale {
        Some(scale) => scale.text(value),
        None => crate::format::number(value),
    };
    let [low, high] = crossing.ci95;
    [
        language::with_key(sweep, &value_text(sweep, crossing.value)),
        low.map_or_else(|| tr!("below the smallest value"), end),
        high.map_or_else(|| tr!("above the largest value"), end),
    ]
}

/// Names the values of the other axes at a crossing; empty without any.
fn combination_text(sweeps: &Sweeps, family: &Family<'_>, crossing: &SweepCrossing) -> String {
    let others = others(family, crossing.axis as usize).zip(&crossing.others);
    let mut combinations = others.filter_map(|(other, position)| {
        let other = &sweeps.sweeps[other];
        let value = *order(other).get(*position as usize)?;
        let value = language::swept(&other.values[value].text);
        Some(language::with_key(other, &value))
    });
    combinations.join(", ")
}

/// Returns the sentence of one crossing.
fn crossing_text(sweeps: &Sweeps, family: &Family<'_>, crossing: &SweepCrossing) -> String {
    let sweep = &sweeps.sweeps[family.axes[crossing.axis as usize]];
    let prefix = match combination_text(sweeps, family, crossing) {
        text if text.is_empty() => text,
        text => tr!("at {}, ", text),
    };
    let SweepCrossing { above, below, .. } = crossing;
    let [at, low, high] = value_and_ends(sweep, crossing);
    match is_open(crossing) {
        false => tr!(
            "{}`{}` overtakes `{}` above {} [{}, {}]",
            prefix,
            above,
            below,
            at,
            low,
            high
        ),
        true => tr!(
            "{}`{}` seems to overtake `{}` near {}, but the interval reaches beyond the values [{}, {}]",
            prefix,
            above,
            below,
            at,
            low,
            high
        ),
    }
}

/// Returns the sentence of several alike crossings: the lowest and the highest, and the combinations that have one.
fn range_text(sweeps: &Sweeps, family: &Family<'_>, group: &[&SweepCrossing]) -> String {
    let by_value = |a: &&&SweepCrossing, b: &&&SweepCrossing| a.value.total_cmp(&b.value);
    let ends = group
        .iter()
        .min_by(by_value)
        .zip(group.iter().max_by(by_value));
    let Some((lowest, highest)) = ends else {
        return String::new();
    };
    let axis = lowest.axis as usize;
    let sweep = &sweeps.sweeps[family.axes[axis]];
    let crossing = |it: &SweepCrossing| {
        let [at, low, high] = value_and_ends(sweep, it);
        let combination = combination_text(sweeps, family, it);
        (format!("{at} [{low}, {high}]"), combination)
    };
    let (low, low_combination) = crossing(lowest);
    let (high, high_combination) = crossing(highest);
    let found: BTreeSet<Vec<u32>> = group.iter().map(|it| it.others.clone()).collect();
    let others: Vec<usize> = others(family, axis).collect();
    let places = match found.len() == combinations(family, axis).len() {
        true => {
            let titles = others.iter().map(|other| sweeps.sweeps[*other].title());
            let titles = titles.map(|title| language::text(&title).to_owned());
            tr!("at every {}", titles.collect::<Vec<String>>().join(", "))
        }
        false => tr!("at {}", sweep_places::text(sweeps, &others, &found)),
    };
    let SweepCrossing { above, below, .. } = lowest;
    match is_open(lowest) {
        false => tr!(
            "`{}` overtakes `{}` above {} (lowest, at {}) to {} (highest, at {}), {}",
            above,
            below,
            low,
            low_combination,
            high,
            high_combination,
            places
        ),
        true => tr!(
            "`{}` seems to overtake `{}` near {} (lowest, at {}) to {} (highest, at {}), {}, but the intervals reach beyond the values",
            above,
            below,
            low,
            low_combination,
            high,
            high_combination,
            places
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each point has the ratios of its own rounds.
    #[test]
    fn a_round_that_a_point_lacks_has_no_ratio() {
        let a: [&Values; 3] = [
            &[(0, 4.0), (1, 8.0), (2, 2.0)],
            &[(1, 8.0)],
            &[(0, 2.0), (2, 8.0)],
        ];
        let b: [&Values; 3] = [&[(0, 2.0), (1, 2.0), (2, 2.0)], &[(1, 4.0)], &[(2, 1.0)]];
        let [two, four, eight] = [2.0_f64, 4.0, 8.0].map(f64::ln);
        let found = ratios(&a, &b);
        let expected = [
            [Some(two), Some(four), Some(0.0)],
            [None, Some(two), None],
            [None, None, Some(eight)],
        ];
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            let difference = found
                .zip(*expected)
                .map(|(found, expected)| (found - expected).abs());
            assert_eq!(found.is_some(), expected.is_some());
            assert!(
                difference.is_none_or(|it| it < 1e-12),
                "{found:?} {expected:?}"
            );
        }
    }

    #[test]
    fn an_interval_without_an_end_is_open() {
        let crossing = |ci95| SweepCrossing {
            above: String::new(),
            below: String::new(),
            axis: 0,
            others: Vec::new(),
            value: 1.0,
            ci95,
            text: String::new(),
        };
        assert!(!is_open(&crossing([Some(0.5), Some(2.0)])));
        assert!(is_open(&crossing([None, Some(2.0)])));
        assert!(is_open(&crossing([Some(0.5), None])));
    }
}
