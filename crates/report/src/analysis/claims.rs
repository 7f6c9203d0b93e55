//! Claims of a run, and the correction for their number.
//!
//! All tests of a run are one family: each pair of transports by each headline metric in each
//! place, and each change from one condition to another. Every claim in a report, in a table or in
//! a sentence over several conditions, rests on these decisions.

use regatta_model::{Better, Workload, metric};
use regatta_stats::{Estimate, Test, autocorrelation, holm};

use super::{
    CONFIDENCE, DIFFERENCE_METRICS, compared_metrics,
    index::{CORRELATED, Index, Shared, trials_by_cell},
    summary::{Claim, Comparison, Conclusion, Difference, WorkloadDifference},
    workloads,
};
use crate::RunData;

/// Probability with which a difference of the detectable ratio is detected.
pub const POWER: f64 = 0.8;

/// Share of the 5 % that belongs to the pairs by the metric of their workload's ranking. The other
/// pairs and the changes between conditions have the rest.
pub const PRIMARY_SHARE: f64 = 0.8;

/// One-sided level at which the rounds of one cell count as correlated.
pub const CORRELATED_CELL: f64 = 0.01;

/// Claim that is not decided yet.
struct Pending<T> {
    said: T,
    estimate: Option<Estimate>,
    primary: bool,
    better: Better,
}

/// Variation of the ratio of a pair from round to round.
#[derive(Debug, Clone, PartialEq)]
pub struct PairSpread {
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Label of one transport.
    pub a: String,
    /// Label of the other.
    pub b: String,
    /// Number of rounds that both have.
    pub n: usize,
    /// Standard deviation of the logarithm of the ratio, larger where the rounds are correlated.
    pub deviation: f64,
}

impl PairSpread {
    /// Largest number of rounds that is reported.
    pub const MOST_ROUNDS: usize = 100_000;

    /// Returns the number of rounds in which a test at level 1 − `confidence` detects a ratio above
    /// 1 with a power of [`POWER`]; `None` above [`PairSpread::MOST_ROUNDS`].
    #[must_use]
    pub fn rounds_to_detect(&self, ratio: f64, confidence: f64) -> Option<usize> {
        let most = Self::MOST_ROUNDS;
        regatta_stats::rounds_to_detect(self.deviation, ratio.ln(), confidence, POWER, most)
    }
}

/// Returns the spread of every pair of a run by the metric of its workload's ranking, for pairs
/// with at least two shared rounds.
#[must_use]
pub fn pair_spreads(data: &RunData) -> Vec<PairSpread> {
    (comparisons(&Index::of(data, &trials_by_cell(data))).into_iter())
        .filter(|pair| pair.primary)
        .filter_map(|Pending { said, estimate, .. }| {
            let estimate = estimate?;
            Some(PairSpread {
                condition: said.condition,
                workload: said.workload,
                a: said.a,
                b: said.b,
                n: estimate.n,
                deviation: estimate.deviation()?,
            })
        })
        .collect()
}

/// Returns the level of a pair's interval by the metric of the ranking at the first and strictest
/// step of the correction. `pairs` is the number of such pairs; `others` tells whether there are
/// further tests.
#[must_use]
pub fn strictest_confidence(pairs: usize, others: bool) -> f64 {
    let share = if others { PRIMARY_SHARE } else { 1.0 };
    1.0 - (1.0 - CONFIDENCE) * share / pairs.max(1) as f64
}

