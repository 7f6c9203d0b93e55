//! Verdict in sentences: the fastest transport, by how much, with which certainty.

use regatta_model::{Outcome, metric::Unit, metric::id};

use super::{
    noise,
    ranking::Place,
    stacks,
    summary::{Cell, Conclusion, ConditionVerdict, Ranked, Summary, Verdict},
};
use crate::{
    RunData,
    format::{capital, list, number, quantity, ratio_number},
};

/// Returns the verdict of each condition and workload, and the one over all.
pub fn all(data: &RunData, summary: &Summary) -> Verdict {
    let places: Vec<Place<'_>> = (data.groups())
        .filter_map(|group| Place::new(summary, group))
        .collect();
    let noise_floor = noise::floor(data, summary);
    Verdict {
        overall: overall(summary, &places)
            + &noise_floor.as_ref().map_or(String::new(), noise::in_words),
        noise_floor,
        conditions: places
            .into_iter()
            .map(|place| ConditionVerdict {
                text: sentence(&place),
                stacks_differ_in: differing(summary, &place),
                notes: (differences(summary, &place).into_iter())
                    .chain(notes(&place.cells))
                    .collect(),
                condition: place.group.condition.name.clone(),
                workload: place.group.workload.name.clone(),
                metric: place.metric.name.to_owned(),
                detectable_ratio: place.detectable_ratio(&place.leaders()),
                ranking: place.ranking,
                not_ranked: place.not_ranked,
            })
            .collect(),
    }
}

fn sentence(place: &Place<'_>) -> String {
    let mut parts = Vec::from_iter(about_leaders(place));
    for other in &place.not_ranked {
        let value = other.value.map_or(String::new(), |value| {
            format!(" ({})", quantity(place.metric.unit, value))
        });
        parts.push(format!(
            "`{}`{value} is not ranked: it {}",
            other.transport,
            list(&other.reasons)
        ));
    }
    let stopped: Vec<String> = (place.cells.iter())
        .filter(|cell| cell.deadline_reached > 0)
        .map(|cell| format!("`{}`", cell.transport))
        .collect();
    if !stopped.is_empty() {
        parts.push(format!("the deadline ended trials of {}", list(&stopped)));
    }
    if parts.is_empty() {
        parts.push("nothing was measured".to_owned());
    }
    let by = match place.metric.name {
        id::GOODPUT_BPS => String::new(),
        _ => format!(", by {}", place.metric.title),
    };
    format!(
        "Under {}{by}: {}.",
        place.group.in_words(),
        parts.join("; ")
    )
}

fn about_leaders(place: &Place<'_>) -> Option<String> {
    let (first, _) = place.ranking.split_first()?;
    let valued = |ranked: &Ranked| {
        let value = quantity(place.metric.unit, ranked.value);
        format!("`{}` ({value})", ranked.transport)
    };
    let named = |ranked: &[&Ranked]| list(&ranked.iter().map(|r| valued(r)).collect::<Vec<_>>());
    let leaders = place.leaders();
    let Some((lead, others)) = leaders.split_first() else {
        return Some("the rounds contradict one another, and nothing is the fastest".to_owned());
    };
    if place.ranking.len() == 1 {
        return Some(format!("{} has nothing to be compared with", valued(first)));
    }
    let pairs_are = |conclusion: Conclusion| {
        leaders.iter().enumerate().all(|(position, a)| {
            let rest = leaders[position + 1..].iter();
            rest.into_iter()
                .all(|b| place.conclusion(&a.transport, &b.transport) == conclusion)
        })
    };
    let undecided = others
        .iter()
        .any(|r| place.conclusion(&lead.transport, &r.transport) == Conclusion::NotEnoughRounds);
    // The first in the ranking that is slower for sure.
    let next = (place.ranking.iter())
        .find(|r| place.conclusion(&lead.transport, &r.transport) == Conclusion::Faster);
    let margin = next.and_then(|next| {
        let (ratio, interval, rounds) = place.margin(&lead.transport, &next.transport)?;
        let [low, high] = interval_numbers(interval);
        Some(format!(
            "{} times as fast as `{}` (interval {low} to {high}, {rounds} rounds)",
            ratio_number(ratio),
            next.transport
        ))
    });
    Some(if undecided {
        format!(
            "there are not enough rounds to tell {} apart",
            named(&leaders)
        )
    } else if others.is_empty() {
        let margin = margin.unwrap_or_default();
        format!("{} was fastest, {margin}", valued(lead))
    } else {
        let detectable = match place.detectable_ratio(&leaders) {
            Some(ratio) => format!(
                " (smallest detectable ratio {} at 80 % power)",
                ratio_number(ratio)
            ),
            None => String::new(),
        };
        let lead_margin = margin.map_or(String::new(), |margin| format!("; the first is {margin}"));
        if pairs_are(Conclusion::NoDifferenceDetected) {
            let among = if next.is_some() {
                " among the fastest"
            } else {
                ""
            };
            format!(
                "no difference was detected{among}, {}{detectable}{lead_margin}",
                named(&leaders)
            )
        } else {
            format!(
                "{} was first; no difference from it was detected for {}{detectable}{lead_margin}",
                valued(lead),
                named(others)
            )
        }
    })
}

