//! The merged run of the shards of a plan.

use std::path::{Path, PathBuf};

use regatta_engine::{Done, Plan};
use regatta_results::merge::{Merge, MergeError, MergePlan, Merged};

use crate::exit::{Failure, OrFailure as _, Result, refuse};

/// Merges what can be merged of the shards of a plan into an empty directory, while others are still to be run.
///
/// # Errors
/// No file can be merged, or the merged run cannot be written.
pub fn merge_finished(parts: &[PathBuf], out: &Path) -> Result<()> {
    let merge = Merge::open(parts).map_err(not_merged)?;
    write(&merge, out).map(drop)
}

/// Writes the merged run. Returns its plan as well.
///
/// # Errors
/// The plan is one of another version of Regatta, or the merged run cannot be written.
pub fn write(merge: &Merge, out: &Path) -> Result<(Plan, Merged)> {
    let (study, _) = merge.study().map_err(not_merged)?;
    let plan = Plan::new(&study).bad()?;
    refuse! {
        plan.digest() != merge.plan_sha256() =>
            "this version of Regatta makes another plan of the study than the one that made the files";
            "merge them with the version of Regatta that made them";
    }
    let merge_plan = MergePlan {
        trials: plan.trials().len() as u32,
        most_attempts: Done::MAX_ATTEMPTS,
    };
    let merged = merge.write(out, merge_plan).map_err(not_merged)?;
    Ok((plan, merged))
}

/// Creates the error of shards that cannot be merged.
pub fn not_merged(error: MergeError) -> Failure {
    match error {
        MergeError::Results(error) => Failure::bad(error),
        error => Failure::bad(error),
    }
}
