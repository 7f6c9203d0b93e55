//! Claims of a run, and the correction for their number.
//!
//! All tests of a run are one family: each pair of transports by each headline metric in each
//! place, and each change from one condition to another. Every claim in a report, in a table or in
//! a sentence over several conditions, rests on these decisions.

use itertools::Itertools as _;
use regatta_model::{Better, Workload};
use regatta_stats::{Estimate, Test, autocorrelation, holm};

use super::{
    CONFIDENCE, DIFFERENCE_METRICS, compared_metrics,
    comparison::better,
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

/// Ratio that is tested with the others of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tested {
    /// Logarithm of the ratio.
    pub estimate: Option<Estimate>,
    /// Whether the ratio is of the metric of a ranking.
    pub primary: bool,
    /// Direction of the metric that is better.
    pub better: Better,
}

/// Decision about a ratio, with the fields of a [`Claim`].
pub(crate) struct Decided {
    pub interval: Option<[f64; 2]>,
    pub confidence: f64,
    pub p_value: f64,
    pub p_holm: f64,
    pub detectable_ratio: Option<f64>,
    pub conclusion: Conclusion,
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
    pub const MAX_ROUNDS: usize = 100_000;

    /// Returns the number of rounds in which a test at level 1 − `confidence` detects a ratio above
    /// 1 with a power of [`POWER`]; `None` above [`PairSpread::MAX_ROUNDS`].
    #[must_use]
    pub fn rounds_to_detect(&self, ratio: f64, confidence: f64) -> Option<usize> {
        let most = Self::MAX_ROUNDS;
        regatta_stats::rounds_to_detect(self.deviation, ratio.ln(), confidence, POWER, most)
    }
}

