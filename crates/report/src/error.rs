//! Errors between a results file and a report.

use std::{
    io,
    path::{Path, PathBuf},
};

use regatta_model::Text;

/// Error of a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Results file that could not be read.
    #[error("cannot read the results of `{}`", dir.display())]
    Results {
        /// Path of the result directory.
        dir: PathBuf,
        /// Error of the results file.
        source: Box<regatta_results::ResultsError>,
    },
    /// File of the report that could not be written; the measured data is untouched.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Page that could not be rendered.
    #[error("cannot put the page together")]
    Page(#[from] minijinja::Error),
    /// Summary that could not be written as JSON.
    #[error("cannot write the summary as JSON")]
    Json(#[from] serde_json::Error),
}

impl ReportError {
    /// Returns the error of a results file in this directory.
    pub(crate) fn of_results(dir: &Path, source: regatta_results::ResultsError) -> Self {
        Self::Results {
            dir: dir.to_owned(),
            source: Box::new(source),
        }
    }

    /// Returns a hint on what to type next, if something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<Text> {
        match self {
            Self::Results { source, .. } => source.hint(),
            Self::Write { path, source } => Some(regatta_results::export_hint(path, source).into()),
            Self::Page(_) | Self::Json(_) => None,
        }
    }
}
