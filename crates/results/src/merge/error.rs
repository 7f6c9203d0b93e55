//! Errors of a merge.

use std::path::{Path, PathBuf};

use regatta_model::{Text, Warning, reason, warning};

use crate::ResultsError;

/// Reason why a file cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The file is missing, damaged, of another version, or no results file.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Run without the digest of its plan.
    #[error("{}", reason::no_plan())]
    NoPlan,
    /// Run of another plan.
    #[error("{}", reason::other_plan(.study, &shown(.than)))]
    OtherPlan {
        /// Name of its study.
        study: String,
        /// A file of the plan that is merged.
        than: PathBuf,
    },
    /// Merged file.
    #[error("{}", reason::merged_already())]
    Merged,
    /// Copy of a file that is named too.
    #[error("{}", reason::same_run(&shown(.as_other)))]
    Twice {
        /// The other file.
        as_other: PathBuf,
    },
}

impl Refusal {
    /// Returns the causes, outermost first.
    fn reasons(&self) -> Vec<Text> {
        vec![match self {
            Self::Results(error) => return error.reasons(),
            Self::NoPlan => reason::no_plan().into(),
            Self::OtherPlan { study, than } => reason::other_plan(study, &shown(than)).into(),
            Self::Merged => reason::merged_already().into(),
            Self::Twice { as_other } => reason::same_run(&shown(as_other)).into(),
        }]
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
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

    /// Whether the refused file is a copy of one that is merged, so that none of its trials is missed.
    #[must_use]
    pub const fn is_copy(&self) -> bool {
        matches!(self.refusal, Refusal::Twice { .. })
    }

    /// Returns the file and the reason in one sentence without a full stop.
    #[must_use]
    pub fn message(&self) -> String {
        self.warning().message
    }

    /// Whether another version of Regatta made the file, so that this one does not read it.
    #[must_use]
    pub const fn is_of_other_version(&self) -> bool {
        let refusal = &self.refusal;
        matches!(refusal, Refusal::Results(ResultsError::OtherVersion { .. }))
    }

    /// Returns the warning of a merged file that this one was left out.
    pub(super) fn warning(&self) -> Warning {
        let path = self.path.display().to_string();
        warning::part_left_out(&path, reason::chain(self.refusal.reasons()))
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