/// Returns the spread of every pair of a run by the metric of its workload's ranking, for pairs
/// with at least two shared rounds.
#[must_use]
pub fn pair_spreads(data: &RunData) -> Vec<PairSpread> {
    (comparisons(&Index::of(data, &trials_by_cell(data))).into_iter())
        .filter(|(_, tested)| tested.primary)
        .filter_map(|(pair, tested)| {
            let estimate = tested.estimate?;
            Some(PairSpread {
                condition: pair.condition,
                workload: pair.workload,
                a: pair.a,
                b: pair.b,
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
    let (mut comparisons, tested): (Vec<_>, Vec<Tested>) = comparisons(index).into_iter().unzip();
    let (mut differences, of_conditions): (Vec<_>, Vec<_>) = differences(index).into_iter().unzip();
    let (mut of_workloads, further): (Vec<_>, Vec<_>) =
        between_workloads(index).into_iter().unzip();
    let claims = (comparisons.iter_mut().map(|it| &mut it.claim))
        .chain(differences.iter_mut().map(|it| &mut it.claim))
        .chain(of_workloads.iter_mut().map(|it| &mut it.claim));
    let decided = decide(&[tested, of_conditions, further].concat());
    for (claim, decided) in claims.zip(decided) {
        if let Some(decided) = decided {
            claim.interval = decided.interval;
            claim.confidence = decided.confidence;
            claim.p_value = Some(decided.p_value);
            claim.p_holm = Some(decided.p_holm);
            claim.detectable_ratio = decided.detectable_ratio;
            claim.conclusion = decided.conclusion;
        }
    }
    (comparisons, differences, of_workloads)
}

/// Decides the ratios of a family together; `None` for those that cannot be tested. The metrics of the rankings share
/// [`PRIMARY_SHARE`] of the error, the others the rest.
pub(crate) fn decide(family: &[Tested]) -> Vec<Option<Decided>> {
    let p_values = family.iter().map(|tested| tested.estimate?.p_value());
    let p_values: Vec<Option<f64>> = p_values.collect();
    let both = || family.iter().zip(p_values.iter().copied());
    let tests = || both().filter_map(|(tested, p_value)| Some((p_value?, tested.primary)));
    let count = |primary| tests().filter(|test| test.1 == primary).count().max(1) as f64;
    let weights = [
        (1.0 - PRIMARY_SHARE) / count(false),
        PRIMARY_SHARE / count(true),
    ];
    let weighed = tests().map(|(p_value, primary)| Test {
        p_value,
        weight: weights[usize::from(primary)],
    });
    let weighed: Vec<Test> = weighed.collect();
    let mut decisions = holm(&weighed, 1.0 - CONFIDENCE).into_iter();
    let decided = |(tested, p_value): (&Tested, Option<f64>)| {
        let (estimate, p_value) = tested.estimate.zip(p_value)?;
        let decision = decisions.next()?;
        let conclusion = conclude(&estimate, decision.significant, tested.better);
        let detectable = match conclusion {
            Conclusion::NoDifferenceDetected => estimate.detectable(decision.confidence, POWER),
            _ => None,
        };
        Some(Decided {
            interval: estimate.interval_of_ratio(decision.confidence),
            confidence: decision.confidence,
            p_value,
            p_holm: decision.adjusted,
            detectable_ratio: detectable.map(f64::exp).filter(|ratio| ratio.is_finite()),
            conclusion,
        })
    };
    both().map(decided).collect()
}

fn conclude(estimate: &Estimate, significant: bool, better: Better) -> Conclusion {
    if significant {
        match (estimate.mean > 0.0) == (better != Better::Lower) {
            true => Conclusion::Faster,
            false => Conclusion::Slower,
        }
    } else if estimate.is_constant() && estimate.mean != 0.0 {
        // The same in every round, and too few rounds for that not to be chance.
        Conclusion::NotEnoughRounds
    } else {
        Conclusion::NoDifferenceDetected
    }
}

/// Returns an undecided claim about the ratio of two cells, and the test that decides it. `nodes` are the machines of
/// the rounds, `autocorrelation` that of the ratios.
fn undecided(
    (metric, primary): (&str, bool),
    shared: &Shared,
    nodes: &[usize],
    autocorrelation: f64,
) -> (Claim, Tested) {
    let estimate = Estimate::of_blocks(&shared.ratios, nodes, autocorrelation);
    let ratio = estimate.map(|estimate| estimate.mean.exp());
    let claim = Claim {
        n: shared.ratios.len() as u64,
        mean_kind: shared.kind,
        ratio: ratio.filter(|ratio| ratio.is_finite()),
        interval: None,
        confidence: CONFIDENCE,
        p_value: None,
        p_holm: None,
        detectable_ratio: None,
        autocorrelation,
        conclusion: Conclusion::NotEnoughRounds,
    };
    let tested = Tested {
        estimate,
        primary,
        better: better(metric),
    };
    (claim, tested)
}

/// Returns the comparison of every pair under each condition and workload, for each headline
/// metric.
fn comparisons(index: &Index<'_>) -> Vec<(Comparison, Tested)> {
    let study = &index.data.header.study;
    let mut comparisons = Vec::new();
    for workload in &study.workloads {
        let mut of_metrics: Vec<_> = compared_metrics(study)
            .into_iter()
            .map(|metric| (metric, index.pairs(&workload.name, metric).into_iter()))
            .collect();
        for condition in &study.conditions {
            for (metric, by_condition) in &mut of_metrics {
                let is_primary = index.data.is_primary(metric, &workload.name);
                let Some((pairs, rho)) = by_condition.next() else {
                    continue;
                };
                for (a, b, shared) in pairs {
                    let nodes = index.nodes(&condition.name, &shared.rounds);
                    let (claim, tested) = undecided((metric, is_primary), &shared, &nodes, rho);
                    let comparison = Comparison {
                        condition: condition.name.clone(),
                        workload: workload.name.clone(),
                        metric: (*metric).to_owned(),
                        a: a.to_owned(),
                        b: b.to_owned(),
                        mean_a: shared.means[0],
                        mean_b: shared.means[1],
                        claim,
                    };
                    comparisons.push((comparison, tested));
                }
            }
        }
    }
    comparisons
}

/// Returns the difference of each transport under each further condition from the first, over the
/// rounds that have both.
fn differences(index: &Index<'_>) -> Vec<(Difference, Tested)> {
    let study = &index.data.header.study;
    let Some((first, others)) = study.conditions.split_first() else {
        return Vec::new();
    };
    let mut differences = Vec::new();
    for (workload, metric) in (study.workloads.iter()).cartesian_product(DIFFERENCE_METRICS) {
        let by_condition = index.pairs(&workload.name, metric);
        for (other, (_, memory)) in others.iter().zip(by_condition.iter().skip(1)) {
            for transport in &study.transports {
                let under = |condition: &str| {
                    index.values([&transport.label, condition, &workload.name], metric)
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
                let (claim, tested) = undecided((metric, false), &shared, &nodes, rho);
                let difference = Difference {
                    transport: transport.label.clone(),
                    workload: workload.name.clone(),
                    metric: metric.to_owned(),
                    from: first.name.clone(),
                    to: other.name.clone(),
                    mean_from: from,
                    mean_to: to,
                    claim,
                };
                differences.push((difference, tested));
            }
        }
    }
    differences
}

/// Returns the difference of each transport with each further workload of a kind from the first, by the metric of their
/// rankings, over the rounds that have both.
fn between_workloads(index: &Index<'_>) -> Vec<(WorkloadDifference, Tested)> {
    let data = index.data;
    let study = &data.header.study;
    let mut differences = Vec::new();
    for [from, to] in workloads::pairs(data) {
        let metric = study.primary_metric(to);
        for (condition, transport) in
            workloads::conditions(data).cartesian_product(&study.transports)
        {
            let with = |workload: &Workload| {
                index.values([&transport.label, &condition.name, &workload.name], metric)
            };
            let shared = Shared::of(with(to), with(from));
            let [Some(mean_to), Some(mean_from)] = shared.means else {
                continue;
            };
            let series = std::slice::from_ref(&shared.ratios);
            let rho = autocorrelation(series, 1, CORRELATED);
            let (claim, tested) = undecided((metric, false), &shared, &[], rho);
            let difference = WorkloadDifference {
                transport: transport.label.clone(),
                condition: condition.name.clone(),
                metric: metric.to_owned(),
                from: from.name.clone(),
                to: to.name.clone(),
                mean_from,
                mean_to,
                claim,
            };
            differences.push((difference, tested));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the two of the rankings share 80 % of the error, so that their weights are 0.4, those of the others 0.1.
    /// In the order of their weighted p-values they are the first, the third, the second and the fourth test; of what is
    /// left their weights are 0.4 of 1, 0.1 of 0.6 and, as the second one fails, 0.4 and 0.1 of 0.5.
    #[test]
    fn tests_share_the_error_by_their_weights() {
        let tested = |mean: f64, primary: bool| Tested {
            estimate: Estimate::of(&[mean - 0.01, mean, mean + 0.01], 0.0),
            primary,
            better: Better::Lower,
        };
        let nothing = Tested {
            estimate: None,
            ..tested(0.0, true)
        };
        let family = [
            tested(1.0, true),
            tested(0.0, true),
            nothing,
            tested(-1.0, false),
            tested(0.0, false),
        ];
        let decided = decide(&family);
        let [Some(a), Some(b), None, Some(c), Some(d)] = &decided[..] else {
            panic!("another test has no decision");
        };
        let confidences = [a, b, c, d].map(|it| it.confidence);
        let expected = [0.98, 0.96, 1.0 - 0.05 / 6.0, 0.99];
        for (found, expected) in confidences.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{confidences:?}");
        }
        let adjusted = [a.p_holm / a.p_value, c.p_holm / c.p_value];
        assert!((adjusted[0] - 2.5).abs() < 1e-9, "{adjusted:?}");
        assert!((adjusted[1] - 6.0).abs() < 1e-9, "{adjusted:?}");
        use Conclusion::{Faster, NoDifferenceDetected, Slower};
        let conclusions = [a, b, c, d].map(|it| it.conclusion);
        let none = NoDifferenceDetected;
        assert_eq!(conclusions, [Slower, none, Faster, none]);
        let detectable = [a, b, c, d].map(|it| it.detectable_ratio.is_some());
        assert_eq!(detectable, [false, true, false, true]);
    }

    /// By hand: 5 % · 80 % of four pairs is 1 % of each.
    #[test]
    fn the_first_step_has_the_share_of_one_pair() {
        for (pairs, others, expected) in [(4, true, 0.99), (4, false, 0.9875), (0, false, 0.95)] {
            let found = strictest_confidence(pairs, others);
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
    }
}
