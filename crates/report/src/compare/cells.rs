//! Ratios of the cells that two runs share, and their decision as one family.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regatta_model::{
    Better,
    metric::{self, Place, shown_in},
};
use regatta_stats::{
    Estimate, autocorrelation, more_failures_p_value, shared_autocorrelation, simultaneous,
};

use super::types::{CellName, CellPair, MetricPair};
use crate::{
    RunData, Summary,
    analysis::{
        ByCell, CONFIDENCE, CORRELATED_CELL, Cell, Conclusion, Failure, MeanKind, Shared, Tested,
        better, decide, started_and_failed, trials_by_cell, values_by_metric,
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

    /// Returns the values of a metric in every trial of a cell that was started, by round, ascending.
    fn values(&self, cell: CellKey<'_>, (metric, primary): (&str, bool)) -> Vec<(u32, f64)> {
        let trials = self.trials.get(&cell).map_or(&[][..], Vec::as_slice);
        let mut workloads = self.data.header.study.workloads.iter();
        let Some(workload) = workloads.find(|it| it.name == cell[2]) else {
            return Vec::new();
        };
        let (metrics, primary) = (BTreeSet::from([metric]), primary.then_some(metric));
        let mut values = values_by_metric(&metrics, primary, trials, workload);
        values.remove(metric).unwrap_or_default()
    }

    /// Returns the numbers of trials of a cell that were started, and that failed.
    fn started_and_failed(&self, cell: &Cell) -> [u64; 2] {
        let mut workloads = self.data.header.study.workloads.iter();
        let workload = workloads.find(|it| it.name == cell.workload);
        let trials = self.trials.get(&cell.key());
        let both = workload.zip(trials);
        both.map_or([0, 0], |(workload, trials)| {
            started_and_failed(trials, workload)
        })
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
    /// Evidence on the ratios, in the order of the cells and their metrics.
    evidence: Vec<(Evidence, bool, Better)>,
}

/// Values from which the ratio of a metric in two runs is estimated.
enum Evidence {
    /// Logarithms of the ratios, round by round.
    Paired(Vec<f64>),
    /// Logarithm of the ratio of two samples of rounds that have nothing in common; `None` if either is empty.
    Independent(Option<Estimate>),
    /// Numbers of rounds above zero of a metric that is zero in every round of one run, so that there is no ratio.
    FromNone([u64; 2]),
}

/// Matches the cells of two runs by their names, with `further` metrics beside those of every comparison.
pub fn matched(from: &Indexed<'_>, to: &Indexed<'_>, further: &[&'static str]) -> Matched {
    let [of_from, of_to] = [from.cells(), to.cells()];
    let mut matched = Matched {
        cells: Vec::new(),
        only_from: Vec::new(),
        only_to: (to.summary.cells.iter())
            .filter(|cell| !of_from.contains_key(&cell.key()))
            .map(name_of)
            .collect(),
        evidence: Vec::new(),
    };
    let changed = ChangedSettings::between(from.data, to.data);
    let has_one_seed = from.data.header.study.seed == to.data.header.study.seed;
    for cell in &from.summary.cells {
        let Some(other) = of_to.get(&cell.key()) else {
            matched.only_from.push(name_of(cell));
            continue;
        };
        let mut metrics = Vec::new();
        for (metric, primary) in metrics_of(from.data, &cell.workload, further) {
            let sides = [from, to].map(|run| run.values(cell.key(), (metric, primary)));
            let is_paired = has_one_seed && !changed.touch_rounds(cell);
            let Some((pair, evidence)) = undecided(metric, primary, &sides, is_paired) else {
                continue;
            };
            metrics.push(pair);
            matched.evidence.push((evidence, primary, better(metric)));
        }
        let trials = [(from, cell), (to, *other)].map(|(run, cell)| run.started_and_failed(cell));
        matched.cells.push(CellPair {
            name: name_of(cell),
            started: trials.map(|[started, _]| started),
            failed: trials.map(|[_, failed]| failed),
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
fn metrics_of(
    data: &RunData,
    workload: &str,
    further: &[&'static str],
) -> Vec<(&'static str, bool)> {
    let study = &data.header.study;
    let work = study.workloads.iter().find(|work| work.name == workload);
    let primary = work.and_then(|work| metric::find(study.primary_metric(work)));
    let primary = primary.map(|metric| metric.name);
    let shown = shown_in(|place| matches!(place, Place::Runs(_)).then_some(()));
    let shown = shown.map(|(metric, ())| metric.name);
    let others = shown.chain(further.iter().copied()).unique();
    let others = others.filter(|metric| Some(*metric) != primary);
    let others = others.map(|metric| (metric, false));
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

    /// Whether the rounds of a cell are not the same in both runs: over other paths, or with other work.
    fn touch_rounds(&self, cell: &Cell) -> bool {
        self.0[1].contains(&cell.condition) || self.0[2].contains(&cell.workload)
    }

    fn touch(&self, cell: &Cell) -> bool {
        let names = [&cell.transport, &cell.condition, &cell.workload];
        let mut parts = self.0.iter().zip(names);
        parts.any(|(changed, name)| changed.contains(name))
    }
}

/// Returns the values of one metric without a conclusion; `None` if neither run has any. Rounds that both runs have are
/// paired where `is_paired`: their paths lose the same packets.
fn undecided(
    name: &str,
    primary: bool,
    sides: &[Vec<(u32, f64)>; 2],
    is_paired: bool,
) -> Option<(MetricPair, Evidence)> {
    let known = metric::find(name)?;
    if sides.iter().all(Vec::is_empty) {
        return None;
    }
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    let [from, to] = sides;
    let shared = Shared::of(to, from);
    let above_zero = sides.each_ref().map(|side| {
        let above = side.iter().filter(|(_, value)| *value > 0.0);
        above.count() as u64
    });
    let both_measured = sides.iter().all(|side| !side.is_empty());
    let counts_from_none = !primary && better(name) != Better::Higher;
    let (kind, means, evidence) = if counts_from_none && both_measured && above_zero.contains(&0) {
        let mean = |side: &Vec<(u32, f64)>| {
            let sum: f64 = side.iter().map(|(_, value)| value).sum();
            Some(sum / side.len() as f64)
        };
        (
            Some(MeanKind::Arithmetic),
            [mean(from), mean(to)],
            Evidence::FromNone(above_zero),
        )
    } else if is_paired && !shared.ratios.is_empty() {
        let [to, from] = shared.means;
        (
            Some(shared.kind),
            [from, to],
            Evidence::Paired(shared.ratios),
        )
    } else {
        let values = sides
            .each_ref()
            .map(|side| side.iter().map(|(_, value)| *value));
        let kind = MeanKind::of(values.iter().cloned().flatten());
        let estimates = values.map(|values| {
            let series = [kind?.series(&Vec::from_iter(values))?];
            let rho = autocorrelation(&series, 1, CORRELATED_CELL);
            Estimate::of(&series[0], rho)
        });
        let [from, to] = estimates;
        let ratio = from.zip(to).map(|(from, to)| to.less(&from));
        let means = estimates.map(|side| side.map(|side| side.mean.exp()));
        (kind, means, Evidence::Independent(ratio))
    };
    let [mean_from, mean_to] = means.map(|mean| mean.and_then(finite));
    let pair = MetricPair {
        metric: name.to_owned(),
        unit: known.unit,
        primary,
        n: sides.each_ref().map(|values| values.len() as u64),
        is_paired: matches!(evidence, Evidence::Paired(_)),
        mean_kind: kind.unwrap_or(MeanKind::Geometric),
        mean_from,
        mean_to,
        ratio: None,
        interval: None,
        confidence: CONFIDENCE,
        p_value: None,
        p_adjusted: None,
        detectable_ratio: None,
        conclusion: Conclusion::Undecided,
    };
    Some((pair, evidence))
}

/// Decides all ratios of all pairs of runs together, and returns the number of tests. `equivalence` is the ratio up to
/// which two sides are the same, `is_virtual` tells whether all runs are in virtual time. The autocorrelation of paired rounds is that of all of them by the metrics of rankings.
pub fn decide_all(pairs: &mut [Matched], equivalence: f64, is_virtual: bool) -> u64 {
    let evidence = pairs
        .iter_mut()
        .flat_map(|it| std::mem::take(&mut it.evidence));
    let evidence: Vec<(Evidence, bool, Better)> = evidence.collect();
    let paired = evidence
        .iter()
        .filter_map(|(evidence, primary, _)| match evidence {
            Evidence::Paired(ratios) if *primary => Some(ratios.clone()),
            _ => None,
        });
    let memory = shared_autocorrelation(&paired.collect::<Vec<Vec<f64>>>());
    let from_none: Vec<Option<[u64; 2]>> = (evidence.iter())
        .map(|(evidence, ..)| match evidence {
            Evidence::FromNone(above_zero) => Some(*above_zero),
            _ => None,
        })
        .collect();
    let tested = evidence
        .into_iter()
        .map(|(evidence, primary, better)| Tested {
            estimate: match evidence {
                Evidence::Paired(ratios) => Estimate::of(&ratios, memory),
                Evidence::Independent(estimate) => estimate,
                Evidence::FromNone(_) => None,
            }
            .map(|estimate| match is_virtual {
                true => estimate.of_simulation(),
                false => estimate,
            }),
            primary,
            better,
        });
    let tested: Vec<Tested> = tested.collect();
    let decided = decide(&tested, equivalence);
    let cells = pairs.iter_mut().flat_map(|matched| &mut matched.cells);
    let mut metrics: Vec<&mut MetricPair> = cells.flat_map(|cell| &mut cell.metrics).collect();
    let mut tests = decide_from_none(&mut metrics, &from_none, is_virtual);
    for ((metric, tested), decided) in metrics.into_iter().zip(tested).zip(decided) {
        let ratio = tested.estimate.map(|estimate| estimate.mean.exp());
        metric.ratio = ratio.filter(|ratio| ratio.is_finite());
        if let Some(decided) = decided {
            tests += 1;
            metric.interval = decided.interval;
            metric.confidence = decided.confidence;
            metric.p_value = Some(decided.p_value);
            metric.p_adjusted = Some(decided.p_adjusted);
            metric.detectable_ratio = decided.detectable_ratio;
            metric.conclusion = decided.conclusion;
        }
    }
    tests
}

/// Decides, of metrics that are zero in every round of one run, whether they are above zero in more rounds of the other: by
/// Fisher's exact test over all of them, in virtual time by any round. Those that are zero in both are the same. Returns the
/// number of tests.
fn decide_from_none(
    metrics: &mut [&mut MetricPair],
    above_zero: &[Option<[u64; 2]>],
    is_virtual: bool,
) -> u64 {
    let found = metrics.iter_mut().zip(above_zero);
    let found = found.filter_map(|(metric, above_zero)| Some((metric, (*above_zero)?)));
    let (mut found, never): (Vec<_>, Vec<_>) = found.partition(|(_, counts)| *counts != [0, 0]);
    for (metric, _) in never {
        metric.conclusion = Conclusion::Same;
    }
    let p_value = |(metric, above_zero): &(&mut &mut MetricPair, [u64; 2])| {
        let mut sides = [0, 1].map(|side| [above_zero[side], metric.n[side]]);
        sides.sort_unstable();
        // Either direction.
        (2.0 * more_failures_p_value(sides[0], sides[1])).min(1.0)
    };
    let p_values: Vec<f64> = found.iter().map(p_value).collect();
    let decisions = simultaneous(&p_values, 1.0 - CONFIDENCE);
    for (((metric, _), p_value), decision) in found.iter_mut().zip(&p_values).zip(decisions) {
        if !is_virtual {
            metric.p_value = Some(*p_value);
            metric.p_adjusted = Some(decision.adjusted);
        }
        if is_virtual || decision.significant {
            let is_worse = metric.is_higher() == (better(&metric.metric) == Better::Lower);
            metric.conclusion = match is_worse {
                true => Conclusion::Slower,
                false => Conclusion::Faster,
            };
        }
    }
    match is_virtual {
        true => 0,
        false => found.len() as u64,
    }
}
