//! Phrases: templates of [`crate::warning`] or [`mod@crate::phrase`] with typed arguments, which a reader sees in one language
//! or another.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{ERRORS, FACTS, PHRASES, REASONS, WARNINGS};
use crate::units::{BitRate, Bytes, Ratio, format_duration, nanoseconds};

/// Template with the values of its arguments.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Phrase {
    /// Name of the template.
    pub template: String,
    /// Values by the names that the template has in braces.
    pub arguments: BTreeMap<String, Argument>,
}

/// Value in a phrase. In JSON it is an object with its kind as the only key: `{"time_ns": 1500000}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// Time span, in nanoseconds.
    TimeNs(u64),
    /// Amount of data, in bytes.
    Bytes(u64),
    /// Rate, in bits per second.
    RateBps(u64),
    /// Part of a whole, in millionths.
    RatioPpm(u64),
    /// Number of things.
    Count(u64),
    /// Text that is the same in every language, such as a name or what another program said.
    Text(String),
    /// Names, each in backticks, with commas between.
    Names(Vec<String>),
    /// Part of the sentence that is a phrase itself.
    Phrase(Phrase),
    /// Clauses, with semicolons between.
    Phrases(Vec<Phrase>),
    /// Parts, with commas between.
    List(Vec<Phrase>),
    /// Number with a decimal point, as text.
    Decimal(String),
    /// Option of the command line that `regatta run` has, with its hyphens, or option of a transport, without.
    Option(String),
}

/// Wording of a warning or of a part of one. In braces are the names of arguments, and options: `{--rate}` of the command
/// line, `{option rate}` of a transport. Alternatives have `|` between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// Unique name.
    pub name: &'static str,
    /// Names of the arguments.
    pub arguments: &'static [&'static str],
    /// Sentence in English, without a full stop.
    pub message: &'static str,
    /// Hint in English; empty if nothing can be done, and of a phrase.
    pub hint: &'static str,
}

/// Sentence of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplatePart {
    /// Sentence about the matter.
    Message,
    /// Command to type, or setting to change.
    Hint,
}

/// Language in which phrases are rendered.
pub trait Renderer {
    /// Returns a sentence of a template, in the form for a number of things.
    fn text(&self, template: &Template, part: TemplatePart, count: u64) -> &'static str;

    /// Returns a quantity such as `1.5 ms`, given in English.
    fn quantity(&self, english: String) -> String;

    /// Returns the name that the command which shows the text has for an option, given as [`Argument::Option`]; `None` if
    /// it has no such option, which leaves out the alternative that names it.
    fn option(&self, name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    /// Returns the word between alternatives, of which one has commas or none.
    fn or(&self, has_commas: bool) -> &'static str {
        match has_commas {
            true => "; or ",
            false => ", or ",
        }
    }
}

/// The language of the templates.
#[derive(Debug, Clone, Copy)]
pub struct English;

impl Renderer for English {
    fn text(&self, template: &Template, part: TemplatePart, _: u64) -> &'static str {
        template.english(part)
    }

    fn quantity(&self, english: String) -> String {
        english
    }
}

impl Template {
    /// Returns the template with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::all().find(|template| template.name == name)
    }

    /// Returns all templates.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        let tables = [WARNINGS, PHRASES, REASONS, ERRORS, FACTS];
        tables.into_iter().flatten()
    }

    /// Returns a sentence in English.
    #[must_use]
    pub const fn english(&self, part: TemplatePart) -> &'static str {
        match part {
            TemplatePart::Message => self.message,
            TemplatePart::Hint => self.hint,
        }
    }
}

impl Phrase {
    /// Renders a sentence; `None` for a template that this version does not have. Alternatives with options that the
    /// command lacks are left out.
    #[must_use]
    pub fn render(&self, part: TemplatePart, language: &dyn Renderer) -> Option<String> {
        let template = Template::find(&self.template)?;
        let count = placeholders(template.english(part)).find_map(|name| self.count(name));
        let text = language.text(template, part, count.unwrap_or(0));
        let alternatives = text.split(" | ").filter_map(|it| self.fill(it, language));
        let alternatives: Vec<String> = alternatives.collect();
        let has_commas = alternatives.iter().any(|it| it.contains(','));
        Some(alternatives.join(language.or(has_commas)))
    }

