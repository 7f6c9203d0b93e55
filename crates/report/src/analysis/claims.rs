//! Claims of a run, and the corrections for their number.
//!
//! The pairs of transports by the metrics of the rankings are one family, whose intervals hold together. The pairs by other
//! metrics, and the changes from one condition or workload to another, are a second one, of whose claims a small share may
//! be false. Every claim in a report, in a table or in a sentence over several conditions, rests on these decisions.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use regatta_model::{Better, Clock, Study, Until, Workload};
use regatta_stats::{Decision, Estimate, false_discoveries, shared_autocorrelation, simultaneous};

use super::{
    CONFIDENCE, DIFFERENCE_METRICS, claimed_metrics,
    comparison::{Unsaved, better},
    index::{Index, Shared, trials_by_cell},
    summary::{Claim, Comparison, Conclusion, Difference, WorkloadDifference},
    workloads,
};
use crate::{RunData, data::CellKey};

/// Probability with which a difference of the detectable ratio is detected.
pub const POWER: f64 = 0.8;

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
    pub p_adjusted: f64,
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

/// Returns the level of the intervals of pairs by the metric of the ranking; `pairs` is their number.
#[must_use]
pub fn simultaneous_confidence(pairs: usize) -> f64 {
    1.0 - (1.0 - CONFIDENCE) / pairs.max(1) as f64
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
    let study = &index.data.header.study;
    let decided = decide_after(
        Looks::of(study),
        &[tested, of_conditions, further].concat(),
        1.0 + study.equivalence.0,
    );
    for (claim, decided) in claims.zip(decided) {
        set(claim, decided);
    }
    (comparisons, differences, of_workloads)
}

/// Sets a claim to its decision, if there is one.
fn set(claim: &mut Claim, decided: Option<Decided>) {
    if let Some(decided) = decided {
        claim.interval = decided.interval;
        claim.confidence = decided.confidence;
        claim.p_value = Some(decided.p_value);
        claim.p_adjusted = Some(decided.p_adjusted);
        claim.detectable_ratio = decided.detectable_ratio;
        claim.conclusion = decided.conclusion;
    }
}

/// Two cells, and the metric by which they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CellPair<'a> {
    /// One cell.
    pub a: CellKey<'a>,
    /// The other one.
    pub b: CellKey<'a>,
    /// Name of the metric.
    pub metric: &'a str,
}

impl CellPair<'_> {
    /// Returns the pair seen from the other cell.
    pub fn turned(self) -> Self {
        Self {
            a: self.b,
            b: self.a,
            ..self
        }
    }
}

/// Returns the claims about pairs of cells that the statements of the study are about, over the rounds that both have. They
/// are one family, whose intervals hold together.
pub fn of_cells(index: &Index<'_>, pairs: &[CellPair<'_>]) -> Vec<Claim> {
    let study = &index.data.header.study;
    let changes = pairs.iter().copied().map(|pair| {
        let [a, b] = [pair.a, pair.b].map(|cell| index.values(cell, pair.metric));
        let shared = Shared::of(a, b);
        Change {
            nodes: nodes_of_both(index, [pair.a[1], pair.b[1]], &shared.rounds),
            metric: pair.metric,
            shared,
            difference: |claim: Claim| claim,
        }
    });
    let changes = changes.collect();
    let (mut claims, mut tested): (Vec<Claim>, Vec<Tested>) =
        changed(changes, study.guest.clock).into_iter().unzip();
    for it in &mut tested {
        it.primary = true;
    }
    let decided = decide(&tested, 1.0 + study.equivalence.0);
    for (claim, decided) in claims.iter_mut().zip(decided) {
        set(claim, decided);
    }
    claims
}

/// Rule by which a run ended, as far as its claims depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looks {
    /// The run was judged once, after its last round.
    Once,
    /// The run was judged after every round, and ended when its ranking was decided: the claims by the metrics of the
    /// rankings hold at any stop.
    EveryRound,
}

impl Looks {
    /// Returns the rule of a study.
    pub(super) fn of(study: &Study) -> Self {
        match study.until {
            Some(Until::Decided) => Self::EveryRound,
            Some(Until::Narrow(_)) | None => Self::Once,
        }
    }

