//! Competitions: what each flow gets of the path that it shares.

use itertools::Itertools as _;
use regatta_model::{Unit, metric::id};

use super::{ranking::RankedGroup, summary::MetricSummary};
use crate::{
    format::{Scale, list},
    language::tr,
};

/// Most flows that are named.
const MAX_NAMED: usize = 4;

/// Returns the shares of the flows of a competition, as a clause; `None` for work that transports do alone, or without
/// shares.
pub fn shares(group: &RankedGroup<'_>) -> Option<String> {
    let competition = group.cell_group.workload.competition.as_ref()?;
    let mut flows: Vec<(&str, &MetricSummary)> = (competition.flows.iter())
        .filter_map(|flow| {
            let mut cells = group.cells.iter();
            let cell = cells.find(|cell| cell.transport == flow.transport)?;
            let share = cell.metrics.get(id::GOODPUT_SHARE_RATIO)?;
            Some((flow.transport.as_str(), share))
        })
        .collect();
    flows.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
    let named = |(label, it): &(&str, &MetricSummary)| tr!("`{}` {}", label, share(it));
    let (first, others) = flows.split_first()?;
    let takes = tr!("`{}` takes {} of the goodput", first.0, share(first.1));
    Some(match others {
        [] => takes,
        // It has the rest.
        [(other, _)] => tr!(
            "`{}` takes {} of the goodput beside `{}`",
            first.0,
            share(first.1),
            other
        ),
        _ if flows.len() <= MAX_NAMED => format!("{takes}, {}", list(others.iter().map(named))),
        [.., last] => tr!(
            "of {} flows `{}` takes the most of the goodput, {}, and `{}` the least, {}",
            flows.len(),
            first.0,
            share(first.1),
            last.0,
            share(last.1)
        ),
    })
}

/// Returns a share with its interval: `60 % [57, 63]`.
fn share(share: &MetricSummary) -> String {
    let scale = Scale::for_largest(Unit::Ratio, 1.0);
    let interval = share.ci95.map(|ends| scale.ends(share.mean, ends));
    let interval = interval.map_or_else(String::new, |[low, high]| format!(" [{low}, {high}]"));
    scale.quantity(share.mean) + &interval
}

/// Returns the line of one competition in the headline.
pub fn line(group: &RankedGroup<'_>) -> String {
    let shares = shares(group).unwrap_or_default();
    format!("{}: {shares}.", group.cell_group.heading())
}

/// Returns at most `most` lines about many competitions: of each over the conditions, or the least and the most even one.
pub fn lines(groups: &[&RankedGroup<'_>], most: usize) -> Vec<String> {
    let by_work = groups
        .iter()
        .chunk_by(|group| &group.cell_group.workload.name);
    let by_work: Vec<(&String, Vec<&&RankedGroup<'_>>)> = (by_work.into_iter())
        .map(|(name, groups)| (name, groups.collect()))
        .collect();
    if by_work.len() <= most {
        return by_work.iter().filter_map(over_conditions).collect();
    }
    let even = |group: &&&RankedGroup<'_>| index_of(group).unwrap_or(1.0);
    let by_index = groups.iter().sorted_by(|a, b| even(a).total_cmp(&even(b)));
    let by_index: Vec<&&RankedGroup<'_>> = by_index.collect();
    let (Some(least), Some(largest)) = (by_index.first(), by_index.last()) else {
        return Vec::new();
    };
    vec![
        tr!("Least even of {}: {}", groups.len(), line(least)),
        tr!("Most even: {}", line(largest)),
    ]
}

/// Returns the line of a competition's first flow from the first condition to the last.
fn over_conditions((name, groups): &(&String, Vec<&&RankedGroup<'_>>)) -> Option<String> {
    let competition = groups.first()?.cell_group.workload.competition.as_ref()?;
    let label = &competition.flows.first()?.transport;
    let share_of = |group: &&&RankedGroup<'_>| {
        let mut cells = group.cells.iter();
        let cell = cells.find(|cell| cell.transport == *label)?;
        let share = cell.metrics.get(id::GOODPUT_SHARE_RATIO)?;
        Some(tr!(
            "{} at `{}`",
            self::share(share),
            group.cell_group.condition.name
        ))
    };
    let [first, last] = [groups.first()?, groups.last()?].map(|group| share_of(group));
    Some(tr!(
        "`{}`: `{}` takes {}, {} of the goodput.",
        name,
        label,
        first?,
        last?
    ))
}

/// Returns Jain's index of a competition.
fn index_of(group: &RankedGroup<'_>) -> Option<f64> {
    group.cell_group.workload.competition.as_ref()?;
    let mut cells = group.cells.iter();
    cells.find_map(|cell| Some(cell.metrics.get(id::FAIRNESS_RATIO)?.mean))
}

/// Returns Jain's index of a competition, as a clause.
pub fn fairness(group: &RankedGroup<'_>) -> Option<String> {
    let index = index_of(group)?;
    Some(tr!("Jain's index is {}", format!("{index:.3}")))
}
