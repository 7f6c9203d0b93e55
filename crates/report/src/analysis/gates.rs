//! What must hold for a run to count as passed.

use regatta_model::{Outcome, PathCheck};

use super::summary::{Gate, Summary, out_of_tolerance};
use crate::RunData;

/// Every gate, those that hold included.
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
        detail,
    }
}

fn complete(summary: &Summary) -> Gate {
    let state = &summary.state;
    let detail = format!(
        "{} of {} trials saved{}",
        state.trials_saved,
        state.trials_planned,
        match (state.name.as_str(), &state.reason) {
            ("interrupted", Some(reason)) => format!("; interrupted: {reason}"),
            ("running", _) => "; the run was still going on when this was made".to_owned(),
            _ => String::new(),
        }
    );
    gate(
        "run_complete",
        state.name == "complete" && state.trials_saved >= state.trials_planned,
        detail,
    )
}

/// Unsupported is an answer, not a fault; if nothing at all is supported, the exit code says so.
fn measured(data: &RunData) -> Gate {
    let count = |outcome| data.trials.iter().filter(|t| t.outcome == outcome).count();
    let detail: Vec<String> = Outcome::ALL
        .into_iter()
        .filter(|outcome| *outcome == Outcome::Measured || count(*outcome) > 0)
        .map(|outcome| format!("{} {}", count(outcome), outcome.name().replace('_', " ")))
        .collect();
    let bad = count(Outcome::Failed) + count(Outcome::TimedOut) + count(Outcome::Invalid);
    gate(
        "trials_measured",
        bad == 0 && count(Outcome::Measured) > 0,
        detail.join(", "),
    )
}

fn path(data: &RunData, summary: &Summary) -> Gate {
    // A check that was made again before any trial decides nothing; it stays in the table.
    let checks: Vec<&PathCheck> = summary
        .path_checks
        .iter()
        .enumerate()
        .filter(|(at, check)| !repeated(data, check, &summary.path_checks[at + 1..]))
        .map(|(_, check)| check)
        .collect();
    let again = summary.path_checks.len() - checks.len();
    // Each condition once, with all that was ever outside under it.
    let mut outside: Vec<(&str, Vec<&str>, usize)> = Vec::new();
    for check in checks.iter().filter(|check| !check.within) {
        let known = outside
            .iter()
            .position(|(condition, ..)| *condition == check.condition);
        let at = known.unwrap_or_else(|| {
            outside.push((&check.condition, Vec::new(), 0));
            outside.len() - 1
        });
        let (_, names, times) = &mut outside[at];
        *times += 1;
        for quantity in out_of_tolerance(check) {
            if !names.contains(&quantity.name.as_str()) {
                names.push(&quantity.name);
            }
        }
    }
    let failed: usize = outside.iter().map(|(_, _, times)| times).sum();
    let outside: Vec<String> = outside
        .into_iter()
        .map(|(condition, names, times)| {
            let times = match times {
                1 => String::new(),
                n => format!(", {n} checks"),
            };
            format!("`{condition}` ({}{times})", names.join(", "))
        })
        .collect();
    let unchecked: Vec<String> = data
        .header
        .study
        .conditions
        .iter()
        .filter(|condition| !checks.iter().any(|c| c.condition == condition.name))
        .map(|condition| format!("`{}`", condition.name))
        .collect();
    let mut detail = vec![format!(
        "{} of {} path checks within tolerance",
        checks.len() - failed,
        checks.len()
    )];
    if !outside.is_empty() {
        detail.push(format!("outside: {}", outside.join(", ")));
    }
    if again > 0 {
        detail.push(format!("{again} more before them were made again"));
    }
    if !unchecked.is_empty() {
        detail.push(format!("not checked: {}", unchecked.join(", ")));
    }
    gate(
        "path_within_tolerance",
        outside.is_empty() && unchecked.is_empty(),
        detail.join("; "),
    )
}

/// Whether the path was checked again under the same condition before any of its trials.
fn repeated(data: &RunData, check: &PathCheck, later: &[PathCheck]) -> bool {
    later
        .iter()
        .find(|next| next.condition == check.condition)
        .is_some_and(|next| {
            let between = check.checked_unix_ns..next.checked_unix_ns;
            !data.trials.iter().any(|trial| {
                trial.condition == check.condition && between.contains(&trial.started_unix_ns)
            })
        })
}

fn intact(data: &RunData) -> Gate {
    let corrupted: f64 = data
        .trials
        .iter()
        .filter_map(|trial| trial.metrics.get("messages_corrupted"))
        // A sum of nothing would be a negative zero.
        .fold(0.0, |sum, corrupted| sum + corrupted);
    gate(
        "data_intact",
        corrupted == 0.0,
        format!("{corrupted:.0} corrupted messages"),
    )
}
