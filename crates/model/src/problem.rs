//! Failures, as processes report them to one another and as records of trials keep them.

use std::{
    error::Error,
    fmt,
    iter::{once, successors},
};

use serde::{Deserialize, Serialize};

use crate::{reason, warning::Text};

/// Failure in one shape between the place where it happened and the screen: kind, causes and hint.
///
/// As an [`Error`] it is its outermost cause, with the others as sources. The hint is made where the failure happened, by
/// whoever knows the limits of that process and what its machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Kind of failure.
    pub kind: ProblemKind,
    /// The causes, outermost first.
    #[serde(rename = "reasons")]
    cause: Cause,
    /// Command or setting that may help; may be empty.
    pub hint: Text,
}

/// Kind of a failure, by which an outcome and an exit code are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// This host cannot do what was asked for, such as run this transport with one of its options.
    Unsupported,
    /// Something broke.
    Failed,
    /// The other end gave no answer in time.
    TimedOut,
    /// Somebody outside ended or stopped a process, or took an interface down, which says nothing of what was asked for.
    Disturbed,
}

/// Cause of a failure, with its own cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Text>", into = "Vec<Text>")]
struct Cause {
    text: Text,
    source: Option<Box<Cause>>,
}

impl Problem {
    /// Creates a problem of its causes, outermost first, and a hint, which may be empty.
    pub fn new<T: Into<Text>>(
        kind: ProblemKind,
        reasons: impl IntoIterator<Item = T>,
        hint: impl Into<Text>,
    ) -> Self {
        let reasons: Vec<Text> = reasons.into_iter().map(Into::into).collect();
        Self {
            kind,
            cause: reasons.into(),
            hint: hint.into(),
        }
    }

    /// Creates a problem of something that broke, of one cause.
    pub fn failed(reason: impl Into<Text>, hint: impl Into<Text>) -> Self {
        Self::new(ProblemKind::Failed, [reason], hint)
    }

    /// Returns the causes, outermost first; there is at least one.
    #[must_use]
    pub fn reasons(&self) -> Vec<Text> {
        self.cause.clone().into()
    }

    /// Returns the outermost cause.
    #[must_use]
    pub const fn text(&self) -> &Text {
        &self.cause.text
    }

    /// Returns the causes as one text.
    #[must_use]
    pub fn in_one_line(&self) -> Text {
        reason::chain(self.reasons())
    }

    /// Returns the same problem with `what` as its outermost cause.
    #[must_use]
    pub fn wrapped_in(mut self, what: impl Into<Text>) -> Self {
        self.cause = Cause {
            text: what.into(),
            source: Some(Box::new(self.cause)),
        };
        self
    }

    /// Returns the same problem, said to be of the host `host`.
    #[must_use]
    pub fn of_host(mut self, host: &str) -> Self {
        self.cause.text = reason::caused_by(host.into(), self.cause.text).into();
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

impl From<Vec<Text>> for Cause {
    fn from(reasons: Vec<Text>) -> Self {
        let mut inner_first = reasons.into_iter().rev();
        let innermost = Self {
            text: (inner_first.next()).unwrap_or_else(|| reason::no_message().into()),
            source: None,
        };
        inner_first.fold(innermost, |cause, text| Self {
            text,
            source: Some(Box::new(cause)),
        })
    }
}

impl From<Cause> for Vec<Text> {
    fn from(cause: Cause) -> Self {
        let causes = successors(Some(&cause), |cause| cause.source.as_deref());
        causes.map(|cause| cause.text.clone()).collect()
    }
}

/// Returns the texts of an error and of its causes, outermost first. Those of a [`Problem`] have their phrases; others are
/// in the words of whoever made the error.
#[must_use]
pub fn reasons(error: &(dyn Error + 'static)) -> Vec<Text> {
    match error.downcast_ref::<Problem>() {
        Some(problem) => problem.reasons(),
        None => {
            let inner = error.source().map_or_else(Vec::new, reasons);
            once(error.to_string().into()).chain(inner).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes;

    fn problem() -> Problem {
        let inner = "Connection refused (os error 111)";
        let problem = Problem::new(ProblemKind::Failed, [inner], "try again");
        problem.wrapped_in(reason::cannot_connect("10.0.0.2"))
    }

    #[test]
    fn a_problem_is_the_same_after_it_was_sent() {
        let json = r#"{"kind":"failed","reasons":[{"text":"cannot connect to `10.0.0.2`","content":{"template":"cannot_connect","arguments":{"peer":{"text":"10.0.0.2"}}}},"Connection refused (os error 111)"],"hint":"try again"}"#;
        assert_eq!(serde_json::to_string(&problem()).unwrap(), json);
        let sent: Problem = serde_json::from_str(json).unwrap();
        assert_eq!(sent, problem());
        assert!(sent.text().phrase().is_some());
        let silent = r#"{"kind":"failed","reasons":[],"hint":""}"#;
        let silent: Problem = serde_json::from_str(silent).unwrap();
        assert_eq!(silent.to_string(), "it gave no message");
    }

    #[test]
    fn causes_of_a_problem_are_sources_and_keep_their_phrases() {
        let problem = problem().of_host("lab1");
        assert_eq!(
            causes(&problem),
            [
                "lab1: cannot connect to `10.0.0.2`",
                "Connection refused (os error 111)"
            ]
        );
        let reasons = reasons(&problem);
        assert!(reasons[0].phrase().is_some() && reasons[1].phrase().is_none());
    }
}
