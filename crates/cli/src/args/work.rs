//! Options that describe the work of a trial.

use clap::Args;

use super::{
    assignment::{Assignments, assignments_of_probe},
    keys::WorkKeys,
};

/// The workload: what is not given is a study's, or the default.
///
/// Each option but the first and the last one is a key of a study's `[[workload]]`, and `docs/workloads.md` says
/// precisely what it means.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload (docs/workloads.md)")]
pub struct WorkArgs {
    /// Kinds of work: `bulk`, `stop-and-wait`, `request-response`, `short-connections`, `multi-stream`, `script`; with a STUDY,
    /// those of its workloads with this name or of this kind [default without a STUDY: bulk]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub workload: Vec<String>,
    #[command(flatten)]
    pub keys: WorkKeys,
    /// Small messages that measure the round-trip delay, as in `idle_messages=0:under_load=false:interval=50ms`
    #[arg(long, value_name = "KEY=VALUE:…", value_parser = assignments_of_probe, allow_hyphen_values = true)]
    pub probe: Option<Assignments>,
}

impl WorkArgs {
    /// Whether something of the workload is given.
    pub fn describes_a_workload(&self) -> bool {
        !self.workload.is_empty() || self.changes_a_workload()
    }

    /// Whether a key of the workload is given.
    pub fn changes_a_workload(&self) -> bool {
        !self.keys.0.is_empty() || self.probe.is_some()
    }
}
