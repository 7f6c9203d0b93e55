//! One file that is to be merged, as it is before anything is copied.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use regatta_model::{HostFacts, Named as _, Outcome, RunPart};

use super::Refusal;
use crate::{Reader, RunState, digest, schema};

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
        let found = reader.version()?;
        if found != schema::VERSION {
            return Err(Refusal::OtherSchema { found });
        }
        let merged = "SELECT EXISTS (SELECT 1 FROM part_trial)";
        if reader.one(merged, |row| row.get(0))? {
            return Err(Refusal::Merged);
        }
        let part = reader.part()?;
        if part.is_unknown() {
            return Err(Refusal::NoPlan);
        }
        digest::check(reader.path())?;
        // Not the study, which may have thousands of cells: the digest stands for it.
        let run = "SELECT run_id, regatta_version, started_unix_ns, study, bed FROM run";
        let run = reader.one(run, |row| row.try_into())?;
        let (run_id, regatta_version, started_unix_ns, study, bed) = run;
        let attempts = reader.rows(
            "SELECT trial, attempt, outcome, started_unix_ns FROM trial ORDER BY trial",
            |row| {
                let outcome: String = row.get(2)?;
                Ok(Attempt {
                    index: row.get(0)?,
                    attempt: row.get(1)?,
                    // The table allows no other.
                    outcome: Outcome::from_name(&outcome).unwrap_or(Outcome::Invalid),
                    started_unix_ns: row.get(3)?,
                })
            },
        )?;
        Ok(Self {
            path: reader.path().to_owned(),
            run_id,
            part,
            state: reader.state()?,
            regatta_version,
            started_unix_ns,
            bed,
            hosts: reader.hosts()?,
            named: path.to_owned(),
            study,
            attempts,
        })
    }
}
