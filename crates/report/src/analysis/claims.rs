//! Claims of a run, and the corrections for their number.
//!
//! The pairs of transports by the metrics of the rankings are one family, whose intervals hold together. The pairs by other
//! metrics, and the changes from one condition or workload to another, are a second one, of whose claims a small share may
//! be false. Every claim in a report, in a table or in a sentence over several conditions, rests on these decisions.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use regatta_model::{
    Better, Clock, Study, Until, Workload,
    metric::{Place, names_in},
};
use regatta_stats::{Decision, Estimate, false_discoveries, shared_autocorrelation, simultaneous};

use super::{
    CONFIDENCE, claimed_metrics,
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
    /// Label of the other; that of the same one where two runs of it are compared.
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
        .filter(|contrast| contrast.tested.primary)
        .filter_map(|Contrast { cells, tested, .. }| {
            let estimate = tested.estimate?;
            let [a, condition, workload] = cells.a.map(str::to_owned);
            Some(PairSpread {
                condition,
                workload,
                a,
                b: cells.b[0].to_owned(),
                n: estimate.n,
                deviation: estimate.deviation()?,
            })
        })
        .collect()
}

/// Returns the spread of every transport of a run between this run and another one of as many rounds, by the metric of its
/// workload's ranking. The two runs are independent samples, as in a comparison of runs.
#[must_use]
pub fn run_spreads(data: &RunData) -> Vec<PairSpread> {
    let index = Index::of(data, &trials_by_cell(data));
    let study = &data.header.study;
    let cells = (study.workloads.iter())
        .cartesian_product(&study.conditions)
        .cartesian_product(&study.transports);
    cells
        .filter_map(|((workload, condition), transport)| {
            let cell = [&*transport.label, &*condition.name, &*workload.name];
            let values = index.values(cell, study.primary_metric(workload));
            let logarithms: Vec<f64> = values.iter().map(|(_, value)| value.ln()).collect();
            let memory = shared_autocorrelation(std::slice::from_ref(&logarithms));
            let of_run = Estimate::of(&logarithms, memory)?.deviation()?;
            let [label, condition, workload] = cell.map(str::to_owned);
            Some(PairSpread {
                condition,
                workload,
                a: label.clone(),
                b: label,
                n: logarithms.len(),
                deviation: of_run * std::f64::consts::SQRT_2,
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
    let mut contrasts = [
        comparisons(index),
        differences(index),
        between_workloads(index),
    ];
    let study = &index.data.header.study;
    let all = contrasts.iter_mut().flatten();
    decide_contrasts(all.collect(), Looks::of(study), study);
    let [comparisons, differences, of_workloads] = contrasts.map(Vec::into_iter);
    (
        comparisons.map(Contrast::comparison).collect(),
        differences.filter_map(Contrast::difference).collect(),
        of_workloads
            .filter_map(Contrast::workload_difference)
            .collect(),
    )
}

/// Decides contrasts together.
fn decide_contrasts(contrasts: Vec<&mut Contrast<'_>>, looks: Looks, study: &Study) {
    let tested: Vec<Tested> = contrasts.iter().map(|it| it.tested).collect();
    let decided = decide_after(looks, &tested, 1.0 + study.equivalence.0);
    for (contrast, decided) in contrasts.into_iter().zip(decided) {
        set(&mut contrast.claim, decided);
    }
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

/// Contrast of two cells that differ in their transport, condition or workload, over the rounds that both have.
struct Contrast<'a> {
    cells: CellPair<'a>,
    /// Means of both cells; `None` without a round that has both.
    means: [Option<f64>; 2],
    claim: Claim,
    tested: Tested,
}

impl Contrast<'_> {
    /// Returns the contrast of two transports.
    fn comparison(self) -> Comparison {
        let [a, condition, workload] = self.cells.a.map(str::to_owned);
        let [mean_a, mean_b] = self.means;
        Comparison {
            condition,
            workload,
            metric: self.cells.metric.to_owned(),
            a,
            b: self.cells.b[0].to_owned(),
            mean_a,
            mean_b,
            claim: self.claim,
        }
    }

    /// Returns the contrast of two conditions, the second of which is the first of the study; `None` without means.
    fn difference(self) -> Option<Difference> {
        let [transport, to, workload] = self.cells.a.map(str::to_owned);
        let [mean_to, mean_from] = self.means;
        Some(Difference {
            transport,
            workload,
            metric: self.cells.metric.to_owned(),
            from: self.cells.b[1].to_owned(),
            to,
            mean_from: mean_from?,
            mean_to: mean_to?,
            claim: self.claim,
        })
    }

    /// Returns the contrast of two workloads, the second of which is the first of its kind; `None` without means.
    fn workload_difference(self) -> Option<WorkloadDifference> {
        let [transport, condition, to] = self.cells.a.map(str::to_owned);
        let [mean_to, mean_from] = self.means;
        Some(WorkloadDifference {
            transport,
            condition,
            metric: self.cells.metric.to_owned(),
            from: self.cells.b[2].to_owned(),
            to,
            mean_from: mean_from?,
            mean_to: mean_to?,
            claim: self.claim,
        })
    }
}

/// Returns the claims about pairs of cells that the statements of the study are about, over the rounds that both have. They
/// are one family, whose intervals hold together.
pub fn of_cells(index: &Index<'_>, pairs: &[CellPair<'_>]) -> Vec<Claim> {
    let mut contrasts = changes(index, pairs, true);
    for it in &mut contrasts {
        it.tested.primary = true;
    }
    let study = &index.data.header.study;
    decide_contrasts(contrasts.iter_mut().collect(), Looks::Once, study);
    contrasts.into_iter().map(|it| it.claim).collect()
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

/// Returns a contrast that is not decided. `nodes` are the machines of the rounds, `autocorrelation` is that of the ratios.
/// With a virtual `clock`, equal values are not taken for chance.
fn undecided<'a>(
    cells: CellPair<'a>,
    primary: bool,
    shared: &Shared,
    nodes: &[usize],
    (autocorrelation, clock): (f64, Clock),
) -> Contrast<'a> {
    let estimate = Estimate::of_blocks(&shared.ratios, nodes, autocorrelation);
    let estimate = match clock {
        Clock::Real => estimate,
        Clock::Virtual => estimate.map(Estimate::of_simulation),
    };
    let ratio = estimate.map(|estimate| estimate.mean.exp());
    Contrast {
        cells,
        means: shared.means,
        claim: Claim {
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
        },
        tested: Tested {
            estimate,
            primary,
            better: better(cells.metric),
        },
    }
}

/// Returns the contrasts of every pair of transports under each condition and workload, by each metric that has claims.
fn comparisons<'a>(index: &Index<'a>) -> Vec<Contrast<'a>> {
    let study = &index.data.header.study;
    let memories = memories(index);
    let mut contrasts = Vec::new();
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
                    let [a, b] = [a, b].map(|label| [label, &condition.name, &workload.name]);
                    let (cells, memory) = (CellPair { a, b, metric }, (memory, study.guest.clock));
                    contrasts.push(undecided(cells, is_primary, &shared, &nodes, memory));
                }
            }
        }
    }
    contrasts
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
    let metrics = claimed_metrics(study)
        .into_iter()
        .chain(names_in(Place::Differences));
    metrics.unique().map(memory).collect()
}

