//! Conversion of the options of a path to keys of a study file, and their application to a parsed
//! study.

use std::{path::Path, time::Duration};

use regatta_model::{
    BitRate, Bytes, CaptureSetup, Condition, Emulator, LossBy, Offloads, PathSetup, Placement,
    RateOf, Ratio, UnitError,
    study::{LONGEST_NAME, change_condition},
    units::{QueueSize, format_duration, parse_duration},
};
use toml::{Table, Value};

use crate::{
    args::{Assignment, Limit, PathArgs},
    exit::Failure,
    option_words, text_file,
};

/// Formats a time exactly, in the usual unit if that loses nothing.
pub fn time(value: Duration) -> String {
    let ns = value.as_nanos();
    let whole = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let whole = whole.iter().find(|(unit, _)| ns.is_multiple_of(*unit));
    let (unit, name) = whole.copied().unwrap_or((1, "ns"));
    let exact = format!("{} {name}", ns / unit);
    let short = format_duration(value);
    if parse_duration(&short) == Ok(value) {
        short
    } else {
        exact
    }
}

/// Formats the part of packets that a capture keeps, as in a study.
pub fn snap(value: CaptureSetup) -> String {
    match value.snap_bytes {
        None => "full".to_owned(),
        Some(snap) => bytes(Bytes(snap.into())),
    }
}

pub fn bytes(value: Bytes) -> String {
    let short = value.to_string();
    if short.parse() == Ok(value) {
        short
    } else {
        format!("{} B", value.0)
    }
}

fn bit_rate(value: BitRate) -> String {
    let short = value.to_string();
    if short.parse() == Ok(value) {
        short
    } else {
        format!("{} bit/s", value.0)
    }
}

fn ratio(value: Ratio) -> String {
    let short = value.to_string();
    if short.parse() == Ok(value) {
        return short;
    }
    // The decimal point goes two places on: a hundred times the number would be rounded.
    let decimal = value.0.to_string();
    let digits = format!("{:0<3}", decimal.trim_start_matches("0."));
    let (percent, rest) = digits.split_at(2);
    format!("{percent}.{rest}%")
}

fn queue(value: QueueSize) -> String {
    match value {
        QueueSize::Bytes(value) => bytes(value),
        value => value.to_string(),
    }
}

/// Returns the name of a value in a study.
fn word<T: PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    let known = words.iter().find(|(_, known)| *known == value);
    known.map_or("", |(word, _)| word)
}

/// Writes the options of the path's emulation into the head of a study file.
pub fn emulation(args: &PathArgs, root: &mut Table) {
    let text = |value: &str| Value::String(value.to_owned());
    if let Some(emulator) = args.emulator {
        root.insert("emulator".into(), text(word(emulator, Emulator::WORDS)));
    }
    if let Some(placement) = args.placement {
        root.insert("placement".into(), text(word(placement, Placement::WORDS)));
    }
    if let Some(loss_by) = args.loss_by {
        root.insert("loss_by".into(), text(word(loss_by, LossBy::WORDS)));
    }
    if let Some(offloads) = args.offloads {
        root.insert("offloads".into(), text(word(offloads, Offloads::WORDS)));
    }
}

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
struct Given {
    /// Key of a condition; with hyphens, the option's name.
    key: &'static str,
    /// Value as in a study file.
    value: Value,
    /// Value as a user may type it again.
    typed: String,
    /// Part of the condition's name.
    called: String,
}

