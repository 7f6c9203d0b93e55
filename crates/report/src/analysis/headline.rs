//! Headline: the answer of a whole run in at most two lines.

use itertools::Itertools as _;

use super::{
    competition,
    margin::Margin,
    next_step,
    price::Prices,
    ranking::RankedGroup,
    summary::{Ranked, Summary},
    summary_index::SummaryIndex,
    sweep_crossings,
};
use crate::{
    RunData,
    format::{CommonUnit, capital, first_of, grouped, is_narrow, list, percent},
    language::{self, plural, tr},
};

/// Maximum number of characters of a line, which is the width of a terminal.
const WIDTH: usize = 80;

/// Maximum number of transports that are named.
const MAX_NAMED: usize = 3;

/// Maximum number of conditions and workloads that have a line each.
const MAX_LINES: usize = 2;

/// Returns the lines of the headline. One is longer than 80 characters only where names are too long for less.
pub fn lines(
    data: &RunData,
    summary: &Summary,
    index: &SummaryIndex<'_>,
    groups: &[RankedGroup<'_>],
) -> Vec<String> {
    let is_measured = |group: &&RankedGroup<'_>| group.cells.iter().any(|cell| cell.n > 0);
    let measured: Vec<&RankedGroup<'_>> = groups.iter().filter(is_measured).collect();
    let partial = match summary.state.name.as_str() {
        "complete" => String::new(),
        "running" => tr!("So far: "),
        _ => tr!("Interrupted: "),
    };
    let competing: Vec<&RankedGroup<'_>> = (measured.iter().copied())
        .filter(|group| competition::shares(group).is_some())
        .collect();
    if !competing.is_empty() {
        let lines = match competing.len() {
            ..=MAX_LINES => competing.iter().map(|it| competition::line(it)).collect(),
            _ => competition::lines(&competing, MAX_LINES),
        };
        let first = |(position, line): (usize, String)| match position {
            0 => format!("{partial}{line}"),
            _ => line,
        };
        return lines.into_iter().enumerate().map(first).collect();
    }
    match measured[..] {
        [] => vec![partial + &tr!("Nothing was measured.")],
        [group] => of_group(&partial, data, index, group),
        _ if measured.len() <= MAX_LINES => {
            let answers = measured.iter();
            one_each(
                &partial,
                answers.map(|it| (*it, Answer::of(index, it).texts())),
            )
        }
        _ => of_many(&partial, summary, &measured),
    }
}

/// Returns a line for each of some groups with their texts, the most telling first; `partial` begins the first line.
fn one_each<'g>(
    partial: &str,
    groups: impl Iterator<Item = (&'g RankedGroup<'g>, Vec<String>)>,
) -> Vec<String> {
    let line = |(position, (group, texts)): (usize, (&RankedGroup<'_>, Vec<String>))| {
        let partial = if position == 0 { partial } else { "" };
        let prefix = format!("{partial}{}: ", group.cell_group.heading());
        fitting(&prefix, &texts)
    };
    groups.enumerate().map(line).collect()
}

/// Returns the number of characters that a reader sees: backticks mark names and are not shown.
fn width(text: &str) -> usize {
    text.chars().filter(|it| *it != '`').count()
}

/// Returns the first of some texts, the most telling first, for which a line has room; the shortest if there is none.
fn fitting(prefix: &str, texts: &[String]) -> String {
    let line = |text: &String| format!("{prefix}{text}.");
    let fits = texts.iter().map(line).find(|it| width(it) <= WIDTH);
    let shortest = || texts.iter().map(line).min_by_key(|it| width(it));
    fits.or_else(shortest).unwrap_or_default()
}

/// Answer of one condition and workload.
struct Answer {
    /// Claim: which transport is faster and by how much, or what else is known.
    claim: String,
    /// Clause about what the first has more of, or the second, or how far what is undecided looks apart.
    price: Option<String>,
    /// Clause about a transport that failed.
    failure: Option<String>,
}

impl Answer {
    fn of(index: &SummaryIndex<'_>, group: &RankedGroup<'_>) -> Self {
        let price = || {
            let pair = pair(group)?;
            let prices = Prices::of(index.comparisons(group.cell_group), pair);
            prices.clause(pair, group.leaders().len() > 1)
        };
        Self {
            claim: claim(group),
            price: looks(group).or_else(price),
            failure: failure(group),
        }
    }

    /// Returns the sentences without a full stop, the one that tells most first.
    fn texts(&self) -> Vec<String> {
        let price = self.price.as_deref().unwrap_or_default();
        let failure = self.failure.as_deref().unwrap_or_default();
        let claim = &self.claim;
        let texts = [
            format!("{claim}{price}{failure}"),
            format!("{claim}{failure}"),
            format!("{claim}{price}"),
            claim.clone(),
        ];
        texts.into_iter().unique().collect()
    }
}

/// Returns the headline of a run with one condition and one workload: the answer, and on a line of its own what would decide
/// it, or all prices where it has room for them.
fn of_group(
    partial: &str,
    data: &RunData,
    index: &SummaryIndex<'_>,
    group: &RankedGroup<'_>,
) -> Vec<String> {
    let mut answer = Answer::of(index, group);
    let prices = pair(group).and_then(|pair| {
        let prices = Prices::of(index.comparisons(group.cell_group), pair);
        prices.sentence(pair)
    });
    let prices = prices.map(|prices| format!("{prices}."));
    let prices = prices.filter(|prices| width(prices) <= WIDTH);
    let rounds = next_step::rounds_to_decide(data, group);
    let next = next_step::sentence(data, group, rounds);
    let next = (!next.is_empty()).then(|| next.trim().to_owned());
    // What a single one that is ranked stands beside.
    let unranked = group.not_ranked.iter();
    let unranked = unranked.map(|it| format!("`{}` {}", it.transport, list(&it.reasons)));
    let unranked = unranked.collect::<Vec<String>>().join("; ");
    let is_alone = group.ranking.len() == 1 && !unranked.is_empty();
    let beside = is_alone.then(|| format!("{unranked}."));
    let second = next.or(prices).or(beside.filter(|it| width(it) <= WIDTH));
    if second.is_some() {
        answer.price = looks(group);
    }
    let texts: Vec<String> = answer.texts().iter().map(|it| capital(it)).collect();
    let first = fitting(partial, &texts);
    [first].into_iter().chain(second).collect()
}

/// Returns the two transports that the answer of a group compares; `None` if there are more.
pub fn pair<'p>(group: &'p RankedGroup<'_>) -> Option<[&'p str; 2]> {
    let leaders = group.leaders();
    let (lead, others) = leaders.split_first()?;
    let other = match others {
        [] => group.next_after(lead)?,
        [other] => other,
        _ => return None,
    };
    Some([&lead.transport, &other.transport])
}

