//! Options that are keys of a study itself, beside those of its conditions and workloads.

use regatta_model::{BedKind, Bytes, CaptureSetup, Clock, Emulator, Named, Study, Until};
use toml::{Table, Value};

use crate::{
    args::{PathArgs, Rounds, RunArgs, TwoHosts, exact},
    exit::{Result, refuse},
};

/// Keys of a run's place, which do not describe what is measured.
const OF_PLACE: [&str; 2] = ["capture", "kernel"];

/// Returns the keys that are given, and each option as it may be typed again. `before` is the study whose keys they
/// replace, if there is one.
///
/// # Errors
/// An option of a rule that ends a run, without such a rule.
pub fn keys(args: &RunArgs, before: Option<&Study>) -> Result<(Table, Vec<String>)> {
    let mut keys = emulation(&args.path);
    // Default of two guests. Another one is refused with the reason.
    let emulator = (args.path.emulator).or(before.map(|study| study.path.emulator));
    let has_ends = matches!(emulator, Some(Emulator::Auto | Emulator::Netem));
    if args.guests == Some(2) && args.path.placement.is_none() && has_ends {
        keys.insert("placement".to_owned(), "ends".into());
    }
    // The names of two hosts imply the bed `hosts`.
    let bed = args.bed.filter(|bed| *bed != BedKind::Hosts);
    for (key, value) in [
        ("title", args.title.clone().map(Value::from)),
        ("rank_by", args.rank_by.clone().map(Value::from)),
        // The argument's range is that of TOML's numbers.
        ("seed", args.seed.map(|seed| Value::from(seed as i64))),
        ("capture", args.capture.map(|it| snap(it).into())),
        ("bed", bed.map(|bed| bed.as_str().into())),
        (
            "hosts",
            (args.hosts.as_ref()).map(|TwoHosts(names)| names.to_vec().into()),
        ),
        ("guests", args.guests.map(|guests| i64::from(guests).into())),
        (
            "clock",
            args.clock.map(|clock: Clock| clock.as_str().into()),
        ),
        (
            "kernel",
            (args.kernel.as_ref()).map(|kernel| (*kernel.to_string_lossy()).into()),
        ),
        ("deadline", args.deadline.map(|it| exact::time(it).into())),
        (
            "connect_deadline",
            args.connect_deadline.map(|it| exact::time(it).into()),
        ),
    ] {
        keys.extend(value.map(|value| (key.to_owned(), value)));
    }
    let typed = keys
        .iter()
        .filter(|(key, _)| !OF_PLACE.contains(&key.as_str()));
    let mut typed: Vec<String> = typed.map(|(key, value)| option(key, value)).collect();
    keys.extend(rounds(args, before)?.map(|rounds| ("rounds".to_owned(), rounds)));
    let of_rounds = [
        args.rounds.map(|rounds| match rounds {
            Rounds::Number(rounds) => format!("--rounds {rounds}"),
            Rounds::Decided => format!("--rounds {}", Until::DECIDED),
        }),
        args.at_most.map(|rounds| format!("--at-most {rounds}")),
        args.time_limit
            .map(|time| format!("--for \"{}\"", exact::time(time))),
    ];
    typed.extend(of_rounds.into_iter().flatten());
    Ok((keys, typed))
}

/// Returns a key with its value as an option.
fn option(key: &str, value: &Value) -> String {
    let value = match value {
        Value::Array(items) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            items.join(",")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("--{} \"{value}\"", key.replace('_', "-"))
}

/// Returns the keys of the path's emulation that are given.
pub fn emulation(args: &PathArgs) -> Table {
    let keys = [
        ("emulator", args.emulator.map(Named::as_str)),
        ("placement", args.placement.map(Named::as_str)),
        ("loss_by", args.loss_by.map(Named::as_str)),
        ("offloads", args.offloads.map(Named::as_str)),
    ];
    let given = keys
        .into_iter()
        .filter_map(|(key, name)| Some((key.to_owned(), name?.into())));
    given.collect()
}

/// Formats the part of packets that a capture keeps, as in a study.
pub fn snap(value: CaptureSetup) -> String {
    match value.snap_bytes {
        _ if value == CaptureSetup::TIMES => "times".to_owned(),
        None => "full".to_owned(),
        Some(snap) => exact::bytes(Bytes(snap.into())),
    }
}

/// Returns the value of `rounds`: a number, or the rule of the option or of the study with its bounds.
fn rounds(args: &RunArgs, before: Option<&Study>) -> Result<Option<Value>> {
    let before = before.filter(|study| study.until.is_some());
    let until = match args.rounds {
        Some(Rounds::Number(_)) => None,
        Some(Rounds::Decided) => Some(Until::Decided),
        None => before.and_then(|study| study.until),
    };
    let bounds = [
        ("--at-most", args.at_most.is_some()),
        ("--for", args.time_limit.is_some()),
    ];
    let mut bounds = bounds.into_iter().filter(|(_, is_given)| *is_given);
    let bound = bounds.next().map(|(flag, _)| flag);
    let Some(until) = until else {
        let flag = bound.unwrap_or_default();
        refuse! {
            bound.is_some() => "`{flag}` is of a run that ends by a rule, and this one has all its rounds";
            "add `--rounds decided`";
        }
        return Ok(match args.rounds {
            Some(Rounds::Number(rounds)) => Some(rounds.into()),
            _ => None,
        });
    };
    if args.rounds.is_none() && bound.is_none() {
        return Ok(None);
    }
    let least = until.min_rounds();
    let at_most = args.at_most.or(before.map(|study| study.rounds));
    refuse! {
        args.at_most.is_some_and(|rounds| rounds < least) =>
            "`--at-most` of a rule that looks at a run after {least} rounds";
            "write `--at-most {least}` or more";
    }
    let time_limit = args
        .time_limit
        .or(before.and_then(|study| study.time_limit));
    let mut table = Table::new();
    let rule = match until {
        Until::Decided => Until::DECIDED.to_owned(),
        Until::Narrow(width) => exact::ratio(width),
    };
    table.insert("until".to_owned(), rule.into());
    table.insert(
        "at_most".to_owned(),
        at_most.unwrap_or(Until::AT_MOST).into(),
    );
    table.extend(time_limit.map(|it| ("for".to_owned(), exact::time(it).into())));
    Ok(Some(table.into()))
}
