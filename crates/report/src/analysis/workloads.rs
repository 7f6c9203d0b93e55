//! Comparison of workloads of one kind, such as 8 streams against 1, transport by transport.

use regatta_model::{Better, Part, Workload, metric, metric::id};

use super::{
    ranking::Place,
    summary::{Conclusion, Summary, WorkloadDifference},
};
use crate::{
    RunData,
    format::{interval_numbers, list, ratio_number, times_form},
    language::{self, plural, tr},
};

/// Returns the pairs of workloads that are compared: the first of each kind, and each further one. Those of sweeps have
/// figures against the parameter instead.
pub fn pairs(data: &RunData) -> Vec<[&Workload; 2]> {
    let study = &data.header.study;
    let is_plain = |workload: &&Workload| {
        let swept = study.sweeps.entry(Part::Workload, &workload.name);
        swept.is_none()
    };
    let plain: Vec<&Workload> = study.workloads.iter().filter(is_plain).collect();
    let first_of_kind = |position: usize| {
        let mut before = plain[..position].iter();
        before.find(|first| {
            let other = plain[position];
            first.kind.name() == other.kind.name()
                && study.primary_metric(first) == study.primary_metric(other)
        })
    };
    (0..plain.len())
        .filter_map(|position| Some([*first_of_kind(position)?, plain[position]]))
        .collect()
}

/// Returns a sentence for each pair of workloads under each condition.
pub fn in_words(summary: &Summary, places: &[Place<'_>]) -> Vec<String> {
    let of_place = |a: &WorkloadDifference, b: &WorkloadDifference| {
        (&a.condition, &a.from, &a.to) == (&b.condition, &b.from, &b.to)
    };
    let mut groups: Vec<Vec<&WorkloadDifference>> = Vec::new();
    for difference in &summary.workload_differences {
        let known = groups
            .iter_mut()
            .find(|group| of_place(group[0], difference));
        match known {
            Some(group) => group.push(difference),
            None => groups.push(vec![difference]),
        }
    }
    groups
        .iter()
        .filter_map(|group| sentence(group, places))
        .collect()
}

/// Returns the sentence about the transports of one condition and pair of workloads; `None` if none of them is ranked.
fn sentence(group: &[&WorkloadDifference], places: &[Place<'_>]) -> Option<String> {
    let first = group.first()?;
    let is_ranked = |transport: &str| {
        [&first.from, &first.to].into_iter().all(|workload| {
            let mut here = places.iter();
            let place = here.find(|place| place.group.is(&first.condition, workload));
            place.is_some_and(|it| {
                it.ranking
                    .iter()
                    .any(|ranked| ranked.transport == transport)
            })
        })
    };
    let (ranked, others): (Vec<&WorkloadDifference>, Vec<_>) = group
        .iter()
        .copied()
        .partition(|it| is_ranked(&it.transport));
    let named = |all: &[&WorkloadDifference]| {
        let names: Vec<String> = all.iter().map(|it| format!("`{}`", it.transport)).collect();
        list(&names)
    };
    let with = |conclusion: Conclusion| -> Vec<&WorkloadDifference> {
        let all = ranked.iter().copied();
        all.filter(|it| it.claim.conclusion == conclusion).collect()
    };
    let differing = ranked.iter().filter_map(|it| times_as_fast(it));
    let mut parts: Vec<String> = differing.collect();
    let same = with(Conclusion::NoDifferenceDetected);
    if !same.is_empty() {
        parts.push(tr!("no difference was detected for {}", named(&same)));
    }
    let few = with(Conclusion::NotEnoughRounds);
    if !few.is_empty() {
        parts.push(tr!(
            "there are not enough rounds to tell for {}",
            named(&few)
        ));
    }
    if ranked.is_empty() {
        return None;
    }
    if !others.is_empty() {
        parts.push(tr!("{} not ranked", named(&others)));
    }
    let said = parts.join("; ");
    Some(match metric::find(&first.metric) {
        Some(metric) if metric.name != id::GOODPUT_BPS => tr!(
            "`{}` against `{}` under `{}`, by {}: {}.",
            first.to,
            first.from,
            first.condition,
            language::text(metric.title),
            said
        ),
        _ => tr!(
            "`{}` against `{}` under `{}`: {}.",
            first.to,
            first.from,
            first.condition,
            said
        ),
    })
}

/// Describes a difference that was detected; `None` for any other.
fn times_as_fast(difference: &WorkloadDifference) -> Option<String> {
    let claim = &difference.claim;
    if !matches!(claim.conclusion, Conclusion::Faster | Conclusion::Slower) {
        return None;
    }
    let (ratio, [low, high]) = claim.ratio.zip(claim.interval)?;
    let better = metric::find(&difference.metric).map(|metric| metric.better);
    let (ratio, ends) = match better {
        Some(Better::Lower) => (1.0 / ratio, [1.0 / high, 1.0 / low]),
        _ => (ratio, [low, high]),
    };
    let [low, high] = interval_numbers(ends);
    Some(plural!(
        times_form(ratio),
        "`{1}` was {2} times as fast (interval {3} to {4}, {5} rounds)",
        "`{1}` was {2} times as fast (interval {3} to {4}, {5} rounds)",
        difference.transport,
        ratio_number(ratio),
        low,
        high,
        claim.n
    ))
}
