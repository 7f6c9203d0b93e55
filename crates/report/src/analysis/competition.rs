//! Competitions: what each flow gets of the path that it shares.

use itertools::Itertools as _;
use regatta_model::{Unit, metric::id};

use super::{ranking::RankedGroup, summary::MetricSummary};
use crate::{
    format::{Scale, is_of_equals, list},
    language::{decimal, tr},
};

/// Maximum number of flows that are named.
const MAX_NAMED: usize = 4;

/// Relative difference of two shares that rounding explains.
const TOLERANCE: f64 = 1e-9;

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
    let taken = match others {
        // Nobody shares with it.
        [] => return None,
        // It has the rest.
        [(other, rest)] => match rest.mean {
            0.0 => tr!(
                "`{}` takes all of the goodput beside `{}`, of which nothing was delivered",
                first.0,
                other
            ),
            _ => tr!(
                "`{}` takes {} of the goodput beside `{}`",
                first.0,
                share(first.1),
                other
            ),
        },
        _ if flows.len() <= MAX_NAMED => format!("{takes}, {}", list(others.iter().map(named))),
        [.., last] => tr!(
            "of {} flows `{}` takes the most of the goodput, {}, and `{}` the least, {}",
            flows.len(),
            first.0,
            share(first.1),
            last.0,
            share(last.1)
        ),
    };
    let fair = fair_share(group, first.0).unwrap_or(1.0 / flows.len() as f64);
    Some(match first.1.ci95 {
        None => tr!("{} (one round)", taken),
        Some(ends) => {
            let taken = match is_of_equals(ends) {
                true => tr!("{} (equal in all rounds)", taken),
                false => taken,
            };
            match ends[0] <= fair * (1.0 + TOLERANCE) {
                true => tr!("{}, which may be its fair share", taken),
                false => taken,
            }
        }
    })
}

/// Returns the mean of a flow's max-min fair share; `None` where its trials have none.
fn fair_share(group: &RankedGroup<'_>, transport: &str) -> Option<f64> {
    let mut cells = group.cells.iter();
    let cell = cells.find(|cell| cell.transport == transport)?;
    Some(cell.metrics.get(id::FAIR_SHARE_RATIO)?.mean)
}

