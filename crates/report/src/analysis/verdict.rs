//! Verdict in sentences: the fastest transport, by how much, with which certainty.

use itertools::Itertools as _;
use regatta_model::{Outcome, WorkloadKind, metric::Unit, metric::id, stack};

use super::{
    competition, headline,
    loss_response::{self, Apart, Stack},
    margin::Margin,
    next_step, noise, percentiles,
    price::Prices,
    ranking::RankedGroup,
    stacks,
    summary::{Cell, ConditionVerdict, Ranked, StackRow, Summary, Verdict},
    summary_index::SummaryIndex,
    sweep_crossings, sweep_places, workloads,
};
use crate::{
    RunData,
    data::CellGroup,
    format::{
        CommonUnit, capital, difference, first_of, grouped, is_narrow, list, number, percent,
    },
    language::{self, plural, tr},
    path_text::path_text,
};

/// Fact of the payload's encryption, in [`STACK_FACTS`](regatta_model::STACK_FACTS).
const CIPHER: &str = "cipher.sender";

/// Fact of the congestion control.
const CONGESTION_CONTROL: &str = "congestion_control.sender";

/// Returns the verdict of each condition and workload, and the one over all.
pub fn all(data: &RunData, summary: &Summary) -> Verdict {
    let index = SummaryIndex::of(summary);
    let groups: Vec<RankedGroup<'_>> = (data.groups())
        .filter_map(|group| RankedGroup::new(&index, group))
        .collect();
    let differing = |group: &RankedGroup<'_>| {
        let rows = index.stacks(&group.cell_group.condition.name);
        let titles = stacks::differing(rows, &compared(group));
        Vec::from_iter(titles.into_iter().map(str::to_owned))
    };
    let noise_floor = noise::floor(data, summary);
    // Of a single one the headline says it.
    let several = groups.len() > 1;
    let price = |group: &RankedGroup<'_>| {
        let pair = headline::pair(group)?;
        let prices = Prices::of(index.comparisons(group.cell_group), pair);
        Some(format!("{}.", prices.sentence(pair)?))
    };
    Verdict {
        headline: headline::lines(data, summary, &index, &groups),
        overall: overall(data, summary, &groups)
            + &response_to_losses(&index, &groups).unwrap_or_default()
            + &noise_floor.as_ref().map_or(String::new(), noise::sentence),
        noise_floor,
        workloads: workloads::sentences(data, summary, &groups),
        conditions: groups
            .into_iter()
            .map(|group| (next_step::rounds_to_decide(data, &group), group))
            .map(|(rounds_to_decide, group)| ConditionVerdict {
                path: path_text(group.cell_group.condition),
                text: sentence(&group, index.stacks(&group.cell_group.condition.name))
                    + &next_step::sentence(data, &group, rounds_to_decide),
                price: price(&group),
                limits: (limits(&group, index.stacks(&group.cell_group.condition.name))
                    .into_iter())
                .chain(
                    several
                        .then(|| next_step::clause(data, &group, rounds_to_decide))
                        .flatten(),
                )
                .collect(),
                rounds_to_decide,
                stacks_differ_in: differing(&group),
                notes: (differences(&differing(&group), &group).into_iter())
                    .chain(notes(&group.cells))
                    .chain(percentiles_apart(&group))
                    .collect(),
                condition: group.cell_group.condition.name.clone(),
                workload: group.cell_group.workload.name.clone(),
                metric: group.metric.name.to_owned(),
                detectable_ratio: group.detectable_ratio(&group.leaders()),
                leaders: (group.leaders().into_iter())
                    .map(|it| it.transport.clone())
                    .collect(),
                ranking: group.ranking,
                not_ranked: group.not_ranked,
            })
            .collect(),
    }
}

/// Returns the note on ranked transports whose percentiles of a delay disagree.
fn percentiles_apart(group: &RankedGroup<'_>) -> Option<String> {
    let mut cells = group.cells.clone();
    cells.retain(|cell| {
        let mut ranked = group.ranking.iter();
        ranked.any(|it| it.transport == cell.transport)
    });
    let found = percentiles::disagreement(group.metric.name, &cells)?;
    Some(found.text(group.metric.name))
}

