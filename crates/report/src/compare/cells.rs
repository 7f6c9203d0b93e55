//! Ratios of the cells that two runs share, and their decision as one family.

use std::collections::{BTreeMap, BTreeSet};

use regatta_model::metric;
use regatta_stats::{Estimate, autocorrelation};

use super::types::{CellName, CellPair, MetricPair};
use crate::{
    RunData, Summary,
    analysis::{
        ByCell, CONFIDENCE, CORRELATED_CELL, Cell, Conclusion, DIFFERENCE_METRICS, Failure, Tested,
        better, decide, logs_by_metric, trials_by_cell,
    },
    data::CellKey,
};

/// Run with its summary and an index of its measured trials.
pub struct Indexed<'a> {
    /// The run.
    pub data: &'a RunData,
    /// Its summary.
    pub summary: Summary,
    trials: ByCell<'a>,
}

impl<'a> Indexed<'a> {
    /// Summarises and indexes a run.
    pub fn of(data: &'a RunData) -> Self {
        Self {
            data,
            summary: crate::summarise(data),
            trials: trials_by_cell(data),
        }
    }

    /// Estimates the mean logarithm of a metric in a cell, over its rounds.
    fn estimate(&self, cell: CellKey<'_>, metric: &str) -> Option<Estimate> {
        let mut logs = logs_by_metric(&BTreeSet::from([metric]), self.trials.get(&cell)?);
        let logs = logs.remove(metric)?.into_iter();
        let logs: Vec<f64> = logs.map(|(_, log)| log).collect();
        let rho = autocorrelation(std::slice::from_ref(&logs), 1, CORRELATED_CELL);
        Estimate::of(&logs, rho)
    }

    /// Returns the cells of the run by name.
    fn cells(&self) -> BTreeMap<CellKey<'_>, &Cell> {
        let cells = self.summary.cells.iter();
        cells.map(|cell| (cell.key(), cell)).collect()
    }
}

fn name_of(cell: &Cell) -> CellName {
    CellName {
        transport: cell.transport.clone(),
        condition: cell.condition.clone(),
        workload: cell.workload.clone(),
    }
}

/// Cells of two runs, not decided yet.
pub struct Matched {
    /// Cells that both have.
    pub cells: Vec<CellPair>,
    /// Cells of the first run alone.
    pub only_from: Vec<CellName>,
    /// Cells of the other run alone.
    pub only_to: Vec<CellName>,
    /// Tests of the ratios, in the order of the cells and their metrics.
    tested: Vec<Tested>,
}

/// Matches the cells of two runs by their names.
pub fn matched(from: &Indexed<'_>, to: &Indexed<'_>) -> Matched {
    let [of_from, of_to] = [from.cells(), to.cells()];
    let mut matched = Matched {
        cells: Vec::new(),
        only_from: Vec::new(),
        only_to: (to.summary.cells.iter())
            .filter(|cell| !of_from.contains_key(&cell.key()))
            .map(name_of)
            .collect(),
        tested: Vec::new(),
    };
    let changed = ChangedSettings::between(from.data, to.data);
    for cell in &from.summary.cells {
        let Some(other) = of_to.get(&cell.key()) else {
            matched.only_from.push(name_of(cell));
            continue;
        };
        let mut metrics = Vec::new();
        for (metric, primary) in metrics_of(from.data, &cell.workload) {
            let sides = [from, to].map(|run| run.estimate(cell.key(), metric));
            let Some((pair, tested)) = undecided(metric, primary, sides) else {
                continue;
            };
            metrics.push(pair);
            matched.tested.push(tested);
        }
        matched.cells.push(CellPair {
            name: name_of(cell),
            settings_differ: changed.touch(cell),
            measured: [cell.n, other.n],
            failures: [cell, *other].map(|cell| cell.failures.iter().map(Failure::text).collect()),
            fails_more: fails_more(cell, other),
            metrics,
        });
    }
    matched
}

