//! What a run claims, and the one correction for claiming much.
//!
//! Every test of a run is in one family: each pair of transports by each headline metric in each
//! place, and each change from one condition to another. Whatever is said of a run, in a table or in a
//! sentence over several conditions, is said by these decisions.

use std::collections::BTreeMap;

use regatta_model::{Better, metric};
use regatta_stats::{Estimate, Test, autocorrelation, holm};

use super::{
    CONFIDENCE, HEADLINE_METRICS,
    summary::{Claim, Comparison, Conclusion, Difference},
};
use crate::RunData;

/// Probability with which a difference of the detectable ratio is detected.
pub const POWER: f64 = 0.8;

/// Share of the 5 % that the pairs by the metric that their work is ranked by have among them. The
/// other pairs and the changes between conditions have the rest.
pub const PRIMARY_SHARE: f64 = 0.8;

/// One-sided level at which the rounds of a place count as correlated.
const CORRELATED: f64 = 0.05;

/// The same for one cell.
pub const CORRELATED_CELL: f64 = 0.01;

/// The metrics of the published table of relative differences (rate, delay, CPU), and ours.
pub const DIFFERENCE_METRICS: [&str; 4] = [
    "goodput_bps",
    "round_trip_delay_ns",
    "cpu_host_ratio",
    "goodput_per_core_percent_bps",
];

/// A claim before it is decided.
struct Pending<T> {
    said: T,
    estimate: Option<Estimate>,
    primary: bool,
    better: Better,
}

/// How much the ratio of a pair varies from round to round.
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
    /// Rounds that both have.
    pub n: usize,
    /// Standard deviation of the logarithm of the ratio, larger where the rounds are correlated.
    pub deviation: f64,
}

impl PairSpread {
    /// Most rounds that are named.
    pub const MOST_ROUNDS: usize = 100_000;

    /// Rounds in which a test at level 1 − `confidence` detects a ratio above 1 with a power of
    /// [`POWER`]; `None` above [`PairSpread::MOST_ROUNDS`].
    #[must_use]
    pub fn rounds_to_detect(&self, ratio: f64, confidence: f64) -> Option<usize> {
        let most = Self::MOST_ROUNDS;
        regatta_stats::rounds_to_detect(self.deviation, ratio.ln(), confidence, POWER, most)
    }
}

