//! Trials of a run by cell, and what is compared of them, found in one pass.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regatta_model::{Outcome, TrialRecord};
use regatta_stats::{autocorrelation, blocks_differ};

use super::{CONFIDENCE, DIFFERENCE_METRICS, compared_metrics};
use crate::{
    RunData,
    data::{CellKey, cell_of},
    language::tr,
};

/// One-sided level at which the rounds under one condition count as correlated.
pub const CORRELATED: f64 = 0.05;

/// Logarithms of a metric of a cell, by round, ascending. Values that are not above zero are left out: trials that
/// delivered nothing are among the failures of their cell.
pub type Logs = [(u32, f64)];

/// Logarithms of each metric.
pub type MetricLogs<'a> = BTreeMap<&'a str, Vec<(u32, f64)>>;

/// Trials by transport, condition and workload, in the order of the plan.
pub type ByCell<'a> = BTreeMap<CellKey<'a>, Vec<&'a TrialRecord>>;

/// Returns the trials of each cell.
pub fn trials_by_cell(data: &RunData) -> ByCell<'_> {
    let mut cells = ByCell::new();
    for trial in &data.trials {
        cells.entry(cell_of(trial)).or_default().push(trial);
    }
    cells
}

/// Index of what is compared of the measured trials of each cell.
pub struct Index<'a> {
    pub(super) data: &'a RunData,
    /// Logarithms of the metrics that are compared, by metric, of each cell in order.
    logs: Vec<(CellKey<'a>, MetricLogs<'a>)>,
    /// Number of the machine that ran a round, by condition, where there were several.
    nodes: BTreeMap<&'a str, BTreeMap<u32, u32>>,
}

/// Two transports and their values in the rounds that both have.
pub type Pair<'a> = (&'a str, &'a str, Shared);

impl<'a> Index<'a> {
    /// Builds the index of a run.
    pub fn of(data: &'a RunData, trials: &ByCell<'a>) -> Self {
        let study = &data.header.study;
        let primary = (study.workloads.iter())
            .flat_map(|it| [study.primary_metric(it), it.kind.primary_metric()]);
        let metrics: BTreeSet<&str> = (compared_metrics(study).into_iter())
            .chain(DIFFERENCE_METRICS)
            .chain(primary)
            .collect();
        let logs = (trials.iter())
            .map(|(cell, trials)| (*cell, logs_by_metric(&metrics, trials)))
            .collect();
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut nodes: BTreeMap<&str, BTreeMap<u32, u32>> = BTreeMap::new();
        for trial in &data.trials {
            let Some(node) = data.nodes.get(&trial.index) else {
                continue;
            };
            let next = numbers.len() as u32;
            let number = *numbers.entry(node).or_insert(next);
            let of_condition = nodes.entry(&trial.condition).or_default();
            of_condition.insert(trial.round, number);
        }
        Self { data, logs, nodes }
    }

    /// Returns the machines of some rounds under one condition.
    pub(super) fn nodes(&self, condition: &str, rounds: &[u32]) -> Vec<usize> {
        let of_condition = self.nodes.get(condition);
        let node = |round: &u32| of_condition.and_then(|nodes| nodes.get(round)).copied();
        let nodes = rounds.iter().map(node);
        nodes.map(|node| node.unwrap_or(0) as usize).collect()
    }

    /// Returns the pairs and conditions whose ratio by the metric of the ranking depends on the machine,
    /// at a level of 1 % for all of them together.
    pub fn disagreements(&self) -> Vec<String> {
        let mut nodes = self.nodes.values().flat_map(BTreeMap::values);
        if nodes.all(|node| *node == 0) {
            return Vec::new();
        }
        let study = &self.data.header.study;
        let mut tests = Vec::new();
        for workload in &study.workloads {
            let metric = workload.kind.primary_metric();
            let by_condition = self.pairs(&workload.name, metric).into_iter();
            for (condition, (pairs, _)) in study.conditions.iter().zip(by_condition) {
                for (a, b, shared) in pairs {
                    let nodes = self.nodes(&condition.name, &shared.rounds);
                    let name = tr!("`{}` and `{}` under `{}`", a, b, condition.name);
                    tests.extend(blocks_differ(&shared.ratios, &nodes).map(|p| (p, name)));
                }
            }
        }
        let level = (1.0 - CONFIDENCE) / 5.0 / tests.len().max(1) as f64;
        let differing = tests.into_iter().filter(|(p_value, _)| *p_value < level);
        differing.map(|(_, name)| name).collect()
    }

