//! Comparison of workloads of one kind, such as 8 streams against 1, transport by transport.

use itertools::Itertools as _;
use regatta_model::{Better, Condition, Part, SweptEntry, Workload, metric::id};

use super::{
    comparison::better,
    margin::Margin,
    ranking::RankedGroup,
    summary::{Conclusion, Summary, WorkloadDifference},
};
use crate::{
    RunData,
    format::{list, percent},
    language::{self, tr},
};

/// Returns the pairs of workloads that are compared: the first of each kind, and each further one; and those of a sweep
/// of two values. Sweeps of more values have figures against the parameter instead.
pub fn pairs(data: &RunData) -> Vec<[&Workload; 2]> {
    let study = &data.header.study;
    let entries = || study.sweeps.entries.iter();
    let named = |name: &str| study.workloads.iter().find(|it| it.name == name);
    let of_two = |sweep: u32| {
        let of_two = study.sweeps.sweeps.get(sweep as usize);
        of_two.is_some_and(|it| it.part == Part::Workload && it.values.len() == 2)
    };
    let swept = entries().filter_map(|first| {
        let [[sweep, 0]] = first.at[..] else {
            return None;
        };
        let is_other = |it: &&SweptEntry| it.at == [[sweep, 1]] && it.base == first.base;
        let other = of_two(sweep).then(|| entries().find(is_other))??;
        Some([named(&first.name)?, named(&other.name)?])
    });
    plain_pairs(data).into_iter().chain(swept).collect()
}

fn plain_pairs(data: &RunData) -> Vec<[&Workload; 2]> {
    let study = &data.header.study;
    let is_plain = |workload: &&Workload| {
        let swept = study.sweeps.entry(Part::Workload, &workload.name);
        swept.is_none()
    };
    let kind = |workload: &&Workload| (workload.kind.name(), study.primary_metric(workload));
    let plain: Vec<&Workload> = study.workloads.iter().filter(is_plain).collect();
    let pairs = plain.iter().enumerate().filter_map(|(position, other)| {
        let mut before = plain[..position].iter();
        let first = before.find(|first| kind(first) == kind(other))?;
        Some([*first, *other])
    });
    pairs.collect()
}

/// Returns the conditions under which workloads are compared: those of sweeps have figures.
pub fn conditions(data: &RunData) -> impl Iterator<Item = &Condition> {
    let study = &data.header.study;
    let is_swept = |it: &Condition| study.sweeps.entry(Part::Condition, &it.name).is_some();
    let mut transports = study.transports.iter();
    let all_swept = transports.all(|it| data.has_swept_quantity(&it.label));
    let conditions = study.conditions.iter();
    conditions.filter(move |it| !all_swept && !is_swept(it))
}

/// Returns a sentence for each pair of workloads under each condition.
pub fn sentences(data: &RunData, summary: &Summary, groups: &[RankedGroup<'_>]) -> Vec<String> {
    let sentences = pairs(data).into_iter().flat_map(|pair| {
        conditions(data).filter_map(move |condition| {
            let with = |it: &Workload| {
                let mut groups = groups.iter();
                groups.find(|group| group.cell_group.is(&condition.name, &it.name))
            };
            let [from, to] = pair.map(with);
            sentence(summary, [from?, to?])
        })
    });
    sentences.collect()
}

/// Returns the sentence about the transports with two workloads under one condition; `None` if there is nothing to say of
/// any.
fn sentence(summary: &Summary, [from, to]: [&RankedGroup<'_>; 2]) -> Option<String> {
    let is_ranked = |transport: &str| {
        let is_of =
            |group: &&RankedGroup<'_>| group.ranking.iter().any(|it| it.transport == transport);
        [from, to].iter().all(is_of)
    };
    let condition = &from.cell_group.condition.name;
    let [first, second] = [from, to].map(|group| &group.cell_group.workload.name);
    let ranked: Vec<&WorkloadDifference> = (summary.workload_differences.iter())
        .filter(|it| (&it.condition, &it.from, &it.to) == (condition, first, second))
        .filter(|it| is_ranked(&it.transport))
        .collect();
    let with = |conclusion: Conclusion| {
        let all = ranked.iter().filter(|it| it.claim.conclusion == conclusion);
        list(all.map(|it| format!("`{}`", it.transport)))
    };
    let differing = ranked.iter();
    let differing =
        differing.filter_map(|it| times_as_fast(it, first, summary.statistics.equivalence));
    let mut parts: Vec<String> = differing.collect();
    let same = with(Conclusion::Same);
    if !same.is_empty() {
        let equivalence = percent(summary.statistics.equivalence);
        parts.push(tr!("the same within {} for {}", equivalence, same));
    }
    let undecided = with(Conclusion::Undecided);
    if !undecided.is_empty() {
        parts.push(tr!("undecided for {}", undecided));
    }
    let not_compared = (summary.cells.iter())
        .filter(|cell| to.cell_group.is(&cell.condition, &cell.workload))
        .filter_map(|cell| exclusion_text([from, to], &cell.transport))
        .join(", ");
    if !not_compared.is_empty() {
        parts.push(tr!("not compared: {}", not_compared));
    }
    if parts.is_empty() {
        return None;
    }
    let text = parts.join("; ");
    Some(match to.metric.name {
        id::GOODPUT_BPS => tr!(
            "`{}` against `{}` under `{}`: {}.",
            second,
            first,
            condition,
            text
        ),
        _ => tr!(
            "`{}` against `{}` under `{}`, by {}: {}.",
            second,
            first,
            condition,
            language::text(to.metric.title),
            text
        ),
    })
}

/// Names a transport with the reasons why it is not ranked with one of two workloads, or with either; `None` if it is
/// ranked with both.
fn exclusion_text(groups: [&RankedGroup<'_>; 2], transport: &str) -> Option<String> {
    let mut reasons = groups.iter().filter_map(|group| {
        let mut others = group.not_ranked.iter();
        let other = others.find(|other| other.transport == transport)?;
        let workload = &group.cell_group.workload.name;
        Some(tr!("with `{}` it {}", workload, list(&other.reasons)))
    });
    let reasons = reasons.join(", ");
    (!reasons.is_empty()).then(|| format!("`{transport}` ({reasons})"))
}

/// Describes a difference that is certain; `None` for any other.
fn times_as_fast(difference: &WorkloadDifference, from: &str, equivalence: f64) -> Option<String> {
    let claim = &difference.claim;
    let (ratio, [low, high]) = claim.ratio.zip(claim.interval)?;
    if !claim.conclusion.is_difference() {
        return None;
    }
    let margin = match better(&difference.metric) {
        Better::Lower => Margin {
            ratio: 1.0 / ratio,
            interval: [1.0 / high, 1.0 / low],
        },
        _ => Margin {
            ratio,
            interval: [low, high],
        },
    };
    let than = margin.than(from, claim.n, equivalence);
    Some(tr!("`{}` is {}", difference.transport, than))
}
