//! Options that are keys of a table in a study.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use regatta_model::{
    BitRate, Bytes, Ratio, UnitError, WorkloadKind,
    study::{KeyKind, PATH_KEYS, PathKey, ValueKey, WORKLOAD_KEYS},
    units::{QueueSize, parse_duration},
};

use super::{
    assignment::table,
    exact,
    values::{OneOf, duration, integer, not_one_of, quantity, with_hint},
};

/// Keys of a condition that were given as options, each with its value as a study has it.
#[derive(Debug, Clone, Default)]
pub struct PathKeys(pub Vec<(&'static PathKey, String)>);

/// Keys of a workload that were given as options, each with its value as a study has it.
#[derive(Debug, Clone, Default)]
pub struct WorkKeys(pub Vec<(&'static ValueKey<WorkloadKind>, String)>);

/// Names of the options of all keys.
static OPTIONS: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let of_path = PATH_KEYS.iter().map(|key| key.name);
    let names = of_path.chain(WORKLOAD_KEYS.iter().map(|key| key.name));
    names
        .map(|name| (name, &*name.replace('_', "-").leak()))
        .collect()
});

/// Keys of which several values may be given.
pub const SIZE: &str = "size";
const TUNING: &str = "tuning";

/// Returns the option of a key.
fn option(
    key: &'static str,
    kind: KeyKind,
    help: &'static str,
    instead_of: Option<&'static str>,
) -> Arg {
    let argument = Arg::new(key)
        .long(OPTIONS[key])
        .help(help)
        .conflicts_with_all(instead_of);
    let (value_name, hyphens) = match kind {
        KeyKind::Flag => return argument.action(ArgAction::SetTrue),
        KeyKind::Time => ("TIME", true),
        KeyKind::Ratio => ("RATIO", true),
        KeyKind::Rate => ("RATE", true),
        KeyKind::Size | KeyKind::PacketSize | KeyKind::Queue => ("SIZE", true),
        KeyKind::Number { .. } => ("N", true),
        KeyKind::Numbers => ("N,N|FILE", true),
        KeyKind::File => ("FILE", false),
        KeyKind::Enum(value_name, _) => (value_name, false),
        KeyKind::Table(value_name, ..) => (value_name, true),
    };
    let parse = move |text: &str| match key {
        // A study may have the delay, so that no time is known to be allowed.
        "jitter" | "rtt_jitter" => jitter(text),
        _ => value(kind, text),
    };
    let argument = argument.value_name(value_name).allow_hyphen_values(hyphens);
    // Of several sizes each is a workload, of several tunings each a condition.
    let argument = match key {
        SIZE => argument.value_delimiter(',').value_name("SIZE,…"),
        TUNING => argument.value_delimiter(','),
        _ => argument,
    };
    match kind {
        KeyKind::Enum(_, names) => argument.hide_possible_values(true).value_parser(OneOf {
            names: names.to_vec(),
            parse,
        }),
        _ => argument.value_parser(parse),
    }
}

/// Returns the values of a key whose option was given: several of one that takes them, each tuning once.
fn given(key: &str, kind: KeyKind, matches: &ArgMatches) -> Vec<String> {
    match kind {
        KeyKind::Flag if matches.get_flag(key) => vec!["true".to_owned()],
        KeyKind::Flag => Vec::new(),
        _ => {
            let mut values: Vec<String> =
                (matches.get_many(key).into_iter().flatten().cloned()).collect();
            let mut seen = BTreeSet::new();
            values.retain(|value| key != TUNING || seen.insert(value.clone()));
            values
        }
    }
}

/// Makes clap read a table's keys as options.
macro_rules! keys_as_options {
    ($($type:ident: $keys:ident;)+) => {$(
        impl $type {
            /// Returns the value of a key, if it was given; the first of several.
            pub fn get(&self, name: &str) -> Option<&str> {
                let found = self.0.iter().find(|(key, _)| key.name == name);
                found.map(|(_, value)| value.as_str())
            }
        }

        impl FromArgMatches for $type {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                let keys = $keys.iter();
                let given = keys.flat_map(|it| {
                    let values = given(it.name, it.kind, matches);
                    values.into_iter().map(move |value| (it, value))
                });
                Ok(Self(given.collect()))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl Args for $type {
            fn augment_args(command: Command) -> Command {
                let options = $keys.iter();
                command.args(options.map(|it| option(it.name, it.kind, it.help, it.instead_of)))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }
    )+};
}

impl WorkKeys {
    /// Returns the sizes that were given.
    pub fn sizes(&self) -> impl Iterator<Item = &str> {
        let sizes = self.0.iter().filter(|(key, _)| key.name == SIZE);
        sizes.map(|(_, size)| size.as_str())
    }
}

impl PathKeys {
    /// Returns the tunings of the hosts that were given.
    pub fn tunings(&self) -> impl Iterator<Item = &str> {
        let tunings = self.0.iter().filter(|(key, _)| key.name == TUNING);
        tunings.map(|(_, tuning)| tuning.as_str())
    }
}

keys_as_options! {
    PathKeys: PATH_KEYS;
    WorkKeys: WORKLOAD_KEYS;
}

/// Reads a jitter, which is at most the delay.
fn jitter(text: &str) -> Result<String, String> {
    let time = parse_duration(text).map_err(|error| {
        let hint = "write a number with `us`, `ms` or `s`, at most the delay";
        with_hint(&UnitError::new(error.message, hint))
    })?;
    Ok(exact::time(time))
}

/// Returns a value as a study has it, exactly and in one way of writing.
fn value(kind: KeyKind, text: &str) -> Result<String, String> {
    Ok(match kind {
        KeyKind::Time => exact::time(duration(text)?),
        KeyKind::Ratio => exact::ratio(quantity::<Ratio>(text)?),
        KeyKind::Rate => rate(text)?,
        KeyKind::Size => exact::bytes(quantity::<Bytes>(text)?),
        KeyKind::PacketSize => exact::bytes(packet_size(text)?),
        KeyKind::Queue => exact::queue(quantity::<QueueSize>(text)?),
        KeyKind::Number { least, most } => integer(least, most)(text)?.to_string(),
        KeyKind::Enum(_, names) if names.contains(&text) => text.to_owned(),
        KeyKind::Enum(_, names) => return Err(not_one_of(names.iter().copied())),
        KeyKind::Table(_, first, example) => {
            table(text, first, example)?;
            text.to_owned()
        }
        KeyKind::Numbers | KeyKind::File | KeyKind::Flag => text.to_owned(),
    })
}

/// Parses a size of a packet or more, or a number of bytes as `mtu` of a study.
fn packet_size(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(bytes) => Ok(Bytes(bytes)),
        Err(_) => text.parse().map_err(|error: UnitError| {
            // The usual examples are no packets.
            with_hint(&UnitError::new(
                error.message,
                "write a size such as `1500B`",
            ))
        }),
    }
}

fn rate(text: &str) -> Result<String, String> {
    if text == "unlimited" {
        return Ok(text.to_owned());
    }
    let rate: BitRate = quantity(text)?;
    if rate.0 == 0 {
        return Err("a rate of zero carries nothing; write `unlimited` for no limit".to_owned());
    }
    Ok(exact::bit_rate(rate))
}
