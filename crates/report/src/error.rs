//! What can go wrong between a results file and a report.

use std::{io, path::PathBuf};

/// A report that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The results file could not be read.
    #[error("cannot read the results of `{}`", dir.display())]
    Results {
        /// The result directory.
        dir: PathBuf,
        /// What the results file said.
        source: Box<regatta_results::ResultsError>,
    },
    /// A file of the report could not be written; what was measured is untouched.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A figure could not be drawn.
    #[error("cannot draw the figure `{figure}`: {message}")]
    Figure {
        /// Identifier of the figure.
        figure: String,
        /// What the drawing library said.
        message: String,
    },
    /// The page could not be put together.
    #[error("cannot put the page together")]
    Page(#[from] minijinja::Error),
    /// The summary could not be written as JSON.
    #[error("cannot write the summary as JSON")]
    Json(#[from] serde_json::Error),
}

impl ReportError {
    /// What to type next, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Results { source, .. } => source.hint(),
            Self::Write { path, source } => Some(regatta_results::export_hint(path, source)),
            Self::Figure { .. } | Self::Page(_) | Self::Json(_) => None,
        }
    }
}