    /// Fills in a text; `None` if it has an option that the command lacks.
    fn fill(&self, text: &str, language: &dyn Renderer) -> Option<String> {
        let mut filled = String::with_capacity(2 * text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            filled.push_str(before);
            filled.push_str(&match self.arguments.get(name) {
                Some(argument) => argument.render(language)?,
                None => match option_in(name) {
                    Some(option) => language.option(option)?,
                    None => String::new(),
                },
            });
            rest = after;
        }
        filled.push_str(rest);
        Some(filled)
    }

    fn count(&self, name: &str) -> Option<u64> {
        match self.arguments.get(name)? {
            Argument::Count(count) => Some(*count),
            _ => None,
        }
    }
}

/// In English.
impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.render(TemplatePart::Message, &English);
        f.write_str(&text.unwrap_or_else(|| self.template.clone()))
    }
}

impl Argument {
    /// Creates the argument of a number that has these decimals.
    #[must_use]
    pub fn decimal(number: f64, decimals: usize) -> Self {
        Self::Decimal(format!("{number:.decimals$}"))
    }

    /// Creates the argument of an option, by its name: see [`Argument::Option`].
    #[must_use]
    pub fn option(name: &str) -> Self {
        Self::Option(name.to_owned())
    }

    /// Renders the value; `None` if it is an option that the command lacks, or contains such an option.
    fn render(&self, language: &dyn Renderer) -> Option<String> {
        let of_phrase = |phrase: &Phrase| match phrase.render(TemplatePart::Message, language) {
            Some(text) => Some(text).filter(|text| !text.is_empty()),
            None => Some(phrase.to_string()),
        };
        Some(match self {
            Self::TimeNs(ns) => language.quantity(format_duration(Duration::from_nanos(*ns))),
            Self::Bytes(bytes) => language.quantity(Bytes(*bytes).to_string()),
            Self::RateBps(bps) => language.quantity(BitRate(*bps).to_string()),
            Self::RatioPpm(ppm) => language.quantity(Ratio(*ppm as f64 / 1e6).to_string()),
            Self::Count(count) => count.to_string(),
            Self::Text(text) => text.clone(),
            Self::Names(names) => match names.is_empty() {
                true => String::new(),
                false => format!("`{}`", names.join("`, `")),
            },
            Self::Phrase(phrase) => return of_phrase(phrase),
            Self::Phrases(phrases) => {
                let clauses: Vec<String> = phrases.iter().filter_map(of_phrase).collect();
                clauses.join("; ")
            }
            Self::List(parts) => {
                let parts: Vec<String> = parts.iter().filter_map(of_phrase).collect();
                parts.join(", ")
            }
            Self::Decimal(number) => language.quantity(number.clone()),
            Self::Option(name) => return language.option(name),
        })
    }
}

/// Returns the names of the arguments in a sentence of a template, in their order.
pub fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split('{').skip(1);
    let names = parts.filter_map(|part| Some(part.split_once('}')?.0));
    names.filter(|name| option_in(name).is_none())
}

/// Returns the option that is named in braces: one of the command line by its name, one of a transport after `option `.
fn option_in(braces: &str) -> Option<&str> {
    let of_command = Some(braces).filter(|name| name.starts_with("--"));
    of_command.or_else(|| braces.strip_prefix("option "))
}

macro_rules! from {
    ($($kind:ty => |$value:ident| $argument:expr;)+) => {
        $(impl From<$kind> for Argument {
            fn from($value: $kind) -> Self {
                $argument
            }
        })+
    };
}

