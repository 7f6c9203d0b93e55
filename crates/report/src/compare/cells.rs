//! Ratios of the cells that two runs share, and their decision as one family.

use std::collections::BTreeMap;

use regatta_model::{Better, Outcome, TrialRecord, metric};
use regatta_stats::{Estimate, Test, autocorrelation, holm};

use super::types::{CellName, CellPair, MetricPair};
use crate::{
    RunData, Summary,
    analysis::{
        CONFIDENCE, CORRELATED_CELL, Cell, Conclusion, DIFFERENCE_METRICS, Failure, POWER,
        PRIMARY_SHARE, logarithms,
    },
};

/// Run with its summary and an index of its measured trials.
pub struct Indexed<'a> {
    /// The run.
    pub data: &'a RunData,
    /// Its summary.
    pub summary: Summary,
    trials: BTreeMap<[&'a str; 3], Vec<&'a TrialRecord>>,
}

impl<'a> Indexed<'a> {
    /// Summarises and indexes a run.
    pub fn of(data: &'a RunData) -> Self {
        let mut trials: BTreeMap<[&str; 3], Vec<&TrialRecord>> = BTreeMap::new();
        for trial in data
            .trials
            .iter()
            .filter(|t| t.outcome == Outcome::Measured)
        {
            let cell = [&trial.transport, &trial.condition, &trial.workload].map(String::as_str);
            trials.entry(cell).or_default().push(trial);
        }
        Self {
            data,
            summary: crate::summarise(data),
            trials,
        }
    }

    /// Estimates the mean logarithm of a metric in a cell, over its rounds.
    fn estimate(&self, cell: [&str; 3], metric: &str) -> Option<Estimate> {
        let trials = self.trials.get(&cell).into_iter().flatten();
        let logs: Vec<f64> = logarithms(trials.copied(), metric).into_values().collect();
        let rho = autocorrelation(std::slice::from_ref(&logs), 1, CORRELATED_CELL);
        Estimate::of(&logs, rho)
    }

    /// Returns the cells of the run by name.
    fn cells(&self) -> BTreeMap<[&str; 3], &Cell> {
        (self.summary.cells.iter())
            .map(|cell| (key_of(cell), cell))
            .collect()
    }
}

fn key_of(cell: &Cell) -> [&str; 3] {
    [&cell.transport, &cell.condition, &cell.workload].map(String::as_str)
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
    /// Differences of the logarithms, in the order of the cells and their metrics.
    estimates: Vec<Option<Estimate>>,
}

