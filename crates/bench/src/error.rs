//! Errors of the bench.

/// Reasons why the bench has no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A program that the bench compares with is not installed.
    #[error("`{program}` is not installed")]
    Missing {
        /// Name of the program.
        program: &'static str,
        /// The command that installs it.
        hint: &'static str,
    },
    /// A reference program failed.
    #[error("the reference program failed")]
    Reference(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A process failed.
    #[error("`{command}` failed: {message}")]
    Process {
        /// Command of the process.
        command: String,
        /// Description of the failure.
        message: String,
    },
    /// A side of a trial has no report.
    #[error("the {side} of `{driver}` failed: {reasons}")]
    Trial {
        /// Name of the driver.
        driver: String,
        /// `sender` or `receiver`.
        side: &'static str,
        /// The causes, outermost first.
        reasons: String,
    },
    /// The path between the namespaces could not be set up.
    #[error("the bed failed")]
    Bed(#[from] regatta_bed::BedError),
    /// The file of earlier ratios cannot be read or written.
    #[error("cannot read or write `{path}`", path = path.display())]
    History {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        source: csv::Error,
    },
    /// The output of a program cannot be parsed.
    #[error("unreadable output")]
    Output(#[from] serde_json::Error),
    /// An operation on sockets, pipes or processes failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl BenchError {
    /// Wraps the error of a reference program.
    pub fn reference(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Reference(source.into())
    }

    /// Sorts the error of a reference program: its own, or one of sockets or of an output.
    pub fn of_reference(source: Box<dyn std::error::Error + Send + Sync>) -> Self {
        let source = match source.downcast::<std::io::Error>() {
            Ok(error) => return Self::Io(*error),
            Err(source) => source,
        };
        match source.downcast::<serde_json::Error>() {
            Ok(error) => Self::Output(*error),
            Err(source) => Self::Reference(source),
        }
    }

    /// Returns the error of a process.
    pub fn process(command: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Process {
            command: command.into(),
            message: message.into(),
        }
    }

    /// Returns the error, its causes, and a command that helps if one is known, each in a line.
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(source) = cause {
            text += &format!("\n  caused by: {source}");
            cause = source.source();
        }
        if let Self::Missing { hint, .. } = self {
            text += &format!("\nhint: {hint}");
        }
        text
    }
}
