//! Trials of a run by cell, and what is compared of them, found in one pass.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regatta_model::{
    Condition, TrialRecord, Workload,
    metric::{Place, names_in},
};
use regatta_stats::blocks_differ;

use super::{CONFIDENCE, claimed_metrics, mean::MeanKind, values::values_of};
use crate::{
    RunData,
    data::{CellKey, cell_of},
    language::tr,
};

/// Values of a metric of a cell ([`values_of`]), by round, ascending.
pub type Values = [(u32, f64)];

/// Values of each metric.
pub type MetricValues<'a> = BTreeMap<&'a str, Vec<(u32, f64)>>;

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

/// Index of what is compared of the trials of each cell.
pub struct Index<'a> {
    pub(super) data: &'a RunData,
    /// Values of the metrics that are compared, by metric, of each cell in order.
    values: Vec<(CellKey<'a>, MetricValues<'a>)>,
    /// Number of the machine that ran a round, by condition, where there were several.
    nodes: BTreeMap<&'a str, BTreeMap<u32, u32>>,
}

/// Two transports and their values in the rounds that both have.
pub type Pair<'a> = (&'a str, &'a str, Shared);

impl<'a> Index<'a> {
    /// Builds the index of a run.
    pub fn of(data: &'a RunData, trials: &ByCell<'a>) -> Self {
        let study = &data.header.study;
        let primary =
            (study.workloads.iter()).flat_map(|it| [study.primary_metric(it), it.primary_metric()]);
        let metrics: BTreeSet<&str> = (claimed_metrics(study).into_iter())
            .chain(names_in(Place::Differences))
            .chain(primary)
            .chain(study.claims.iter().map(|claim| claim.metric.as_str()))
            .collect();
        let workloads: BTreeMap<&str, &Workload> = (study.workloads.iter())
            .map(|it| (it.name.as_str(), it))
            .collect();
        let values = (trials.iter())
            .filter_map(|(cell, trials)| {
                let workload = *workloads.get(cell[2])?;
                let primary = Some(study.primary_metric(workload));
                let values = values_by_metric(&metrics, primary, trials, workload);
                Some((*cell, values))
            })
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
        Self {
            data,
            values,
            nodes,
        }
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
        if self.nodes.is_empty() {
            return Vec::new();
        }
        let study = &self.data.header.study;
        let mut tests = Vec::new();
        for workload in &study.workloads {
            let metric = study.primary_metric(workload);
            let by_condition = self.pairs(&workload.name, metric).into_iter();
            for (condition, pairs) in study.conditions.iter().zip(by_condition) {
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

    /// Returns the values of a metric of a cell that is compared by it, or that workloads are ranked by.
    pub fn values(&self, cell: CellKey<'_>, metric: &str) -> &Values {
        let position = self.values.binary_search_by(|(known, _)| known.cmp(&cell));
        let values = position
            .ok()
            .and_then(|position| self.values[position].1.get(metric));
        values.map_or(&[], Vec::as_slice)
    }

    /// Returns, for each condition, all pairs of transports that have values of `metric`, with the rounds that both
    /// have.
    pub(super) fn pairs(&self, workload: &str, metric: &str) -> Vec<Vec<Pair<'a>>> {
        let study = &self.data.header.study;
        let of_condition = |condition: &Condition| {
            let values = |label| self.values([label, &condition.name, workload], metric);
            let columns: Vec<(&str, &Values)> = (study.transports.iter())
                .map(|transport| (transport.label.as_str(), values(&transport.label)))
                .filter(|(_, values)| !values.is_empty())
                .collect();
            let pairs = columns.iter().tuple_combinations();
            pairs
                .map(|(a, b)| (a.0, b.0, Shared::of(a.1, b.1)))
                .collect()
        };
        study.conditions.iter().map(of_condition).collect()
    }
}

/// Returns the values of some metrics of some trials of a workload that is ranked by the metric `primary`.
pub fn values_by_metric<'a>(
    metrics: &BTreeSet<&'a str>,
    primary: Option<&str>,
    trials: &[&TrialRecord],
    workload: &Workload,
) -> MetricValues<'a> {
    let of_metric = |metric: &&'a str| {
        let is_primary = primary == Some(*metric);
        (*metric, values_of(trials, workload, (*metric, is_primary)))
    };
    let mut values: MetricValues<'_> = metrics.iter().map(of_metric).collect();
    values.retain(|_, values| !values.is_empty());
    for values in values.values_mut() {
        if !values.is_sorted_by(|a, b| a.0 < b.0) {
            // Stable, so that the last one of a round stays the last, which counts.
            values.sort_by_key(|(round, _)| *round);
            values.dedup_by(|later, previous| {
                let same = later.0 == previous.0;
                if same {
                    *previous = *later;
                }
                same
            });
        }
    }
    values
}