from! {
    Duration => |time| Self::TimeNs(nanoseconds(time));
    Bytes => |bytes| Self::Bytes(bytes.0);
    BitRate => |rate| Self::RateBps(rate.0);
    Ratio => |ratio| Self::RatioPpm((ratio.0 * 1e6).round() as u64);
    u64 => |count| Self::Count(count);
    &str => |text| Self::Text(text.to_owned());
    Vec<String> => |names| Self::Names(names);
    Phrase => |phrase| Self::Phrase(phrase);
    Vec<Phrase> => |phrases| Self::Phrases(phrases);
}

/// Makes a [`Phrase`] of a template's name and its arguments.
macro_rules! phrase {
    ($template:ident($($argument:ident),*)) => {
        $crate::warning::template::Phrase {
            template: stringify!($template).to_owned(),
            arguments: std::collections::BTreeMap::from([
                $((stringify!($argument).to_owned(), $crate::warning::template::Argument::from($argument))),*
            ]),
        }
    };
}
pub(crate) use phrase;

/// Defines a table of phrases: its name and meaning; then name, arguments and text of each.
macro_rules! phrases {
    ($table:ident $meaning:literal: $($name:ident($($argument:ident: $kind:ty),*) = $text:literal;)+) => {
        #[doc = $meaning]
        pub const $table: &[$crate::warning::template::Template] = &[$($crate::warning::template::Template {
            name: stringify!($name),
            arguments: &[$(stringify!($argument)),*],
            message: $text,
            hint: "",
        }),+];

        $(
            #[doc = concat!("Returns the phrase `", stringify!($name), "`.")]
            #[must_use]
            pub fn $name($($argument: $kind),*) -> $crate::warning::template::Phrase {
                $crate::warning::template::phrase!($name($($argument),*))
            }
        )+
    };
}
pub(crate) use phrases;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{phrase, warning};

    #[test]
    fn every_template_has_its_own_name_and_names_its_arguments() {
        let mut seen = BTreeSet::new();
        for template in Template::all() {
            assert!(seen.insert(template.name), "{}", template.name);
            let sentences = [template.message, template.hint];
            let named: BTreeSet<&str> = sentences.into_iter().flat_map(placeholders).collect();
            let arguments = template.arguments.iter().copied().collect();
            assert_eq!(named, arguments, "{}", template.name);
        }
    }

    #[test]
    fn a_warning_renders_its_arguments_by_their_names() {
        let deviation = phrase::deviation(
            "forward_loss_ratio",
            Ratio(0.0213).into(),
            Ratio(0.01).into(),
        );
        let warning = warning::path_off("lossy", vec![deviation.clone(), deviation]);
        assert_eq!(warning.code, "path_out_of_tolerance");
        assert_eq!(
            warning.message,
            "the path of `lossy` was outside its tolerance when it was checked: `forward_loss_ratio` was 2.13 % \
             instead of 1 %; `forward_loss_ratio` was 2.13 % instead of 1 %"
        );
    }

    #[test]
    fn a_warning_is_the_same_after_it_was_stored() {
        let stored = warning::deadline_reached(
            Duration::from_millis(1500),
            phrase::part_of(Bytes(1_000_000), Bytes(2_000_000)),
            phrase::smaller_size(),
        );
        let json = serde_json::to_string(&stored.content).unwrap();
        assert_eq!(
            json,
            r#"{"template":"deadline_reached","arguments":{"deadline":{"time_ns":1500000000},"delivered":{"phrase":{"template":"part_of","arguments":{"all":{"bytes":2000000},"bytes":{"bytes":1000000}}}},"shorter":{"phrase":{"template":"smaller_size","arguments":{}}}}}"#
        );
        let content: Option<Phrase> = serde_json::from_str(&json).unwrap();
        assert_eq!(content, stored.content);
    }

    #[test]
    fn a_template_of_another_version_has_no_text() {
        let unknown = Phrase {
            template: "of_tomorrow".into(),
            arguments: BTreeMap::new(),
        };
        assert_eq!(unknown.render(TemplatePart::Message, &English), None);
        assert_eq!(unknown.to_string(), "of_tomorrow");
    }
}
