//! Table of a study file whose keys are read one by one; keys left over at the end are unknown.

mod values;

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use self::values::text_of;
use super::{
    LONGEST_NAME,
    error::{Result, StudyError},
    message::{Message, key as name_of, message, setting},
    names::{list, nearest},
    source::File,
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

    /// Returns the text of a file that is named at `span`.
    pub fn file(&self, name: &str, span: &Range<usize>) -> Result<String> {
        (self.file.read(name, span))
            .map_err(|error| self.error(span.clone(), error.message, error.hint))
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