    fn p_value(self, estimate: &Estimate) -> Option<f64> {
        match self {
            Self::Once => estimate.p_value(),
            Self::EveryRound => estimate.sequential_p_value(),
        }
    }

    fn interval_of_ratio(self, estimate: &Estimate, confidence: f64) -> Option<[f64; 2]> {
        match self {
            Self::Once => estimate.interval_of_ratio(confidence),
            Self::EveryRound => estimate.sequential_interval_of_ratio(confidence),
        }
    }

    fn detectable(self, estimate: &Estimate, confidence: f64) -> Option<f64> {
        match self {
            Self::Once => estimate.detectable(confidence, POWER),
            Self::EveryRound => estimate.sequential_detectable(confidence, POWER),
        }
    }
}

/// Decides ratios of runs that were judged once: see [`decide_after`].
pub(crate) fn decide(tested: &[Tested], equivalence: f64) -> Vec<Option<Decided>> {
    decide_after(Looks::Once, tested, equivalence)
}

/// Decides ratios together; `None` for those that cannot be tested. The interval of a claim ends at 1 where it would reach
/// beyond. Those of the metrics of the rankings are one family,
/// the others a second one. Two sides are the same where the interval of their ratio lies within `equivalence`, a ratio
/// above 1, of no difference.
fn decide_after(looks: Looks, tested: &[Tested], equivalence: f64) -> Vec<Option<Decided>> {
    let looks_at = |primary: bool| if primary { looks } else { Looks::Once };
    let p_values = |primary: bool| {
        let family = tested.iter().filter(move |it| it.primary == primary);
        family
            .filter_map(|it| looks_at(primary).p_value(&it.estimate?))
            .collect::<Vec<f64>>()
    };
    let mut families = [
        false_discoveries(&p_values(false), 1.0 - CONFIDENCE).into_iter(),
        simultaneous(&p_values(true), 1.0 - CONFIDENCE).into_iter(),
    ];
    let decided = |it: &Tested| {
        let estimate = it.estimate?;
        let looks = looks_at(it.primary);
        let p_value = looks.p_value(&estimate)?;
        let decision = families[usize::from(it.primary)].next()?;
        let interval = looks.interval_of_ratio(&estimate, decision.confidence);
        let interval =
            interval.map(
                |[low, high]| match (decision.significant, estimate.mean > 0.0) {
                    (true, true) => [low.max(1.0), high],
                    (true, false) => [low, high.min(1.0)],
                    (false, _) => [low, high],
                },
            );
        let conclusion = conclude(it, &decision, interval, equivalence);
        let detectable = match conclusion {
            Conclusion::Undecided => looks.detectable(&estimate, decision.confidence),
            _ => None,
        };
        Some(Decided {
            interval,
            confidence: decision.confidence,
            p_value,
            p_adjusted: decision.adjusted,
            detectable_ratio: detectable.map(f64::exp).filter(|ratio| ratio.is_finite()),
            conclusion,
        })
    };
    tested.iter().map(decided).collect()
}

fn conclude(
    tested: &Tested,
    decision: &Decision,
    interval: Option<[f64; 2]>,
    equivalence: f64,
) -> Conclusion {
    let is_above = tested.estimate.is_some_and(|estimate| estimate.mean > 0.0);
    let is_same = |[low, high]: [f64; 2]| low * equivalence >= 1.0 && high <= equivalence;
    if decision.significant {
        match is_above == (tested.better != Better::Lower) {
            true => Conclusion::Faster,
            false => Conclusion::Slower,
        }
    } else if interval.is_some_and(is_same) {
        Conclusion::Same
    } else {
        Conclusion::Undecided
    }
}