/// Returns the given options, in the order in which a condition's name lists them.
fn given(args: &PathArgs) -> Result<Vec<Given>, Failure> {
    let mut all = Vec::new();
    let mut add = |key, value: Option<String>, called: &dyn Fn(&str) -> String| {
        if let Some(typed) = value {
            all.push(Given {
                key,
                value: value_of(key, &typed),
                called: called(&typed),
                typed,
            });
        }
    };
    let as_it_is = |value: &str| value.to_owned();
    add("rtt", args.rtt.map(time), &as_it_is);
    add("delay", args.delay.map(time), &|v| format!("{v} each way"));
    let rate = args
        .rate
        .map(|limit| limit.0.map_or("unlimited".to_owned(), bit_rate));
    add("rate", rate, &as_it_is);
    let rate_of = args.rate_of.map(|of| word(of, &RateOf::NAMES).to_owned());
    add("rate_of", rate_of, &|v| format!("of {v}"));
    add("trace", args.trace.clone(), &|v| format!("trace {v}"));
    add("loss", args.loss.map(ratio), &|v| format!("{v} loss"));
    add("loss_list", args.loss_list.clone(), &|v| {
        format!("loss of {v}")
    });
    add("reorder", args.reorder.map(ratio), &|v| {
        format!("{v} reordered")
    });
    add("duplicate", args.duplicate.map(ratio), &|v| {
        format!("{v} duplicated")
    });
    add("corrupt", args.corrupt.map(ratio), &|v| {
        format!("{v} corrupted")
    });
    add("jitter", args.jitter.map(time), &|v| format!("± {v}"));
    let distribution = args.jitter_distribution.map(|d| d.name().to_owned());
    add("jitter_distribution", distribution, &as_it_is);
    let reorders = args.jitter_reorders.then(|| "true".to_owned());
    add("jitter_reorders", reorders, &|_| "overtaking".to_owned());
    add("rtt_jitter", args.rtt_jitter.map(time), &|v| {
        format!("± {v} of the round trip")
    });
    let correlation = args.jitter_correlation.map(time);
    add("jitter_correlation", correlation, &|v| {
        format!("correlation {v}")
    });
    add("burst", args.burst.map(bytes), &|v| format!("burst {v}"));
    add("queue", args.queue.map(queue), &|v| format!("queue {v}"));
    add("discipline", args.discipline.clone(), &as_it_is);
    add("codel_target", args.codel_target.map(time), &|v| {
        format!("target {v}")
    });
    add("codel_interval", args.codel_interval.map(time), &|v| {
        format!("interval {v}")
    });
    if let Some(mtu) = args.mtu {
        all.push(Given {
            key: "mtu",
            value: Value::Integer(i64::try_from(mtu.0).unwrap_or(i64::MAX)),
            typed: bytes(mtu),
            called: format!("MTU {} B", mtu.0),
        });
    }
    add_tables(args, &mut all)?;
    Ok(all)
}

/// Adds the given options that are tables, or lists of them, in a study file.
fn add_tables(args: &PathArgs, all: &mut Vec<Given>) -> Result<(), Failure> {
    if let Some(bursts) = &args.loss_bursts {
        all.push(Given {
            key: "loss_bursts",
            value: Value::Table(table_of(&bursts.each)?),
            typed: bursts.text.clone(),
            called: "bursts of loss".to_owned(),
        });
    }
    for (key, keys) in [("forward", &args.forward), ("reverse", &args.reverse)] {
        if !keys.is_empty() {
            let typed: Vec<_> = keys
                .iter()
                .map(|k| format!("{}={}", k.key, k.value))
                .collect();
            all.push(Given {
                key,
                value: Value::Table(table_of(keys)?),
                called: format!("{key} {}", typed.join(" ")),
                typed: typed.join(&format!("\" --{key} \"")),
            });
        }
    }
    if let Some(steps) = &args.steps {
        all.push(Given {
            key: "steps",
            value: Value::Table(table_of(&steps.each)?),
            typed: steps.text.clone(),
            called: format!("steps {}", steps.text),
        });
    }
    if !args.step.is_empty() {
        let mut tables = Vec::new();
        let mut typed = Vec::new();
        for step in &args.step {
            let mut table = table_of(&step.becomes.each)?;
            table.insert("at".into(), Value::String(time(step.at)));
            tables.push(Value::Table(table));
            typed.push(format!("{}:{}", time(step.at), step.becomes.text));
        }
        all.push(Given {
            key: "step",
            value: Value::Array(tables),
            called: typed.join(", "),
            typed: typed.join("\" --step \""),
        });
    }
    Ok(())
}

/// Converts a text to a value of a study file.
fn value_of(key: &str, text: &str) -> Value {
    let known = match key {
        "jitter_reorders" => text.parse().ok().map(Value::Boolean),
        // Numbers, or the name of a file.
        "loss_list" => text
            .split(',')
            .map(|number| number.trim().parse().ok().map(Value::Integer))
            .collect::<Option<_>>()
            .map(Value::Array),
        _ => None,
    };
    known.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Converts assignments to a table; `reverse.rate` is a key of the table `reverse`.
fn table_of(keys: &[Assignment]) -> Result<Table, Failure> {
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
        if inside
            .insert(last.to_owned(), value_of(last, value))
            .is_some()
        {
            return Err(twice());
        }
    }
    Ok(table)
}

/// Returns the section `[[condition]]` of a study file.
///
/// # Errors
/// A key is given twice.
pub fn condition(args: &PathArgs) -> Result<Table, Failure> {
    let climbing = args.steps.as_ref().and_then(|steps| steps.each.first());
    let climbs = |keys: &[&str]| climbing.is_some_and(|first| keys.contains(&first.value.as_str()));
    let mut args = args.clone();
    if args.delay.is_none() && !climbs(&["rtt", "delay"]) {
        args.rtt.get_or_insert(Duration::from_millis(30));
    }
    if args.trace.is_none() && !climbs(&["rate"]) {
        args.rate.get_or_insert(Limit(Some(BitRate(100_000_000))));
    }
    let mut section = Table::new();
    let mut name = Vec::new();
    for given in given(&args)? {
        if given.key != "rate" || given.typed != "unlimited" {
            name.push(given.called);
        }
        section.insert(given.key.to_owned(), given.value);
    }
    section.insert("name".into(), Value::String(name_of(&name)));
    Ok(section)
}

