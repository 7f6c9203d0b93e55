//! Progress of a shard in a small file beside its results, which another machine can read while the shard
//! runs: the results file cannot be read over a network file system then.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use regatta_engine::{Ending, Event, Listener, ListenerError, unix_ns};
use regatta_model::{Outcome, RunPart, Shard};
use regatta_results::replace;
use serde::{Deserialize, Serialize};

/// Name of the file in the directory of a shard.
pub const FILE_NAME: &str = "progress.json";

/// Minimum time between two changes of the file.
const INTERVAL: Duration = Duration::from_secs(5);

/// Progress of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardProgress {
    /// The shard.
    pub shard: Shard,
    /// SHA-256 of its plan.
    pub plan_sha256: String,
    /// Name of the machine that runs it.
    pub node: String,
    /// `running`, `complete` or `interrupted`.
    pub state: String,
    /// Trials of the shard.
    pub trials: u32,
    /// Trials of the shard that are finished, by this run and those that it continues.
    pub done: u32,
    /// Trials that this run has finished.
    pub of_this_run: u32,
    /// Trials of this run that failed.
    pub failed: u32,
    /// Start of this run, in seconds since the Unix epoch.
    pub started_unix_s: u64,
    /// Time of the last change, in seconds since the Unix epoch.
    pub updated_unix_s: u64,
}

/// Listener that writes the progress of a shard to [`FILE_NAME`], between trials.
pub struct ProgressFile {
    path: PathBuf,
    progress: ShardProgress,
    written: Option<Instant>,
}

/// Returns the time of this machine's clock, in seconds since the Unix epoch.
pub fn unix_s() -> u64 {
    unix_ns().cast_unsigned() / 1_000_000_000
}

impl ProgressFile {
    /// Creates the listener of a run in a directory.
    pub fn new(dir: &Path, part: &RunPart) -> Self {
        Self {
            path: dir.join(FILE_NAME),
            progress: ShardProgress {
                shard: part.shard.unwrap_or(Shard { number: 1, of: 1 }),
                plan_sha256: part.plan_sha256.clone(),
                node: part.node.clone(),
                state: "running".to_owned(),
                trials: part.trials,
                done: 0,
                of_this_run: 0,
                failed: 0,
                started_unix_s: unix_s(),
                updated_unix_s: 0,
            },
            written: None,
        }
    }

    fn write(&mut self) {
        self.progress.updated_unix_s = unix_s();
        self.written = Some(Instant::now());
        // The run does not need this file; a full disk is reported by the results file.
        let _ = replace(&self.path, std::io::Error::from, |out| {
            serde_json::to_writer(out, &self.progress).map_err(std::io::Error::from)
        });
    }
}

impl Listener for ProgressFile {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        match event {
            Event::RunStarted { done, .. } => {
                self.progress.done = *done;
                self.write();
            }
            Event::TrialEnded { trial, .. } => {
                let first = u32::from(trial.attempt == 1);
                self.progress.done += first;
                self.progress.of_this_run += first;
                self.progress.failed += u32::from(trial.outcome == Outcome::Failed);
                if self.written.is_none_or(|at| at.elapsed() >= INTERVAL) {
                    self.write();
                }
            }
            Event::RunEnded { ending } => {
                self.progress.state = match ending {
                    Ending::Complete => "complete",
                    Ending::Interrupted { .. } => "interrupted",
                }
                .to_owned();
                self.write();
            }
            _ => {}
        }
        Ok(())
    }
}
