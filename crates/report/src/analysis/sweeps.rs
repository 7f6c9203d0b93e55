//! Sweeps: a metric against the parameters that a study varies, and where transports cross.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regatta_model::{MetricDefinition, Spacing, Sweep, Sweeps, metric, metric::id};

use super::{
    index::Index,
    ranking::reasons,
    summary::{Cell, Comparison, Conclusion, Summary},
    sweep_crossings,
    sweep_family::{Family, families, order},
    sweep_result::{SweepAxis, SweepCell, SweepCrossing, SweepResult, SweepValue},
};
use crate::{
    RunData,
    data::CellKey,
    language::{self, plural, tr},
};

/// Metrics that are shown against the parameters, after that of the ranking.
const FURTHER_METRICS: CellKey<'_> = [
    id::ROUND_TRIP_DELAY_P50_NS,
    id::GOODPUT_PER_CORE_PERCENT_BPS,
    id::MESSAGE_LOSS_RATIO,
];

/// Returns each metric against the parameters, for each family of cells that differ in these only.
pub fn all(index: &Index<'_>, cells: &[Cell], comparisons: &[Comparison]) -> Vec<SweepResult> {
    let data = index.data;
    let study = &data.header.study;
    if study.sweeps.is_empty() {
        return Vec::new();
    }
    let by_name = cells.iter().map(|cell| (cell.key(), cell)).collect();
    let ranked = cells.iter().filter(|cell| reasons(cell).is_empty());
    let ranked: BTreeSet<CellKey<'_>> = ranked.map(Cell::key).collect();
    let mut results = Vec::new();
    for family in families(data) {
        let kind = study.workloads.iter().find(|it| it.name == family.kind);
        let Some(primary) = kind.map(|it| study.primary_metric(it)) else {
            continue;
        };
        let further = FURTHER_METRICS.into_iter().filter(|name| *name != primary);
        for name in [primary].into_iter().chain(further) {
            let Some(definition) = metric::find(name) else {
                continue;
            };
            let mut result = result(data, &family, definition, &by_name);
            // A loss of nothing everywhere needs no figure.
            let is_shown = |value: f64| name == primary || value > 0.0;
            let is_there = |cell: &SweepCell| cell.value.is_some_and(is_shown);
            if !result.cells.iter().any(is_there) {
                continue;
            }
            if name == primary {
                result.is_primary = true;
                result.crossings = sweep_crossings::all(index, &family, definition, &ranked);
                result.sentences = sentences(&study.sweeps, &family, &result, comparisons, &ranked);
            }
            results.push(result);
        }
    }
    results
}

fn result(
    data: &RunData,
    family: &Family<'_>,
    definition: &MetricDefinition,
    by_name: &BTreeMap<CellKey<'_>, &Cell>,
) -> SweepResult {
    let sweeps = &data.header.study.sweeps;
    let rounds = u64::from(data.rounds());
    let trials = |cell: &&Cell| match data.header.study.successes {
        Some(_) => cell.trials(),
        None => rounds,
    };
    let orders: Vec<Vec<usize>> = (family.axes.iter())
        .map(|axis| order(&sweeps.sweeps[*axis]))
        .collect();
    let axes = (family.axes.iter().zip(&orders)).map(|(axis, order)| {
        let sweep = &sweeps.sweeps[*axis];
        let together = (sweeps.sweeps.iter())
            .filter(|other| other.zip.is_some() && other.zip == sweep.zip)
            .filter(|other| other.key != sweep.key);
        SweepAxis {
            key: sweep.full_key(),
            zipped: together.map(Sweep::full_key).collect(),
            title: sweep.title(),
            unit: sweep.unit.map(|unit| unit.name().to_owned()),
            logarithmic: sweep.scale == Spacing::Log,
            values: (order.iter())
                .map(|value| SweepValue {
                    text: sweep.values[*value].text.clone(),
                    value: sweep.values[*value].value,
                })
                .collect(),
        }
    });
    let mut cells = Vec::new();
    for line in &family.lines {
        for (at, name) in &line.cells {
            let cell = by_name.get(name);
            let shown = cell.and_then(|cell| cell.shown(definition.name));
            let described = cell.and_then(|cell| cell.metrics.get(definition.name));
            let values = at.iter().zip(&orders);
            cells.push(SweepCell {
                line: line.label.clone(),
                at: values
                    .filter_map(|(value, order)| order.iter().position(|it| it == value))
                    .map(|position| position as u32)
                    .collect(),
                transport: name[0].to_owned(),
                condition: name[1].to_owned(),
                workload: name[2].to_owned(),
                n: described.map_or(0, |it| it.n),
                trials: cell.map_or(0, trials),
                value: shown.map(|(value, _)| value),
                ci95: shown.and_then(|(_, interval)| interval),
            });
        }
    }
    SweepResult {
        condition: family.condition.to_owned(),
        workload: family.workload.to_owned(),
        metric: definition.name.to_owned(),
        unit: definition.unit.name().to_owned(),
        is_primary: false,
        axes: axes.collect(),
        lines: family.lines.iter().map(|it| it.label.clone()).collect(),
        cells,
        crossings: Vec::new(),
        sentences: Vec::new(),
    }
}