fn claim(group: &RankedGroup<'_>) -> String {
    if let Some(shares) = competition::shares(group) {
        return shares;
    }
    let leaders = group.leaders();
    let names: Vec<String> = leaders
        .iter()
        .map(|it| format!("`{}`", it.transport))
        .collect();
    let names = first_of(&names, MAX_NAMED);
    let Some((lead, others)) = leaders.split_first() else {
        return match group.ranking.is_empty() {
            true => unranked(group),
            false => tr!("no order: the rounds contradict one another"),
        };
    };
    if group.ranking.len() == 1 {
        return figure(group, &lead.transport, lead.value);
    }
    if !others.is_empty() {
        return match group.is_undecided(&leaders) {
            true => {
                tr!("undecided among {}", names)
            }
            false => tr!(
                "{} are the same within {}",
                names,
                percent(group.equivalence)
            ),
        };
    }
    match group
        .next_after(lead)
        .and_then(|next| margin(group, lead, next))
    {
        Some(margin) => tr!("`{}` is {}", lead.transport, margin),
        None => tr!("`{}` is the fastest", lead.transport),
    }
}

fn margin(group: &RankedGroup<'_>, lead: &Ranked, other: &Ranked) -> Option<String> {
    let (ratio, interval, _) = group.margin(&lead.transport, &other.transport)?;
    Some(Margin { ratio, interval }.headline(&other.transport))
}

/// Returns the clause about how far the first two of an undecided group look apart, if the rounds say that much.
fn looks(group: &RankedGroup<'_>) -> Option<String> {
    let leaders = group.leaders();
    let [lead, other, ..] = leaders[..] else {
        return None;
    };
    let (ratio, interval, _) = group.margin(&lead.transport, &other.transport)?;
    (group.is_undecided(&leaders) && is_narrow(interval) && ratio > 1.0).then(|| {
        let margin = Margin { ratio, interval }.headline(&other.transport);
        tr!(": `{}` looks {}", lead.transport, margin)
    })
}

/// Returns the metric of the ranking of one transport.
fn figure(group: &RankedGroup<'_>, transport: &str, value: f64) -> String {
    let unit = CommonUnit::of(group.metric.unit, [value]);
    let title = language::text(group.metric.title);
    format!("`{transport}`: {title} {}", unit.quantity(value))
}

