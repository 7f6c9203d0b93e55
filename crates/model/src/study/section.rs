//! Table of a study file whose keys are read one by one; keys left over at the end are unknown.

use std::{ops::Range, str::FromStr, time::Duration};

use toml::{
    Spanned,
    de::{DeArray, DeInteger, DeTable, DeValue},
};

use super::{
    LONGEST_NAME,
    error::{Result, StudyError},
    message::{Message, key as name_of, message, setting},
    names::{list, nearest, one_of},
    source::File,
};
use crate::{
    condition::Condition,
    named::Named,
    units::{Bytes, UnitError, beginning, parse_duration},
};

/// Value that was read, with its span in the file.
pub(super) type Taken<T> = Option<(T, Range<usize>)>;

/// Returns the first of some mistakes whose condition holds, as an error of a section: span, and message and hint as
/// [`message!`] takes them.
macro_rules! refuse {
    ($section:expr; $($is:expr => $span:expr, $message:tt, $hint:tt;)+) => {
        $(if $is {
            use $crate::study::message::message;
            return Err($section.error($span, message!($message), message!($hint)));
        })+
    };
}
pub(super) use refuse;

/// Text, number or flag, as a study has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scalar {
    /// The value as TOML.
    pub source: String,
    /// The value without quotes.
    pub shown: String,
    /// Whether the value is a text.
    pub is_text: bool,
    /// Span of the value.
    pub span: Range<usize>,
}

