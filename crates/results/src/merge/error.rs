//! Errors of a merge.

use std::path::{Path, PathBuf};

use regatta_model::{Warning, causes, warning};

use crate::{ResultsError, schema};

/// Reason why a file cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The file is missing, damaged, newer, or no results file.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Tables of another version.
    #[error(
        "its tables are of schema {found}, and only files of schema {} are merged: an earlier version of Regatta made its figures by other rules",
        schema::VERSION
    )]
    OtherSchema {
        /// Version of its tables.
        found: i32,
    },
    /// Run without the digest of its plan: a version without shards began it.
    #[error("it does not say of which plan it is: an earlier version of Regatta began it")]
    NoPlan,
    /// Run of another plan.
    #[error("it is of another plan, of the study `{study}`, than `{}`", than.display())]
    OtherPlan {
        /// Name of its study.
        study: String,
        /// A file of the plan that is merged.
        than: PathBuf,
    },
    /// Merged file.
    #[error("it is merged already")]
    Merged,
    /// Copy of a file that is named too.
    #[error("it is the same run as `{}`", as_other.display())]
    Twice {
        /// The other file.
        as_other: PathBuf,
    },
}

/// File that cannot be merged.
#[derive(Debug)]
pub struct Refused {
    /// Path that was named.
    pub path: PathBuf,
    /// The reason.
    pub refusal: Refusal,
}

impl Refused {
    pub(super) fn new(path: &Path, refusal: Refusal) -> Self {
        Self {
            path: path.to_owned(),
            refusal,
        }
    }

    /// Returns the file and the reason in one sentence without a full stop.
    #[must_use]
    pub fn message(&self) -> String {
        self.warning().message
    }

    /// Whether an earlier version of Regatta made the file, so that this one does not merge it.
    #[must_use]
    pub const fn is_of_earlier_version(&self) -> bool {
        matches!(self.refusal, Refusal::OtherSchema { .. } | Refusal::NoPlan)
    }

    /// Returns the warning of a merged file that this one was left out.
    pub(super) fn warning(&self) -> Warning {
        let path = self.path.display().to_string();
        warning::part_left_out(&path, &causes(&self.refusal).join(": "))
    }
}

/// Reasons why nothing is merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// No file can be merged.
    #[error("none of the {} files can be merged", refused.len())]
    Nothing {
        /// The files, each with its reason.
        refused: Vec<Refused>,
    },
    /// Trial that the plan does not have.
    #[error("`{}` has a trial {position}, which its plan does not have", path.display())]
    NoTrial {
        /// The file.
        path: PathBuf,
        /// Position of the trial.
        position: u32,
    },
    /// Error of reading a part or of writing the merged file.
    #[error(transparent)]
    Results(#[from] ResultsError),
}