/// Returns the sentence about a group without a ranking: each transport with its value, if there is one, and the
/// reasons.
fn unranked(group: &RankedGroup<'_>) -> String {
    let reasons = group.not_ranked.iter();
    let reasons = reasons.map(|it| match it.value {
        Some(value) => format!(
            "{} ({})",
            figure(group, &it.transport, value),
            list(&it.reasons)
        ),
        None => format!("`{}` {}", it.transport, list(&it.reasons)),
    });
    match reasons.collect::<Vec<String>>() {
        reasons if reasons.is_empty() => tr!(
            "no trial has the metric `{}` of the ranking",
            group.metric.name
        ),
        reasons => reasons.join("; "),
    }
}

/// Returns the clause about the transports that are not ranked because their work failed.
fn failure(group: &RankedGroup<'_>) -> Option<String> {
    if group.ranking.is_empty() {
        return None;
    }
    let failed = group.not_ranked.iter().filter(|it| {
        let mut cells = group.cells.iter();
        cells.any(|cell| cell.transport == it.transport && cell.retransmits)
    });
    let failed = failed.map(|it| format!("; `{}` {}", it.transport, list(&it.reasons)));
    let failed: String = failed.collect();
    (!failed.is_empty()).then_some(failed)
}

/// Which transports lead in a group of a run with many.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lead {
    /// One, by its label.
    One(String),
    /// Several that are the same.
    Same,
    /// Several of which the rounds do not tell.
    Undecided,
}

/// Returns the headline of a run with many conditions and workloads: in how many each transport leads, and where the largest
/// margin is or, of a sweep, where one transport overtakes another.
fn of_many(partial: &str, summary: &Summary, groups: &[&RankedGroup<'_>]) -> Vec<String> {
    let leading = |group: &&&RankedGroup<'_>| group.ranking.len() > 1;
    let compared: Vec<&RankedGroup<'_>> = groups.iter().filter(leading).copied().collect();
    if compared.is_empty() {
        let first = groups.iter().take(MAX_LINES);
        return one_each(partial, first.map(|it| (*it, vec![claim(it)])));
    }
    let lead = |group: &&RankedGroup<'_>| {
        let leaders = group.leaders();
        match leaders[..] {
            [lead] => Lead::One(lead.transport.clone()),
            _ if group.is_undecided(&leaders) || leaders.is_empty() => Lead::Undecided,
            _ => Lead::Same,
        }
    };
    let mut leads = grouped(compared.iter().map(|group| (lead(group), ())));
    let is_one = |lead: &Lead| matches!(lead, Lead::One(_));
    leads.sort_by_key(|(lead, places)| (!is_one(lead), std::cmp::Reverse(places.len())));
    let count = |(lead, places): &(Lead, Vec<()>)| match lead {
        Lead::One(lead) => tr!("`{}` in {}", lead, places.len()),
        Lead::Same => tr!("several alike in {}", places.len()),
        Lead::Undecided => tr!("undecided in {}", places.len()),
    };
    let counts: Vec<String> = leads.iter().map(count).collect();
    let places = |counts: &[String]| {
        plural!(
            compared.len() as u64,
            "Of {} place, fastest: {}",
            "Of {} places, fastest: {}",
            counts.join(", ")
        )
    };
    let counted = (1..=counts.len()).rev().map(|most| places(&counts[..most]));
    let mut lines = vec![fitting(partial, &counted.collect::<Vec<_>>())];
    let crossing = (summary.sweeps.iter()).find_map(|sweep| {
        sweep_crossings::in_first_sentence(&sweep.crossings)?;
        sweep.sentences.first().map(|sentence| capital(sentence))
    });
    let largest = compared.iter().filter_map(|group| {
        let leaders = group.leaders();
        let [lead] = leaders[..] else { return None };
        let next = group.next_after(lead)?;
        let (ratio, ..) = group.margin(&lead.transport, &next.transport)?;
        let margin = margin(group, lead, next)?;
        let text = tr!(
            "Most at {}: `{}` is {}",
            group.cell_group.heading(),
            lead.transport,
            margin
        );
        Some((ratio, text))
    });
    let largest = largest
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, text)| text);
    let second: Vec<String> = crossing.into_iter().chain(largest).collect();
    if !second.is_empty() {
        lines.push(fitting("", &second));
    }
    lines
}

#[cfg(test)]
mod tests {
    use regatta_model::{Outcome, metric::id};
    use regatta_results::RunState;

    use super::*;
    use crate::analysis::{
        fixture::{goodput, noise, run, study, too_varied, trial},
        summarise,
    };