/// Returns an undecided claim about the ratio of two cells, and the test that decides it. `nodes` are the machines of the
/// rounds, `autocorrelation` is that of the ratios. With a virtual `clock`, equal values are not taken for chance.
fn undecided(
    (metric, primary): (&str, bool),
    shared: &Shared,
    nodes: &[usize],
    (autocorrelation, clock): (f64, Clock),
) -> (Claim, Tested) {
    let estimate = Estimate::of_blocks(&shared.ratios, nodes, autocorrelation);
    let estimate = match clock {
        Clock::Real => estimate,
        Clock::Virtual => estimate.map(Estimate::of_simulation),
    };
    let ratio = estimate.map(|estimate| estimate.mean.exp());
    let claim = Claim {
        n: shared.ratios.len() as u64,
        mean_kind: shared.kind,
        ratio: ratio.filter(|ratio| ratio.is_finite()),
        interval: None,
        confidence: CONFIDENCE,
        p_value: None,
        p_adjusted: None,
        detectable_ratio: None,
        estimate: Unsaved(estimate),
        autocorrelation,
        conclusion: Conclusion::Undecided,
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
    let memories = memories(index);
    let mut comparisons = Vec::new();
    for workload in &study.workloads {
        let mut of_metrics: Vec<_> = claimed_metrics(study)
            .into_iter()
            .map(|metric| (metric, index.pairs(&workload.name, metric).into_iter()))
            .collect();
        for condition in &study.conditions {
            for (metric, by_condition) in &mut of_metrics {
                let is_primary = index.data.is_primary(metric, &workload.name);
                for (a, b, shared) in by_condition.next().into_iter().flatten() {
                    let nodes = index.nodes(&condition.name, &shared.rounds);
                    let memory = memories.get(metric).copied().unwrap_or_default();
                    let (claim, tested) = undecided(
                        (metric, is_primary),
                        &shared,
                        &nodes,
                        (memory, study.guest.clock),
                    );
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

/// Returns the autocorrelation of all pairs of a run by each metric. Those of one condition are too few to know it, and
/// what has a memory is mostly the machine.
fn memories<'a>(index: &Index<'a>) -> BTreeMap<&'a str, f64> {
    let study = &index.data.header.study;
    let memory = |metric: &'a str| {
        let pairs = |workload: &Workload| index.pairs(&workload.name, metric);
        let pairs = study.workloads.iter().flat_map(pairs).flatten();
        let ratios: Vec<Vec<f64>> = pairs.map(|(_, _, shared)| shared.ratios).collect();
        (metric, shared_autocorrelation(&ratios))
    };
    let metrics = claimed_metrics(study).into_iter().chain(DIFFERENCE_METRICS);
    metrics.unique().map(memory).collect()
}

/// Change of a transport from one condition or workload to another, without its claim.
struct Change<'a, F> {
    metric: &'a str,
    shared: Shared,
    /// Machines of the rounds.
    nodes: Vec<usize>,
    /// Makes the difference of its claim.
    difference: F,
}

/// Returns the differences of changes with undecided claims. The autocorrelation is that of all changes of the run by the
/// metric.
fn changed<T>(changes: Vec<Change<'_, impl FnOnce(Claim) -> T>>, clock: Clock) -> Vec<(T, Tested)> {
    let mut ratios: BTreeMap<&str, Vec<Vec<f64>>> = BTreeMap::new();
    for change in &changes {
        let of_metric = ratios.entry(change.metric).or_default();
        of_metric.push(change.shared.ratios.clone());
    }
    let memories: BTreeMap<String, f64> = (ratios.iter())
        .map(|(metric, ratios)| ((*metric).to_owned(), shared_autocorrelation(ratios)))
        .collect();
    let changes = changes.into_iter().map(|change| {
        let memory = memories[change.metric];
        let (claim, tested) = undecided(
            (change.metric, false),
            &change.shared,
            &change.nodes,
            (memory, clock),
        );
        ((change.difference)(claim), tested)
    });
    changes.collect()
}

/// Returns the machines of some rounds under two conditions: the rounds of these may have run on two machines.
fn nodes_of_both(index: &Index<'_>, conditions: [&str; 2], rounds: &[u32]) -> Vec<usize> {
    let [to, from] = conditions.map(|condition| index.nodes(condition, rounds));
    let most = from.iter().max().map_or(1, |most| most + 1);
    let both = to.iter().zip(&from);
    both.map(|(to, from)| to * most + from).collect()
}

/// Returns the difference of each transport under each further condition from the first, over the
/// rounds that have both.
fn differences(index: &Index<'_>) -> Vec<(Difference, Tested)> {
    let study = &index.data.header.study;
    let Some((first, others)) = study.conditions.split_first() else {
        return Vec::new();
    };
    let mut changes = Vec::new();
    for (workload, metric) in (study.workloads.iter()).cartesian_product(DIFFERENCE_METRICS) {
        for (other, transport) in others.iter().cartesian_product(&study.transports) {
            let under = |condition: &str| {
                index.values([&transport.label, condition, &workload.name], metric)
            };
            let shared = Shared::of(under(&other.name), under(&first.name));
            let [Some(mean_to), Some(mean_from)] = shared.means else {
                continue;
            };
            let nodes = nodes_of_both(index, [&other.name, &first.name], &shared.rounds);
            let difference = move |claim| Difference {
                transport: transport.label.clone(),
                workload: workload.name.clone(),
                metric: metric.to_owned(),
                from: first.name.clone(),
                to: other.name.clone(),
                mean_from,
                mean_to,
                claim,
            };
            changes.push(Change {
                metric,
                shared,
                nodes,
                difference,
            });
        }
    }
    changed(changes, study.guest.clock)
}

/// Returns the difference of each transport with each further workload of a kind from the first, by the metric of their
/// rankings, over the rounds that have both.
fn between_workloads(index: &Index<'_>) -> Vec<(WorkloadDifference, Tested)> {
    let data = index.data;
    let study = &data.header.study;
    let mut changes = Vec::new();
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
            let difference = move |claim| WorkloadDifference {
                transport: transport.label.clone(),
                condition: condition.name.clone(),
                metric: metric.to_owned(),
                from: from.name.clone(),
                to: to.name.clone(),
                mean_from,
                mean_to,
                claim,
            };
            changes.push(Change {
                metric,
                shared,
                nodes: Vec::new(),
                difference,
            });
        }
    }
    changed(changes, study.guest.clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: of two rankings one is claimed at the level of both, and the other has the whole 5 %. Of the two others one
    /// is claimed: its level is that of one of two tests, divided by 1 + 1/2.
    #[test]
    fn rankings_and_other_metrics_are_families_of_their_own() {
        let tested = |mean: f64, primary: bool| Tested {
            estimate: Estimate::of(&[mean - 0.01, mean, mean + 0.01], 0.0),
            primary,
            better: Better::Lower,
        };
        let nothing = Tested {
            estimate: None,
            ..tested(0.0, true)
        };
        let all = [
            tested(1.0, true),
            tested(0.0, true),
            nothing,
            tested(-1.0, false),
            tested(0.0, false),
        ];
        let decided = decide(&all, 1.02);
        let [Some(a), Some(b), None, Some(c), Some(d)] = &decided[..] else {
            panic!("another test has no decision");
        };
        let confidences = [a, b, c, d].map(|it| it.confidence);
        let other = 1.0 - 0.05 / 3.0;
        for (found, expected) in confidences.iter().zip([0.975, 0.95, other, other]) {
            assert!((found - expected).abs() < 1e-12, "{confidences:?}");
        }
        let adjusted = [a.p_adjusted / a.p_value, c.p_adjusted / c.p_value];
        assert!((adjusted[0] - 2.0).abs() < 1e-9, "{adjusted:?}");
        assert!((adjusted[1] - 3.0).abs() < 1e-9, "{adjusted:?}");
        use Conclusion::{Faster, Slower, Undecided};
        let conclusions = [a, b, c, d].map(|it| it.conclusion);
        assert_eq!(conclusions, [Slower, Undecided, Faster, Undecided]);
        let detectable = [a, b, c, d].map(|it| it.detectable_ratio.is_some());
        assert_eq!(detectable, [false, true, false, true]);
        // The half width is 4.3 · 0.01 / √3: within 3 %, and outside of 2 %.
        let wider = decide(&all, 1.03);
        assert!(
            wider[1]
                .as_ref()
                .is_some_and(|it| it.conclusion == Conclusion::Same)
        );
    }

    /// By hand: a quarter of 5 %.
    #[test]
    fn each_pair_has_its_part_of_the_error() {
        for (pairs, expected) in [(4, 0.9875), (1, 0.95), (0, 0.95)] {
            let found = simultaneous_confidence(pairs);
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
    }
}
