//! Gates: requirements that a run must meet to pass.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use regatta_model::{AskedAchieved, Outcome, PathCheck, metric::id};

use super::summary::{Gate, Summary, out_of_tolerance, path_quantity};
use crate::{
    RunData,
    data::{CellKey, cell_of},
    format::{CommonUnit, grouped},
    language::{self, plural, tr},
};

/// Returns all gates, including those that pass.
pub fn all(data: &RunData, summary: &Summary) -> Vec<Gate> {
    vec![
        complete(summary),
        measured(data),
        path(data, summary),
        intact(data),
    ]
}

fn gate(name: &str, passed: bool, detail: String) -> Gate {
    Gate {
        name: name.to_owned(),
        passed,
        not_judged: false,
        detail,
    }
}

fn complete(summary: &Summary) -> Gate {
    let state = &summary.state;
    let detail = tr!(
        "{} of {} trials saved{}",
        state.trials_saved,
        state.trials_planned,
        match (state.name.as_str(), &state.reason) {
            ("interrupted", Some(reason)) => tr!("; interrupted: {}", reason),
            ("running", _) => tr!("; the run was still going on when this was made"),
            _ => String::new(),
        }
    );
    gate(
        "run_complete",
        state.name == "complete" && state.trials_saved >= state.trials_planned,
        detail,
    )
}

/// Checks that trials were measured. Unsupported and timed-out trials are answers, not faults, beside
/// measured ones; if nothing at all is supported, the exit code says so. Trials that the machine spoiled at every
/// attempt are a fault if they leave a transport without any answer. Where cells end with their
/// successes, a failed trial is an answer, too.
fn measured(data: &RunData) -> Gate {
    let count = |outcome| data.trials.iter().filter(|t| t.outcome == outcome).count();
    let counts = (Outcome::ALL.into_iter())
        .filter(|outcome| *outcome == Outcome::Measured || count(*outcome) > 0)
        .map(|it| tr!("{0} {1}", count(it), language::text(&it.label())));
    let repeated = data.repeated.len();
    let repeated = (repeated > 0).then(|| tr!("{} repeated", repeated));
    let answered: BTreeSet<CellKey<'_>> = (data.trials.iter())
        .filter(|trial| trial.outcome != Outcome::Invalid)
        .map(cell_of)
        .collect();
    let mut cells = data.trials.iter().map(cell_of);
    let without_answer = cells.any(|cell| !answered.contains(&cell));
    gate(
        "trials_measured",
        (count(Outcome::Failed) == 0 || data.header.study.failures_are_answers())
            && !without_answer
            && count(Outcome::Measured) > 0,
        counts.chain(repeated).join(", "),
    )
}

/// Maximum number of conditions that a gate names; `summary.json` has every check.
const MAX_NAMED: usize = 24;

/// Lists names, of many the first.
fn named(names: &[String]) -> String {
    let shown = names[..names.len().min(MAX_NAMED)].join(", ");
    match names.len() - names.len().min(MAX_NAMED) {
        0 => shown,
        more => tr!("{} and {} more", shown, more),
    }
}

/// Describes a quantity of the path by its measured and its expected value.
fn quantity_text(outside: &AskedAchieved) -> String {
    let (unit, name) = path_quantity(&outside.name);
    let both = [outside.asked, outside.achieved];
    let common_unit = CommonUnit::of(unit, both);
    let [asked, achieved] = both.map(|value| common_unit.quantity(value));
    tr!("{} {} for {}", name, achieved, asked)
}

fn path(data: &RunData, summary: &Summary) -> Gate {
    // A check that the machine spoiled decides nothing; it stays in the table.
    let (checks, spoiled): (Vec<&PathCheck>, Vec<&PathCheck>) =
        (summary.path_checks.iter()).partition(|check| check.spoiled.is_none());
    // Each condition once, with all that was ever outside under it.
    let outside = checks.iter().filter(|check| !check.within);
    let failed = outside.clone().count();
    let outside = grouped(outside.map(|check| (&check.condition, *check))).into_iter();
    let outside = outside.map(|(condition, checks)| {
        let times = match checks.len() {
            1 => String::new(),
            n => plural!(n as u64, ", {} check", ", {} checks"),
        };
        let quantities = checks.iter().flat_map(|check| out_of_tolerance(check));
        let mut names = quantities
            .unique_by(|quantity| &quantity.name)
            .map(quantity_text);
        let names = names.join(", ");
        format!("`{condition}` ({names}{times})")
    });
    let outside: Vec<String> = outside.collect();
    // A shard has some of the study's conditions alone.
    let is_shard = data.header.part.shard.is_some();
    let is_run = |name: &&str| !is_shard || data.trials.iter().any(|it| &*it.condition == *name);
    let without = |checks: &[&PathCheck]| -> Vec<String> {
        let checked: BTreeSet<&str> = checks.iter().map(|check| &*check.condition).collect();
        let conditions = data.header.study.conditions.iter().map(|it| &*it.name);
        let others = conditions.filter(|name| !checked.contains(name) && is_run(name));
        others.map(|name| format!("`{name}`")).collect()
    };
    let unchecked = without(&[&checks[..], &spoiled].concat());
    let mut not_judged = without(&checks);
    let known: BTreeSet<&String> = unchecked.iter().collect();
    not_judged.retain(|condition| !known.contains(condition));
    let mut detail = vec![check_counts(checks.len(), failed, spoiled.len())];
    if !checks.is_empty() && !not_judged.is_empty() {
        detail.push(tr!("no check of {} counts", named(&not_judged)));
    }
    if !outside.is_empty() {
        detail.push(tr!("outside: {}", named(&outside)));
    }
    if !unchecked.is_empty() {
        detail.push(tr!("not checked: {}", named(&unchecked)));
    }
    let passed = outside.is_empty() && unchecked.is_empty();
    Gate {
        not_judged: passed && checks.is_empty() && !spoiled.is_empty(),
        ..gate("path_within_tolerance", passed, detail.join("; "))
    }
}

/// Describes how many path checks count, `failed` of them outside of the tolerance, and how many do not.
fn check_counts(counted: usize, failed: usize, spoiled: usize) -> String {
    let (all, within) = (counted + spoiled, counted - failed);
    match (counted, spoiled) {
        (_, 0) => tr!("{} of {} path checks within tolerance", within, counted),
        (0, _) => tr!("not judged: the machine spoiled every path check ({})", all),
        _ => tr!(
            "{} of {} path checks count, {} of them within tolerance; the machine spoiled the others",
            counted,
            all,
            within
        ),
    }
}

fn intact(data: &RunData) -> Gate {
    let counts = data.trials.iter();
    let counts = counts.filter_map(|it| it.measurements.metrics.get(id::MESSAGES_CORRUPTED));
    // A sum of nothing would be a negative zero.
    let corrupted = counts.fold(0.0_f64, |sum, corrupted| sum + corrupted);
    gate(
        "data_intact",
        corrupted == 0.0,
        tr!("{} corrupted messages", corrupted.round() as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_the_first_are_listed() {
        let named = |count: usize| named(&vec!["`p`".to_owned(); count]);
        assert_eq!(named(2), "`p`, `p`");
        assert_eq!(named(24), vec!["`p`"; 24].join(", "));
        assert_eq!(named(26), format!("{} and 2 more", named(24)));
    }
}
