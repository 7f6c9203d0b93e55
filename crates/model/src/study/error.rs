//! Errors in a study file, with their span and a hint.

use std::{fmt, ops::Range};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::message::Message;
use crate::shell::printable;

/// Result of reading a study file.
pub type Result<T, E = StudyError> = std::result::Result<T, E>;

/// Error in a study file, or in an option that is laid over it. Its display shows the file, the line and a caret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StudyError {
    pub(super) place: Box<Place>,
    /// Description of the error, without a full stop.
    pub message: Message,
    /// Hint on what to type instead.
    pub hint: Message,
}

/// Place of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Name of the file.
    pub file: String,
    /// Text of the file, or that of the options as a study has them.
    pub text: String,
    pub span: Range<usize>,
    /// Whether the value is that of an option, and not of the file.
    pub is_option: bool,
    /// Condition or workload that is wrong, such as "the condition `dsl`".
    pub entry: Option<String>,
}

impl StudyError {
    /// Returns the line of the error, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        1 + self.place.text[..self.place.span.start]
            .matches('\n')
            .count()
    }

    /// Whether the error is about a value in the file: not about that of an option, nor about the whole file.
    #[must_use]
    pub fn is_in_file(&self) -> bool {
        !self.place.is_option && !self.place.span.is_empty()
    }

    /// Returns the condition or workload that is wrong, such as "the condition `dsl`".
    #[must_use]
    pub fn entry(&self) -> Option<&str> {
        self.place.entry.as_deref()
    }

    /// Returns the name of the table in which the error is, such as `condition.forward`; empty at the
    /// head of the study.
    #[must_use]
    pub fn table(&self) -> &str {
        let before = &self.place.text[..self.place.span.start];
        let header = before.lines().rev().find(|line| line.starts_with('['));
        header.map_or("", |line| line.trim_matches(['[', ']']))
    }

    /// Returns key and value, as TOML, of the line in which the error is, unless the message names the key.
    #[must_use]
    pub fn unnamed_setting(&self) -> Option<(&str, &str)> {
        if self.place.span.is_empty() {
            return None;
        }
        let before = &self.place.text[..self.place.span.start];
        let begins = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.place.text[begins..].lines().next()?;
        let (key, value) = line.split_once(" = ")?;
        (!self.message.names(key)).then_some((key, value))
    }

    /// Returns the whole message with the excerpt of the file, in colour if `colour` is set.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let snippet = Snippet::source(&self.place.text)
            .path(printable(&self.place.file))
            .annotation(AnnotationKind::Primary.span(self.place.span.clone()));
        let report = [
            Level::ERROR
                .primary_title(printable(&self.message.to_string()))
                .element(snippet),
            Level::HELP
                .with_name(Some("hint"))
                .secondary_title(printable(&self.hint.to_string()))
                .elements([] as [annotate_snippets::Element<'_>; 0]),
        ];
        let renderer = match colour {
            true => Renderer::styled(),
            false => Renderer::plain(),
        };
        renderer.render(&report)
    }
}

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for StudyError {}