/// Joins the parts to a name of visible characters with limited length; `…` stands for parts that
/// do not fit.
fn name_of(parts: &[String]) -> String {
    const MORE: &str = ", …";
    let visible = |text: &str| text.replace(char::is_control, "?");
    let whole = visible(&parts.join(", "));
    if whole.chars().count() <= LONGEST_NAME {
        return whole;
    }
    let room = LONGEST_NAME - MORE.chars().count();
    let mut name = String::new();
    for part in parts {
        let longer = if name.is_empty() {
            visible(part)
        } else {
            format!("{name}, {}", visible(part))
        };
        if longer.chars().count() > room {
            break;
        }
        name = longer;
    }
    if name.is_empty() {
        // One alone is too long.
        name = whole.chars().take(room).collect();
    }
    name + MORE
}

/// Changes conditions according to the options; returns each change as it was written.
///
/// # Errors
/// The changed conditions would be impossible.
pub fn apply(args: &PathArgs, conditions: &mut [Condition]) -> Result<Vec<String>, Failure> {
    let mut changes = Vec::new();
    let mut keys = Table::new();
    for given in given(args)? {
        let option = given.key.replace('_', "-");
        changes.push(match given.value {
            Value::Boolean(_) => format!("--{option}"),
            _ => format!("--{option} \"{}\"", given.typed),
        });
        keys.insert(given.key.to_owned(), given.value);
    }
    let keys = toml::to_string(&keys).map_err(Failure::failed)?;
    for condition in conditions {
        *condition = change_condition(condition, &keys, "command line", &files_in(Path::new("")))
            .map_err(|error| {
            Failure::of_options(error).context(format!(
                "these options do not fit the condition `{}`",
                condition.name
            ))
        })?;
    }
    Ok(changes)
}

/// Changes the path's emulation according to the options, and so that the path can be captured.
///
/// # Errors
/// The choices contradict one another.
pub fn choose_emulation(
    args: &PathArgs,
    captured: bool,
    path: &mut PathSetup,
) -> Result<(), Failure> {
    if let Some(emulator) = args.emulator {
        path.emulator = emulator;
    }
    if let Some(placement) = args.placement {
        path.placement = placement;
    }
    if let Some(loss_by) = args.loss_by {
        path.loss_by = loss_by;
    }
    if let Some(offloads) = args.offloads {
        path.offloads = offloads;
    }
    if let Some(message) = path.contradiction() {
        let message = option_words::in_options(&message, "");
        return Err(Failure::input(message, contradiction_hint(args, path)));
    }
    if captured {
        *path = CaptureSetup::path(*path).map_err(|why| {
            Failure::input(
                format!("there is nothing to be captured: {why}"),
                "leave that out, or `--capture`",
            )
        })?;
    }
    Ok(())
}

/// Hint for where something that only netem has is asked for together with the other emulator:
/// either may be the study's.
fn contradiction_hint(args: &PathArgs, path: &PathSetup) -> String {
    if args.emulator.is_none() {
        return "`emulator` is the study's: add `--emulator netem`, or leave the other one out"
            .to_owned();
    }
    let usual = PathSetup::default();
    let of_study = [
        (args.placement.is_none() && path.placement != usual.placement)
            .then_some("--placement between"),
        (args.loss_by.is_none() && path.loss_by != usual.loss_by).then_some("--loss-by emulator"),
        (args.offloads.is_none() && path.offloads != usual.offloads).then_some("--offloads off"),
    ];
    let of_study: Vec<&str> = of_study.into_iter().flatten().collect();
    if of_study.is_empty() {
        "leave one of them out, or ask for `--emulator netem`".to_owned()
    } else {
        format!(
            "the first one is the study's: add `{}`, or leave `--emulator` out",
            of_study.join(" ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_what_there_is_room_for() {
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

    #[test]
    fn quantities_are_written_without_loss() {
        let odd = Duration::from_nanos(30_000_001);
        assert_eq!(parse_duration(&time(odd)), Ok(odd));
        assert_eq!(time(Duration::from_millis(30)), "30 ms");
        assert_eq!(bytes(Bytes(1_234_567)).parse(), Ok(Bytes(1_234_567)));
        assert_eq!(
            bit_rate(BitRate(99_999_999)).parse(),
            Ok(BitRate(99_999_999))
        );
        let ratios = [0.0, 0.000_012_3, 0.07, 0.29, 1.0 / 3.0, 1.0];
        let sevenths = (1..7000).map(|n| f64::from(n) / 7000.0);
        for value in ratios.into_iter().chain(sevenths) {
            assert_eq!(ratio(Ratio(value)).parse(), Ok(Ratio(value)));
        }
    }
}
