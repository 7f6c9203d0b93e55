//! Differences between two runs that are no measurements: study, program, hosts, stacks.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde_json::Value;

use super::types::{Change, ChangeKind};
use crate::{RunData, Summary, analysis::Build, format::list};

/// Parts of a study that do not change what is measured. Seed and bed are among the changes of the
/// run, published figures and texts say nothing about it.
const APART: [&str; 7] = [
    "title",
    "description",
    "source",
    "published",
    "claims",
    "sweeps",
    "bed",
];

/// Returns all differences between two runs, by kind.
pub fn between(from: (&RunData, &Summary), to: (&RunData, &Summary)) -> Vec<Change> {
    let mut changes = of_run(from.1, to.1);
    changes.extend(of_programs(from.0, to.0));
    changes.extend(of_study(from.0, to.0));
    changes.extend(of_hosts(from.0, to.0));
    changes.extend(of_stacks(from.1, to.1));
    changes
}

fn change(
    kind: ChangeKind,
    name: &str,
    from: Option<String>,
    to: Option<String>,
) -> Option<Change> {
    (from != to).then(|| Change {
        kind,
        name: name.to_owned(),
        of: Vec::new(),
        from,
        to,
    })
}

fn of_run(from: &Summary, to: &Summary) -> Vec<Change> {
    let differing =
        |kind, name, of: &dyn Fn(&Summary) -> Option<String>| change(kind, name, of(from), of(to));
    let state = |summary: &Summary| {
        let state = &summary.state;
        let (saved, planned) = (state.trials_saved, state.trials_planned);
        Some(format!("{}, {saved} of {planned} trials", state.name))
    };
    let doubted = |summary: &Summary| {
        let trials: u64 = summary.cells.iter().map(|cell| cell.path_doubted).sum();
        Some(trials.to_string())
    };
    let version = |summary: &Summary| Some(summary.regatta_version.clone());
    let mut changes = vec![
        differing(ChangeKind::Run, "bed", &|summary| Some(summary.bed.clone())),
        differing(ChangeKind::Run, "state", &state),
        differing(
            ChangeKind::Run,
            "trials over a path that was not as configured",
            &doubted,
        ),
        differing(ChangeKind::Program, "version of Regatta", &version),
    ];
    changes.extend(of_builds(&from.builds, &to.builds));
    changes.into_iter().flatten().collect()
}

/// Part of a build: its name among the changes, and its value.
type BuildPart = (&'static str, fn(&Build) -> Option<String>);

const BUILD_PARTS: [BuildPart; 6] = [
    ("commit of Regatta", |build| {
        let state = match build.dirty {
            Some(true) => " with changes",
            _ => "",
        };
        Some(short(build.commit.as_deref()?) + state)
    }),
    ("profile of Regatta", |build| build.profile.clone()),
    ("`opt-level` of Regatta", |build| build.opt_level.clone()),
    ("debug assertions of Regatta", |build| {
        let on = build.debug_assertions?;
        Some(if on { "on" } else { "off" }.to_owned())
    }),
    ("`Cargo.lock` of Regatta, SHA-256", |build| {
        build.lockfile_sha256.as_deref().map(short)
    }),
    ("compiler of Regatta", |build| build.compiler.clone()),
];

/// Returns the differences of the builds of the program: part by part, where all hosts of a run had the same.
fn of_builds(from: &[Build], to: &[Build]) -> Vec<Option<Change>> {
    match [from, to] {
        [[from], [to]] => (BUILD_PARTS.iter())
            .map(|(name, of)| change(ChangeKind::Program, name, of(from), of(to)))
            .collect(),
        sides => {
            let text = |builds: &[Build]| {
                let texts = builds.iter().map(Build::text);
                (!builds.is_empty()).then(|| list(texts))
            };
            let [from, to] = sides.map(text);
            vec![change(ChangeKind::Program, "build of Regatta", from, to)]
        }
    }
}

/// Returns the beginning of a digest, as many characters as tell two apart.
fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// Facts of trials about an external program, each with its name among the changes.
const PROGRAM_FACTS: [(&str, &str); 2] = [
    ("version of the program", "external"),
    ("program, SHA-256", "external.sha256"),
];

/// Returns the differences of the external programs that both runs tell.
fn of_programs(from: &RunData, to: &RunData) -> Vec<Change> {
    let mut changes = Vec::new();
    for (title, fact) in PROGRAM_FACTS {
        let ends = ["sender", "receiver"].map(|end| format!("{fact}.{end}"));
        let mut programs: BTreeMap<&str, [BTreeSet<String>; 2]> = BTreeMap::new();
        for (side, data) in [from, to].into_iter().enumerate() {
            for trial in &data.trials {
                let facts = ends
                    .iter()
                    .filter_map(|end| trial.measurements.facts.get(end));
                let known = programs.entry(&trial.transport).or_default();
                known[side].extend(facts.map(|value| match fact {
                    "external" => value.to_string(),
                    _ => short(value),
                }));
            }
        }
        for (transport, sides) in programs {
            if sides.iter().all(|values| !values.is_empty()) {
                let texts = sides.map(|values| Some(values.iter().join("; ")));
                add(&mut changes, ChangeKind::Program, title, transport, texts);
            }
        }
    }
    changes
}

fn of_study(from: &RunData, to: &RunData) -> Vec<Change> {
    // A study consists of plain values; one that does not would show as no difference.
    let [from, to] =
        [from, to].map(|data| serde_json::to_value(&data.header.study).unwrap_or_default());
    let mut changes = Vec::new();
    differ("", Some(&from), Some(&to), &mut changes);
    changes
}

/// Adds the differences of two values of a study below the path `name`.
fn differ(name: &str, from: Option<&Value>, to: Option<&Value>, changes: &mut Vec<Change>) {
    if from == to {
        return;
    }
    let (Some(a), Some(b)) = (from.and_then(entries), to.and_then(entries)) else {
        let text = |value: Option<&Value>| value.filter(|value| !value.is_null()).map(value_text);
        changes.extend(change(ChangeKind::Study, name, text(from), text(to)));
        return;
    };
    let known: BTreeSet<&String> = a.keys().collect();
    for key in a.keys().chain(b.keys().filter(|key| !known.contains(key))) {
        if name.is_empty() && APART.contains(&key.as_str()) {
            continue;
        }
        let below = match name {
            "" => key.clone(),
            _ => format!("{name}.{key}"),
        };
        differ(&below, a.get(key).copied(), b.get(key).copied(), changes);
    }
}

/// Returns the parts of a table by key, and those of a list of named tables by name.
fn entries(value: &Value) -> Option<BTreeMap<String, &Value>> {
    match value {
        Value::Object(table) => {
            let entries = table.iter();
            Some(entries.map(|(key, value)| (key.clone(), value)).collect())
        }
        Value::Array(items) if !items.is_empty() => {
            let named = items.iter().map(|item| {
                let name = item.get("label").or_else(|| item.get("name"))?;
                Some((name.as_str()?.to_owned(), item))
            });
            named.collect()
        }
        _ => None,
    }
}

/// Returns a value as text. A table that only one run has is named, not printed.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) => "present".to_owned(),
        other => other.to_string(),
    }
}