/// Returns a share with its interval: `60 % [57, 63]`.
fn share(share: &MetricSummary) -> String {
    let scale = Scale::for_largest(Unit::Ratio, 1.0);
    let interval = share.ci95.filter(|ends| !is_of_equals(*ends));
    let interval = interval.map(|ends| scale.ends(share.mean, ends));
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

/// Returns the line of a competition's first flow over the conditions: where it takes the least, and where the most.
fn over_conditions((name, groups): &(&String, Vec<&&RankedGroup<'_>>)) -> Option<String> {
    let competition = groups.first()?.cell_group.workload.competition.as_ref()?;
    let label = &competition.flows.first()?.transport;
    let shares = groups.iter().filter_map(|group| {
        let mut cells = group.cells.iter();
        let cell = cells.find(|cell| cell.transport == *label)?;
        let share = cell.metrics.get(id::GOODPUT_SHARE_RATIO)?;
        Some((share, &group.cell_group.condition.name))
    });
    let ends = shares.minmax_by(|a, b| a.0.mean.total_cmp(&b.0.mean));
    let (least, most) = ends.into_option()?;
    let shown = |(share, condition): (&MetricSummary, &String)| {
        tr!("{} at `{}`", self::share(share), condition)
    };
    Some(tr!(
        "`{}`: `{}` takes from {} to {} of the goodput.",
        name,
        label,
        shown(least),
        shown(most)
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
    Some(tr!("Jain's index is {}", decimal(format!("{index:.3}"))))
}

#[cfg(test)]
mod tests {
    use regatta_model::{Outcome, TrialRecord};

    use crate::{
        RunData,
        analysis::{
            fixture::{noise, run, trial},
            summarise,
        },
    };

    use super::*;

    /// Returns a run of `a` against `b` and of `b` against itself, under these conditions, in which `a` has the share that
    /// `share` returns for a condition.
    fn competing(conditions: &[&str], share: impl Fn(&str) -> f64) -> RunData {
        let mut study = "rounds = 5\n[[transport]]\nlabel = 'a'\ndriver = 'tcp'\n\
            [[transport]]\nlabel = 'b'\ndriver = 'tcp'\ncc = 'reno'\n\
            [[workload]]\nkind = 'bulk'\nname = 'flow'\n\
            [[competition]]\nalone = false\n[[competition.flow]]\ntransport = 'a'\n\
            [[competition.flow]]\ntransport = 'b'\n\
            [[competition]]\nname = 'equals'\nalone = false\n[[competition.flow]]\ntransport = 'b'\ncount = 2\n"
            .to_owned();
        for condition in conditions {
            study += &format!("[[condition]]\nname = '{condition}'\n");
        }
        let of_trial = |[transport, condition, workload]: [&str; 3], round| -> TrialRecord {
            let share = match (workload, transport) {
                ("equals", "b" | "b 2") => 0.5,
                ("a against b", "a") => share(condition) * noise(round, 0),
                ("a against b", "b") => 1.0 - share(condition) * noise(round, 0),
                _ => return trial(round, Outcome::Failed, &[]),
            };
            let fairness = if workload == "equals" { 1.0 } else { 0.9 };
            let metrics = [
                (id::GOODPUT_BPS, share * 1e7),
                (id::GOODPUT_SHARE_RATIO, share),
                (id::FAIRNESS_RATIO, fairness),
            ];
            trial(round, Outcome::Measured, &metrics)
        };
        let mut data = run(&study, of_trial);
        // A cell that a workload does not have has no trials.
        let study = data.header.study.clone();
        data.trials.retain(|trial| {
            let mut works = study.workloads.iter();
            let work = works
                .find(|it| it.name == trial.workload)
                .expect("a workload");
            study.has_cell(&trial.transport, work)
        });
        data
    }

    /// Two flows of `a` compete with `b`, and each runs alone as well; the second flow of `a` times out.
    #[test]
    fn harm_is_the_part_of_the_goodput_alone_that_the_others_take() {
        let study = "rounds = 2\n[[transport]]\nlabel = 'a'\ndriver = 'tcp'\n\
            [[transport]]\nlabel = 'b'\ndriver = 'tcp'\ncc = 'reno'\n\
            [[condition]]\nname = 'c'\n[[workload]]\nkind = 'bulk'\nname = 'flow'\n\
            [[competition]]\nname = 'all'\n[[competition.flow]]\ntransport = 'a'\ncount = 2\n\
            [[competition.flow]]\ntransport = 'b'\n";
        let mut data = run(study, |[transport, _, workload], round| {
            let goodput = match (workload, transport) {
                ("flow", _) => 10e6 + f64::from(round) * 10e6,
                (_, "a") => 7.5e6,
                (_, "b") => 25e6,
                _ => return trial(round, Outcome::TimedOut, &[]),
            };
            trial(round, Outcome::Measured, &[(id::GOODPUT_BPS, goodput)])
        });
        crate::harm::add(&data.header.study, &mut data.trials);
        let harm = |transport: &str, workload: &str, round: u32| {
            let mut trials = data.trials.iter();
            let found = trials.find(|it| {
                let of = (it.transport.as_str(), it.workload.as_str(), it.round);
                of == (transport, workload, round)
            });
            found?.measurements.metrics.get(id::HARM_RATIO).copied()
        };
        assert_eq!(harm("a", "all", 0), Some(0.25));
        assert_eq!(harm("a", "all", 1), Some(0.625));
        // It has more than alone.
        assert_eq!(harm("b", "all", 0), Some(0.0));
        assert_eq!(harm("a 2", "all", 1), Some(1.0));
        assert_eq!(harm("a", "flow", 0), None);
    }

    /// A flow of messages of a script has no goodput, by which its competition is compared.
    #[test]
    fn a_flow_with_work_of_its_own_delivers_something() {
        let study = "rounds = 2\n[[transport]]\nlabel = 'a'\ndriver = 'tcp'\n\
            [[transport]]\nlabel = 'b'\ndriver = 'udp'\n[[condition]]\nname = 'c'\n\
            [[workload]]\nkind = 'bulk'\nname = 'flow'\n[[workload]]\nkind = 'script'\nname = 'few'\n\
            [[competition]]\nname = 'both'\nalone = false\n[[competition.flow]]\ntransport = 'a'\n\
            [[competition.flow]]\ntransport = 'b'\nworkload = 'few'\n";
        let data = run(study, |[transport, _, _], round| {
            let metric = match transport {
                "a" => (id::GOODPUT_BPS, 1e6),
                _ => (id::MESSAGES_DELIVERED, 10.0),
            };
            trial(round, Outcome::Measured, &[metric])
        });
        let summary = summarise(&data);
        let mut cells = summary.cells.iter();
        let flow = cells.find(|it| it.transport == "b" && it.workload == "both");
        assert_eq!(flow.map(|it| it.failures.len()), Some(0));
    }

    #[test]
    fn shares_of_equal_repeats_have_no_interval() {
        let data = competing(&["short"], |_| 0.6);
        let lines = summarise(&data).verdict.headline;
        let equals =
            "short, equals: `b` takes 50.0 % of the goodput beside `b 2` (equal in all rounds)";
        assert!(lines[1].starts_with(equals), "{lines:?}");
    }

    #[test]
    fn the_headline_says_what_each_takes() {
        let data = competing(&["short"], |_| 0.6);
        let summary = summarise(&data);
        let lines = &summary.verdict.headline;
        assert!(
            lines[0].starts_with("short, a against b: `a` takes 60.0 % [")
                && lines[0].ends_with("] of the goodput beside `b`."),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("short, equals: `b` takes 50.0 %")
                && lines[1].ends_with("which may be its fair share."),
            "{lines:?}"
        );
        let text = &summary.verdict.conditions[0].text;
        assert!(text.contains("Jain's index is 0.900"), "{text}");
        // A transport alone has no cells here.
        assert_eq!(summary.cells.len(), 4);
        assert_eq!(summary.verdict.noise_floor, None);
    }

    #[test]
    fn of_many_conditions_the_headline_has_the_ends() {
        let share = |condition: &str| if condition == "short" { 0.8 } else { 0.2 };
        let data = competing(&["short", "middle", "deep"], share);
        let lines = summarise(&data).verdict.headline;
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("`a` takes from 20.0 %"), "{lines:?}");
        assert!(lines[0].contains("at `middle` to 80.0 %"), "{lines:?}");
        assert!(lines[0].contains("at `short` of the goodput."), "{lines:?}");
    }
}
