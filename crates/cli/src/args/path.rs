//! Options that describe a path, common to all commands that create one.

use std::{sync::LazyLock, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use regatta_model::{
    BitRate, Bytes, Emulator, LossBy, Offloads, Placement, Ratio,
    study::{KeyKind, PATH_KEYS, PathKey},
    units::QueueSize,
};

use super::{duration, is_none_of, quantity, word};
use crate::exact;

/// The path: what is not given is a study's, or the default.
///
/// Each option but the last ones is a key of a study's `[[condition]]`, and `docs/conditions.md`
/// says precisely what it means. Quantities may begin with a hyphen, so that a negative one is
/// refused as what it is and not as an unknown option.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Path (docs/conditions.md)")]
pub struct PathArgs {
    #[command(flatten)]
    pub keys: Keys,
    /// A key from the connecting host to the listening one alone, as in `rate=10Mbit/s`; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment, allow_hyphen_values = true)]
    pub forward: Vec<Assignment>,
    /// A key the other way alone; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment, allow_hyphen_values = true)]
    pub reverse: Vec<Assignment>,
    /// Change at a time of the transfer, as in `20s:rtt=250ms:reverse.rate=1Mbit/s`;
    /// repeatable
    #[arg(long, value_name = "TIME:KEY=VALUE:…", value_parser = step, allow_hyphen_values = true)]
    pub step: Vec<Step>,
    /// Emulator of the path: `netem` of the kernel, `userspace` for Regatta's own, `none` for a direct
    /// link, or `auto`, netem where the kernel has it [default without a STUDY: auto]
    #[arg(long, value_name = "EMULATOR", value_parser = word::<Emulator>)]
    pub emulator: Option<Emulator>,
    /// Placement of netem: `between` the hosts, or on both `ends` as in published experiments
    /// [default without a STUDY: between]
    #[arg(long, value_name = "WHERE", value_parser = word::<Placement>)]
    pub placement: Option<Placement>,
    /// Source of random loss on netem's paths: the `emulator`, or `iptables` by its statistic match
    /// [default without a STUDY: emulator]
    #[arg(long, value_name = "WHO", value_parser = word::<LossBy>)]
    pub loss_by: Option<LossBy>,
    /// Whether the hosts' offloads stay on with netem, so that loss takes whole super-packets: `on` or
    /// `off` [default without a STUDY: off]
    #[arg(long, value_name = "WHETHER", value_parser = word::<Offloads>)]
    pub offloads: Option<Offloads>,
}

impl PathArgs {
    /// Whether something of the condition is given; who emulates it changes nothing of what the path is.
    pub fn describes_a_condition(&self) -> bool {
        !self.keys.0.is_empty()
            || ![&self.forward, &self.reverse]
                .into_iter()
                .all(Vec::is_empty)
            || !self.step.is_empty()
    }
}

/// Keys of a condition that were given as options, each with its value as a study has it.
#[derive(Debug, Clone, Default)]
pub struct Keys(pub Vec<(&'static PathKey, String)>);

/// Names of the keys' options.
static OPTIONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    PATH_KEYS
        .iter()
        .map(|key| key.name.replace('_', "-"))
        .collect()
});

impl Keys {
    /// Returns the value of a key, if it was given.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key.name == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl FromArgMatches for Keys {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = PATH_KEYS.iter().filter_map(|key| {
            let value = match key.kind {
                KeyKind::Flag => matches.get_flag(key.name).then(|| "true".to_owned()),
                _ => matches.get_one::<String>(key.name).cloned(),
            };
            Some((key, value?))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Keys {
    fn augment_args(command: Command) -> Command {
        let options = PATH_KEYS.iter().zip(OPTIONS.iter());
        command.args(options.map(|(key, option)| argument(key, option)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Returns the option of a key.
fn argument(key: &'static PathKey, option: &'static str) -> Arg {
    let argument = Arg::new(key.name).long(option).help(key.help);
    let argument = match key.instead_of {
        Some(other) => argument.conflicts_with(other),
        None => argument,
    };
    let (value_name, hyphens) = match key.kind {
        KeyKind::Flag => return argument.action(ArgAction::SetTrue),
        KeyKind::Time => ("TIME", true),
        KeyKind::Ratio => ("RATIO", true),
        KeyKind::Rate => ("RATE", true),
        KeyKind::Size | KeyKind::PacketSize | KeyKind::Queue => ("SIZE", true),
        KeyKind::Numbers => ("N,N|FILE", true),
        KeyKind::File => ("FILE", false),
        KeyKind::Words(value_name, _) => (value_name, false),
        KeyKind::Table(value_name, _) => (value_name, true),
    };
    argument
        .value_name(value_name)
        .allow_hyphen_values(hyphens)
        .value_parser(move |text: &str| value(key.kind, text))
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
        KeyKind::Words(_, words) if words.contains(&text) => text.to_owned(),
        KeyKind::Words(_, words) => return Err(is_none_of(words.iter().copied())),
        KeyKind::Table(_, first) => {
            table(text, first)?;
            text.to_owned()
        }
        KeyKind::Numbers | KeyKind::File | KeyKind::Flag => text.to_owned(),
    })
}

/// Key of a condition with its value, as a user writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Key as in a study; a key inside a table has a dot before it.
    pub key: String,
    pub value: String,
}

/// Several assignments, separated by colons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignments {
    /// Text as the user wrote it.
    pub text: String,
    pub each: Vec<Assignment>,
}

/// Step of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub at: Duration,
    pub becomes: Assignments,
}

fn assignment(text: &str) -> Result<Assignment, String> {
    let (key, value) = text
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .ok_or_else(|| format!("`{text}` is no key with its value; write `rate=10Mbit/s`"))?;
    Ok(Assignment {
        key: key.replace('-', "_"),
        value: value.to_owned(),
    })
}

pub fn assignments(text: &str) -> Result<Assignments, String> {
    Ok(Assignments {
        text: text.to_owned(),
        each: text.split(':').map(assignment).collect::<Result<_, _>>()?,
    })
}

/// Parses the assignments of a table, the first of which stands without its key if that is `first`.
pub fn table(text: &str, first: Option<&str>) -> Result<Vec<Assignment>, String> {
    let whole = first.map_or_else(|| text.to_owned(), |first| format!("{first}={text}"));
    assignments(&whole).map(|table| table.each)
}

fn step(text: &str) -> Result<Step, String> {
    let (at, becomes) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` says not when or not what; write `20s:rtt=250ms`"))?;
    Ok(Step {
        at: duration(at)?,
        becomes: assignments(becomes)?,
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
