//! Differences between the transports' stacks, from the facts that their drivers state.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regatta_model::{Condition, STACK_FACTS, StackFact, Text, TrialRecord, stack};

use super::summary::StackRow;
use crate::RunData;

/// Returns all facts under each condition, with the values of the transports whose trials state
/// them.
pub fn all(data: &RunData) -> Vec<StackRow> {
    let study = &data.header.study;
    let trials =
        (data.trials.iter()).into_group_map_by(|it| (it.transport.as_str(), it.condition.as_str()));
    let row = |(condition, fact): (&Condition, &StackFact)| {
        let values = study.transports.iter().filter_map(|transport| {
            let value = value(
                trials.get(&(&*transport.label, &*condition.name))?,
                fact.name,
            )?;
            Some((transport.label.clone(), value))
        });
        let values: BTreeMap<String, String> = values.collect();
        (!values.is_empty()).then(|| StackRow {
            condition: condition.name.clone(),
            fact: fact.name.to_owned(),
            title: fact.title.to_owned(),
            differs: stack::differ(fact.name, values.values().map(String::as_str)),
            values,
        })
    };
    let rows = study.conditions.iter().cartesian_product(STACK_FACTS);
    rows.filter_map(row).collect()
}

/// Returns the value of a fact in the trials of a transport under a condition; several values if
/// the trials differ.
fn value(trials: &[&TrialRecord], fact: &str) -> Option<String> {
    let facts = trials.iter().map(|trial| &trial.measurements.facts);
    let values: BTreeSet<&Text> = facts.filter_map(|facts| facts.get(fact)).collect();
    (!values.is_empty()).then(|| values.iter().join("; "))
}

/// Returns the `transports`, in backticks, of which at least one trial states `fact` as not known.
pub fn not_known(rows: &[&StackRow], transports: &[&str], fact: &str) -> Vec<String> {
    let is_not_known = |transport: &&str| {
        let mut values = rows
            .iter()
            .filter(|row| row.fact == fact)
            .filter_map(|row| row.values.get(*transport))
            .flat_map(|values| values.split("; "));
        values.any(|value| value.starts_with(stack::NOT_KNOWN))
    };
    (transports.iter().copied())
        .filter(is_not_known)
        .map(|transport| format!("`{transport}`"))
        .collect()
}

/// Returns the titles of those facts in which these transports differ.
pub fn differing<'a>(rows: &[&'a StackRow], transports: &[&str]) -> Vec<&'a str> {
    (rows.iter())
        .filter(|row| {
            let values = transports.iter().filter_map(|name| row.values.get(*name));
            stack::differ(&row.fact, values.map(String::as_str))
        })
        .map(|row| row.title.as_str())
        .collect()
}