fn sentence(group: &RankedGroup<'_>, stacks: &[&StackRow]) -> String {
    let leaders = group.leaders();
    let first = group.ranking.first();
    let ranked = leaders.iter().copied().chain(first).map(|it| it.value);
    let others = group.not_ranked.iter().filter_map(|it| it.value);
    let common_unit = CommonUnit::of(group.metric.unit, ranked.chain(others));
    let shares = [competition::shares(group), competition::fairness(group)];
    let mut parts = Vec::from_iter(shares.into_iter().flatten());
    parts.extend(about_leaders(group, &common_unit));
    for other in &group.not_ranked {
        let value = other
            .value
            .map(|value| format!(" ({})", common_unit.quantity(value)));
        let named = format!("`{}`{}", other.transport, value.unwrap_or_default());
        parts.push(tr!("{} is not ranked: it {}", named, list(&other.reasons)));
    }
    parts.extend(encryption_of_claim(group, stacks));
    parts.extend(losses_apart(group, stacks).iter().map(Apart::text));
    parts.extend(not_known(stacks, &compared(group)));
    let stopped = stopped(group);
    if !stopped.is_empty() {
        parts.push(tr!("the deadline ended trials of {}", stopped));
    }
    if parts.is_empty() {
        parts.push(tr!("nothing was measured"));
    }
    let (under, text) = (group.cell_group.text(), parts.join("; "));
    match group.metric.name {
        id::GOODPUT_BPS => tr!("Under {}: {}.", under, text),
        _ => tr!(
            "Under {}, by {}: {}.",
            under,
            language::text(group.metric.title),
            text
        ),
    }
}

/// Returns the clauses about what the comparison of a group does not show, for a reader who sees the table: what is not
/// ranked, encryption, what is not known, deadlines.
fn limits(group: &RankedGroup<'_>, stacks: &[&StackRow]) -> Vec<String> {
    let not_ranked = group.not_ranked.iter();
    let not_ranked = not_ranked.map(|it| format!("`{}` {}", it.transport, list(&it.reasons)));
    let plain = by_encryption(stacks, &compared(group)).map(|[plain, _]| plain);
    let plain = plain.map(|plain| tr!("without encryption: {}", list(&plain)));
    let stopped = stopped(group);
    let has_size = group.cell_group.workload.kind.whole_bytes().is_some();
    let is_time = has_size && group.metric.name == id::TRANSFER_TIME_NS;
    let stopped = (!stopped.is_empty()).then(|| match is_time {
        true => tr!(
            "ended by the deadline, with the time of the whole at the rate until then: {}",
            stopped
        ),
        false => tr!("ended by the deadline: {}", stopped),
    });
    (not_ranked.chain(plain))
        .chain(not_known(stacks, &compared(group)))
        .chain(stopped)
        .collect()
}

/// Lists the transports of which the deadline ended trials.
fn stopped(group: &RankedGroup<'_>) -> String {
    let stopped = group.cells.iter().filter(|cell| cell.deadline_reached > 0);
    list(stopped.map(|cell| format!("`{}`", cell.transport)))
}

/// Smallest ratio that rounds would find from which they are called too few.
const TOO_FEW: f64 = 3.0;

/// Maximum number of transports that a list names; a sweep has hundreds.
const MAX_NAMED: usize = 8;

/// Lists names, of many the first.
fn named(names: &[String]) -> String {
    first_of(names, MAX_NAMED)
}

/// Divides transports, in backticks, into those that sent in plain text and those that encrypted; `None` if either list
/// is empty.
fn by_encryption(stacks: &[&StackRow], transports: &[&str]) -> Option<[Vec<String>; 2]> {
    let rows = || stacks.iter().filter(|row| row.fact == CIPHER);
    let with = |is_plain: bool| -> Vec<String> {
        let of_kind = transports.iter().filter(|transport| {
            let mut ciphers = rows().filter_map(|row| row.values.get(**transport));
            ciphers.any(|it| stack::is_comparable(it) && (it == "none") == is_plain)
        });
        of_kind.map(|transport| format!("`{transport}`")).collect()
    };
    let kinds = [with(true), with(false)];
    kinds.iter().all(|kind| !kind.is_empty()).then_some(kinds)
}

/// Returns the clause about encryption where the transports that the sentence compares differ in it.
fn encryption_of_claim(group: &RankedGroup<'_>, stacks: &[&StackRow]) -> Option<String> {
    let [plain, encrypted] = by_encryption(stacks, &compared(group))?;
    Some(tr!(
        "{} sent without encryption, {} with it",
        list(&plain),
        list(&encrypted)
    ))
}

