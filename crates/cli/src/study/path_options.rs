//! Options of a path as keys of a study.

use std::path::Path;

use regatta_model::{
    Bytes, Emulator, PathSetup, UnitError,
    study::{KeyKind, LONGEST_NAME, PATH_KEYS},
};
use toml::{Table, Value};

use super::tunings;
use crate::{
    args::{Assignment, PathArgs, exact, option_messages, table},
    exit::{Failure, Result},
    text_file,
};

/// Returns a function that reads the files that a condition names, traces and lists, relative to
/// `directory`.
pub fn files_in(directory: &Path) -> impl Fn(&str) -> Result<String, UnitError> {
    let directory = directory.to_owned();
    move |name| {
        let wrong = |message: String| UnitError {
            message,
            hint: "name a text file, as seen from the study or, on the command line, from here"
                .to_owned(),
        };
        text_file::read(&directory.join(name))
            .map_err(|error| wrong(format!("cannot read `{name}`: {error}")))
    }
}

/// Option that was given.
struct GivenOption {
    /// Key of a condition; with hyphens, the option's name.
    key: &'static str,
    /// Value as in a study file.
    value: Value,
    /// Value as a user may type it again.
    typed: String,
    /// Its part of the condition's name.
    name_part: String,
    /// Position of that part.
    position: u32,
}

/// Returns the given options, in the order in which a condition's name lists them. Several tunings are none of one
/// condition.
fn given(args: &PathArgs) -> Result<Vec<GivenOption>> {
    let mut all = Vec::new();
    let has_tunings = !tunings::several(args).is_empty();
    for (key, typed) in &args.keys.0 {
        if key.name == "tuning" && has_tunings {
            continue;
        }
        let shown = match key.kind {
            KeyKind::PacketSize => format!("{} B", size(typed)),
            _ => typed.clone(),
        };
        all.push(GivenOption {
            key: key.name,
            value: value_of(key.kind, typed)?,
            typed: typed.clone(),
            name_part: key.in_name.replace("{}", &shown),
            position: key.name_position,
        });
    }
    for (key, keys, position) in [
        ("forward", &args.forward, 22),
        ("reverse", &args.reverse, 23),
    ] {
        if !keys.is_empty() {
            let typed: Vec<_> = keys
                .iter()
                .map(|k| format!("{}={}", k.key, k.value))
                .collect();
            all.push(GivenOption {
                key,
                value: Value::Table(table_of(keys, kind_of)?),
                name_part: format!("{key} {}", typed.join(" ")),
                typed: typed.join(&format!("\" --{key} \"")),
                position,
            });
        }
    }
    if !args.step.is_empty() {
        let mut tables = Vec::new();
        let mut typed = Vec::new();
        for step in &args.step {
            let at = exact::time(step.at);
            let mut table = table_of(&step.becomes.each, kind_of)?;
            typed.push(format!("{at}:{}", step.becomes.text));
            table.insert("at".into(), Value::String(at));
            tables.push(Value::Table(table));
        }
        all.push(GivenOption {
            key: "step",
            value: Value::Array(tables),
            name_part: typed.join(", "),
            typed: typed.join("\" --step \""),
            position: 25,
        });
    }
    all.sort_by_key(|given| given.position);
    Ok(all)
}

/// Returns the bytes of a size that was checked as an argument.
fn size(text: &str) -> u64 {
    text.parse().map_or(0, |bytes: Bytes| bytes.0)
}

/// Returns the kind of values that a key of a condition takes.
fn kind_of(key: &str) -> Option<KeyKind> {
    let known = PATH_KEYS.iter().find(|known| known.name == key);
    known.map(|known| known.kind)
}

/// Converts a value to one of a study file.
pub fn value_of(kind: KeyKind, text: &str) -> Result<Value> {
    let known = match kind {
        KeyKind::Flag => text.parse().ok().map(Value::Boolean),
        KeyKind::PacketSize => i64::try_from(size(text)).ok().map(Value::Integer),
        KeyKind::Number { .. } => text.parse().ok().map(Value::Integer),
        // Numbers, or the name of a file.
        KeyKind::Numbers => text
            .split(',')
            .map(|number| number.trim().parse().ok().map(Value::Integer))
            .collect::<Option<_>>()
            .map(Value::Array),
        KeyKind::Table(_, first, example) => {
            let keys = table(text, first, example).map_err(|wrong| Failure::input(wrong, ""))?;
            Some(Value::Table(table_of(&keys, kind_of)?))
        }
        _ => None,
    };
    Ok(known.unwrap_or_else(|| Value::String(text.to_owned())))
}

/// Converts assignments to a table; `reverse.rate` is a key of the table `reverse`. `kind_of` returns the kind of values
/// that a key takes.
pub fn table_of(keys: &[Assignment], kind_of: fn(&str) -> Option<KeyKind>) -> Result<Table> {
    let mut table = Table::new();
    for Assignment { key, value } in keys {
        let twice = || {
            Failure::input(
                format!("`{key}` is said twice"),
                format!("leave one of them out: `{key}={value}`"),
            )
        };
        let mut parts: Vec<&str> = key.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        let mut inside = &mut table;
        for part in parts {
            inside = inside
                .entry(part)
                .or_insert_with(|| Value::Table(Table::new()))
                .as_table_mut()
                .ok_or_else(twice)?;
        }
        // Other values that are no text are refused where they are read.
        let value = match kind_of(last) {
            Some(
                kind @ (KeyKind::Flag
                | KeyKind::Number { .. }
                | KeyKind::Numbers
                | KeyKind::Table(..)),
            ) => value_of(kind, value)?,
            _ => Value::String(value.clone()),
        };
        if inside.insert(last.to_owned(), value).is_some() {
            return Err(twice());
        }
    }
    Ok(table)
}

