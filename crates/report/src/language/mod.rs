//! Language of the sentences, headings and numbers of a report.
//!
//! The English text stands where it is used and is the key of the table of messages: `tr!("{} of {} trials", n, all)`.
//! A text without a Russian one stays in English; a test counts these. Warnings are looked up by their templates
//! ([`warning`]), and so are reasons, facts and settings of a path ([`shown`]); texts of the model without arguments, such as
//! titles of metrics, are by [`text`]. The language is that of the thread, as a locale is: [`with`] sets it while a report is made.

mod russian;

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    fmt::{Display, Write as _},
    sync::LazyLock,
};

use regatta_model::{
    Phrase, QueueSize, Sweep, Text, Warning, metric, phrase,
    study::Particular,
    template::{Renderer, Template, TemplatePart},
};

/// Language of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Russian.
    Russian,
}

impl Language {
    /// Returns the tag of the language (BCP 47).
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Russian => "ru",
        }
    }
}

thread_local! {
    static CURRENT: Cell<Language> = const { Cell::new(Language::English) };
}

/// Returns the language of this thread's reports.
#[must_use]
pub fn current() -> Language {
    CURRENT.get()
}

/// Calls `make` with this language for the reports of this thread.
pub fn with<T>(language: Language, make: impl FnOnce() -> T) -> T {
    struct Earlier(Language);
    impl Drop for Earlier {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _earlier = Earlier(CURRENT.replace(language));
    make()
}

/// Text of a report in its language, with its arguments instead of `{}` or, by position, `{1}`.
///
/// ```text
/// tr!("{} of {} trials saved", saved, planned)
/// ```
macro_rules! tr {
    ($english:literal $(, $argument:expr)* $(,)?) => {
        $crate::language::message($english, &[$(&$argument as &dyn std::fmt::Display),*])
    };
}

/// Text of a report with a number, which is its first argument, in the form that the number needs.
///
/// ```text
/// plural!(rounds, "{} round", "{} rounds")
/// ```
macro_rules! plural {
    ($count:expr, $one:literal, $many:literal $(, $argument:expr)* $(,)?) => {{
        let count: u64 = $count;
        $crate::language::counted(count, [$one, $many], &[&count as &dyn std::fmt::Display $(, &$argument)*])
    }};
}

pub(crate) use {plural, tr};

/// Forms of each message in Russian by its English text: one, or those for 1, 2 and 5.
static MESSAGES: LazyLock<HashMap<&'static str, &'static [&'static str]>> = LazyLock::new(|| {
    let messages = russian::MESSAGES
        .iter()
        .filter_map(|&(context, text, forms)| {
            let english = match context {
                "message" | "hint" => return None,
                "title" => metric::find(text)?.title,
                "definition" => metric::find(text)?.definition,
                _ => text,
            };
            Some((english, forms))
        });
    messages.collect()
});

/// Forms of each sentence of a template of a warning in Russian, by its part and its name.
static TEMPLATES: LazyLock<HashMap<(&'static str, &'static str), &'static [&'static str]>> =
    LazyLock::new(|| {
        let entries = russian::MESSAGES.iter();
        let entries = entries.map(|&(context, name, forms)| ((context, name), forms));
        entries.collect()
    });

/// Russian, as the language of a warning.
struct Russian;

impl Renderer for Russian {
    fn text(&self, template: &Template, part: TemplatePart, count: u64) -> &'static str {
        let forms = forms_of_template(template, part);
        forms.map_or(template.english(part), |forms| form(forms, count))
    }

    fn quantity(&self, english: String) -> String {
        russian::quantity(&english)
    }

    fn or(&self, has_commas: bool) -> &'static str {
        match has_commas {
            true => "; или ",
            false => " или ",
        }
    }
}

fn forms_of_template(template: &Template, part: TemplatePart) -> Option<&'static [&'static str]> {
    let context = match part {
        TemplatePart::Message => "message",
        TemplatePart::Hint => "hint",
    };
    TEMPLATES.get(&(context, template.name)).copied()
}

/// Returns a warning with message and hint in the language of the report. One of finished sentences keeps them.
pub(crate) fn warning(warning: &Warning) -> Warning {
    let mut shown = warning.clone();
    let content = warning.content.as_ref();
    if let Some(content) = content.filter(|_| current() == Language::Russian) {
        let in_russian = |part| content.render(part, &Russian);
        shown.message = in_russian(TemplatePart::Message).unwrap_or(shown.message);
        shown.hint = in_russian(TemplatePart::Hint).unwrap_or(shown.hint);
    }
    shown
}

