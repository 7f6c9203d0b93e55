//! Plans that a cluster runs: `regatta submit`, `regatta status`, and the views of their shards.
//!
//! A submission is a directory that all nodes share: the program, the study, scripts for `sbatch`, a
//! directory for each start of each shard, logs, and the merged run. Slurm runs the scripts; they start
//! `regatta run --shard` and `regatta merge`.

pub mod merged_run;
mod script;
mod shards;
mod slurm;
mod starts;
mod status;
mod steps;
mod submit;
mod watch;

use std::{
    convert::identity,
    path::{Path, PathBuf},
};

use regatta_results::replace;
use serde::{Deserialize, Serialize};

pub use self::{
    shards::{Queue, ShardedPlan, incomplete_results},
    status::status,
    submit::submit,
    watch::Watch,
};
use crate::{
    exit::{OrFailure as _, Result},
    output,
};

/// Name of the file that describes a submission.
const SUBMISSION: &str = "submission.json";

/// Directory of the starts of all shards: `SHARD.START`.
const SHARDS: &str = "shards";

/// Directory of the merged run.
const MERGED: &str = "merged";

/// Directory of the output of all jobs.
const LOGS: &str = "logs";

/// Directory of the packages of the typesetter of PDF.
const PDF: &str = "pdf";

/// File with the exit status of the check of a node.
const PREFLIGHT_STATUS: &str = "preflight-exit-status";

/// File with the exit status of the merge.
const MERGE_STATUS: &str = "merge-exit-status";

/// Log of the check of a node.
const PREFLIGHT_LOG: &str = "preflight.log";

/// Log of the merge.
const MERGE_LOG: &str = "merge.log";

/// Script of the shards.
const SHARDS_SCRIPT: &str = "shards.sbatch";

/// Script of the merge.
const MERGE_SCRIPT: &str = "merge.sbatch";

/// Submission, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Submission {
    /// Name of the study.
    study: String,
    /// SHA-256 of the plan.
    plan_sha256: String,
    /// Number of shards.
    shards: u32,
    /// Number of trials of the whole plan.
    trials: u32,
    /// Jobs of Slurm; none if the scripts were not submitted.
    jobs: Option<Jobs>,
}

/// Job IDs of Slurm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Jobs {
    /// Job that checks a node.
    preflight: String,
    /// Job array of the shards.
    shards: String,
    /// Job that merges the shards.
    merge: String,
}

impl Submission {
    fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(SUBMISSION);
        let text = regatta_process::read_regular(&path)
            .bad()
            .cannot("read", &path)
            .hint("name the directory that was given to `regatta submit --out`")?;
        serde_json::from_str(&text)
            .bad()
            .context(format!("`{}` describes no submission", path.display()))
    }

    fn write(&self, dir: &Path) -> Result<()> {
        write(&dir.join(SUBMISSION), &output::pretty(self)?)
    }
}

/// Writes a text file of a submission.
fn write(path: &Path, text: &str) -> Result<()> {
    replace(path, identity, |out| out.write_all(text.as_bytes())).cannot("write", path)
}

/// Returns the script of the shards.
fn shards_script(dir: &Path) -> PathBuf {
    dir.join(SHARDS_SCRIPT)
}
