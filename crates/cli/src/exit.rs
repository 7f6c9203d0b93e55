//! Exit codes, and errors for the user.

use std::{path::Path, process::ExitCode};

use nix::sys::resource::Resource;
use regatta_bed::BedError;
use regatta_engine::{EngineError, ShardsError};
use regatta_live::LiveError;
use regatta_model::{
    Text, reason,
    shell::printable,
    study::{GuestMistake, StudyError, nearest},
};
use regatta_process::{Executable, is_limited};
use regatta_report::{ReportError, compare::CompareError};
use regatta_results::ResultsError;

use crate::args::option_messages;

/// Refuses bad input, if a condition holds: returns the first one's error, of a message and a hint, each of which may have
/// arguments as for `format!`.
macro_rules! refuse {
    ($($is:expr => $message:literal $(, $argument:expr)*; $hint:literal $(, $of_hint:expr)*;)+) => {
        $(if $is {
            let (message, hint) = (format!($message $(, $argument)*), format!($hint $(, $of_hint)*));
            return Err($crate::exit::Failure::input(message, hint));
        })+
    };
}
pub(crate) use refuse;

/// Exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Everything was measured, or timed out beside measured trials, which is a result.
    Measured,
    /// A trial failed, or a gate was missed.
    Failed,
    /// Bad usage or bad input.
    Input,
    /// A merged run lacks trials, which are still to be run.
    Incomplete,
    /// None of the requested transports is supported here.
    Unsupported,
    /// Exit code of the program that was run, or of its protocol.
    Of(u8),
}

impl From<Code> for u8 {
    fn from(code: Code) -> Self {
        match code {
            Code::Measured => 0,
            Code::Failed => 1,
            Code::Input => 2,
            Code::Incomplete => 3,
            Code::Unsupported => 77,
            Code::Of(code) => code,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(u8::from(code))
    }
}

/// Result of a part of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Error of a command, with its exit code and a hint.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    error: anyhow::Error,
    hint: Text,
}

impl From<&Failure> for Code {
    fn from(failure: &Failure) -> Self {
        failure.code
    }
}

/// Any error is a failure by default.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::failed(error)
    }
}

/// Conversion of the error of an operation to a [`Failure`], with what a user needs to know of it.
pub trait OrFailure<T>: Sized {
    /// Converts the error; without a further call it is a failure.
    fn or_failure(self) -> Result<T>;

    /// Makes it an error about bad usage or bad input.
    fn bad(self) -> Result<T> {
        self.code(Code::Input)
    }

    /// Sets the exit code.
    fn code(self, code: impl Into<Code>) -> Result<T> {
        self.or_failure().map_err(|failure| failure.code(code))
    }

    /// Adds the context ``cannot DOING `PATH` `` to an error; `doing` is a verb such as `write` or `read`.
    fn cannot(self, doing: &str, path: &Path) -> Result<T> {
        self.context(format!("cannot {doing} `{}`", path.display()))
    }

    /// As [`Failure::context`].
    fn context(self, doing: impl Into<String>) -> Result<T> {
        self.or_failure().map_err(|failure| failure.context(doing))
    }

    /// As [`Failure::hint`].
    fn hint(self, hint: impl Into<Text>) -> Result<T> {
        self.or_failure().map_err(|failure| failure.hint(hint))
    }
}

impl<T, E: Into<Failure>> OrFailure<T> for Result<T, E> {
    fn or_failure(self) -> Result<T> {
        self.map_err(Into::into)
    }
}

impl Failure {
    /// Creates a failure that has no error but this message.
    pub fn message(message: impl Into<String>) -> Self {
        Self::failed(anyhow::Error::msg(message.into()))
    }

    /// Creates an error about bad usage or bad input.
    pub fn input(message: impl Into<String>, hint: impl Into<Text>) -> Self {
        Self {
            code: Code::Input,
            error: anyhow::Error::msg(message.into()),
            hint: hint.into(),
        }
    }

    /// Returns the error with its causes in one line, and the hint.
    pub fn message_and_hint(&self) -> (String, String) {
        (format!("{:#}", self.error), self.hint.to_string())
    }

    /// Creates an error about bad input from an error of some crate.
    pub fn bad(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Input, error)
    }

    /// Creates an error about options of the command line that were read as a study, or with one: without the text
    /// of a study that nobody has written, and with the options that help. The value that does not fit them may be
    /// the study's.
    pub fn of_options(error: StudyError) -> Self {
        let hint = option_messages::in_options(&error.hint, error.table());
        let setting = error.unnamed_setting();
        let setting =
            setting.map(|(key, value)| option_messages::setting(key, value, error.table()));
        let message = option_messages::in_options(&error.message, error.table());
        let message = match setting {
            Some(setting) => format!("`{setting}`: {message}"),
            None => message,
        };
        Self::input(message, hint)
    }

    /// Creates an error about a failure.
    pub fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Failed, error)
    }

    /// Creates an error about a request that this machine does not support. A limit of this process says
    /// nothing about the machine: what it has caused is a failure.
    pub fn unsupported(error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        let code = match limit_hint(error.as_ref()) {
            None => Code::Unsupported,
            Some(_) => Code::Failed,
        };
        Self::new(code, error)
    }

    fn new(code: Code, error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        let hint = hint_of(&error);
        Self { code, error, hint }
    }

    /// Adds a description of the attempted operation in front of the error.
    pub fn context(mut self, doing: impl Into<String>) -> Self {
        self.error = self.error.context(doing.into());
        self
    }

    /// Adds a hint, unless the cause has a better one.
    pub fn hint(mut self, hint: impl Into<Text>) -> Self {
        if self.hint.is_empty() {
            self.hint = hint.into();
        }
        self
    }

    /// Sets the exit code.
    pub fn code(mut self, code: impl Into<Code>) -> Self {
        self.code = code.into();
        self
    }

    /// Replaces the hint by what `in_command` makes of it: the same hint with the options of the command that shows it.
    pub fn with_options(mut self, in_command: fn(&Text) -> String) -> Self {
        self.hint = in_command(&self.hint).into();
        self
    }

    /// Formats the error for standard error.
    pub fn render(&self, colour: bool) -> String {
        // A mistake in a study file has its own form, with line and caret.
        if let Some(error) = self.error.downcast_ref::<StudyError>() {
            return error.render(colour);
        }
        let mut causes = Vec::new();
        let mut last = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let cause = cause.to_string();
            // Some libraries repeat their source in their own message.
            if last != cause && !last.ends_with(&cause) {
                causes.push(cause.clone());
            }
            last = cause;
        }
        let (red, cyan, plain) = match colour {
            true => ("\x1b[1;31m", "\x1b[36m", "\x1b[0m"),
            false => ("", "", ""),
        };
        let message = printable(&self.error.to_string());
        let mut text = format!("{red}error{plain}: {message}");
        for cause in causes {
            text += &format!("\n  caused by: {}", printable(&cause));
        }
        if !self.hint.is_empty() {
            text += &format!("\n{cyan}hint{plain}: {}", printable(&self.hint));
        }
        text
    }
}