    /// Returns the run of transports with these mean goodputs in Mbit/s under each condition.
    fn rates<const N: usize>(transports: [&str; N], rates: &[(&str, [f64; N])]) -> RunData {
        let conditions: Vec<&str> = rates.iter().map(|it| it.0).collect();
        run(
            &study("rounds = 5", &transports, &conditions),
            |[transport, condition, _], round| {
                let shift = transports
                    .iter()
                    .position(|it| *it == transport)
                    .unwrap_or_default();
                let rates = rates.iter().find(|it| it.0 == condition).map(|it| it.1);
                goodput(
                    round,
                    rates.map_or(0.0, |it| it[shift]) * 1e6 * noise(round, shift),
                )
            },
        )
    }

    fn headline(data: &RunData) -> Vec<String> {
        summarise(data).verdict.headline
    }

    #[test]
    fn two_conditions_have_a_line_each() {
        let mut data = rates(["a", "b"], &[("p", [90.0, 30.0]), ("q", [60.0, 60.0])]);
        let lines = [
            "p: `a` is 3.0 times as fast as `b`.",
            "q: `a` and `b` are the same within 3 %.",
        ];
        assert_eq!(headline(&data), lines);
        data.state = RunState::Running;
        assert_eq!(
            headline(&data),
            [format!("So far: {}", lines[0]).as_str(), lines[1]]
        );
    }

    #[test]
    fn of_many_conditions_the_leaders_are_counted() {
        let mut data = rates(
            ["a", "b"],
            &[
                ("p", [60.0, 60.0]),
                ("q", [60.0, 60.0]),
                ("r", [60.0, 60.0]),
                ("s", [40.0, 60.0]),
                ("t", [50.0, 20.0]),
                ("u", [50.0, 40.0]),
            ],
        );
        assert_eq!(
            headline(&data),
            [
                "Of 6 places, fastest: `a` in 2, `b` in 1, several alike in 3.",
                "Most at t: `a` is 2.5 times as fast as `b`."
            ]
        );
        // What varies by a half is undecided.
        for trial in data.trials.iter_mut().filter(|it| it.condition == "p") {
            let factor =
                1.0 + 0.5 * f64::from((trial.round + 2 * u32::from(trial.transport == "b")) % 4);
            let rate = trial.measurements.metrics.get_mut(id::GOODPUT_BPS);
            *rate.expect("a goodput") *= factor;
        }
        assert_eq!(
            headline(&data)[0],
            "Of 6 places, fastest: `a` in 2, `b` in 1, several alike in 2, undecided in 1."
        );
    }

    #[test]
    fn the_same_everywhere_has_one_line() {
        let of = |name| (name, [60.0, 60.0]);
        let data = rates(["a", "b"], &[of("p"), of("q"), of("r")]);
        assert_eq!(
            headline(&data),
            ["Of 3 places, fastest: several alike in 3."]
        );
    }

    #[test]
    fn a_transport_alone_has_a_line_for_the_first_two_conditions() {
        let data = rates(["a"], &[("p", [60.0]), ("q", [50.0]), ("r", [40.0])]);
        assert_eq!(
            headline(&data),
            [
                "p: `a`: goodput 60.0 Mbit/s.",
                "q: `a`: goodput 50.0 Mbit/s."
            ]
        );
    }

    /// The counts of the leaders with the fewest places are left out where a line has no room.
    #[test]
    fn a_line_has_the_leaders_for_which_it_has_room() {
        let long = "a-transport-with-a-name-of-forty-characters";
        let data = rates(
            [long, "b"],
            &[
                ("p", [60.0, 30.0]),
                ("q", [60.0, 30.0]),
                ("r", [30.0, 60.0]),
                ("s", [60.0, 60.0]),
            ],
        );
        let first = format!("Of 4 places, fastest: `{long}` in 2, `b` in 1.");
        assert_eq!(headline(&data)[0], first);
    }

    #[test]
    fn the_second_line_has_the_prices() {
        let transports = ["a", "b"];
        let of = |conditions: &[&str]| {
            let data = run(
                &study("rounds = 5", &transports, conditions),
                |[transport, ..], round| {
                    let is_a = transport == "a";
                    let rate = if is_a { 90e6 } else { 60e6 } * noise(round, usize::from(is_a));
                    let delay =
                        if is_a { 30e6 } else { 10e6 } * noise(round, 2 + usize::from(is_a));
                    let metrics = [
                        (id::GOODPUT_BPS, rate),
                        (id::ROUND_TRIP_DELAY_P50_NS, delay),
                    ];
                    trial(round, Outcome::Measured, &metrics)
                },
            );
            headline(&data)
        };
        assert_eq!(
            of(&["p"]),
            [
                "`a` is 50 % faster than `b`.",
                "`a` has 3.0 times the delay under load."
            ]
        );
        let line = |condition: &str| {
            format!("{condition}: `a` is 50 % faster than `b`, with 3.0 times the delay.")
        };
        assert_eq!(of(&["p", "q"]), [line("p"), line("q")]);
    }