/// Returns the differences in the response to losses among the ranked transports of a group.
fn losses_apart<'s>(group: &RankedGroup<'_>, stacks: &[&'s StackRow]) -> Vec<Apart<'s>> {
    // What is short or waits for answers is decided by other things.
    if !matches!(group.cell_group.workload.kind, WorkloadKind::Bulk { .. }) {
        return Vec::new();
    }
    let ranked = group.ranking.iter().map(|it| &it.transport);
    let stacks = ranked.filter_map(|it| Stack::find(stacks, it, it.clone()));
    loss_response::apart(group.cell_group.condition, stacks)
}

/// Returns the sentence about the largest difference in the response to losses in any group.
fn response_to_losses(index: &SummaryIndex<'_>, groups: &[RankedGroup<'_>]) -> Option<String> {
    let all = groups.iter().flat_map(|group| {
        let rows = index.stacks(&group.cell_group.condition.name);
        losses_apart(group, rows)
    });
    let largest = all.max_by(|a, b| a.ratio().total_cmp(&b.ratio()))?;
    Some(largest.sentence())
}

/// Returns the clauses about transports, compared with others, that do not tell their congestion control or whether they
/// encrypt: a difference may be that, and nothing says that they are alike in it.
fn not_known(stacks: &[&StackRow], transports: &[&str]) -> Vec<String> {
    let of = |fact| match transports.len() {
        0 | 1 => Vec::new(),
        _ => stacks::not_known(stacks, transports, fact),
    };
    let (controls, ciphers) = (of(CONGESTION_CONTROL), of(CIPHER));
    let mut clauses = Vec::new();
    if !controls.is_empty() {
        let names = named(&controls);
        clauses.push(tr!("the congestion control of {} is not known", names));
    }
    if !ciphers.is_empty() {
        clauses.push(tr!("whether {} encrypted is not known", named(&ciphers)));
    }
    clauses
}

/// Returns the sentences about the transports of the run that sent in plain text beside others that encrypted, and about
/// what is not known of them.
fn encryption(summary: &Summary) -> String {
    let measured = summary.cells.iter().filter(|cell| cell.n > 0);
    let transports = measured.map(|cell| cell.transport.as_str()).unique();
    let transports: Vec<&str> = transports.collect();
    let rows: Vec<&StackRow> = summary.stacks.iter().collect();
    let differing = by_encryption(&rows, &transports).map(|[plain, encrypted]| {
        tr!(
            " Without encryption: {}; with it: {}.",
            named(&plain),
            named(&encrypted)
        )
    });
    let not_known = not_known(&rows, &transports);
    let not_known = not_known.iter().map(|it| format!(" {}.", capital(it)));
    differing.into_iter().chain(not_known).collect()
}

fn about_leaders(group: &RankedGroup<'_>, common_unit: &CommonUnit) -> Option<String> {
    let (first, _) = group.ranking.split_first()?;
    let valued = |ranked: &Ranked| {
        let value = common_unit.quantity(ranked.value);
        format!("`{}` ({value})", ranked.transport)
    };
    let named = |ranked: &[&Ranked]| list(ranked.iter().map(|it| valued(it)));
    let leaders = group.leaders();
    let Some((lead, others)) = leaders.split_first() else {
        return Some(tr!(
            "the rounds contradict one another, and nothing is the fastest"
        ));
    };
    if group.ranking.len() == 1 {
        return Some(figure(first, common_unit));
    }
    let margin = |other: &Ranked| {
        let (ratio, interval, rounds) = group.margin(&lead.transport, &other.transport)?;
        Some(Margin { ratio, interval }.than(&other.transport, rounds, group.equivalence))
    };
    let next = group.next_after(lead).and_then(margin);
    if others.is_empty() {
        let next = next.unwrap_or_default();
        return Some(tr!("{} is {}", valued(lead), next));
    }
    let equivalence = percent(group.equivalence);
    let next = next.map_or_else(String::new, |next| tr!("; the first is {}", next));
    if !group.is_undecided(&leaders) {
        return Some(tr!(
            "{} are the same within {}{}",
            named(&leaders),
            equivalence,
            next
        ));
    }
    let is_known = |other: &&&Ranked| {
        let margin = group.margin(&lead.transport, &other.transport);
        margin.is_some_and(|(_, interval, _)| is_narrow(interval))
    };
    let looks = others.iter().find(is_known).and_then(|other| margin(other));
    let looks = looks.map_or_else(String::new, |it| tr!(": the first looks {}", it));
    let detectable = group.detectable_ratio(&leaders).filter(|it| *it < TOO_FEW);
    let detectable = detectable.map_or_else(
        || tr!("; these are too few rounds"),
        |ratio| tr!("; these rounds would find {}", difference(ratio)),
    );
    Some(tr!(
        "undecided among {}{}{}{}",
        named(&leaders),
        looks,
        detectable,
        next
    ))
}

