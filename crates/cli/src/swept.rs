//! Sweeps of a study on the command line: options beside them, and their description.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use regatta_model::{Part, Study, Sweep, Sweeps, SweptEntry, Transport, Words as _};

use crate::exit::Failure;

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
    let copy = sweeps
        .entry(Part::Transport, label)
        .map(|entry| SweptEntry {
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
pub fn check_distinct(study: &Study) -> Result<(), Failure> {
    let json = |value: serde_json::Result<serde_json::Value>| -> Result<String, Failure> {
        let mut value = value.map_err(Failure::failed)?;
        if let Some(object) = value.as_object_mut() {
            object.remove("name");
        }
        Ok(value.to_string())
    };
    let mut settings: BTreeMap<(Part, &str), String> = BTreeMap::new();
    for condition in &study.conditions {
        let text = json(serde_json::to_value(condition))?;
        settings.insert((Part::Condition, &condition.name), text);
    }
    for workload in &study.workloads {
        let text = json(serde_json::to_value(workload))?;
        settings.insert((Part::Workload, &workload.name), text);
    }
    let mut seen: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for entry in &study.sweeps.entries {
        let Some(setting) = settings.get(&(entry.part, &entry.name)) else {
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
                all if all.len() <= 12 => {
                    let texts: Vec<&str> = all.iter().map(|value| value.text.as_str()).collect();
                    texts.join(", ")
                }
                [first, .., last] => format!(
                    "{} values from {} to {}",
                    sweep.values.len(),
                    first.text,
                    last.text
                ),
                _ => String::new(),
            };
            let zipped = match position {
                0 => String::new(),
                _ => format!(", together with `{}`", members[0].full_key()),
            };
            let _ = writeln!(
                text,
                "  {}: {values}, {}{zipped}",
                sweep.full_key(),
                sweep.scale.word()
            );
        }
    }
}

/// Groups of the entries that sweeps made of one entry of the file.
pub struct Groups<'a> {
    part: Part,
    /// Number of entries of each group, and name of the last one, by base.
    groups: BTreeMap<&'a str, (usize, &'a str)>,
    /// Base by name.
    bases: BTreeMap<&'a str, &'a str>,
}

impl<'a> Groups<'a> {
    pub fn of(study: &'a Study, part: Part) -> Self {
        let mut groups: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        let mut bases = BTreeMap::new();
        for entry in study.sweeps.entries.iter().filter(|it| it.part == part) {
            let group = groups.entry(&entry.base).or_default();
            *group = (group.0 + 1, &entry.name);
            bases.insert(entry.name.as_str(), entry.base.as_str());
        }
        Self {
            part,
            groups,
            bases,
        }
    }

    /// Returns the heading of an entry: its name, or for the first of a group that of the group; `None` for
    /// the others of a group.
    pub fn heading(&mut self, name: &str) -> Option<String> {
        let Some(base) = self.bases.get(name) else {
            return Some(name.to_owned());
        };
        let (count, last) = self.groups.remove(base)?;
        Some(format!(
            "{base}, {count} {}s from `{name}` to `{last}`, of which the first",
            self.part.word()
        ))
    }
}
