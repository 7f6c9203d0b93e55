//! Values of options: their kinds, and the texts that are no value.

use std::{ffi::OsStr, fmt::Display, path::PathBuf, str::FromStr, time::Duration};

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use regatta_model::{
    CaptureSetup, Named, Ratio, Shard, ShardError, Study, UnitError, Until,
    study::{is_host_name, ranking_metric},
    units::parse_duration,
};
use regatta_report::{
    language::Language,
    pdf::{Form, Paper},
};

/// Parses a time span that is not zero.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let value = duration(text)?;
    if value.is_zero() {
        return Err("it must be longer than zero; write a time such as `30s`".to_owned());
    }
    Ok(value)
}

/// Parses the time between samples of a host.
pub(super) fn sampling_interval(text: &str) -> Result<Duration, String> {
    let value = duration(text)?;
    if (Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&value) {
        Ok(value)
    } else {
        Err("it must be from `10ms` to `1h`".to_owned())
    }
}

/// Parses the part of a study that is run: `10%`, or a factor such as `0.1`, which nobody takes for a percentage.
pub(super) fn part(text: &str) -> Result<Ratio, String> {
    let factor = text.parse().ok();
    let factor = factor.filter(|factor| text.starts_with("0.") && *factor < 1.0);
    let part = match factor {
        Some(factor) => Ratio(factor),
        None => quantity(text)?,
    };
    if part.0 < 0.0001 {
        return Err("it is less than 0.01 %; write a part such as `10%`".to_owned());
    }
    Ok(part)
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| with_hint(&error))
}

pub(super) fn snap(text: &str) -> Result<CaptureSetup, String> {
    quantity(text)
}

pub(super) fn snaplen(text: &str) -> Result<CaptureSetup, String> {
    match snap(text)? {
        setup if setup.times_only => {
            Err("`times` is for trials; write `headers`, `full` or a size".to_owned())
        }
        setup => Ok(setup),
    }
}

/// Reads the name of a metric that can rank transports.
pub(super) fn ranking(name: &str) -> Result<String, String> {
    let metric = ranking_metric(name).map_err(|error| with_hint(&error))?;
    Ok(metric.to_owned())
}

/// Reads a title: visible characters on one line.
pub(super) fn title(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty; write what the report is about".to_owned()),
        text if text.contains(char::is_control) => {
            Err("it is one line of visible characters".to_owned())
        }
        text => Ok(text.to_owned()),
    }
}

pub(super) fn shard(text: &str) -> Result<Shard, String> {
    text.parse().map_err(|error: ShardError| error.to_string())
}

pub(super) fn with_hint(error: &UnitError) -> String {
    format!("{error}; {}", error.hint)
}

pub(super) fn quantity<T: FromStr<Err = UnitError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| with_hint(&error))
}

/// Reads a whole number between two bounds, both allowed.
pub(super) fn integer<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Copy,
{
    move |text| {
        let number = text.parse().ok();
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| format!("it is not a whole number from {least} to {most}"))
    }
}

/// Value of `--rounds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// Number of rounds.
    Number(u32),
    /// As many as decide the ranking.
    Decided,
}

/// Parses the value of `--rounds`.
pub(super) fn rounds(text: &str) -> Result<Rounds, String> {
    if text == Until::DECIDED {
        return Ok(Rounds::Decided);
    }
    let number = integer(1, Study::MAX_ROUNDS)(text).map(Rounds::Number);
    number.map_err(|error| format!("{error}, nor `{}`", Until::DECIDED))
}

/// Returns a parser of the names of a type's values.
pub(super) fn named_value<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let names = || T::NAMES.iter().map(|(name, _)| *name);
    OneOf {
        names: names().collect(),
        parse: move |text: &str| T::from_name(text).ok_or_else(|| not_one_of(names())),
    }
}

/// Parser of one of several names, which completions offer.
#[derive(Clone)]
pub(super) struct OneOf<P> {
    /// Names that are offered.
    pub names: Vec<&'static str>,
    /// Parser of all values.
    pub parse: P,
}

impl<P: TypedValueParser> TypedValueParser for OneOf<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = self.names.iter();
        Some(Box::new(names.map(|name| PossibleValue::new(*name))))
    }
}

/// Values of an option: name, help, value.
pub(super) type Choices<T> = &'static [(&'static str, &'static str, T)];

/// Languages of a report.
pub(super) const LANGUAGES: Choices<Language> = &[
    ("en", "English", Language::English),
    ("ru", "Russian", Language::Russian),
];

/// Sizes of the pages of a PDF.
pub(super) const PAPERS: Choices<Paper> = &[
    ("a4", "210 × 297 mm", Paper::A4),
    ("letter", "8.5 × 11 inches", Paper::Letter),
];

/// Lengths of a PDF.
pub(super) const FORMS: Choices<Form> = &[
    (
        "full",
        "all figures, tables and terms: `report.pdf`",
        Form::Full,
    ),
    (
        "brief",
        "two pages: the answer, one figure, the main table, and how they were measured: `brief.pdf`",
        Form::Brief,
    ),
];

/// Returns a parser of the names of some values, which help and completions list.
pub(super) fn choice<T: Copy + Send + Sync>(
    values: Choices<T>,
) -> impl TypedValueParser<Value = T> {
    let names = values.iter();
    let names = names.map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).try_map(|text| {
        let known = values.iter().find(|(name, ..)| *name == text);
        known.map(|(.., value)| *value).ok_or(text)
    })
}

pub(super) fn not_one_of(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    format!("it is one of {}", names.join(", "))
}

/// Names of the two hosts of `--hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwoHosts(pub [String; 2]);

pub(super) fn two_hosts(text: &str) -> Result<TwoHosts, String> {
    match text.split_once(',') {
        Some((a, b)) if a != b && is_host_name(a) && is_host_name(b) => {
            Ok(TwoHosts([a.to_owned(), b.to_owned()]))
        }
        _ => Err(
            "two different names of the hosts file are asked for, such as `lab1,local`".to_owned(),
        ),
    }
}

/// Returns a parser for a directory, which may begin with one hyphen; with two it is rather an
/// option, and the name of the directory was forgotten.
pub(super) fn directory() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path.as_os_str().as_encoded_bytes().starts_with(b"--") {
            let path = path.display();
            Err(format!(
                "a directory is asked for; write `./{path}` if its name is `{path}`"
            ))
        } else {
            Ok(path)
        }
    })
}
