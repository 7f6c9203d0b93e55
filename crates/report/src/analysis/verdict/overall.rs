//! The answer over a whole run: which transports led where, and what the lossy ones cost.

use std::ops::RangeInclusive;

use regatta_model::{Outcome, Unit};

use super::Field;
use crate::{
    analysis::summary::{Cell, Conclusion, Summary},
    format::{list, quantity},
};

/// With more places than this, places are listed for each leader, without their figures: these
/// stand in the verdicts of the places themselves.
const MOST_PLACES: usize = 4;

/// The sentence over all.
pub(super) fn text(summary: &Summary, fields: &[Field<'_>]) -> String {
    let partial = match summary.state.name.as_str() {
        "complete" => "",
        "running" => "So far (the run is still going on): ",
        _ => "Partial (the run was interrupted): ",
    };
    let measured: u64 = summary
        .cells
        .iter()
        .map(|cell| cell.outcome(Outcome::Measured))
        .sum();
    if measured == 0 {
        return format!(
            "{partial}Nothing was measured: of {} planned trials, {} were saved and none of these was measured.",
            summary.state.trials_planned, summary.state.trials_saved
        );
    }
    let places = Places::of(fields);
    let led: Vec<&Field<'_>> = (fields.iter())
        .filter(|field| !field.whole.is_empty())
        .collect();
    let leading = if led.len() > MOST_PLACES {
        by_leader(&led, &places)
    } else {
        led.iter().map(|field| leader(field, &places)).collect()
    };
    let lossy = lossy(fields, &places);
    let mut text = String::from(partial);
    if leading.is_empty() {
        text.push_str("No reliable transport was measured");
    } else {
        text.push_str(if lossy.is_empty() {
            "Fastest: "
        } else {
            "Fastest of the reliable transports: "
        });
        text.push_str(&leading.join("; "));
    }
    for sentence in lossy {
        text.push_str(". ");
        text.push_str(&sentence);
    }
    text.push('.');
    text
}

/// How places are named: by what tells them apart.
struct Places {
    conditions: bool,
    workloads: bool,
}

impl Places {
    fn of(fields: &[Field<'_>]) -> Self {
        let differ = |name: for<'a> fn(&'a Field<'_>) -> &'a str| {
            fields
                .windows(2)
                .any(|pair| name(&pair[0]) != name(&pair[1]))
        };
        Self {
            conditions: differ(|field| field.condition),
            workloads: differ(|field| field.workload),
        }
    }

    fn name(&self, field: &Field<'_>) -> String {
        match (self.conditions, self.workloads) {
            (true, true) => format!("under `{}` with `{}`", field.condition, field.workload),
            (false, true) => format!("with `{}`", field.workload),
            _ => format!("under `{}`", field.condition),
        }
    }
}

/// Whether the rounds do not tell who of the first ones is the fastest.
fn undecided(field: &Field<'_>, first: &Cell) -> bool {
    let leaders = field.leaders();
    leaders
        .iter()
        .skip(1)
        .any(|cell| field.compare(first, cell).conclusion == Conclusion::NotEnoughRounds)
}

fn names(cells: &[&Cell]) -> Vec<String> {
    cells
        .iter()
        .map(|cell| format!("`{}`", cell.transport))
        .collect()
}

/// Who led in one place, with its figure.
fn leader(field: &Field<'_>, places: &Places) -> String {
    let Some(first) = field.whole.first() else {
        return String::new();
    };
    let leaders = field.leaders();
    let scattered = field.scattered();
    let names = names(&[leaders.as_slice(), &scattered].concat());
    let at = places.name(field);
    if undecided(field, first) {
        format!("too few rounds to name one {at}")
    } else if field.whole.len() == 1 {
        format!("only `{}` {at} ({})", first.transport, field.rate(first))
    } else if names.len() == 1 {
        format!("`{}` {at} ({})", first.transport, field.rate(first))
    } else if !field.all_equal(&leaders) || !scattered.is_empty() {
        format!(
            "`{}` {at} ({}; no difference from it detected for {})",
            first.transport,
            field.rate(first),
            list(&names[1..])
        )
    } else if leaders.len() == field.whole.len() {
        format!("no difference detected {at}")
    } else {
        format!(
            "{} {at} (from {} down; no difference detected between them)",
            list(&names),
            field.rate(first)
        )
    }
}

/// The places of each leader, in the order of the first of them.
fn by_leader(led: &[&Field<'_>], places: &Places) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for field in led {
        let Some(first) = field.whole.first() else {
            continue;
        };
        let leaders = field.leaders();
        let who = if undecided(field, first) {
            "too few rounds to name one".to_owned()
        } else if field.whole.len() == 1 {
            format!("only `{}`", first.transport)
        } else if leaders.len() == 1 && field.scattered().is_empty() {
            format!("`{}`", first.transport)
        } else if leaders.len() == field.whole.len() && field.all_equal(&leaders) {
            "no difference detected".to_owned()
        } else {
            format!("`{}`, not alone,", first.transport)
        };
        let at = places.name(field);
        match groups.iter_mut().find(|(known, _)| *known == who) {
            Some((_, known)) => known.push(at),
            None => groups.push((who, vec![at])),
        }
    }
    groups
        .iter()
        .map(|(who, at)| format!("{who} {}", list(at)))
        .collect()
}

/// The cells of one lossy transport, by its name and why it loses.
type LossyCells<'a> = ((&'a str, &'a str), Vec<(&'a Field<'a>, &'a Cell)>);

/// Each lossy transport once, with what it delivered and lost in each place.
fn lossy(fields: &[Field<'_>], places: &Places) -> Vec<String> {
    let mut groups: Vec<LossyCells<'_>> = Vec::new();
    for field in fields {
        for &cell in &field.lossy {
            let which = (cell.transport.as_str(), field.lossy_because(cell));
            match groups.iter_mut().find(|(known, _)| *known == which) {
                Some((_, cells)) => cells.push((field, cell)),
                None => groups.push((which, vec![(field, cell)])),
            }
        }
    }
    groups
        .iter()
        .map(|((name, because), cells)| {
            if cells.len() > MOST_PLACES {
                let lost = range(cells.iter().map(|(_, cell)| cell.loss()));
                return format!(
                    "`{name}`, {because}, lost {} to {} of its messages in {} places",
                    quantity(Unit::Ratio, *lost.start()),
                    quantity(Unit::Ratio, *lost.end()),
                    cells.len()
                );
            }
            let said: Vec<String> = cells
                .iter()
                .map(|(field, cell)| {
                    format!(
                        "{} {} (lost {})",
                        field.rate(cell),
                        places.name(field),
                        quantity(Unit::Ratio, cell.loss())
                    )
                })
                .collect();
            format!("`{name}`, {because}, delivered {}", list(&said))
        })
        .collect()
}

fn range(values: impl Iterator<Item = f64>) -> RangeInclusive<f64> {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    low..=high
}