/// Returns the section `[[condition]]` of a study file.
///
/// # Errors
/// A key is given twice.
pub fn condition(args: &PathArgs) -> Result<Table> {
    let climbing = args
        .keys
        .get("steps")
        .and_then(|steps| steps.split(':').next());
    let is_set = |name: &str| args.keys.get(name).is_some() || climbing == Some(name);
    let mut args = args.clone();
    let is_absent = args.emulator.is_some_and(Emulator::is_absent);
    let defaults = [
        ("rtt", "30 ms", ["rtt", "delay"]),
        ("rate", "100 Mbit/s", ["rate", "trace"]),
    ];
    // Without an emulator there is none of either.
    for (key, default, others) in defaults.into_iter().filter(|_| !is_absent) {
        let key = PATH_KEYS.iter().find(|known| known.name == key);
        if let Some(key) = key.filter(|_| !others.into_iter().any(is_set)) {
            args.keys.0.push((key, default.to_owned()));
        }
    }
    let mut section = Table::new();
    let mut name = Vec::new();
    for given in given(&args)? {
        if given.key != "rate" || given.typed != "unlimited" {
            name.push(given.name_part);
        }
        section.insert(given.key.to_owned(), given.value);
    }
    if name.is_empty() {
        let path = match args.emulator {
            Some(Emulator::Loopback) => "loopback",
            _ => "direct link",
        };
        name.push(path.to_owned());
    }
    section.insert("name".into(), Value::String(name_of(&name)));
    Ok(section)
}

/// Joins the parts to a name of visible characters with limited length; `…` stands for parts that
/// do not fit.
pub fn name_of(parts: &[String]) -> String {
    const MORE: &str = ", …";
    let visible = |text: &str| text.replace(char::is_control, "?");
    let full = visible(&parts.join(", "));
    if full.chars().count() <= LONGEST_NAME {
        return full;
    }
    let max_chars = LONGEST_NAME - MORE.chars().count();
    let mut name = String::new();
    for part in parts {
        let separator = if name.is_empty() { "" } else { ", " };
        let longer = format!("{name}{separator}{}", visible(part));
        if longer.chars().count() > max_chars {
            break;
        }
        name = longer;
    }
    if name.is_empty() {
        // One alone is too long.
        name = full.chars().take(max_chars).collect();
    }
    name + MORE
}

/// Returns the keys of a condition that are given, and each option as it may be typed again.
///
/// # Errors
/// A key is given twice.
pub fn keys(args: &PathArgs) -> Result<(Table, Vec<String>)> {
    let (mut keys, mut typed) = (Table::new(), Vec::new());
    for given in given(args)? {
        let option = given.key.replace('_', "-");
        typed.push(match given.value {
            Value::Boolean(_) => format!("--{option}"),
            _ => format!("--{option} \"{}\"", given.typed),
        });
        keys.insert(given.key.to_owned(), given.value);
    }
    Ok((keys, typed))
}

/// Checks that the choices of an emulator fit one another; those that are not given are `path`, the study's.
///
/// # Errors
/// The choices contradict one another.
pub fn check_emulation(args: &PathArgs, path: &PathSetup) -> Result<()> {
    let path = PathSetup {
        emulator: args.emulator.unwrap_or(path.emulator),
        placement: args.placement.unwrap_or(path.placement),
        loss_by: args.loss_by.unwrap_or(path.loss_by),
        offloads: args.offloads.unwrap_or(path.offloads),
    };
    match path.contradiction() {
        None => Ok(()),
        Some(message) => {
            let message = option_messages::in_options(&message, "");
            Err(Failure::input(message, contradiction_hint(args, &path)))
        }
    }
}

/// Hint for a feature of netem that is requested together with the other emulator:
/// either may be the study's.
fn contradiction_hint(args: &PathArgs, path: &PathSetup) -> String {
    if args.emulator.is_none() {
        return "`emulator` is the study's: add `--emulator netem`, or leave the other one out"
            .to_owned();
    }
    let usual = PathSetup::default();
    let study_options = [
        (args.placement.is_none() && path.placement != usual.placement)
            .then_some("--placement between"),
        (args.loss_by.is_none() && path.loss_by != usual.loss_by).then_some("--loss-by emulator"),
        (args.offloads.is_none() && path.offloads != usual.offloads).then_some("--offloads off"),
    ];
    let study_options: Vec<&str> = study_options.into_iter().flatten().collect();
    if study_options.is_empty() {
        return "leave one of them out, or ask for `--emulator netem`".to_owned();
    }
    let study_options = study_options.join(" ");
    format!("the first one is the study's: add `{study_options}`, or leave `--emulator` out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_name_is_truncated_with_a_mark() {
        let parts = |texts: &[&str]| {
            texts
                .iter()
                .map(|&text| text.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(name_of(&parts(&["30 ms", "t\nq"])), "30 ms, t?q");
        let long = "x".repeat(70);
        assert_eq!(name_of(&parts(&["30 ms", &long])), "30 ms, …");
        assert_eq!(name_of(&parts(&[&long])).chars().count(), 64);
    }
}
