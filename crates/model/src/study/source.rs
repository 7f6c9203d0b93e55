//! Text of a study file, with errors that point into it.

use std::ops::Range;

use toml::de::DeTable;

use super::{
    error::{Place, Result, StudyError},
    message::Message,
};
use crate::units::UnitError;

/// Function that reads a file that a study names, by its name as written there.
pub(super) type ReadFile<'a> = &'a (dyn Fn(&str) -> Result<String, UnitError> + 'a);

/// Reader of files beside a text that cannot name any.
pub(super) fn no_files(name: &str) -> Result<String, UnitError> {
    Err(UnitError::new(
        format!("this study cannot name a file, such as `{name}`"),
        "write the study into a file of its own, and the other one beside it",
    ))
}

/// Study file being read.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    name: &'a str,
    /// Text of the file, and after its end that of the options which are laid over it.
    text: &'a str,
    end: usize,
    beside: ReadFile<'a>,
    /// Reader of the files that the options name, where there are options.
    beside_options: Option<ReadFile<'a>>,
}

impl<'a> File<'a> {
    /// Name of options in place of that of a file.
    const OPTIONS: &'static str = "command line";

    pub fn new(name: &'a str, text: &'a str, beside: ReadFile<'a>) -> Self {
        Self {
            name,
            text,
            end: text.len(),
            beside,
            beside_options: None,
        }
    }

    /// Returns the file with options: `text` is its own, followed by that of the options.
    pub fn with_options(self, text: &'a str, beside: ReadFile<'a>) -> Self {
        Self {
            text,
            beside_options: Some(beside),
            ..self
        }
    }

    /// Parses the file; `hint` describes its form.
    pub fn parse(&self, hint: &str) -> Result<DeTable<'a>> {
        self.parse_text(self.text(), hint)
    }

    /// Parses a text whose spans are those of this file.
    pub fn parse_text(&self, text: &'a str, hint: &str) -> Result<DeTable<'a>> {
        let table = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = error.message().trim_end_matches('.');
            self.error(span, format!("this is not TOML: {message}"), hint)
        })?;
        Ok(table.into_inner())
    }

    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the text of the file without options.
    pub fn text(&self) -> &'a str {
        &self.text[..self.end]
    }

    /// Returns what is written at a span.
    pub fn written(&self, span: Range<usize>) -> Option<&'a str> {
        self.text.get(span)
    }

    /// Returns the span of a text in the file, at its beginning if it is not there.
    pub fn span_of(&self, text: &str) -> Range<usize> {
        let at = self.text().find(text);
        at.map_or(0..0, |at| at..at + text.len())
    }

    /// Reads a file that is named at a span.
    pub fn read(&self, name: &str, span: &Range<usize>) -> Result<String, UnitError> {
        match self.beside_options {
            Some(beside) if span.start >= self.end => beside(name),
            _ => (self.beside)(name),
        }
    }

    /// Returns an error at a span of the file, or of the options.
    pub fn error(
        &self,
        span: Range<usize>,
        message: impl Into<Message>,
        hint: impl Into<Message>,
    ) -> StudyError {
        let is_option = self.beside_options.is_some() && span.start >= self.end;
        let (name, text, from) = match is_option {
            true => (Self::OPTIONS, &self.text[self.end..], self.end),
            false => (self.name, self.text(), 0),
        };
        // A parser may point past the end, or into the middle of a character, of a malformed file.
        let floor = |at: usize| {
            let mut at = at.saturating_sub(from).min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(span.start);
        let place = Place {
            file: name.to_owned(),
            text: text.to_owned(),
            span: start..floor(span.end).max(start),
            is_option,
            entry: None,
        };
        StudyError {
            place: Box::new(place),
            message: message.into(),
            hint: hint.into(),
        }
    }
}
