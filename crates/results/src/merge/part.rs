//! One file that is to be merged, as it is before anything is copied.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use regatta_model::{HostFacts, Outcome, RunPart, table::Phrases};

use super::Refusal;
use crate::{Reader, RunState, digest, schema::TrialTable};

/// File that is merged.
#[derive(Debug)]
pub struct MergePart {
    /// Path of the results file.
    pub path: PathBuf,
    /// Identifier of the run.
    pub run_id: String,
    /// Identity as a part of the plan.
    pub part: RunPart,
    /// State of the run.
    pub state: RunState,
    /// Version of Regatta that made the run.
    pub regatta_version: String,
    /// Start, in nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// Description of the bed.
    pub bed: String,
    /// Facts by host.
    pub hosts: BTreeMap<String, HostFacts>,
    /// Path as it was named.
    pub(super) named: PathBuf,
    /// Name of the study.
    pub(super) study: String,
    /// Attempts in the order of their numbers.
    pub(super) attempts: Vec<Attempt>,
}

/// One attempt at a trial, without figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    pub index: u32,
    pub attempt: u32,
    pub outcome: Outcome,
    pub started_unix_ns: i64,
}

impl MergePart {
    /// Reads a file and checks it whole. No file stays open: there may be thousands.
    pub(super) fn read(path: &Path) -> Result<Self, Refusal> {
        let reader = Reader::open(path)?;
        if reader.is_merged()? {
            return Err(Refusal::Merged);
        }
        let part = reader.part()?;
        if part.is_unknown() {
            return Err(Refusal::NoPlan);
        }
        digest::check(reader.path())?;
        let attempts = reader.all::<TrialTable, _>(&Phrases::default(), |trial| Attempt {
            index: trial.index,
            attempt: trial.attempt,
            outcome: trial.outcome,
            started_unix_ns: trial.started_unix_ns,
        })?;
        let (hosts, state) = (reader.hosts()?, reader.state()?);
        // Not the study, which may have thousands of cells: the digest stands for it.
        reader
            .run(|run| {
                Ok(Self {
                    path: reader.path().to_owned(),
                    run_id: run.run_id.to_owned(),
                    part,
                    state,
                    regatta_version: run.regatta_version.to_owned(),
                    started_unix_ns: run.started_unix_ns,
                    bed: run.bed.into(),
                    hosts,
                    named: path.to_owned(),
                    study: run.study.to_owned(),
                    attempts,
                })
            })
            .map_err(Refusal::from)
    }
}