    #[test]
    fn of_what_is_the_same_the_one_with_the_price_is_named() {
        let data = run(
            &study("rounds = 5", &["a", "b"], &["p", "q"]),
            |[transport, ..], round| {
                let is_a = transport == "a";
                let delay = if is_a { 10e6 } else { 30e6 } * noise(round, usize::from(is_a));
                let rate = if is_a { 60.3e6 } else { 60e6 } * noise(round, usize::from(is_a));
                let metrics = [
                    (id::GOODPUT_BPS, rate),
                    (id::ROUND_TRIP_DELAY_P50_NS, delay),
                ];
                trial(round, Outcome::Measured, &metrics)
            },
        );
        let line = |condition: &str| {
            let names = "`a` and `b` are the same within 3 %";
            format!("{condition}: {names}; `b` has 3.0 times the delay.")
        };
        assert_eq!(headline(&data), [line("p"), line("q")]);
    }

    #[test]
    fn prices_without_room_for_all_leave_the_largest_to_the_first_line() {
        let data = run(
            &study("rounds = 5", &["a", "b"], &["p"]),
            |[transport, ..], round| {
                let is_a = transport == "a";
                let of =
                    |a: f64, b: f64| if is_a { a } else { b } * noise(round, usize::from(is_a));
                let metrics = [
                    (id::GOODPUT_BPS, of(90e6, 60e6)),
                    (id::ROUND_TRIP_DELAY_P50_NS, of(30e6, 10e6)),
                    (id::RETRANSMIT_RATIO, of(0.02, 0.01)),
                    (id::PEAK_MEMORY_SENDER_BYTES, of(4e6, 1e6)),
                    (id::SET_UP_TIME_MEAN_NS, of(3e6, 2e6)),
                ];
                trial(round, Outcome::Measured, &metrics)
            },
        );
        let line = "`a` is 50 % faster than `b`, with 4.0 times the memory.";
        assert_eq!(headline(&data), [line]);
    }

    /// Every second round is 10 % off, so that 1.05 may be none; without a mean difference nothing looks faster.
    #[test]
    fn what_is_undecided_looks_faster_by_its_ratio() {
        let of = |a: f64| {
            let study = study("rounds = 4", &["a", "b"], &["p"]);
            let data = run(&study, |[transport, ..], round| {
                let is_larger = (transport == "a") == round.is_multiple_of(2);
                let rate = if is_larger { 110e6 } else { 100e6 };
                goodput(round, if transport == "a" { rate * a } else { rate })
            });
            headline(&data).remove(0)
        };
        assert_eq!(
            of(1.05),
            "Undecided among `a` and `b`: `a` looks 5.0 % faster than `b`."
        );
        assert_eq!(of(1.0), "Undecided among `a` and `b`.");
    }

    #[test]
    fn what_varies_too_much_looks_like_nothing() {
        let data = too_varied(5);
        assert_eq!(headline(&data)[0], "Undecided among `a` and `b`.");
    }

    #[test]
    fn what_is_not_ranked_stands_beside_what_is() {
        let data = run(
            &study("rounds = 5", &["a", "b"], &["p"]),
            |[transport, ..], round| match transport {
                "a" => goodput(round, 60e6),
                _ => trial(round, Outcome::Failed, &[]),
            },
        );
        let lines = [
            "`a`: goodput 60.0 Mbit/s; `b` failed 5 of 5 trials.",
            "`b` failed 5 of 5 trials.",
        ];
        assert_eq!(headline(&data), lines);
    }

    #[test]
    fn a_group_without_a_ranking_has_its_reasons() {
        let data = run(
            &study("rounds = 5", &["a", "b"], &["p"]),
            |[transport, ..], round| match transport {
                "a" if round > 0 => goodput(round, 60e6),
                _ => trial(round, Outcome::Failed, &[]),
            },
        );
        assert_eq!(
            headline(&data),
            ["`a`: goodput 48.0 Mbit/s (failed 1 of 5 trials); `b` failed 5 of 5 trials."]
        );
        // A run that is ranked by a metric that no trial has.
        let keys = "rounds = 5\nrank_by = 'requests_per_second'";
        let text = study(keys, &["a"], &["p"]);
        let data = run(&text, |_, round| goodput(round, 60e6));
        let reason = "No trial has the metric `requests_per_second` of the ranking.";
        assert_eq!(headline(&data), [reason]);
    }
}