/// Returns all comparisons and all differences of a run, between conditions and between workloads, decided together.
pub fn all(index: &Index<'_>) -> (Vec<Comparison>, Vec<Difference>, Vec<WorkloadDifference>) {
    let mut comparisons = comparisons(index);
    let mut differences = differences(index);
    let mut of_workloads = between_workloads(index);
    let tested = |estimate: &Option<Estimate>| estimate.and_then(|e| e.p_value());
    let tests: Vec<(f64, bool)> = (comparisons.iter())
        .map(|c| (tested(&c.estimate), c.primary))
        .chain(differences.iter().map(|d| (tested(&d.estimate), d.primary)))
        .chain(
            of_workloads
                .iter()
                .map(|d| (tested(&d.estimate), d.primary)),
        )
        .filter_map(|(p, primary)| Some((p?, primary)))
        .collect();
    let count = |primary| tests.iter().filter(|test| test.1 == primary).count() as f64;
    let weights = [
        (1.0 - PRIMARY_SHARE) / count(false).max(1.0),
        PRIMARY_SHARE / count(true).max(1.0),
    ];
    let weighed: Vec<Test> = tests
        .iter()
        .map(|&(p_value, primary)| Test {
            p_value,
            weight: weights[usize::from(primary)],
        })
        .collect();
    let mut decisions = holm(&weighed, 1.0 - CONFIDENCE).into_iter();
    let mut decide = |estimate: Option<Estimate>, better: Better, claim: &mut Claim| {
        let Some((estimate, p_value)) = estimate.and_then(|e| Some((e, e.p_value()?))) else {
            return;
        };
        let Some(decision) = decisions.next() else {
            return;
        };
        claim.confidence = decision.confidence;
        claim.interval = estimate.interval_of_ratio(decision.confidence);
        claim.p_value = Some(p_value);
        claim.p_holm = Some(decision.adjusted);
        claim.conclusion = conclude(&estimate, decision.significant, better);
        if claim.conclusion == Conclusion::NoDifferenceDetected {
            let detectable = estimate.detectable(decision.confidence, POWER);
            claim.detectable_ratio = detectable.map(f64::exp).filter(|ratio| ratio.is_finite());
        }
    };
    for pending in &mut comparisons {
        decide(pending.estimate, pending.better, &mut pending.said.claim);
    }
    for pending in &mut differences {
        decide(pending.estimate, pending.better, &mut pending.said.claim);
    }
    for pending in &mut of_workloads {
        decide(pending.estimate, pending.better, &mut pending.said.claim);
    }
    (said(comparisons), said(differences), said(of_workloads))
}

/// Returns the claims without their estimates.
fn said<T>(all: Vec<Pending<T>>) -> Vec<T> {
    all.into_iter().map(|pending| pending.said).collect()
}

fn conclude(estimate: &Estimate, significant: bool, better: Better) -> Conclusion {
    if significant {
        if (estimate.mean > 0.0) == (better != Better::Lower) {
            Conclusion::Faster
        } else {
            Conclusion::Slower
        }
    } else if estimate.is_constant() && estimate.mean != 0.0 {
        // The same in every round, and too few rounds for that not to be chance.
        Conclusion::NotEnoughRounds
    } else {
        Conclusion::NoDifferenceDetected
    }
}

/// Returns an undecided claim with its estimate only.
fn undecided(n: usize, estimate: Option<&Estimate>, autocorrelation: f64) -> Claim {
    Claim {
        n: n as u64,
        ratio: estimate.map(|e| e.mean.exp()).filter(|r| r.is_finite()),
        interval: None,
        confidence: CONFIDENCE,
        p_value: None,
        p_holm: None,
        detectable_ratio: None,
        autocorrelation,
        conclusion: Conclusion::NotEnoughRounds,
    }
}

/// Returns the comparison of every pair under each condition and workload, for each headline
/// metric.
fn comparisons(index: &Index<'_>) -> Vec<Pending<Comparison>> {
    let study = &index.data.header.study;
    let mut comparisons = Vec::new();
    for workload in &study.workloads {
        let mut of_metrics: Vec<_> = compared_metrics(study)
            .into_iter()
            .map(|metric| (metric, index.pairs(&workload.name, metric).into_iter()))
            .collect();
        for condition in &study.conditions {
            for (metric, places) in &mut of_metrics {
                let Some((pairs, rho)) = places.next() else {
                    continue;
                };
                for (a, b, shared) in pairs {
                    let nodes = index.nodes(&condition.name, &shared.rounds);
                    let estimate = Estimate::of_blocks(&shared.ratios, &nodes, rho);
                    comparisons.push(Pending {
                        said: Comparison {
                            condition: condition.name.clone(),
                            workload: workload.name.clone(),
                            metric: (*metric).to_owned(),
                            a: a.to_owned(),
                            b: b.to_owned(),
                            geometric_mean_a: shared.means[0],
                            geometric_mean_b: shared.means[1],
                            claim: undecided(shared.ratios.len(), estimate.as_ref(), rho),
                        },
                        estimate,
                        primary: index.data.is_primary(metric, &workload.name),
                        better: better(metric),
                    });
                }
            }
        }
    }
    comparisons
}

