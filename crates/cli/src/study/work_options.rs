//! Options of a workload as keys of a study.

use regatta_model::{
    Part, Study, SweptEntry, Workload,
    study::{KeyKind, LONGEST_NAME, PROBE_KEYS, workload_kinds},
};
use toml::{Table, Value};

use super::{
    path_options::{name_of, table_of, value_of},
    sweeps,
};
use crate::{
    args::{SIZE, WorkArgs},
    exit::{Failure, Result, did_you_mean, refuse},
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
pub fn sizes(args: &WorkArgs) -> Result<Vec<Option<&str>>> {
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

/// Returns the keys of a workload that are given, with this one of the sizes.
///
/// # Errors
/// A key is given twice.
pub fn keys(args: &WorkArgs, size: Option<&str>) -> Result<Table> {
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

/// Returns whether the options are about a workload of a study, by its name, its kind or that from which a sweep made it;
/// about all of them without `--workload`. A workload that the study does not have is one of competitions alone.
pub fn is_meant(args: &WorkArgs, study: &Study, name: &str) -> bool {
    let known = study.workloads.iter().find(|work| work.name == name);
    let mut chosen = study
        .workloads
        .iter()
        .filter(|it| is_chosen(args, study, it));
    chosen.any(|it| {
        let is_base = || known.is_none_or(|known| known.kind == it.kind);
        it.name == name || it.competition.is_some() && is_base()
    })
}

/// Whether `--workload` names a workload; without the option all are.
fn is_chosen(args: &WorkArgs, study: &Study, workload: &Workload) -> bool {
    let mut names = args.workload.iter();
    args.workload.is_empty() || names.any(|name| is(study, workload, name))
}

fn is(study: &Study, workload: &Workload, name: &str) -> bool {
    let base = study.sweeps.entry(Part::Workload, &workload.name);
    workload.name == name
        || workload.kind.name() == name
        || base.is_some_and(|entry| entry.base == name)
}

/// Checks that a study has the workloads that `--workload` names.
///
/// # Errors
/// The study has no such workload.
pub fn check(args: &WorkArgs, study: &Study) -> Result<()> {
    let mut names = args.workload.iter();
    let is_there = |name: &str| study.workloads.iter().any(|it| is(study, it, name));
    let Some(missing) = names.find(|name| !is_there(name)) else {
        return Ok(());
    };
    let names: Vec<&str> = study.workloads.iter().map(|it| it.name.as_str()).collect();
    let message = format!("the study `{}` has no workload `{missing}`", study.name);
    Err(unknown(&message, missing, &names))
}

/// Keeps the workloads that `--workload` names.
pub fn select(args: &WorkArgs, study: &mut Study) {
    let (selected, others): (Vec<_>, Vec<_>) =
        (study.workloads.iter().cloned()).partition(|workload| is_chosen(args, study, workload));
    study.workloads = selected;
    (study.published).retain(|published| {
        let name = published.workload.as_ref();
        !name.is_some_and(|name| others.iter().any(|workload| workload.name == *name))
    });
    sweeps::forget_missing(study);
}

fn unknown(message: &str, name: &str, known: &[&str]) -> Failure {
    let near = did_you_mean(name, known);
    Failure::input(
        message,
        format!("{near}the workloads are: {}", known.join(", ")),
    )
}

/// Checks that several sizes are of workloads that no sweep has made.
///
/// # Errors
/// The study sweeps its workloads.
pub fn check_sizes(sizes: &[Option<&str>], study: &Study) -> Result<()> {
    let is_swept = |it: &SweptEntry| it.part == Part::Workload;
    refuse! {
        sizes.len() > 1 && study.sweeps.entries.iter().any(is_swept) =>
            "several sizes beside a study that sweeps its workloads";
            "give one `--size`, or write the sizes into a `[[sweep]]` of the study";
    }
    Ok(())
}

/// Returns the study with the workloads of several studies, which have one of the sizes each: one workload after another,
/// with each size and named after it.
pub fn each_size(sizes: &[Option<&str>], mut of_sizes: Vec<Study>) -> Study {
    let count = of_sizes[0].workloads.len();
    let of_position = |position: usize| {
        let with_sizes = sizes.iter().zip(&of_sizes);
        with_sizes.filter_map(move |(size, study)| {
            let mut workload = study.workloads.get(position)?.clone();
            if let (Some(size), true) = (size, sizes.len() > 1) {
                let room = LONGEST_NAME.saturating_sub(size.chars().count() + 1);
                let name: String = workload.name.chars().take(room).collect();
                workload.name = format!("{name} {size}");
            }
            Some(workload)
        })
    };
    let workloads = (0..count).flat_map(of_position).collect();
    Study {
        workloads,
        ..of_sizes.swap_remove(0)
    }
}

/// Returns each option as it may be typed again.
pub fn typed(args: &WorkArgs) -> Vec<String> {
    let sizes: Vec<&str> = args.keys.sizes().collect();
    let sizes = (!sizes.is_empty()).then(|| format!("--size \"{}\"", sizes.join(",")));
    let others = args.keys.0.iter().filter(|(key, _)| key.name != SIZE);
    let others = others.map(|(key, value)| format!("--{} \"{value}\"", key.name.replace('_', "-")));
    let probe = args.probe.iter();
    let probe = probe.map(|probe| format!("--probe \"{}\"", probe.text));
    sizes.into_iter().chain(others).chain(probe).collect()
}