/// One table of the file, with its name and the keys that were read so far.
#[derive(Clone)]
pub(super) struct Section<'a> {
    file: File<'a>,
    /// Name in messages: `the study`, `[[transport]]`.
    name: String,
    span: Range<usize>,
    table: DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub fn new(file: File<'a>, name: &str, span: Range<usize>, table: DeTable<'a>) -> Self {
        Self {
            file,
            name: name.to_owned(),
            span,
            table,
            known: Vec::new(),
        }
    }

    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the file that this table is in.
    pub fn source(&self) -> File<'a> {
        self.file
    }

    /// Returns an error at a span in this table.
    pub fn error(
        &self,
        span: Range<usize>,
        message: impl Into<Message>,
        hint: impl Into<Message>,
    ) -> StudyError {
        self.file.error(span, message, hint)
    }

    /// Takes the value of a key, for one that may be of several kinds.
    pub fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.remove(key)
    }

    fn wrong_kind(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        want: &str,
        example: &str,
    ) -> StudyError {
        let found = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a number",
            DeValue::Float(_) => "a decimal number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(
            value.span(),
            message!([
                name_of(key),
                format!(" in {} is {want}, not {found}", self.name),
            ]),
            message!(["write ", setting(key, example)]),
        )
    }

    /// Reads a value with `of`, which returns `None` for another kind than the one that is wanted, such as `a text`.
    fn value<T>(
        &mut self,
        key: &'static str,
        (want, example): (&str, &str),
        of: impl Fn(&DeValue<'a>) -> Option<T>,
    ) -> Result<Taken<T>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        match of(value.get_ref()) {
            Some(read) => Ok(Some((read, value.span()))),
            None => Err(self.wrong_kind(&value, key, want, example)),
        }
    }

    /// Reads a text that is one of many known ones, such as `example`.
    pub fn text_such_as(&mut self, key: &'static str, example: &str) -> Result<Taken<String>> {
        self.value(key, ("a text", &toml_text(example)), text_of)
    }

    /// Reads a text.
    pub fn text(&mut self, key: &'static str) -> Result<Taken<String>> {
        let quoted = self.bare(key).map(|bare| format!("\"{bare}\""));
        let example = quoted.as_deref().unwrap_or("\"…\"");
        self.value(key, ("a text", example), text_of)
    }

    /// Returns a number or flag as it is written, where a text may be meant.
    fn bare(&self, key: &str) -> Option<&'a str> {
        let value = self.table.get(key)?;
        let is_scalar = matches!(
            value.get_ref(),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_)
        );
        self.file.written(value.span()).filter(|_| is_scalar)
    }

    /// Returns a text that `fits` if it is written without quotes.
    fn quoted(&self, key: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
        let (text, _) = self.peek(key)?;
        Some(text.trim().to_owned()).filter(|text| fits(text))
    }

    /// Reads a quantity with a unit, written as a text; refuses a bare number except 0 and names the unit.
    pub fn quantity<T>(
        &mut self,
        key: &'static str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Result<Taken<T>> {
        self.quantity_fitting(key, default, |_| true, parse)
    }

    /// Reads a quantity as [`Section::quantity`] does; hints have only values that `fits`.
    fn quantity_fitting<T>(
        &mut self,
        key: &'static str,
        default: &str,
        fits: impl Fn(&T) -> bool,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Result<Taken<T>> {
        // The number that is written, with the unit of the example.
        let unit = default.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let has_unit = unit != default && !unit.is_empty();
        let number = (self.bare(key)).filter(|it| has_unit && it.parse::<u64>().is_ok());
        let written = number.map(|number| format!("{number}{unit}"));
        let example = written.filter(|written| parse(written).is_ok_and(|it| fits(&it)));
        let example = format!("\"{}\"", example.as_deref().unwrap_or(default));
        let taken = self.value(key, ("a text with a unit", &example), quantity_of)?;
        let parsed = taken.map(|(text, span)| match parse(&text) {
            Ok(parsed) => Ok((parsed, span)),
            Err(error) => Err(self.error(span, error.message, error.hint)),
        });
        parsed.transpose()
    }

    /// Reads a quantity as [`Section::quantity`] does, where the usual examples of its unit are refused: hints have this one.
    pub fn quantity_such_as<T>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Result<Taken<T>> {
        self.quantity(key, example, |text| {
            let hint = || format!("write a value such as `{example}`");
            parse(text).map_err(|error| UnitError::new(error.message, hint()))
        })
    }

    /// Reads a quantity by its type's [`FromStr`].
    pub fn parsed<T: FromStr<Err = UnitError>>(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> Result<Taken<T>> {
        self.quantity(key, example, str::parse)
    }

    /// Reads a time span of at most 30 days.
    pub fn duration(&mut self, key: &'static str, example: &str) -> Result<Taken<Duration>> {
        self.quantity(key, example, |text| {
            let time = parse_duration(text)?;
            if time > Condition::LONGEST_TIME {
                let hint = format!("write a time such as `{example}`");
                return Err(UnitError::new("this time is longer than 30 days", hint));
            }
            Ok(time)
        })
    }

    /// Reads a time span of at most 30 days; hints have one of at most `most`.
    pub fn duration_up_to(&mut self, key: &'static str, most: Duration) -> Result<Taken<Duration>> {
        let example = match most.as_micros() {
            0 => "0ms".to_owned(),
            micros @ 1..2000 => format!("{micros}us"),
            _ => "2ms".to_owned(),
        };
        let fits = |time: &Duration| *time <= most;
        self.quantity_fitting(key, &example, fits, |text| {
            let hint = || format!("write a time of at most the delay, such as `{example}`");
            match parse_duration(text) {
                Ok(time) if time <= Condition::LONGEST_TIME => Ok(time),
                Ok(_) => Err(UnitError::new("this time is longer than 30 days", hint())),
                Err(error) => Err(UnitError::new(error.message, hint())),
            }
        })
    }

    /// Reads a time span, or returns its default; refuses zero and times longer than 30 days.
    pub fn time_or(
        &mut self,
        key: &'static str,
        example: &str,
        default: Duration,
    ) -> Result<Duration> {
        let taken = self.duration(key, example)?;
        self.time(taken, example)
            .map(|time| time.unwrap_or(default))
    }

    /// Checks a time that was read: refuses zero.
    pub fn time(&self, taken: Taken<Duration>, example: &str) -> Result<Option<Duration>> {
        let Some((value, span)) = taken else {
            return Ok(None);
        };
        refuse! { self;
            value.is_zero() => span,
                "this time must be longer than zero and at most 30 days", "write a time such as `{example}`";
        }
        Ok(Some(value))
    }

    /// Reads a size between two bounds in bytes, both allowed, and its span.
    pub fn amount(
        &mut self,
        key: &'static str,
        example: &str,
        [least, most]: [u64; 2],
    ) -> Result<Taken<Bytes>> {
        let bounds = [least, most].map(|bound| Bytes(bound).exact());
        let [shortest, longest] = bounds.each_ref().map(|bound| bound.replace(' ', ""));
        let hint = || format!("write a size from `{shortest}` to `{longest}`");
        self.quantity(key, example, |text| match text.parse::<Bytes>() {
            Ok(size) if !(least..=most).contains(&size.0) => {
                let [least, most] = &bounds;
                let message = format!("this size must be from {least} to {most}");
                Err(UnitError::new(message, hint()))
            }
            // The usual examples are too large.
            Err(error) if most < 10_000_000 => Err(UnitError::new(error.message, hint())),
            parsed => parsed,
        })
    }

    /// Checks that a name or label can be shown in tables: some visible characters on one line.
    pub fn visible(&self, key: &str, name: &str, span: Range<usize>) -> Result<()> {
        let length = name.chars().count();
        let message = if length > LONGEST_NAME {
            format!("this {key} has {length} characters, and the longest {key} has {LONGEST_NAME}")
        } else if name.trim().is_empty() || name.chars().any(char::is_control) {
            format!("`{}` cannot be a {key}", name.escape_debug())
        } else {
            return Ok(());
        };
        let hint = format!("write 1 to {LONGEST_NAME} visible characters on one line");
        Err(self.error(span, message, hint))
    }

    /// Reads a text that must be there, with its span.
    pub fn required_text(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> Result<(String, Range<usize>)> {
        let text = self.text(key)?;
        self.required(key, example, text)
    }

    /// Reads a list of whole numbers, or the name of a file with one on each line.
    pub fn numbers(&mut self, key: &'static str) -> Result<Taken<Vec<u64>>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let span = value.span();
        let of_item = |item: &Spanned<DeValue<'_>>| {
            let wrong = || self.wrong_kind(item, key, "a list of whole numbers", "[3, 17]");
            let number = item.get_ref().as_integer().ok_or_else(wrong)?;
            whole(number).ok_or_else(|| {
                let message = format!("`{}` is no number of a packet", number.as_str());
                self.error(item.span(), message, "the first packet is 1")
            })
        };
        let numbers: Result<Vec<u64>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(of_item).collect(),
            DeValue::String(name) => {
                let text = self.file(name, &span)?;
                let of_line = |(line, text): (usize, &str)| {
                    text.trim().parse().map_err(|_| {
                        let (line, shown) = (line + 1, beginning(text));
                        let message =
                            format!("line {line} of `{name}` is no whole number: `{shown}`");
                        let hint = "write one number a line; the first packet is 1";
                        self.error(span.clone(), message, hint)
                    })
                };
                text.lines().enumerate().map(of_line).collect()
            }
            _ => {
                let want = "a list of whole numbers or the name of a file";
                Err(self.wrong_kind(&value, key, want, "[3, 17]"))
            }
        };
        Ok(Some((numbers?, span)))
    }

    /// Returns the text of a file that is named at `span`.
    pub fn file(&self, name: &str, span: &Range<usize>) -> Result<String> {
        (self.file.read(name, span))
            .map_err(|error| self.error(span.clone(), error.message, error.hint))
    }

    /// Reads a whole number from `lowest` to `highest`, inclusive.
    pub fn number(&mut self, key: &'static str, lowest: u64, highest: u64) -> Result<Option<u64>> {
        let taken = self.number_at(key, lowest, highest)?;
        Ok(taken.map(|(number, _)| number))
    }

    /// Reads a whole number from `lowest` to `highest`, inclusive, and its span.
    pub fn number_at(
        &mut self,
        key: &'static str,
        lowest: u64,
        highest: u64,
    ) -> Result<Taken<u64>> {
        let is_number = |text: &str| {
            let number = text.parse::<u64>();
            number.is_ok_and(|number| (lowest..=highest).contains(&number))
        };
        let example = self.quoted(key, is_number);
        let example = example.unwrap_or_else(|| lowest.max(1).to_string());
        let kind = ("a whole number", &*example);
        let taken = self.value(key, kind, |value| {
            let number = value.as_integer()?;
            Some((number.as_str().to_owned(), whole(number)))
        })?;
        match taken {
            None => Ok(None),
            Some(((_, Some(number)), span)) if (lowest..=highest).contains(&number) => {
                Ok(Some((number, span)))
            }
            Some(((written, _), span)) => Err(self.error(
                span,
                message!([name_of(key), format!(" cannot be {written}")]),
                format!("write a whole number from {lowest} to {highest}"),
            )),
        }
    }

    /// Reads `true` or `false`, and its span.
    pub fn flag(&mut self, key: &'static str) -> Result<Taken<bool>> {
        let example = self.quoted(key, |text| text.parse::<bool>().is_ok());
        let example = example.as_deref().unwrap_or("true");
        self.value(key, ("true or false", example), DeValue::as_bool)
    }

    /// Reads the name of a value of a type.
    pub fn choice<T: Named>(&mut self, key: &'static str) -> Result<Option<T>> {
        Ok(self.choice_at(key)?.map(|(value, _)| value))
    }

    /// Reads the name of a value of a type, and its span.
    pub fn choice_at<T: Named>(&mut self, key: &'static str) -> Result<Taken<T>> {
        self.choice_of(key, T::NAMES)
    }

    /// Reads one of several names, and its span.
    pub fn choice_of<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Result<Taken<T>> {
        let first = choices.first().map_or("…", |(name, _)| name);
        let example = format!("\"{first}\"");
        let Some((chosen, span)) = self.value(key, ("a text", &example), text_of)? else {
            return Ok(None);
        };
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == chosen) {
            return Ok(Some((*value, span)));
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let hint = format!("write {}", one_of(&names));
        let message = message!([format!("`{chosen}` is not a value of "), name_of(key)]);
        Err(self.error(span, message, hint))
    }

    /// Reads a number above zero.
    pub fn factor(&mut self, key: &'static str) -> Result<Option<f64>> {
        let number = |value: &DeValue<'_>| match value {
            DeValue::Integer(it) => i64::from_str_radix(it.as_str(), it.radix())
                .ok()
                .map(|it| it as f64),
            DeValue::Float(it) => it.as_str().replace('_', "").parse().ok(),
            _ => None,
        };
        match self.value(key, ("a number", "1.5"), number)? {
            Some((value, span)) if !(value.is_finite() && value > 0.0) => Err(self.error(
                span,
                format!("`{key}` is not above zero"),
                format!("such as `{key} = 1.5`"),
            )),
            taken => Ok(taken.map(|(value, _)| value)),
        }
    }

    /// Reads a list of texts.
    pub fn texts(&mut self, key: &'static str) -> Result<Vec<String>> {
        let kind = ("a list of texts", "[\"…\"]");
        let items = self.value(key, kind, |value| Some(value.as_array()?.clone()))?;
        let items = items.map_or_else(DeArray::new, |(items, _)| items);
        (items.iter())
            .map(|item| {
                let text = text_of(item.get_ref());
                text.ok_or_else(|| self.wrong_kind(item, key, kind.0, kind.1))
            })
            .collect()
    }

    /// Reads a text, a whole number, `true` or `false`.
    pub fn scalar(&mut self, key: &'static str, example: &str) -> Result<Option<Scalar>> {
        let value = self.take(key);
        let scalar = value.map(|value| self.scalar_of(&value, key, example));
        scalar.transpose()
    }

    /// Reads a list of texts, whole numbers and flags.
    pub fn scalars(&mut self, key: &'static str, example: &str) -> Result<Option<Vec<Scalar>>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.wrong_kind(&value, key, "a list of values", example));
        };
        let items = items.iter().map(|item| self.scalar_of(item, key, example));
        items.collect::<Result<_, _>>().map(Some)
    }

    fn scalar_of(&self, value: &Spanned<DeValue<'_>>, key: &str, example: &str) -> Result<Scalar> {
        let span = value.span();
        let shown = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            _ => {
                let want = "made of texts, whole numbers, `true` or `false`";
                return Err(self.wrong_kind(value, key, want, example));
            }
        };
        let source = self.file.written(span.clone()).unwrap_or_default();
        Ok(Scalar {
            source: source.to_owned(),
            shown,
            is_text: value.get_ref().is_str(),
            span,
        })
    }

    /// Returns a text that is not read yet, and its span.
    pub fn peek(&self, key: &str) -> Option<(String, Range<usize>)> {
        let value = self.table.get(key)?;
        Some((text_of(value.get_ref())?, value.span()))
    }

    /// Returns the span of the value of a key that is not read yet.
    pub fn span_of(&self, key: &str) -> Option<Range<usize>> {
        self.table.get(key).map(Spanned::span)
    }

    /// Returns the tables of a list that is not read yet.
    pub fn peek_tables(&self, key: &str) -> impl Iterator<Item = &DeTable<'a>> {
        let list = self.table.get(key).and_then(|it| it.get_ref().as_array());
        let items = list.into_iter().flatten();
        items.filter_map(|it| it.get_ref().as_table())
    }

    /// Returns the names of the keys that were not read.
    pub fn unread(&self) -> impl Iterator<Item = &str> {
        self.table.keys().map(|key| &**key.get_ref())
    }

    /// Returns the keys that were not read, to be changed.
    pub fn table_mut(&mut self) -> &mut DeTable<'a> {
        &mut self.table
    }

    /// Refuses two keys of which only one may be present. To be called before either is read.
    pub fn not_both(&self, one: &str, other: &str) -> Result<()> {
        match (self.table.get(one), self.table.get(other)) {
            (Some(_), Some(value)) => Err(self.error(
                value.span(),
                message!([
                    name_of(one),
                    " and ",
                    name_of(other),
                    " cannot stand together"
                ]),
                message!(["leave out one of ", name_of(one), " and ", name_of(other)]),
            )),
            _ => Ok(()),
        }
    }

    /// Whether the value of a key is a table.
    pub fn is_table(&self, key: &str) -> bool {
        let value = self.table.get(key);
        value.is_some_and(|value| value.get_ref().is_table())
    }

    /// Whether the value of a key is a list.
    pub fn is_list(&self, key: &str) -> bool {
        let value = self.table.get(key);
        value.is_some_and(|value| value.get_ref().is_array())
    }

    /// Reads a table inside this one.
    pub fn section(&mut self, key: &'static str, name: &str) -> Result<Option<Self>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let span = value.span();
        if let DeValue::Table(table) = value.into_inner() {
            return Ok(Some(Self::new(self.file, name, span, table)));
        }
        let header = match self.name.trim_matches(['[', ']']) {
            "the study" => key.to_owned(),
            parent if parent != self.name => format!("{parent}.{key}"),
            _ => name.trim_matches(['[', ']', '`']).to_owned(),
        };
        let hint = format!("write it as `[{header}]` with its keys below");
        Err(self.error(span, message!([name_of(key), " is a table"]), hint))
    }

    /// Reads the tables of a list `[[name]]`, whose last part is the key.
    pub fn sections(&mut self, key: &'static str, name: &str) -> Result<Vec<Self>> {
        let Some(value) = self.take(key) else {
            return Ok(Vec::new());
        };
        let parent = self.name.trim_matches(['[', ']']);
        let header = match parent == self.name {
            true => name.to_owned(),
            false => format!("{parent}.{key}"),
        };
        let wrong = |span| {
            let hint = format!("write each one as `[[{header}]]` with its keys below");
            self.error(span, message!([name_of(key), " is a list of tables"]), hint)
        };
        let DeValue::Array(items) = value.get_ref() else {
            return Err(wrong(value.span()));
        };
        items
            .iter()
            .map(|item| {
                let table = item.get_ref().as_table();
                let table = table.ok_or_else(|| wrong(item.span()))?.clone();
                let name = format!("[[{name}]]");
                Ok(Self::new(self.file, &name, item.span(), table))
            })
            .collect()
    }

    /// Returns `taken`, or an error that the key is missing.
    pub fn required<T>(&self, key: &str, example: &str, taken: Option<T>) -> Result<T> {
        taken.ok_or_else(|| {
            self.error(
                self.span.clone(),
                message!([format!("{} has no ", self.name), name_of(key)]),
                message!(["add ", setting(key, example)]),
            )
        })
    }

    /// Reads the name of a transport, condition or workload (`what`) of the study; `names` are those that it has.
    pub fn known_text<'n>(
        &mut self,
        key: &'static str,
        what: &str,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Result<Taken<String>> {
        let example = names.clone().next().unwrap_or_default();
        let taken = self.text_such_as(key, example)?;
        if let Some((name, span)) = &taken {
            self.known(what, name, span, names)?;
        }
        Ok(taken)
    }

    /// Checks that the study has a transport, condition or workload (`what`) of this name; `names` are those that it has.
    pub fn known<'n>(
        &self,
        what: &str,
        name: &str,
        span: &Range<usize>,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<()> {
        let names: Vec<&str> = names.collect();
        if names.contains(&name) {
            return Ok(());
        }
        let hint = match nearest(name, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write one of: {}", names.join(", ")),
        };
        let message = format!("this study has no {what} `{name}`");
        Err(self.error(span.clone(), message, hint))
    }

    /// Returns all keys that were not read, with their values.
    pub fn rest(&mut self) -> DeTable<'a> {
        std::mem::take(&mut self.table)
    }

    /// Returns an error for the first key that was not read.
    pub fn end(&self) -> Result<()> {
        self.end_unless(|_| None)
    }

    /// Returns an error for the first key that was not read. `misplaced` returns the hint for a key of another table.
    pub fn end_unless(&self, misplaced: impl FnOnce(&str) -> Option<Message>) -> Result<()> {
        let Some((key, _)) = self.table.iter().min_by_key(|(key, _)| key.span().start) else {
            return Ok(());
        };
        let hint = misplaced(key.get_ref()).unwrap_or_else(|| {
            let near = nearest(key.get_ref(), &self.known);
            let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            format!("{near}{} knows {}", self.name, list(&self.known)).into()
        });
        let message = message!([
            "unknown key ",
            name_of(key.get_ref()),
            format!(" in {}", self.name),
        ]);
        Err(self.error(key.span(), message, hint))
    }
}

/// Stores a value that was read, and returns its span.
pub(super) fn set<T>(taken: Taken<T>, into: &mut T) -> Option<Range<usize>> {
    let (value, span) = taken?;
    *into = value;
    Some(span)
}

/// Stores a value that need not be set, and returns its span.
pub(super) fn set_some<T>(taken: Taken<T>, into: &mut Option<T>) -> Option<Range<usize>> {
    set(taken.map(|(value, span)| (Some(value), span)), into)
}

/// Returns a text as TOML.
pub(super) fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn text_of(value: &DeValue<'_>) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Returns a quantity as a text; 0 needs no unit, and so no text.
fn quantity_of(value: &DeValue<'_>) -> Option<String> {
    let number = value.as_integer().and_then(|it| it.as_str().parse().ok());
    text_of(value).or_else(|| (number == Some(0)).then(|| "0".to_owned()))
}

/// Returns a whole number that is not negative.
fn whole(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}