fn better(name: &str) -> Better {
    metric::find(name).map_or(Better::Higher, |metric| metric.better)
}

/// Returns the difference of each transport under each further condition from the first, over the
/// rounds that have both.
fn differences(index: &Index<'_>) -> Vec<Pending<Difference>> {
    let study = &index.data.header.study;
    let Some((first, others)) = study.conditions.split_first() else {
        return Vec::new();
    };
    let mut differences = Vec::new();
    for workload in &study.workloads {
        for metric in DIFFERENCE_METRICS {
            let places = index.pairs(&workload.name, metric);
            for (other, (_, memory)) in others.iter().zip(places.iter().skip(1)) {
                for transport in &study.transports {
                    let under = |condition: &str| {
                        index.logs([&transport.label, condition, &workload.name], metric)
                    };
                    let shared = Shared::of(under(&other.name), under(&first.name));
                    let [Some(to), Some(from)] = shared.means else {
                        continue;
                    };
                    // A memory of cells that the pairs show holds here as well.
                    let series = std::slice::from_ref(&shared.ratios);
                    let rho = autocorrelation(series, 1, CORRELATED).max(*memory);
                    let [to_node, from_node] = [&other.name, &first.name]
                        .map(|condition| index.nodes(condition, &shared.rounds));
                    // The rounds of two conditions may have run on two machines.
                    let most = from_node.iter().max().map_or(1, |most| most + 1);
                    let both = to_node.iter().zip(&from_node);
                    let nodes: Vec<usize> = both.map(|(to, from)| to * most + from).collect();
                    let estimate = Estimate::of_blocks(&shared.ratios, &nodes, rho);
                    differences.push(Pending {
                        said: Difference {
                            transport: transport.label.clone(),
                            workload: workload.name.clone(),
                            metric: metric.to_owned(),
                            from: first.name.clone(),
                            to: other.name.clone(),
                            geometric_mean_from: from,
                            geometric_mean_to: to,
                            claim: undecided(shared.ratios.len(), estimate.as_ref(), rho),
                        },
                        estimate,
                        primary: false,
                        better: better(metric),
                    });
                }
            }
        }
    }
    differences
}

/// Returns the difference of each transport with each further workload of a kind from the first, by the metric of their
/// rankings, over the rounds that have both.
fn between_workloads(index: &Index<'_>) -> Vec<Pending<WorkloadDifference>> {
    let data = index.data;
    let study = &data.header.study;
    let mut differences = Vec::new();
    for [from, to] in workloads::pairs(data) {
        let metric = study.primary_metric(to);
        for condition in workloads::conditions(data) {
            for transport in &study.transports {
                let with = |workload: &Workload| {
                    index.logs([&transport.label, &condition.name, &workload.name], metric)
                };
                let shared = Shared::of(with(to), with(from));
                let [Some(mean_to), Some(mean_from)] = shared.means else {
                    continue;
                };
                let series = std::slice::from_ref(&shared.ratios);
                let rho = autocorrelation(series, 1, CORRELATED);
                let estimate = Estimate::of(&shared.ratios, rho);
                differences.push(Pending {
                    said: WorkloadDifference {
                        transport: transport.label.clone(),
                        condition: condition.name.clone(),
                        metric: metric.to_owned(),
                        from: from.name.clone(),
                        to: to.name.clone(),
                        geometric_mean_from: mean_from,
                        geometric_mean_to: mean_to,
                        claim: undecided(shared.ratios.len(), estimate.as_ref(), rho),
                    },
                    estimate,
                    primary: false,
                    better: better(metric),
                });
            }
        }
    }
    differences
}
