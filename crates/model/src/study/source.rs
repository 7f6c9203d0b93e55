//! Text of a study file, with errors that point into it.

use std::ops::Range;

use toml::de::DeTable;

use super::{
    error::{Result, StudyError},
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
    pub name: &'a str,
    pub text: &'a str,
    pub beside: ReadFile<'a>,
}

impl<'a> File<'a> {
    /// Parses the file; `hint` describes its form.
    pub fn parse(&self, hint: &str) -> Result<DeTable<'a>> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = error.message().trim_end_matches('.');
            self.error(span, format!("this is not TOML: {message}"), hint)
        })?;
        Ok(table.into_inner())
    }

    pub fn error(
        &self,
        span: Range<usize>,
        message: impl Into<Message>,
        hint: impl Into<Message>,
    ) -> StudyError {
        // A parser may point past the end, or into the middle of a character, of a malformed file.
        let floor = |at: usize| {
            let mut at = at.min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(span.start);
        StudyError {
            file: self.name.to_owned(),
            text: self.text.to_owned(),
            span: start..floor(span.end).max(start),
            message: message.into(),
            hint: hint.into(),
        }
    }
}