/// Returns contrasts that are not by the metrics of rankings. The autocorrelation is that of all of them by the metric.
/// `has_blocks` tells whether rounds on other machines are blocks of their own.
fn changes<'a>(index: &Index<'a>, pairs: &[CellPair<'a>], has_blocks: bool) -> Vec<Contrast<'a>> {
    let shared = pairs.iter().map(|pair| {
        let [a, b] = [pair.a, pair.b].map(|cell| index.values(cell, pair.metric));
        Shared::of(a, b)
    });
    let shared: Vec<Shared> = shared.collect();
    let mut ratios: BTreeMap<&str, Vec<Vec<f64>>> = BTreeMap::new();
    for (pair, shared) in pairs.iter().zip(&shared) {
        let of_metric = ratios.entry(pair.metric).or_default();
        of_metric.push(shared.ratios.clone());
    }
    let memories = ratios.iter();
    let memories = memories.map(|(metric, ratios)| (*metric, shared_autocorrelation(ratios)));
    let memories: BTreeMap<&str, f64> = memories.collect();
    let clock = index.data.header.study.guest.clock;
    let contrasts = pairs.iter().zip(&shared).map(|(pair, shared)| {
        let nodes = match has_blocks {
            true => nodes_of_both(index, [pair.a[1], pair.b[1]], &shared.rounds),
            false => Vec::new(),
        };
        undecided(*pair, false, shared, &nodes, (memories[pair.metric], clock))
    });
    contrasts.collect()
}

/// Returns the machines of some rounds under two conditions: the rounds of these may have run on two machines.
fn nodes_of_both(index: &Index<'_>, conditions: [&str; 2], rounds: &[u32]) -> Vec<usize> {
    let [to, from] = conditions.map(|condition| index.nodes(condition, rounds));
    let most = from.iter().max().map_or(1, |most| most + 1);
    let both = to.iter().zip(&from);
    both.map(|(to, from)| to * most + from).collect()
}

/// Returns the contrast of each transport under each further condition with the first, over the rounds that have both.
fn differences<'a>(index: &Index<'a>) -> Vec<Contrast<'a>> {
    let study = &index.data.header.study;
    let Some((first, others)) = study.conditions.split_first() else {
        return Vec::new();
    };
    let works = study.workloads.iter();
    let works = works.cartesian_product(names_in(Place::Differences));
    let pairs = works.flat_map(|(workload, metric)| {
        let places = others.iter().cartesian_product(&study.transports);
        places.map(move |(other, transport)| {
            let under = |condition| [&*transport.label, condition, &*workload.name];
            CellPair {
                a: under(&other.name),
                b: under(&first.name),
                metric,
            }
        })
    });
    changes(index, &Vec::from_iter(pairs), true)
}

/// Returns the contrast of each transport with each further workload of a kind with the first, by the metric of their
/// rankings, over the rounds that have both.
fn between_workloads<'a>(index: &Index<'a>) -> Vec<Contrast<'a>> {
    let data = index.data;
    let study = &data.header.study;
    let pairs = workloads::pairs(data).into_iter().flat_map(|[from, to]| {
        let places = workloads::conditions(data).cartesian_product(&study.transports);
        places.map(move |(condition, transport)| {
            let with = |workload| [&*transport.label, &*condition.name, workload];
            CellPair {
                a: with(&to.name),
                b: with(&from.name),
                metric: study.primary_metric(to),
            }
        })
    });
    changes(index, &Vec::from_iter(pairs), false)
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