/// Matches the cells of two runs by their names.
pub fn matched(from: &Indexed<'_>, to: &Indexed<'_>) -> Matched {
    let [of_from, of_to] = [from.cells(), to.cells()];
    let mut matched = Matched {
        cells: Vec::new(),
        only_from: Vec::new(),
        only_to: (to.summary.cells.iter())
            .filter(|cell| !of_from.contains_key(&key_of(cell)))
            .map(name_of)
            .collect(),
        estimates: Vec::new(),
    };
    let changed = ChangedSettings::between(from.data, to.data);
    for cell in &from.summary.cells {
        let Some(other) = of_to.get(&key_of(cell)) else {
            matched.only_from.push(name_of(cell));
            continue;
        };
        let mut metrics = Vec::new();
        for (metric, primary) in metrics_of(from.data, &cell.workload) {
            let sides = [from, to].map(|run| run.estimate(key_of(cell), metric));
            let Some((pair, estimate)) = undecided(metric, primary, sides) else {
                continue;
            };
            metrics.push(pair);
            matched.estimates.push(estimate);
        }
        matched.cells.push(CellPair {
            name: name_of(cell),
            settings_differ: changed.touch(cell),
            measured: [cell.n, other.n],
            failures: [cell, *other]
                .map(|cell| cell.failures.iter().map(Failure::in_words).collect()),
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
    let others = DIFFERENCE_METRICS
        .into_iter()
        .filter(|metric| Some(*metric) != primary);
    let primary = primary.into_iter().map(|metric| (metric, true));
    primary
        .chain(others.map(|metric| (metric, false)))
        .collect()
}

/// Whether a larger share of some kind of work failed in `to`.
fn fails_more(from: &Cell, to: &Cell) -> bool {
    to.failures.iter().any(|failure| {
        let before = from
            .failures
            .iter()
            .find(|other| other.kind == failure.kind);
        failure.ratio() > before.map_or(0.0, Failure::ratio)
    })
}

/// Names of transports, conditions and workloads whose settings two studies give differently.
struct ChangedSettings {
    transports: Vec<String>,
    conditions: Vec<String>,
    workloads: Vec<String>,
}

impl ChangedSettings {
    fn between(from: &RunData, to: &RunData) -> Self {
        fn names<T: PartialEq>(a: &[T], b: &[T], name: impl Fn(&T) -> &String) -> Vec<String> {
            let others: BTreeMap<&String, &T> = b.iter().map(|it| (name(it), it)).collect();
            let differs = |it: &&T| others.get(name(it)).is_some_and(|other| *other != *it);
            a.iter()
                .filter(differs)
                .map(|it| name(it).clone())
                .collect()
        }
        let [a, b] = [&from.header.study, &to.header.study];
        Self {
            transports: names(&a.transports, &b.transports, |it| &it.label),
            conditions: names(&a.conditions, &b.conditions, |it| &it.name),
            workloads: names(&a.workloads, &b.workloads, |it| &it.name),
        }
    }

    fn touch(&self, cell: &Cell) -> bool {
        self.transports.contains(&cell.transport)
            || self.conditions.contains(&cell.condition)
            || self.workloads.contains(&cell.workload)
    }
}

/// Returns the values of one metric without a conclusion; `None` if neither run has any.
fn undecided(
    name: &str,
    primary: bool,
    sides: [Option<Estimate>; 2],
) -> Option<(MetricPair, Option<Estimate>)> {
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
    Some((pair, estimate))
}

/// Decides all ratios of all pairs of runs together, and returns the number of tests.
///
/// The error is shared as in the report of one run: 80 % for the metrics of the rankings, 20 % for
/// the others.
pub fn decide(pairs: &mut [Matched]) -> u64 {
    let mut pending: Vec<(&mut MetricPair, Estimate, f64)> = Vec::new();
    for matched in pairs {
        let metrics = matched.cells.iter_mut().flat_map(|cell| &mut cell.metrics);
        for (metric, estimate) in metrics.zip(&matched.estimates) {
            if let Some((estimate, p)) = estimate.and_then(|e| Some((e, e.p_value()?))) {
                pending.push((metric, estimate, p));
            }
        }
    }
    let count = |primary| {
        pending
            .iter()
            .filter(|(m, ..)| m.primary == primary)
            .count()
            .max(1) as f64
    };
    let weights = [
        (1.0 - PRIMARY_SHARE) / count(false),
        PRIMARY_SHARE / count(true),
    ];
    let tests: Vec<Test> = (pending.iter())
        .map(|(metric, _, p_value)| Test {
            p_value: *p_value,
            weight: weights[usize::from(metric.primary)],
        })
        .collect();
    let decisions = holm(&tests, 1.0 - CONFIDENCE);
    for ((metric, estimate, p_value), decision) in pending.into_iter().zip(decisions) {
        metric.confidence = decision.confidence;
        metric.interval = estimate.interval_of_ratio(decision.confidence);
        metric.p_value = Some(p_value);
        metric.p_holm = Some(decision.adjusted);
        metric.conclusion = conclude(metric, &estimate, decision.significant);
        if metric.conclusion == Conclusion::NoDifferenceDetected {
            let detectable = estimate.detectable(decision.confidence, POWER);
            metric.detectable_ratio = detectable.map(f64::exp).filter(|ratio| ratio.is_finite());
        }
    }
    tests.len() as u64
}

fn conclude(metric: &MetricPair, estimate: &Estimate, significant: bool) -> Conclusion {
    let better = metric::find(&metric.metric).map_or(Better::Higher, |metric| metric.better);
    if significant {
        match (estimate.mean > 0.0) == (better != Better::Lower) {
            true => Conclusion::Faster,
            false => Conclusion::Slower,
        }
    } else if estimate.is_constant() && metric.ratio.is_some_and(|ratio| ratio != 1.0) {
        Conclusion::NotEnoughRounds
    } else {
        Conclusion::NoDifferenceDetected
    }
}
