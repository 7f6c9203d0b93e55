//! Sweeps of a study on the command line: options beside them, and their description.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use regatta_model::{
    Condition, Named as _, Part, Study, Sweep, Sweeps, SweptEntry, Transport, Workload,
};

use crate::exit::{Failure, Result};

/// Returns the transports that sweeps made of the one with this label.
pub fn transports_of(study: &Study, label: &str) -> Vec<Transport> {
    let entries = study.sweeps.entries.iter();
    let names: BTreeSet<&str> = entries
        .filter(|entry| entry.part == Part::Transport && entry.base == label)
        .map(|entry| entry.name.as_str())
        .collect();
    let transports = study.transports.iter();
    transports
        .filter(|transport| names.contains(transport.label.as_str()))
        .cloned()
        .collect()
}

/// Leaves out the entries of transports and workloads that the study no longer has.
pub fn forget_missing(study: &mut Study) {
    let Study {
        transports,
        workloads,
        sweeps,
        ..
    } = study;
    sweeps.entries.retain(|entry| match entry.part {
        Part::Transport => transports.iter().any(|it| it.label == entry.name),
        Part::Condition => true,
        Part::Workload => workloads.iter().any(|it| it.name == entry.name),
    });
}

/// Gives a second instance of a transport the parameters of the first.
pub fn copy_entry(sweeps: &mut Sweeps, label: &str, again: &str) {
    let first = sweeps.entry(Part::Transport, label);
    let copy = first.map(|entry| SweptEntry {
        name: again.to_owned(),
        base: format!("{}-again", entry.base),
        ..entry.clone()
    });
    sweeps.entries.extend(copy);
}

/// Checks that options have not replaced what a sweep varies.
///
/// # Errors
/// Two conditions or workloads of one sweep are the same.
pub fn check_distinct(study: &Study) -> Result<()> {
    let condition = |it: &Condition| serde_json::to_value(it).map(|json| (Part::Condition, json));
    let workload = |it: &Workload| serde_json::to_value(it).map(|json| (Part::Workload, json));
    let all = (study.conditions.iter().map(condition)).chain(study.workloads.iter().map(workload));
    let mut settings: BTreeMap<(Part, String), String> = BTreeMap::new();
    for setting in all {
        let (part, mut json) = setting?;
        let name = json["name"].take();
        let name = name.as_str().unwrap_or_default().to_owned();
        settings.insert((part, name), json.to_string());
    }
    let mut seen: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for entry in &study.sweeps.entries {
        let Some(setting) = settings.get(&(entry.part, entry.name.clone())) else {
            continue;
        };
        if let Some(other) = seen.insert((&entry.base, setting), &entry.name) {
            return Err(Failure::input(
                format!(
                    "an option sets what the study sweeps: `{other}` and `{}` would be the same",
                    entry.name
                ),
                "leave the option out, or take the `[[sweep]]` out of the study",
            ));
        }
    }
    Ok(())
}

/// Describes the sweeps of a study, a line for each.
pub fn describe(sweeps: &Sweeps, text: &mut String) {
    if sweeps.is_empty() {
        return;
    }
    text.push_str("\nsweeps\n");
    for axis in sweeps.axes() {
        let members: Vec<&Sweep> = axis
            .iter()
            .filter_map(|at| sweeps.sweeps.get(*at))
            .collect();
        for (position, sweep) in members.iter().enumerate() {
            let values = match &sweep.values[..] {
                [first, .., last] if sweep.values.len() > 12 => {
                    let number = sweep.values.len();
                    format!("{number} values from {} to {}", first.text, last.text)
                }
                all => {
                    let texts: Vec<&str> = all.iter().map(|value| value.text.as_str()).collect();
                    texts.join(", ")
                }
            };
            let zipped = match position {
                0 => String::new(),
                _ => format!(", together with `{}`", members[0].full_key()),
            };
            let _ = writeln!(
                text,
                "  {}: {values}, {}{zipped}",
                sweep.full_key(),
                sweep.scale.as_str()
            );
        }
    }
}

/// Returns a function that gives the heading of an entry: its name, or for the first of those that sweeps made of one
/// entry of the file that of the group; `None` for the others of a group.
pub fn headings(study: &Study, part: Part) -> impl FnMut(&str) -> Option<String> {
    // Number of entries of each group, and name of the last one, by base.
    let mut groups: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let mut bases = BTreeMap::new();
    for entry in study.sweeps.entries.iter().filter(|it| it.part == part) {
        let group = groups.entry(&entry.base).or_default();
        *group = (group.0 + 1, &entry.name);
        bases.insert(entry.name.as_str(), entry.base.as_str());
    }
    move |name| {
        let Some(base) = bases.get(name) else {
            return Some(name.to_owned());
        };
        let (count, last) = groups.remove(base)?;
        let kind = part.as_str();
        Some(format!(
            "{base}, {count} {kind}s from `{name}` to `{last}`, of which the first"
        ))
    }
}