/// Returns the figure of a transport without another one beside it.
fn figure(alone: &Ranked, common_unit: &CommonUnit) -> String {
    let value = common_unit.quantity(alone.value);
    format!("`{}`: {value}", alone.transport)
}

/// Returns the sentence about the groups of one transport each: its figures, of many the range.
fn figures(groups: &[&RankedGroup<'_>]) -> Option<String> {
    let ranked = groups.iter().filter_map(|group| group.ranking.first());
    let ordered: Vec<&Ranked> = ranked
        .sorted_by(|a, b| a.value.total_cmp(&b.value))
        .collect();
    let [lowest, .., highest] = ordered[..] else {
        let group = groups.first()?;
        let only = ordered.first()?;
        let unit = CommonUnit::of(group.metric.unit, [only.value]);
        return Some(format!("{} {}.", figure(only, &unit), at(group)));
    };
    let unit = CommonUnit::of(
        groups.first()?.metric.unit,
        ordered.iter().map(|it| it.value),
    );
    if groups.len() > MAX_NAMED {
        let [lowest, highest] = [lowest, highest].map(|it| unit.quantity(it.value));
        let transports = list(
            ordered
                .iter()
                .map(|it| format!("`{}`", it.transport))
                .unique(),
        );
        return Some(tr!(
            "{} has {} to {} in {} places.",
            transports,
            lowest,
            highest,
            groups.len()
        ));
    }
    let parts = groups.iter().filter_map(|group| {
        let figure = figure(group.ranking.first()?, &unit);
        Some(format!("{figure} {}", at(group)))
    });
    Some(format!("{}.", parts.collect::<Vec<_>>().join("; ")))
}

/// Returns the sentence over all groups: the leaders with the groups in which they lead.
fn overall(data: &RunData, summary: &Summary, groups: &[RankedGroup<'_>]) -> String {
    let partial = match summary.state.name.as_str() {
        "complete" => String::new(),
        "running" => tr!("So far (the run is still going on): "),
        _ => tr!("Partial (the run was interrupted): "),
    };
    let measured: u64 = (summary.cells.iter())
        .map(|cell| cell.outcome(Outcome::Measured))
        .sum();
    if measured == 0 {
        return tr!(
            "{}Nothing was measured: of {} planned trials, {} were saved and none of these was measured.",
            partial,
            summary.state.trials_planned,
            summary.state.trials_saved
        );
    }
    let is_alone = |it: &&RankedGroup<'_>| it.ranking.len() == 1;
    let (swept, plain): (Vec<&RankedGroup<'_>>, Vec<_>) =
        (groups.iter()).partition(|it| it.cell_group.is_swept);
    let (alone, others): (Vec<&RankedGroup<'_>>, Vec<&RankedGroup<'_>>) =
        plain.into_iter().partition(is_alone);
    let (unranked, several): (Vec<&RankedGroup<'_>>, Vec<&RankedGroup<'_>>) =
        others.into_iter().partition(|it| it.ranking.is_empty());
    let joined = |groups: Vec<&RankedGroup<'_>>| {
        let groups = grouped(
            groups
                .into_iter()
                .map(|group| (fastest(group, false), at(group))),
        );
        let mut parts = groups
            .iter()
            .map(|(names, at)| format!("{names} {}", list(at)));
        parts.join("; ")
    };
    let mut sentences = Vec::new();
    if !several.is_empty() {
        sentences.push(tr!("Fastest: {}.", joined(several)));
    }
    sentences.extend(figures(&alone));
    if !unranked.is_empty() {
        sentences.push(format!("{}.", capital(&joined(unranked))));
    }
    sentences.extend(about_sweeps(data, summary, &swept));
    let not_ranked = not_ranked(groups);
    let encryption = encryption(summary);
    format!("{partial}{}{not_ranked}{encryption}", sentences.join(" "))
}

/// Returns the sentences about the transports that are ranked in no group, and about those that are not in all; none
/// where nothing is ranked at all.
fn not_ranked(groups: &[RankedGroup<'_>]) -> String {
    let ranked: Vec<&str> = (groups.iter().flat_map(|group| &group.ranking))
        .map(|it| it.transport.as_str())
        .collect();
    if ranked.is_empty() {
        return String::new();
    }
    let others = groups.iter().flat_map(|group| &group.not_ranked);
    let others = others.map(|it| it.transport.as_str()).unique();
    let (partly, never): (Vec<&str>, Vec<&str>) = others.partition(|it| ranked.contains(it));
    let [never, partly] =
        [never, partly].map(|names| list(names.into_iter().map(|it| format!("`{it}`"))));
    let mut sentences = String::new();
    if !never.is_empty() {
        sentences += &tr!(" Ranked nowhere: {}.", never);
    }
    if !partly.is_empty() {
        sentences += &tr!(" Ranked in some places only: {}.", partly);
    }
    sentences
}

/// Names the fastest transports of a group, or the reason for which there is none; in the order of the ranking, which differs
/// by chance where nothing is decided, or in that of their labels.
fn fastest(group: &RankedGroup<'_>, by_label: bool) -> String {
    let leaders = group.leaders();
    let mut names: Vec<&String> = leaders.iter().map(|it| &it.transport).collect();
    if by_label {
        names.sort_unstable();
    }
    let names = list(names.into_iter().map(|name| format!("`{name}`")));
    match (leaders.len(), group.ranking.len()) {
        (_, 0) => tr!("nothing is ranked"),
        (0, _) => tr!("no order"),
        (1, _) => names,
        _ if group.is_undecided(&leaders) => tr!("{} (undecided)", names),
        _ => tr!("{} (the same within {})", names, percent(group.equivalence)),
    }
}

/// Names a group.
fn at(group: &RankedGroup<'_>) -> String {
    tr!("under {}", group.cell_group.text())
}

/// Returns the sentence about the sweeps: where each transport leads, and at which value one overtakes another.
fn about_sweeps(data: &RunData, summary: &Summary, groups: &[&RankedGroup<'_>]) -> Option<String> {
    let (groups, alone): (Vec<&RankedGroup<'_>>, Vec<_>) =
        groups.iter().partition(|it| it.ranking.len() != 1);
    let alone = alone_in_sweeps(data, &alone).into_iter();
    let all = groups.len();
    if all == 0 {
        let alone = alone.map(|it| format!("{it}."));
        let alone: Vec<String> = alone.collect();
        return (!alone.is_empty()).then(|| alone.join(" "));
    }
    let leaders = grouped(groups.iter().map(|group| {
        let CellGroup {
            condition,
            workload,
            ..
        } = &group.cell_group;
        (fastest(group, true), (&*condition.name, &*workload.name))
    }));
    let places = leaders.iter().map(|(names, at)| match at.len() == all {
        true => tr!("{} everywhere", names),
        false => match sweep_places::of_groups(data, at) {
            Some(places) => format!("{names} {places}"),
            None => tr!("{} in {}", names, at.len()),
        },
    });
    let places: Vec<String> = places.chain(alone).collect();
    let all_crossings: usize = summary.sweeps.iter().map(|it| it.crossings.len()).sum();
    let first = (summary.sweeps.iter()).find_map(|sweep| {
        let mentioned = sweep_crossings::in_first_sentence(&sweep.crossings)?;
        Some((sweep.sentences.first()?, mentioned))
    });
    let crossings = match first {
        None => String::new(),
        Some((first, mentioned)) if mentioned == all_crossings => format!("; {first}"),
        Some((first, mentioned)) => plural!(
            (all_crossings - mentioned) as u64,
            "; {1}; and {0} further crossing",
            "; {1}; and {0} further crossings",
            first
        ),
    };
    Some(tr!(
        "Fastest in the sweeps: {}{}.",
        places.join("; "),
        crossings
    ))
}

/// Returns the clauses about transports that have nothing to be compared with in some groups of sweeps: their least and
/// largest figure.
fn alone_in_sweeps<'g>(data: &RunData, groups: &[&RankedGroup<'g>]) -> Vec<String> {
    let of_group = |group: &&RankedGroup<'g>| {
        let alone = group.ranking.first()?.clone();
        Some((
            (alone.transport, group.metric.unit),
            (alone.value, group.cell_group),
        ))
    };
    let by_transport = grouped(groups.iter().filter_map(of_group)).into_iter();
    let clauses = by_transport.filter_map(|((transport, unit), mut values)| {
        values.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (first, last) = (values.first()?, values.last()?);
        let common_unit = CommonUnit::of(unit, [first.0, last.0]);
        let text = |(value, group): &(f64, CellGroup<'_>)| {
            let name = (&*group.condition.name, &*group.workload.name);
            let value = common_unit.quantity(*value);
            match sweep_places::of_groups(data, &[name]) {
                Some(place) => format!("{value} {place}"),
                None => value,
            }
        };
        Some(match values.len() {
            1 => tr!("`{}` alone: {}", transport, text(first)),
            _ => tr!("`{}` alone: {} to {}", transport, text(first), text(last)),
        })
    });
    clauses.collect()
}

/// Returns the transports that the sentence compares: the leaders, or a single leader and the next
/// transport.
fn compared<'p>(group: &'p RankedGroup<'_>) -> Vec<&'p str> {
    let mut compared = group.leaders();
    if let [lead] = compared[..] {
        compared.extend(group.next_after(lead));
    }
    compared.iter().map(|it| it.transport.as_str()).collect()
}

/// Returns the sentence about the facts in which the stacks of these transports differ.
fn differences(titles: &[String], group: &RankedGroup<'_>) -> Option<String> {
    let names = list(compared(group).iter().map(|name| format!("`{name}`")));
    let titles = titles.iter().map(|title| language::text(title)).join(", ");
    (!titles.is_empty()).then(|| tr!("The stacks of {} differ in: {}", names, titles))
}

fn notes(cells: &[&Cell]) -> Vec<String> {
    let mut notes = Vec::new();
    let counted =
        |count: fn(&Cell) -> u64| {
            let cells = cells.iter().map(|cell| (cell, count(cell)));
            let affected = cells.filter(|(_, count)| *count > 0);
            list(affected.map(|(cell, count)| {
                tr!("`{1}` in {0} of {2} trials", count, cell.transport, cell.n)
            }))
        };
    let doubted = counted(|cell| cell.path_doubted);
    if !doubted.is_empty() {
        notes.push(tr!(
            "Measured over a path that was not what was asked for, see the warnings: {}",
            doubted
        ));
    }
    let stopped = counted(|cell| cell.deadline_reached);
    if !stopped.is_empty() {
        notes.push(tr!(
            "Reached the deadline and measured on what had been delivered by then: {}",
            stopped
        ));
    }
    let settled = cells.iter().filter_map(|cell| settling_time(cell));
    let common_unit = CommonUnit::of(Unit::Nanoseconds, settled);
    let settling = list(cells.iter().filter_map(|cell| settling(cell, &common_unit)));
    if !settling.is_empty() {
        notes.push(tr!("Settled after a step of the path: {}", settling));
    }
    for cell in cells {
        for failure in &cell.failures {
            notes.push(format!("`{}` {}", cell.transport, failure.text()));
        }
        for reason in &cell.reasons {
            notes.push(plural!(
                reason.count,
                "`{1}`: {0} trial {2}{3}",
                "`{1}`: {0} trials {2}{3}",
                cell.transport,
                reason.outcome_text(),
                match reason.reasons.as_slice() {
                    [] => String::new(),
                    _ => format!(" ({})", reason.causes_text()),
                }
            ));
        }
    }
    notes
}

fn settling_time(cell: &Cell) -> Option<f64> {
    Some(cell.metrics.get(id::SETTLING_TIME_MEAN_NS)?.mean)
}

/// Describes the time that a transport took to settle after the steps of the path's schedule, and
/// the number of steps after which it did not; `None` without a schedule.
fn settling(cell: &Cell, common_unit: &CommonUnit) -> Option<String> {
    let unsettled = cell.metrics.get(id::UNSETTLED_STEPS)?.mean;
    let time = match settling_time(cell) {
        None => tr!("never"),
        Some(0.0) => tr!("at once"),
        Some(mean) => tr!("in {}", common_unit.quantity(mean)),
    };
    let but = match unsettled {
        0.0 => String::new(),
        steps => tr!(" (but not after {} steps a trial)", number(steps)),
    };
    Some(format!("`{}` {time}{but}", cell.transport))
}