/// The spread of every pair of a run by the metric that its work is ranked by, where two rounds or more
/// have both.
#[must_use]
pub fn pair_spreads(data: &RunData) -> Vec<PairSpread> {
    (comparisons(data).into_iter())
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

/// Level of the interval of a pair by the metric of the ranking at the first and strictest step of the
/// correction, where so many `pairs` are tested and, if there are `others`, other things too.
#[must_use]
pub fn strictest_confidence(pairs: usize, others: bool) -> f64 {
    let share = if others { PRIMARY_SHARE } else { 1.0 };
    1.0 - (1.0 - CONFIDENCE) * share / pairs.max(1) as f64
}

/// Every comparison and every difference of a run, decided together.
pub fn all(data: &RunData) -> (Vec<Comparison>, Vec<Difference>) {
    let mut comparisons = comparisons(data);
    let mut differences = differences(data);
    let tested = |estimate: &Option<Estimate>| estimate.and_then(|e| e.p_value());
    let tests: Vec<(f64, bool)> = (comparisons.iter())
        .map(|c| (tested(&c.estimate), c.primary))
        .chain(differences.iter().map(|d| (tested(&d.estimate), d.primary)))
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
    (
        comparisons
            .into_iter()
            .map(|pending| pending.said)
            .collect(),
        differences
            .into_iter()
            .map(|pending| pending.said)
            .collect(),
    )
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

/// A claim of which nothing is known but its estimate.
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

/// The logarithms of one metric by round. A value that is not above zero has none: what delivered
/// nothing in a trial is among the failures of its cell.
pub fn logarithms(
    data: &RunData,
    transport: &str,
    condition: &str,
    workload: &str,
    metric: &str,
) -> BTreeMap<u32, f64> {
    data.measured(transport, condition, workload)
        .filter_map(|trial| Some((trial.round, trial.metrics.get(metric)?.ln())))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

/// Every pair under each condition and workload, for each headline metric.
fn comparisons(data: &RunData) -> Vec<Pending<Comparison>> {
    let study = &data.header.study;
    let mut comparisons = Vec::new();
    for workload in &study.workloads {
        for condition in &study.conditions {
            for metric in HEADLINE_METRICS {
                comparisons.extend(pairs(data, &condition.name, &workload.name, metric));
            }
        }
    }
    comparisons
}

/// The pairs of one place by one metric, over the rounds that both transports have.
fn pairs(
    data: &RunData,
    condition: &str,
    workload: &str,
    metric: &str,
) -> Vec<Pending<Comparison>> {
    let columns: Vec<(&str, BTreeMap<u32, f64>)> = (data.header.study.transports.iter())
        .map(|transport| transport.label.as_str())
        .map(|label| (label, logarithms(data, label, condition, workload, metric)))
        .filter(|(_, values)| !values.is_empty())
        .collect();
    let mut pairs = Vec::new();
    for (position, a) in columns.iter().enumerate() {
        for b in &columns[position + 1..] {
            let shared: Vec<(f64, f64)> = (a.1.iter())
                .filter_map(|(round, value)| Some((*value, *b.1.get(round)?)))
                .collect();
            pairs.push((a.0, b.0, shared));
        }
    }
    let differences: Vec<Vec<f64>> = (pairs.iter())
        .map(|(_, _, shared)| shared.iter().map(|(a, b)| a - b).collect())
        .collect();
    let rho = autocorrelation(
        &differences,
        columns.len() - 1.min(columns.len()),
        CORRELATED,
    );
    let better = metric::find(metric).map_or(Better::Higher, |metric| metric.better);
    let primary = data.is_primary(metric, workload);
    (pairs.into_iter().zip(differences))
        .map(|((a, b, shared), differences)| {
            let estimate = Estimate::of(&differences, rho);
            let mean = |take: fn(&(f64, f64)) -> f64| {
                let logs: Vec<f64> = shared.iter().map(take).collect();
                Estimate::of(&logs, 0.0).map(|e| e.mean.exp())
            };
            Pending {
                said: Comparison {
                    condition: condition.to_owned(),
                    workload: workload.to_owned(),
                    metric: metric.to_owned(),
                    a: a.to_owned(),
                    b: b.to_owned(),
                    geometric_mean_a: mean(|pair| pair.0),
                    geometric_mean_b: mean(|pair| pair.1),
                    claim: undecided(shared.len(), estimate.as_ref(), rho),
                },
                estimate,
                primary,
                better,
            }
        })
        .collect()
}

/// Each transport under each further condition against the first, the two taken as independent.
fn differences(data: &RunData) -> Vec<Pending<Difference>> {
    let study = &data.header.study;
    let Some((first, others)) = study.conditions.split_first() else {
        return Vec::new();
    };
    let mut differences = Vec::new();
    for workload in &study.workloads {
        for other in others {
            for transport in &study.transports {
                for metric in DIFFERENCE_METRICS {
                    let estimate = |condition: &str| {
                        let label = &transport.label;
                        let logs = logarithms(data, label, condition, &workload.name, metric);
                        let logs: Vec<f64> = logs.into_values().collect();
                        let series = std::slice::from_ref(&logs);
                        let rho = autocorrelation(series, 1, CORRELATED_CELL);
                        Some((Estimate::of(&logs, rho)?, rho))
                    };
                    let Some((from, to)) = estimate(&first.name).zip(estimate(&other.name)) else {
                        continue;
                    };
                    let change = to.0.less(&from.0);
                    differences.push(Pending {
                        said: Difference {
                            transport: transport.label.clone(),
                            workload: workload.name.clone(),
                            metric: metric.to_owned(),
                            from: first.name.clone(),
                            to: other.name.clone(),
                            geometric_mean_from: from.0.mean.exp(),
                            geometric_mean_to: to.0.mean.exp(),
                            claim: undecided(change.n, Some(&change), from.1.max(to.1)),
                        },
                        estimate: Some(change),
                        primary: false,
                        better: metric::find(metric).map_or(Better::Higher, |m| m.better),
                    });
                }
            }
        }
    }
    differences
}
