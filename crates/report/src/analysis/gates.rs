//! What must hold for a run to count as passed.

use regatta_model::Outcome;

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
    let checks = &summary.path_checks;
    let outside: Vec<String> = checks
        .iter()
        .filter(|check| !check.within)
        .map(|check| {
            let names: Vec<&str> = out_of_tolerance(check).map(|q| q.name.as_str()).collect();
            format!("`{}` ({})", check.condition, names.join(", "))
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
        checks.len() - outside.len(),
        checks.len()
    )];
    if !outside.is_empty() {
        detail.push(format!("outside: {}", outside.join(", ")));
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

fn intact(data: &RunData) -> Gate {
    let corrupted: f64 = data
        .trials
        .iter()
        .filter_map(|trial| trial.metrics.get("messages_corrupted"))
        .sum();
    gate(
        "data_intact",
        corrupted == 0.0,
        format!("{corrupted:.0} corrupted messages"),
    )
}