    /// Returns the logarithms of a metric of a cell that is compared by it, or that workloads are ranked by.
    pub fn logs(&self, cell: CellKey<'_>, metric: &str) -> &Logs {
        let position = self.logs.binary_search_by(|(known, _)| known.cmp(&cell));
        let logs = position
            .ok()
            .and_then(|position| self.logs[position].1.get(metric));
        logs.map_or(&[], Vec::as_slice)
    }

    /// Returns the pairs of each condition by one metric, with the autocorrelation of their ratios:
    /// the larger one of that of the condition and that of all conditions together. Autocorrelation of
    /// cells mostly comes from the machine, and few rounds under one condition are not enough to detect it.
    pub(super) fn pairs(&self, workload: &str, metric: &str) -> Vec<(Vec<Pair<'a>>, f64)> {
        let study = &self.data.header.study;
        let mut all = (Vec::new(), 0);
        let by_condition: Vec<(Vec<Pair<'a>>, f64)> = (study.conditions.iter())
            .map(|condition| {
                let columns: Vec<(&str, &Logs)> = (study.transports.iter())
                    .map(|transport| transport.label.as_str())
                    .map(|label| (label, self.logs([label, &condition.name, workload], metric)))
                    .filter(|(_, values)| !values.is_empty())
                    .collect();
                let pairs = columns.iter().tuple_combinations();
                let pairs: Vec<Pair<'_>> = pairs
                    .map(|(a, b)| (a.0, b.0, Shared::of(a.1, b.1)))
                    .collect();
                let ratios = pairs.iter().map(|(_, _, shared)| shared.ratios.clone());
                let ratios: Vec<Vec<f64>> = ratios.collect();
                let degrees = columns.len().max(1) - 1;
                let within = autocorrelation(&ratios, degrees, CORRELATED);
                all.0.extend(ratios);
                all.1 += degrees;
                (pairs, within)
            })
            .collect();
        let shared = autocorrelation(&all.0, all.1, CORRELATED);
        let by_condition = by_condition.into_iter();
        let widened = by_condition.map(|(pairs, within)| (pairs, within.max(shared)));
        widened.collect()
    }
}

/// Returns the logarithms of some metrics of the measured ones of some trials.
pub fn logs_by_metric<'a>(metrics: &BTreeSet<&'a str>, trials: &[&TrialRecord]) -> MetricLogs<'a> {
    let mut logs = MetricLogs::new();
    for trial in trials.iter().filter(|it| it.outcome == Outcome::Measured) {
        for (name, value) in &trial.measurements.metrics {
            let log = value.ln();
            if let Some(metric) = metrics.get(name).filter(|_| log.is_finite()) {
                logs.entry(metric).or_default().push((trial.round, log));
            }
        }
    }
    for logs in logs.values_mut() {
        if !logs.is_sorted_by(|a, b| a.0 < b.0) {
            // Stable, so that the last one of a round stays the last, which counts.
            logs.sort_by_key(|(round, _)| *round);
            logs.dedup_by(|later, previous| {
                let same = later.0 == previous.0;
                if same {
                    *previous = *later;
                }
                same
            });
        }
    }
    logs
}

/// Values of two cells in the rounds that both have.
pub(super) struct Shared {
    /// Rounds that both have.
    pub(super) rounds: Vec<u32>,
    /// Logarithms of the ratios, in the order of the rounds.
    pub(super) ratios: Vec<f64>,
    /// Geometric means of the two cells.
    pub(super) means: [Option<f64>; 2],
}

impl Shared {
    pub(super) fn of(a: &Logs, b: &Logs) -> Self {
        let mut b = b.iter().peekable();
        let (rounds, both): (Vec<u32>, Vec<[f64; 2]>) = (a.iter())
            .filter_map(|(round, value)| {
                while b.next_if(|(other, _)| other < round).is_some() {}
                let (_, other) = b.next_if(|(other, _)| other == round)?;
                Some((*round, [*value, *other]))
            })
            .unzip();
        let mean = |side: usize| {
            let sum: f64 = both.iter().map(|pair| pair[side]).sum();
            (!both.is_empty()).then(|| (sum / both.len() as f64).exp())
        };
        Self {
            rounds,
            ratios: both.iter().map(|[a, b]| a - b).collect(),
            means: [mean(0), mean(1)],
        }
    }
}