/// Returns the beginning of a hint that names the one of `known` which somebody who wrote `name` may mean.
pub fn did_you_mean(name: &str, known: &[&str]) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!("did you mean `{near}`? "))
}

/// Returns the hint for a limit of this process, if one is the cause.
pub fn limit_hint(error: &(dyn std::error::Error + 'static)) -> Option<Text> {
    let is_too_large = || {
        let mut causes = anyhow::Chain::new(error);
        causes.any(is_sqlite) && is_limited(Resource::RLIMIT_FSIZE)
    };
    regatta_process::limit_hint(error)
        .or_else(|| is_too_large().then(|| reason::larger_files().into()))
}

/// Whether a cause is an error of SQLite without a name of its own: for a file that may not grow,
/// SQLite only reports an input or output error.
fn is_sqlite(cause: &(dyn std::error::Error + 'static)) -> bool {
    matches!(cause.downcast_ref(), Some(ResultsError::Sqlite { .. }))
}

/// Returns the hint of the innermost cause that has one.
fn hint_of(error: &anyhow::Error) -> Text {
    // Nothing else helps against such a limit, whatever else could be advised.
    if let Some(hint) = limit_hint(error.as_ref()) {
        return hint;
    }
    let hints = error.chain().filter_map(own_hint);
    hints
        .filter(|hint| !hint.is_empty())
        .last()
        .unwrap_or_default()
}

/// Returns the hint of an error itself.
fn own_hint(cause: &(dyn std::error::Error + 'static)) -> Option<Text> {
    if let Some(error) = cause.downcast_ref::<BedError>() {
        Some(error.hint())
    } else if let Some(EngineError::Guest(problem)) = cause.downcast_ref() {
        Some(problem.hint.clone())
    } else if let Some(error) = cause.downcast_ref::<ReportError>() {
        error.hint()
    } else if let Some(error) = cause.downcast_ref::<ShardsError>() {
        Some(error.hint().into())
    } else if let Some(error) = cause.downcast_ref::<GuestMistake>() {
        Some(error.hint.to_string().into())
    } else if let Some(error) = cause.downcast_ref::<CompareError>() {
        Some(error.hint().into())
    } else if let Some(error) = cause.downcast_ref::<LiveError>() {
        Some(error.hint().into())
    } else {
        cause.downcast_ref().and_then(ResultsError::hint)
    }
}

/// Creates the error of a bed that cannot be made: unsupported if this machine refuses it,
/// otherwise a failure.
pub fn no_bed(error: BedError) -> Failure {
    let failure = match error {
        error if error.is_unsupported() => Failure::unsupported(error),
        error => Failure::failed(error),
    };
    failure
        .context("cannot make the bed")
        .hint("`regatta doctor` shows what this machine lacks")
}

/// Returns the path under which this process opens the file that it runs, whatever has taken its name since. For any other
/// process it is another file.
pub fn own_executable() -> &'static Path {
    Path::new(Executable::RUNNING)
}

#[cfg(test)]
mod tests {
    use std::io;

    use nix::errno::Errno;

    use super::*;

    #[test]
    fn error_is_rendered_with_causes_and_hint() {
        let failure = Failure::failed(std::io::Error::other("no such thing"))
            .context("cannot open `x`")
            .hint("type `y`");
        assert_eq!(
            failure.render(false),
            "error: cannot open `x`\n  caused by: no such thing\nhint: type `y`"
        );
        assert_eq!(Code::from(&failure), Code::Failed);
    }

    #[test]
    fn resource_limit_error_has_its_own_hint() {
        let own = anyhow::Error::from(io::Error::from(Errno::EMFILE)).context("cannot open `x`");
        let hint = limit_hint(own.as_ref()).expect("a hint");
        assert!(hint.contains("ulimit -n"), "{hint}");
        let other = anyhow::Error::from(io::Error::from(Errno::ENOENT));
        assert_eq!(limit_hint(other.as_ref()), None);
    }

    #[test]
    fn report_error_has_the_hint_of_its_cause() {
        let failure = Failure::bad(ReportError::Results {
            dir: "out".into(),
            source: Box::new(ResultsError::Missing {
                path: "out/results.sqlite".into(),
                runs: Vec::new(),
            }),
        });
        assert!(failure.render(false).contains("hint: give the directory"));
    }
}