/// Returns the form of a message for a number.
fn form(forms: &'static [&'static str], count: u64) -> &'static str {
    let position = match (count % 10, count % 100) {
        (1, hundred) if hundred != 11 => 0,
        (2..=4, hundred) if !(12..=14).contains(&hundred) => 1,
        _ => 2,
    };
    forms[position.min(forms.len() - 1)]
}

/// Fills in a message of the table: see [`tr`].
pub(crate) fn message(english: &str, arguments: &[&dyn Display]) -> String {
    fill(text(english), arguments)
}

/// Fills in a message with a number: see [`plural`].
pub(crate) fn counted(
    count: u64,
    english: [&'static str; 2],
    arguments: &[&dyn Display],
) -> String {
    let known = match current() {
        Language::English => None,
        Language::Russian => MESSAGES.get(english[1]),
    };
    let template = known.map_or(english[usize::from(count != 1)], |forms| form(forms, count));
    fill(template, arguments)
}

/// Substitutes arguments for `{}`, in their order, and for `{1}`, by their positions from 0.
fn fill(template: &str, arguments: &[&dyn Display]) -> String {
    let mut filled = String::with_capacity(template.len() + 16 * arguments.len());
    let mut next = 0;
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (position, after) = after.split_once('}').unwrap_or((after, ""));
        let position = position.parse().unwrap_or_else(|_| {
            next += 1;
            next - 1
        });
        filled.push_str(before);
        if let Some(argument) = arguments.get(position) {
            let _ = write!(filled, "{argument}");
        }
        rest = after;
    }
    filled + rest
}

/// Returns a text without arguments in the language of the report: the text itself if the table has no translation of it.
#[must_use]
pub fn text(english: &str) -> &str {
    match current() {
        Language::English => english,
        Language::Russian => MESSAGES.get(english).map_or(english, |forms| forms[0]),
    }
}

/// Returns the texts of a template in the language of the report, by the English ones.
pub(crate) fn of_template(template: &str) -> BTreeMap<&'static str, &'static str> {
    let messages = russian::MESSAGES.iter().filter(|it| it.0.is_empty());
    let used = messages.filter(|(_, english, _)| template.contains(&format!("\"{english}\"")));
    used.map(|(_, english, _)| (*english, text(english)))
        .collect()
}

/// Returns the symbol of a unit in the language of the report.
#[must_use]
pub fn unit(symbol: &'static str) -> &'static str {
    match current() {
        Language::English => symbol,
        Language::Russian => russian::unit(symbol).unwrap_or(symbol),
    }
}

/// Returns a formatted number with the decimal separator of the language.
#[must_use]
pub fn decimal(number: String) -> String {
    match current() {
        Language::English => number,
        Language::Russian => number.replace('.', ","),
    }
}

/// Returns a quantity that the model formats, such as `1.5 ms`, in the language of the report.
pub(crate) fn quantity(quantity: impl Display) -> String {
    let english = quantity.to_string();
    match current() {
        Language::English => english,
        Language::Russian => russian::quantity(&english),
    }
}

/// Returns a phrase in the language of the report.
pub(crate) fn render(phrase: &Phrase) -> String {
    let russian = || phrase.render(TemplatePart::Message, &Russian);
    let translated = (current() == Language::Russian).then(russian).flatten();
    translated.unwrap_or_else(|| phrase.to_string())
}

/// Returns the description of a setting of a link in the language of the report.
pub(crate) fn particular(particular: &Particular) -> String {
    match particular {
        Particular::Phrase(phrase) => render(phrase),
        Particular::Share(text, ratio) => message(text, &[&quantity(ratio)]),
    }
}

/// Returns a text of a result in the language of the report: one without a phrase as it is.
pub(crate) fn shown(text: &Text) -> String {
    text.phrase().map_or_else(|| text.to_string(), render)
}

/// Returns the value of a fact in the language of the report.
pub(crate) fn fact(value: &Text) -> String {
    match value.phrase() {
        Some(phrase) => render(phrase),
        None => text(value).to_owned(),
    }
}

/// Returns a value of a sweep, such as `0.5 %` or `50 packets`, in the language of the report.
pub(crate) fn swept(value: &str) -> String {
    match value.parse() {
        Ok(size @ QueueSize::Packets(_)) => render(&phrase::queue_limit(size)),
        _ => quantity(text(value)),
    }
}

/// Returns values of a sweep, given in the language of the report, with the name of their key: `0.5 % loss`.
pub(crate) fn with_key(sweep: &Sweep, values: &str) -> String {
    match sweep.wording() {
        Some(wording) => message(&wording, &[&values]),
        None => format!("{} {values}", text(&sweep.title())),
    }
}

#[cfg(test)]
mod tests;
