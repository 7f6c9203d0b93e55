//! Options that are keys of a table in a study.

use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use regatta_model::{
    BitRate, Bytes, Ratio, WorkloadKind,
    study::{KeyKind, PATH_KEYS, PathKey, ValueKey, WORKLOAD_KEYS},
    units::QueueSize,
};

use super::{OneOf, assignment::table, duration, is_none_of, quantity, whole};
use crate::exact;

/// Keys of a condition that were given as options, each with its value as a study has it.
#[derive(Debug, Clone, Default)]
pub struct PathKeys(pub Vec<(&'static PathKey, String)>);

/// Keys of a workload that were given as options, each with its value as a study has it.
#[derive(Debug, Clone, Default)]
pub struct WorkKeys(pub Vec<(&'static ValueKey<WorkloadKind>, String)>);

/// Option of a key.
struct KeyOption {
    key: &'static str,
    /// Name of the option.
    option: &'static str,
    /// Earlier name of the option, which is still taken.
    earlier: Option<&'static str>,
    kind: KeyKind,
    help: &'static str,
    instead_of: Option<&'static str>,
}

impl KeyOption {
    fn new(
        key: &'static str,
        kind: KeyKind,
        help: &'static str,
        instead_of: Option<&'static str>,
    ) -> Self {
        Self {
            key,
            option: key.replace('_', "-").leak(),
            earlier: (key == "message").then_some("message-size"),
            kind,
            help,
            instead_of,
        }
    }

    fn argument(&self) -> Arg {
        let argument = Arg::new(self.key)
            .long(self.option)
            .help(self.help)
            .conflicts_with_all(self.instead_of)
            .aliases(self.earlier);
        let (value_name, hyphens) = match self.kind {
            KeyKind::Flag => return argument.action(ArgAction::SetTrue),
            KeyKind::Time => ("TIME", true),
            KeyKind::Ratio => ("RATIO", true),
            KeyKind::Rate => ("RATE", true),
            KeyKind::Size | KeyKind::PacketSize | KeyKind::Queue => ("SIZE", true),
            KeyKind::Number { .. } => ("N", true),
            KeyKind::Numbers => ("N,N|FILE", true),
            KeyKind::File => ("FILE", false),
            KeyKind::Words(value_name, _) => (value_name, false),
            KeyKind::Table(value_name, _) => (value_name, true),
        };
        let kind = self.kind;
        let parse = move |text: &str| value(kind, text);
        let argument = argument.value_name(value_name).allow_hyphen_values(hyphens);
        match kind {
            KeyKind::Words(_, words) => argument.hide_possible_values(true).value_parser(OneOf {
                words: words.to_vec(),
                parse,
            }),
            _ => argument.value_parser(parse),
        }
    }

    fn given(&self, matches: &ArgMatches) -> Option<String> {
        match self.kind {
            KeyKind::Flag => matches.get_flag(self.key).then(|| "true".to_owned()),
            _ => matches.get_one::<String>(self.key).cloned(),
        }
    }
}

static PATH_OPTIONS: LazyLock<Vec<KeyOption>> = LazyLock::new(|| {
    let options = PATH_KEYS
        .iter()
        .map(|key| KeyOption::new(key.name, key.kind, key.help, key.instead_of));
    options.collect()
});

static WORK_OPTIONS: LazyLock<Vec<KeyOption>> = LazyLock::new(|| {
    let options = WORKLOAD_KEYS
        .iter()
        .map(|key| KeyOption::new(key.name, key.kind, key.help, key.instead_of));
    options.collect()
});

/// Returns the keys whose option was given.
fn given<K>(
    keys: &'static [K],
    options: &[KeyOption],
    matches: &ArgMatches,
) -> Vec<(&'static K, String)> {
    let options = keys.iter().zip(options);
    options
        .filter_map(|(key, option)| Some((key, option.given(matches)?)))
        .collect()
}

/// Makes clap read a table's keys as options.
macro_rules! keys_as_options {
    ($($type:ident: $keys:ident, $options:ident;)+) => {$(
        impl $type {
            /// Returns the value of a key, if it was given.
            pub fn get(&self, name: &str) -> Option<&str> {
                let found = self.0.iter().find(|(key, _)| key.name == name);
                found.map(|(_, value)| value.as_str())
            }
        }

        impl FromArgMatches for $type {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                Ok(Self(given($keys, &$options, matches)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl Args for $type {
            fn augment_args(command: Command) -> Command {
                command.args($options.iter().map(KeyOption::argument))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }
    )+};
}

keys_as_options! {
    PathKeys: PATH_KEYS, PATH_OPTIONS;
    WorkKeys: WORKLOAD_KEYS, WORK_OPTIONS;
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
        KeyKind::Number { least, most } => whole(least, most)(text)?.to_string(),
        KeyKind::Words(_, words) if words.contains(&text) => text.to_owned(),
        KeyKind::Words(_, words) => return Err(is_none_of(words.iter().copied())),
        KeyKind::Table(_, first) => {
            table(text, first)?;
            text.to_owned()
        }
        KeyKind::Numbers | KeyKind::File | KeyKind::Flag => text.to_owned(),
    })
}

/// Parses a size, or a number of bytes as `mtu` of a study.
fn packet_size(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(bytes) => Ok(Bytes(bytes)),
        Err(_) => quantity(text),
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