fn of_hosts(from: &RunData, to: &RunData) -> Vec<Change> {
    let mut changes = Vec::new();
    let sides = [&from.header.hosts, &to.header.hosts];
    let hosts: BTreeSet<&String> = sides.iter().flat_map(|hosts| hosts.keys()).collect();
    for host in hosts {
        let facts = sides.map(|hosts| hosts.get(host));
        let names = facts.iter().flatten().flat_map(|facts| facts.0.keys());
        for name in BTreeSet::from_iter(names) {
            let is_volatile = facts.iter().flatten().any(|facts| facts.is_volatile(name));
            // The builds are among the changes of the program.
            if is_volatile || name.starts_with("build.") {
                continue;
            }
            let values = facts.map(|facts| facts?.0.get(name).cloned());
            add(&mut changes, ChangeKind::Host, name, host, values);
        }
    }
    changes
}

fn of_stacks(from: &Summary, to: &Summary) -> Vec<Change> {
    let mut values: BTreeMap<(&str, &str), [BTreeSet<&str>; 2]> = BTreeMap::new();
    for (side, summary) in [from, to].into_iter().enumerate() {
        for row in &summary.stacks {
            for (transport, value) in &row.values {
                let known = values.entry((&row.title, transport)).or_default();
                known[side].insert(without_noise(&row.fact, value));
            }
        }
    }
    let mut changes = Vec::new();
    for ((title, transport), sides) in values {
        // A transport that only one run has is a difference of the studies.
        if sides.iter().all(|values| !values.is_empty()) {
            let texts = sides.map(|values| Some(values.iter().join("; ")));
            add(&mut changes, ChangeKind::Stack, title, transport, texts);
        }
    }
    changes
}

/// Returns the part of a fact's value that says something about the stack: the size of the run's own certificate differs
/// from run to run by the encoding of its signature.
fn without_noise<'a>(fact: &str, value: &'a str) -> &'a str {
    match fact {
        "tls.certificate" => value.split_once(", ").map_or(value, |(key, _)| key),
        _ => value,
    }
}

/// Adds a difference of a host or transport to the equal one of another, or as a new one.
fn add(
    changes: &mut Vec<Change>,
    kind: ChangeKind,
    name: &str,
    of: &str,
    values: [Option<String>; 2],
) {
    let [from, to] = values;
    let Some(mut new) = change(kind, name, from, to) else {
        return;
    };
    let is_same = |it: &&mut Change| it.name == name && it.from == new.from && it.to == new.to;
    match changes.iter_mut().find(is_same) {
        Some(known) => known.of.push(of.to_owned()),
        None => {
            new.of.push(of.to_owned());
            changes.push(new);
        }
    }
}