/// Returns the number of comparisons in which each of two lines is ahead, and of all; `lines` are those of the cells by
/// their names.
fn ahead(
    result: &SweepResult,
    comparisons: &[Comparison],
    lines: &BTreeMap<CellKey<'_>, &str>,
    [a, b]: [&str; 2],
) -> [usize; 3] {
    let mut counts = [0; 3];
    for it in comparisons.iter().filter(|it| it.metric == result.metric) {
        let line = |transport: &String| {
            let name = [transport, &it.condition, &it.workload];
            lines.get(&name.map(String::as_str)).copied()
        };
        let sides = [line(&it.a), line(&it.b)];
        let conclusion = match it.claim.conclusion {
            conclusion if sides == [Some(a), Some(b)] => conclusion,
            conclusion if sides == [Some(b), Some(a)] => conclusion.turned(),
            _ => continue,
        };
        counts[0] += usize::from(conclusion == Conclusion::Faster);
        counts[1] += usize::from(conclusion == Conclusion::Slower);
        counts[2] += 1;
    }
    counts
}

/// Most sentences about one sweep.
const MAX_SENTENCES: usize = 12;

/// Returns the sentences about a sweep: the crossings, and the pairs without any.
fn sentences(
    sweeps: &Sweeps,
    family: &Family<'_>,
    result: &SweepResult,
    comparisons: &[Comparison],
    ranked: &BTreeSet<CellKey<'_>>,
) -> Vec<String> {
    let lines: BTreeMap<CellKey<'_>, &str> = (family.lines.iter())
        .flat_map(|line| line.cells.values().map(|cell| (*cell, line.label.as_str())))
        .filter(|(cell, _)| ranked.contains(cell))
        .collect();
    let is_ranked = |line: &String| lines.values().any(|it| it == line);
    let mut sentences = sweep_crossings::sentences(sweeps, family, result);
    let mut axes = family.axes.iter();
    let is_numeric = axes.any(|axis| sweeps.sweeps[*axis].unit.is_some());
    // Pairs of which nothing can be said but that, in one sentence.
    let mut alike = Vec::new();
    let of_ranked = result.lines.iter().filter(|it| is_ranked(it));
    for (a, b) in of_ranked.tuple_combinations() {
        let is_pair = |crossing: &SweepCrossing| {
            let pair = [&crossing.above, &crossing.below];
            pair == [a, b] || pair == [b, a]
        };
        if !is_numeric || result.crossings.iter().any(is_pair) {
            continue;
        }
        let [a_ahead, b_ahead, cells] = ahead(result, comparisons, &lines, [a, b]);
        if a_ahead + b_ahead == 0 {
            alike.extend((cells > 0).then(|| tr!("`{}` and `{}`", a, b)));
            continue;
        }
        sentences.push(tr!(
            "no crossing of `{0}` and `{1}` was found: of {2} comparisons, `{0}` is ahead in {3} and `{1}` in {4}, and {5} are undecided or the same",
            a,
            b,
            cells,
            a_ahead,
            b_ahead,
            cells - a_ahead - b_ahead
        ));
    }
    if !alike.is_empty() {
        sentences.push(tr!(
            "neither a crossing nor a difference was found between {}",
            alike.join("; ")
        ));
    }
    if sentences.len() > MAX_SENTENCES {
        let more = sentences.len() - MAX_SENTENCES;
        sentences.truncate(MAX_SENTENCES);
        sentences.push(plural!(
            more as u64,
            "{} further sentence is in `summary.json`, as `sweeps`",
            "{} further sentences are in `summary.json`, as `sweeps`"
        ));
    }
    sentences
}

impl SweepResult {
    /// Returns the name for a heading: what was varied, and where.
    #[must_use]
    pub fn heading(&self, summary: &Summary) -> String {
        let several = |of: fn(&SweepResult) -> &str| {
            let first = summary.sweeps.first().map(of);
            summary.sweeps.iter().any(|other| Some(of(other)) != first)
        };
        let mut axes = self.axes.iter().map(|axis| language::text(&axis.title));
        let mut text = tr!("{} under {}", axes.join(" × "), self.condition);
        if several(|it| &it.workload) {
            text += &format!(", {}", self.workload);
        }
        text
    }
}
