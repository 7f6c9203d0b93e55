//! Conversion of the options of a workload to keys of a study file, and their application to a parsed study.

use std::time::Duration;

use regatta_model::{
    Part, Study, SweptEntry, Workload,
    study::{KeyKind, LONGEST_NAME, PROBE_KEYS, change_workload, workload_kinds},
};
use toml::{Table, Value};

use super::{
    path_options::{name_of, table_of, value_of},
    sweeps,
};
use crate::{
    args::{SIZE, WorkArgs},
    exit::{Failure, OrFailure as _, Result, did_you_mean, refuse},
};

/// Returns the sections `[[workload]]` of a study file, without their brackets.
///
/// # Errors
/// A kind of workload that there is not, or a key that is given twice.
pub fn sections(args: &WorkArgs) -> Result<Vec<Value>> {
    let kinds: Vec<&str> = workload_kinds().map(|kind| kind.name()).collect();
    let chosen = match &args.workload[..] {
        [] => vec!["bulk"],
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    if let Some(missing) = chosen.iter().find(|kind| !kinds.contains(kind)) {
        let message = format!("there is no workload `{missing}`");
        return Err(unknown(&message, missing, &kinds));
    }
    let sizes = sizes(args)?;
    let section = |kind: &str, size: Option<&str>| {
        let mut section = keys(args, size)?;
        // A message is no larger than the transfer.
        if let (Some(size), None) = (size, args.keys.get("message"))
            && smaller_than_a_message(size)
        {
            section.insert("message".to_owned(), size.into());
        }
        section.insert("name".to_owned(), name(args, kind, size).into());
        section.insert("kind".to_owned(), kind.into());
        Ok(Value::Table(section))
    };
    let of_kind = |kind| sizes.iter().map(move |size| section(kind, *size));
    chosen.into_iter().flat_map(of_kind).collect()
}

/// Returns the sizes of the workloads: those of the option, or one that is not set.
///
/// # Errors
/// A size is given twice.
fn sizes(args: &WorkArgs) -> Result<Vec<Option<&str>>> {
    let given: Vec<&str> = args.keys.sizes().collect();
    for (position, size) in given.iter().enumerate() {
        refuse! {
            given[..position].contains(size) => "`--size` has {size} twice";
                "name each size once; `--rounds` says how often it is run";
        }
    }
    Ok(match given[..] {
        [] => vec![None],
        _ => given.into_iter().map(Some).collect(),
    })
}

/// Whether a size is below that of a message by default.
fn smaller_than_a_message(size: &str) -> bool {
    size.parse::<regatta_model::Bytes>()
        .is_ok_and(|size| size.0 < 10_000)
}

/// Name of a workload of the command line: its kind and size, and the other keys that are given.
fn name(args: &WorkArgs, kind: &str, size: Option<&str>) -> String {
    let volume = match (kind, args.keys.get("duration"), size) {
        ("bulk" | "stop-and-wait", duration, size) => {
            format!(" {}", duration.or(size).unwrap_or("10 MB"))
        }
        _ => String::new(),
    };
    let others = args.keys.0.iter();
    let others = others
        .filter(|(key, _)| ![SIZE, "duration", "message"].contains(&key.name))
        .map(|(key, value)| format!("{} {value}", key.name.replace('_', " ")));
    let parts: Vec<String> = [format!("{kind}{volume}")]
        .into_iter()
        .chain(others)
        .collect();
    name_of(&parts)
}

/// Returns the given keys as a table of a study file, with this one of the sizes.
fn keys(args: &WorkArgs, size: Option<&str>) -> Result<Table> {
    let mut table = Table::new();
    for (key, typed) in &args.keys.0 {
        let typed = match key.name {
            SIZE => size.unwrap_or(typed),
            _ => typed,
        };
        table.insert(key.name.to_owned(), value_of(key.kind, typed)?);
    }
    if let Some(probe) = &args.probe {
        let probe = table_of(&probe.each, kind_of_probe)?;
        table.insert("probe".to_owned(), Value::Table(probe));
    }
    Ok(table)
}

fn kind_of_probe(key: &str) -> Option<KeyKind> {
    let known = PROBE_KEYS.iter().find(|known| known.name == key);
    known.map(|known| known.kind)
}

/// Keeps the workloads that `--workload` names; returns the option as it was written.
///
/// # Errors
/// The study has no such workload.
pub fn select(args: &WorkArgs, study: &mut Study) -> Result<Option<String>> {
    if args.workload.is_empty() {
        return Ok(None);
    }
    let sweeps = &study.sweeps;
    let is = |workload: &Workload, name: &str| {
        let base = sweeps.entry(regatta_model::Part::Workload, &workload.name);
        workload.name == name
            || workload.kind.name() == name
            || base.is_some_and(|entry| entry.base == name)
    };
    if let Some(missing) = (args.workload.iter())
        .find(|name| !study.workloads.iter().any(|workload| is(workload, name)))
    {
        let names: Vec<&str> = study.workloads.iter().map(|it| it.name.as_str()).collect();
        let message = format!("the study `{}` has no workload `{missing}`", study.name);
        return Err(unknown(&message, missing, &names));
    }
    let (selected, others): (Vec<_>, Vec<_>) = (study.workloads.iter().cloned())
        .partition(|workload| args.workload.iter().any(|name| is(workload, name)));
    study.workloads = selected;
    (study.published).retain(|published| {
        let name = published.workload.as_ref();
        !name.is_some_and(|name| others.iter().any(|workload| workload.name == *name))
    });
    sweeps::forget_missing(study);
    Ok(Some(format!("--workload {}", args.workload.join(","))))
}

fn unknown(message: &str, name: &str, known: &[&str]) -> Failure {
    let near = did_you_mean(name, known);
    Failure::input(
        message,
        format!("{near}the workloads are: {}", known.join(", ")),
    )
}

/// Changes the workloads of a study according to the options, of several sizes into one for each; returns each change as
/// it was written.
///
/// # Errors
/// A workload has no such key, or the changed workload would be impossible.
pub fn apply(args: &WorkArgs, deadline: Duration, study: &mut Study) -> Result<Vec<String>> {
    if !args.changes_a_workload() {
        return Ok(Vec::new());
    }
    let sizes = sizes(args)?;
    let is_swept = |it: &SweptEntry| it.part == Part::Workload;
    refuse! {
        sizes.len() > 1 && study.sweeps.entries.iter().any(is_swept) =>
            "several sizes beside a study that sweeps its workloads";
            "give one `--size`, or write the sizes into a `[[sweep]]` of the study";
    }
    let mut changed = Vec::new();
    for workload in &study.workloads {
        for size in &sizes {
            let keys = toml::to_string(&keys(args, *size)?)?;
            let doing = format!("these options do not fit the workload `{}`", workload.name);
            let mut workload = change_workload(workload, deadline, &keys, "command line")
                .map_err(Failure::of_options)
                .context(doing)?;
            if let (Some(size), true) = (size, sizes.len() > 1) {
                let room = LONGEST_NAME.saturating_sub(size.chars().count() + 1);
                let name: String = workload.name.chars().take(room).collect();
                workload.name = format!("{name} {size}");
            }
            changed.push(workload);
        }
    }
    study.workloads = changed;
    let all: Vec<&str> = args.keys.sizes().collect();
    let all = (!all.is_empty()).then(|| format!("--size \"{}\"", all.join(",")));
    let others = args.keys.0.iter().filter(|(key, _)| key.name != SIZE);
    let others = others.map(|(key, value)| format!("--{} \"{value}\"", key.name.replace('_', "-")));
    let options = all.into_iter().chain(others);
    let probe = args.probe.iter();
    let probe = probe.map(|probe| format!("--probe \"{}\"", probe.text));
    Ok(options.chain(probe).collect())
}