/// Returns the sentence over all places: the leaders with the places where they lead.
fn overall(summary: &Summary, places: &[Place<'_>]) -> String {
    let partial = match summary.state.name.as_str() {
        "complete" => "",
        "running" => "So far (the run is still going on): ",
        _ => "Partial (the run was interrupted): ",
    };
    let measured: u64 = (summary.cells.iter())
        .map(|cell| cell.outcome(Outcome::Measured))
        .sum();
    if measured == 0 {
        return format!(
            "{partial}Nothing was measured: of {} planned trials, {} were saved and none of these was measured.",
            summary.state.trials_planned, summary.state.trials_saved
        );
    }
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    let mut alone: Vec<(String, Vec<String>)> = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    let mut swept: Vec<(String, usize)> = Vec::new();
    for place in places {
        for other in &place.not_ranked {
            let name = format!("`{}`", other.transport);
            if !left_out.contains(&name) {
                left_out.push(name);
            }
        }
        let leaders = place.leaders();
        let names: Vec<String> = leaders
            .iter()
            .map(|r| format!("`{}`", r.transport))
            .collect();
        let too_few = leaders.iter().skip(1).any(|r| {
            place.conclusion(&leaders[0].transport, &r.transport) == Conclusion::NotEnoughRounds
        });
        let who = match (names.len(), place.ranking.len()) {
            (_, 0) => "nothing is ranked".to_owned(),
            (_, 1) => format!("{} has nothing to be compared with", names[0]),
            (0, _) => "no order".to_owned(),
            _ if too_few => "too few rounds to tell".to_owned(),
            (1, _) => names[0].clone(),
            (leading, all) if leading == all => "no difference detected".to_owned(),
            _ => format!("{} (no difference detected)", list(&names)),
        };
        if place.group.is_swept {
            match swept.iter_mut().find(|(known, _)| *known == who) {
                Some((_, count)) => *count += 1,
                None => swept.push((who, 1)),
            }
            continue;
        }
        let mut at = format!("under {}", place.group.in_words());
        if let Some(ratio) = place.detectable_ratio(&leaders) {
            at.push_str(&format!(" (detectable: {})", ratio_number(ratio)));
        }
        let said = if place.ranking.len() > 1 {
            &mut said
        } else {
            &mut alone
        };
        match said.iter_mut().find(|(known, _)| *known == who) {
            Some((_, places)) => places.push(at),
            None => said.push((who, vec![at])),
        }
    }
    let joined = |said: &[(String, Vec<String>)]| {
        let said: Vec<String> = (said.iter())
            .map(|(who, at)| format!("{who} {}", list(at)))
            .collect();
        said.join("; ")
    };
    let mut sentences = Vec::new();
    if !said.is_empty() {
        sentences.push(format!("Fastest: {}.", joined(&said)));
    }
    if !alone.is_empty() {
        sentences.push(format!("{}.", capital(&joined(&alone))));
    }
    sentences.extend(about_sweeps(summary, &swept));
    let left_out = match left_out.as_slice() {
        [] => String::new(),
        _ if places.iter().all(|place| place.ranking.is_empty()) => String::new(),
        names => format!(" Not ranked in every place: {}.", list(names)),
    };
    format!("{partial}{}{left_out}", sentences.join(" "))
}

/// Returns the sentence about the sweeps: how often each transport leads, and where one overtakes another.
fn about_sweeps(summary: &Summary, leaders: &[(String, usize)]) -> Option<String> {
    let all: usize = leaders.iter().map(|(_, count)| count).sum();
    if all == 0 {
        return None;
    }
    let counts: Vec<String> = (leaders.iter())
        .map(|(who, count)| format!("{who} in {count}"))
        .collect();
    let crossings: Vec<&str> = (summary.sweeps.iter())
        .flat_map(|sweep| &sweep.crossings)
        .map(|crossing| crossing.text.as_str())
        .collect();
    let crossings = match crossings[..] {
        [] => String::new(),
        [one] => format!("; {one}"),
        [first, _] => format!("; {first}; and 1 further crossing"),
        [first, ..] => format!("; {first}; and {} further crossings", crossings.len() - 1),
    };
    let places = if all == 1 { "place" } else { "places" };
    Some(format!(
        "Fastest in {all} {places} of the sweeps: {}{crossings}.",
        counts.join(", ")
    ))
}

/// Returns the transports that the sentence compares: the leaders, or a single leader and the next
/// transport.
fn compared<'p>(place: &'p Place<'_>) -> Vec<&'p str> {
    let leaders = place.leaders();
    let mut names: Vec<&str> = leaders.iter().map(|r| r.transport.as_str()).collect();
    if let [lead] = names.as_slice() {
        let next = (place.ranking.iter())
            .find(|r| place.conclusion(lead, &r.transport) == Conclusion::Faster);
        names.extend(next.map(|r| r.transport.as_str()));
    }
    names
}

/// Returns the titles of the facts in which the stacks of these transports differ.
fn differing(summary: &Summary, place: &Place<'_>) -> Vec<String> {
    stacks::differing(
        &summary.stacks,
        &place.group.condition.name,
        &compared(place),
    )
    .into_iter()
    .map(str::to_owned)
    .collect()
}

fn differences(summary: &Summary, place: &Place<'_>) -> Option<String> {
    let titles = differing(summary, place);
    let names: Vec<String> = (compared(place).iter())
        .map(|name| format!("`{name}`"))
        .collect();
    (!titles.is_empty()).then(|| {
        format!(
            "The stacks of {} differ in: {}",
            list(&names),
            titles.join(", ")
        )
    })
}

fn notes(cells: &[&Cell]) -> Vec<String> {
    let mut notes = Vec::new();
    let counted = |count: fn(&Cell) -> u64| -> Vec<String> {
        (cells.iter())
            .filter(|cell| count(cell) > 0)
            .map(|cell| {
                let count = count(cell);
                format!("`{}` in {count} of {} trials", cell.transport, cell.n)
            })
            .collect()
    };
    for (heading, cells) in [
        (
            "Measured over a path that was not what was asked for, see the warnings",
            counted(|cell| cell.path_doubted),
        ),
        (
            "Reached the deadline and measured on what had been delivered by then",
            counted(|cell| cell.deadline_reached),
        ),
    ] {
        if !cells.is_empty() {
            notes.push(format!("{heading}: {}", list(&cells)));
        }
    }
    let settling: Vec<String> = cells.iter().filter_map(|cell| settling(cell)).collect();
    if !settling.is_empty() {
        notes.push(format!(
            "Settled after a step of the path: {}",
            list(&settling)
        ));
    }
    for cell in cells {
        for failure in &cell.failures {
            notes.push(format!("`{}` {}", cell.transport, failure.in_words()));
        }
        for reason in &cell.reasons {
            let trials = if reason.count == 1 { "trial" } else { "trials" };
            notes.push(format!(
                "`{}`: {} {trials} {}{}",
                cell.transport,
                reason.count,
                reason.outcome.replace('_', " "),
                match reason.reasons.as_slice() {
                    [] => String::new(),
                    reasons => format!(" ({})", reasons.join(": ")),
                }
            ));
        }
    }
    notes
}

/// Describes the time that a transport took to settle after the steps of the path's schedule, and
/// the number of steps after which it did not; `None` without a schedule.
fn settling(cell: &Cell) -> Option<String> {
    let mean = |name: &str| cell.metrics.get(name).map(|metric| metric.mean);
    let unsettled = mean(id::UNSETTLED_STEPS)?;
    let time = mean(id::SETTLING_TIME_NS).map_or("never".to_owned(), |mean| {
        format!("in {}", quantity(Unit::Nanoseconds, mean))
    });
    let but = match unsettled {
        0.0 => String::new(),
        steps => format!(" (but not after {} steps a trial)", number(steps)),
    };
    Some(format!("`{}` {time}{but}", cell.transport))
}

/// Formats the ends of an interval, with as many decimals as it takes to distinguish them, up to
/// four.
fn interval_numbers(ends: [f64; 2]) -> [String; 2] {
    let mut texts = ends.map(ratio_number);
    for decimals in 2..=4 {
        if texts[0] != texts[1] {
            break;
        }
        texts = ends.map(|end| format!("{end:.decimals$}"));
    }
    texts
}