/// Values of two cells in the rounds that both have.
pub(crate) struct Shared {
    /// Rounds that both have; none where a mean of either cell is zero or infinite.
    pub(crate) rounds: Vec<u32>,
    /// Logarithms of the ratios, in the order of the rounds: their mean is that of the ratio of the two means.
    pub(crate) ratios: Vec<f64>,
    /// Kind of both means.
    pub(crate) kind: MeanKind,
    /// Means of the two cells.
    pub(crate) means: [Option<f64>; 2],
}

impl Shared {
    pub(crate) fn of(a: &Values, b: &Values) -> Self {
        let mut b = b.iter().peekable();
        let mut rounds = Vec::new();
        let mut both = [Vec::new(), Vec::new()];
        for (round, value) in a {
            while b.next_if(|(other, _)| other < round).is_some() {}
            if let Some((_, other)) = b.next_if(|(other, _)| other == round) {
                rounds.push(*round);
                both[0].push(*value);
                both[1].push(*other);
            }
        }
        let kind = MeanKind::of(both.iter().flatten().copied());
        let series = kind.and_then(|kind| {
            let [a, b] = both.each_ref().map(|side| kind.series(side));
            Some([a?, b?])
        });
        let Some([a, b]) = series.filter(|_| !rounds.is_empty()) else {
            return Self {
                rounds: Vec::new(),
                ratios: Vec::new(),
                kind: MeanKind::Geometric,
                means: [None; 2],
            };
        };
        let mean = |series: &[f64]| Some((series.iter().sum::<f64>() / series.len() as f64).exp());
        Self {
            rounds,
            kind: kind.unwrap_or(MeanKind::Geometric),
            means: [mean(&a), mean(&b)],
            ratios: a.iter().zip(&b).map(|(a, b)| a - b).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::{Outcome, metric::id};

    use super::*;
    use crate::analysis::fixture::{bulk, trial};

    /// By hand: the rounds 1 and 3 have both; √(4 · 8) and √(1 · 4).
    #[test]
    fn two_cells_are_compared_over_the_rounds_that_both_have() {
        let a = [(0, 2.0), (1, 4.0), (3, 8.0)];
        let b = [(1, 1.0), (2, 5.0), (3, 4.0), (4, 7.0)];
        let shared = Shared::of(&a, &b);
        assert_eq!(shared.rounds, [1, 3]);
        let expected = [4.0_f64.ln(), 8.0_f64.ln() - 4.0_f64.ln()];
        assert_eq!(shared.ratios, expected);
        assert_eq!(shared.kind, MeanKind::Geometric);
        let means = shared.means.map(|mean| mean.expect("a mean"));
        assert!((means[0] - 32.0_f64.sqrt()).abs() < 1e-12, "{means:?}");
        assert!((means[1] - 2.0).abs() < 1e-12, "{means:?}");
        let apart = Shared::of(&a[..1], &b);
        assert_eq!((apart.rounds.len(), apart.means), (0, [None; 2]));
    }

    #[test]
    fn values_are_in_the_order_of_rounds_of_which_the_last_attempt_counts() {
        let metrics = BTreeSet::from([id::REQUESTS_PER_SECOND]);
        let values = |trials: &[(u32, f64)], primary: Option<&str>| {
            let trials = trials.iter().map(|(round, value)| {
                let outcome = match *value {
                    0.0 => Outcome::Failed,
                    _ => Outcome::Measured,
                };
                trial(*round, outcome, &[(id::REQUESTS_PER_SECOND, *value)])
            });
            let trials: Vec<TrialRecord> = trials.collect();
            let trials: Vec<&TrialRecord> = trials.iter().collect();
            let mut values = values_by_metric(&metrics, primary, &trials, &bulk());
            values.remove(id::REQUESTS_PER_SECOND)
        };
        let primary = Some(id::REQUESTS_PER_SECOND);
        let of_rounds = [(2, 5.0), (0, 6.0), (2, 7.0)];
        assert_eq!(values(&of_rounds, primary), Some(vec![(0, 6.0), (2, 7.0)]));
        assert_eq!(values(&[(0, 5.0), (0, 6.0)], primary), Some(vec![(0, 6.0)]));
        // A trial that failed counts in the metric of the ranking.
        assert_eq!(values(&[(1, 0.0)], primary), Some(vec![(1, 0.0)]));
        assert_eq!(values(&[(1, 0.0)], None), None);
    }
}