/// Returns the metric of a workload's ranking, then the others of a comparison.
fn metrics_of(data: &RunData, workload: &str) -> Vec<(&'static str, bool)> {
    let study = &data.header.study;
    let work = study.workloads.iter().find(|work| work.name == workload);
    let primary = work.and_then(|work| metric::find(study.primary_metric(work)));
    let primary = primary.map(|metric| metric.name);
    let others = DIFFERENCE_METRICS.map(|metric| (metric, false)).into_iter();
    let others = others.filter(|(metric, _)| Some(*metric) != primary);
    let primary = primary.into_iter().map(|metric| (metric, true));
    primary.chain(others).collect()
}

/// Whether a larger share of some kind of work failed in `to`.
fn fails_more(from: &Cell, to: &Cell) -> bool {
    to.failures.iter().any(|failure| {
        let mut before = from.failures.iter();
        let before = before.find(|other| other.kind == failure.kind);
        failure.ratio() > before.map_or(0.0, Failure::ratio)
    })
}

/// Names of transports, conditions and workloads whose settings two studies give differently.
struct ChangedSettings([Vec<String>; 3]);

impl ChangedSettings {
    fn between(from: &RunData, to: &RunData) -> Self {
        fn names<T: PartialEq>(a: &[T], b: &[T], name: impl Fn(&T) -> &String) -> Vec<String> {
            let others: BTreeMap<&String, &T> = b.iter().map(|it| (name(it), it)).collect();
            let differs = |it: &&T| others.get(name(it)).is_some_and(|other| *other != *it);
            let differing = a.iter().filter(differs);
            differing.map(|it| name(it).clone()).collect()
        }
        let [a, b] = [&from.header.study, &to.header.study];
        Self([
            names(&a.transports, &b.transports, |it| &it.label),
            names(&a.conditions, &b.conditions, |it| &it.name),
            names(&a.workloads, &b.workloads, |it| &it.name),
        ])
    }

    fn touch(&self, cell: &Cell) -> bool {
        let names = [&cell.transport, &cell.condition, &cell.workload];
        let mut parts = self.0.iter().zip(names);
        parts.any(|(changed, name)| changed.contains(name))
    }
}

/// Returns the values of one metric without a conclusion; `None` if neither run has any.
fn undecided(
    name: &str,
    primary: bool,
    sides: [Option<Estimate>; 2],
) -> Option<(MetricPair, Tested)> {
    let known = metric::find(name)?;
    if sides.iter().all(Option::is_none) {
        return None;
    }
    let estimate = match sides {
        [Some(from), Some(to)] => Some(to.less(&from)),
        _ => None,
    };
    let finite = |log: f64| Some(log.exp()).filter(|value| value.is_finite());
    let [from, to] = sides.map(|side| side.and_then(|side| finite(side.mean)));
    let pair = MetricPair {
        metric: name.to_owned(),
        unit: known.unit,
        primary,
        n: sides.map(|side| side.map_or(0, |side| side.n as u64)),
        geometric_mean_from: from,
        geometric_mean_to: to,
        ratio: estimate.and_then(|estimate| finite(estimate.mean)),
        interval: None,
        confidence: CONFIDENCE,
        p_value: None,
        p_holm: None,
        detectable_ratio: None,
        conclusion: Conclusion::NotEnoughRounds,
    };
    let tested = Tested {
        estimate,
        primary,
        better: better(name),
    };
    Some((pair, tested))
}

/// Decides all ratios of all pairs of runs together, and returns the number of tests.
pub fn decide_all(pairs: &mut [Matched]) -> u64 {
    let tested = pairs.iter_mut().map(|it| std::mem::take(&mut it.tested));
    let decided = decide(&tested.flatten().collect::<Vec<Tested>>());
    let cells = pairs.iter_mut().flat_map(|matched| &mut matched.cells);
    let metrics = cells.flat_map(|cell| &mut cell.metrics);
    let mut tests = 0;
    for (metric, decided) in metrics.zip(decided) {
        if let Some(decided) = decided {
            tests += 1;
            metric.interval = decided.interval;
            metric.confidence = decided.confidence;
            metric.p_value = Some(decided.p_value);
            metric.p_holm = Some(decided.p_holm);
            metric.detectable_ratio = decided.detectable_ratio;
            metric.conclusion = decided.conclusion;
        }
    }
    tests
}
