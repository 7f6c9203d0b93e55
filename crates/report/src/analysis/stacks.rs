//! Differences between the transports' stacks, from the facts that their drivers state.

use std::collections::{BTreeMap, BTreeSet};

use regatta_model::{STACK_FACTS, TrialRecord, stack};

use super::summary::StackRow;
use crate::RunData;

/// Returns all facts under each condition, with the values of the transports whose trials state
/// them.
pub fn all(data: &RunData) -> Vec<StackRow> {
    let study = &data.header.study;
    let mut trials: BTreeMap<(&str, &str), Vec<&TrialRecord>> = BTreeMap::new();
    for trial in &data.trials {
        let cell = (trial.transport.as_str(), trial.condition.as_str());
        trials.entry(cell).or_default().push(trial);
    }
    let mut rows = Vec::new();
    for condition in &study.conditions {
        for fact in STACK_FACTS {
            let values: BTreeMap<String, String> = (study.transports.iter())
                .filter_map(|transport| {
                    let cell = (transport.label.as_str(), condition.name.as_str());
                    let value = value(trials.get(&cell)?, fact.name)?;
                    Some((transport.label.clone(), value))
                })
                .collect();
            if values.is_empty() {
                continue;
            }
            rows.push(StackRow {
                condition: condition.name.clone(),
                fact: fact.name.to_owned(),
                title: fact.title.to_owned(),
                differs: differ(values.values()),
                values,
            });
        }
    }
    rows
}

/// Returns the value of a fact in the trials of a transport under a condition; several values if
/// the trials differ.
fn value(trials: &[&TrialRecord], fact: &str) -> Option<String> {
    let values: BTreeSet<&str> = (trials.iter())
        .filter_map(|trial| trial.measurements.facts.get(fact).map(String::as_str))
        .collect();
    let values: Vec<&str> = values.into_iter().collect();
    (!values.is_empty()).then(|| values.join("; "))
}

/// Whether any two values differ. One that is not known, or not applicable, is no difference.
fn differ<'a>(values: impl Iterator<Item = &'a String>) -> bool {
    let comparable: BTreeSet<&String> =
        values.filter(|value| stack::is_comparable(value)).collect();
    comparable.len() > 1
}

/// Returns the titles of those facts in which these transports differ.
pub fn differing<'a>(rows: &[&'a StackRow], transports: &[&str]) -> Vec<&'a str> {
    (rows.iter())
        .filter(|row| differ(transports.iter().filter_map(|name| row.values.get(*name))))
        .map(|row| row.title.as_str())
        .collect()
}
