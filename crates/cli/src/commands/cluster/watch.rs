//! Views of a plan whose shards run, from their files.
//!
//! Numbers of trials are those of the progress files, which all machines can read. Cells have the trials of shards that
//! have ended, and of those that run on this machine: the results file of a run under way cannot be read over a network
//! file system.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use regatta_engine::{Event, unix_ns};
use regatta_live::{Activity, LiveRun, Load, PollState, ShardCounts, StateBuilder};
use regatta_process::TemporaryDirectory;
use regatta_report::RunData;
use regatta_results::{Reader, ResultsError};

use super::{
    merged_run,
    shards::{Queue, Shard, ShardState, ShardedPlan},
    starts::Start,
    steps::Steps,
};
use crate::exit::{Failure, Result};

/// Maximum number of missing shards whose reasons are shown.
const MAX_REPORTED: usize = 3;

/// Time between two questions to Slurm, whose controller serves the whole site.
const QUERY_INTERVAL: Duration = Duration::from_secs(30);

/// State of the shards, read from their files.
pub struct Watch {
    plan: ShardedPlan,
    queue: Queue,
    queried_at: Instant,
    builder: StateBuilder,
    has_begun: bool,
    read: BTreeMap<PathBuf, ReadFile>,
    /// Errors of results files of shards that have ended, by directory.
    incomplete: BTreeMap<PathBuf, String>,
}

/// Progress of reading one results file.
#[derive(Default)]
struct ReadFile {
    /// Numbers of the trials that were read.
    trials: HashSet<u32>,
    /// Time of the last change of the shard's progress when nothing ran and the file was read, in seconds since the
    /// Unix epoch.
    ended_unix_s: Option<u64>,
}

impl Watch {
    /// Returns functions that read the state of all shards, and the finished trials.
    pub fn start(plan: ShardedPlan, shown: String) -> (PollState, Load) {
        let report_plan = plan.clone();
        let mut watch = Self {
            queue: plan.queue(),
            queried_at: Instant::now(),
            plan,
            builder: StateBuilder::new(shown, Vec::new()),
            has_begun: false,
            read: BTreeMap::new(),
            incomplete: BTreeMap::new(),
        };
        let load = move || load(&report_plan).map_err(|failure| failure.message_and_hint().0);
        (Box::new(move || watch.poll()), Box::new(load))
    }

    /// Reads what is new and returns the state.
    fn poll(&mut self) -> LiveRun {
        if self.queried_at.elapsed() >= QUERY_INTERVAL {
            self.query();
        }
        let mut shards = self.plan.shards(&self.queue);
        if matches!(activity(&shards), Activity::Ended { .. }) {
            // Somebody may have submitted them again.
            self.query();
            shards = self.plan.shards(&self.queue);
        }
        let mut unread = 0;
        for start in shards.iter().flat_map(|shard| &shard.starts) {
            let is_running = start.seems_to_run();
            if is_running && !start.is_of_this_machine() {
                unread += 1;
            } else if start.has_results {
                // A file that cannot be read now, such as one that is just being made, is read the next time.
                let _ = self.read_trials(start, is_running);
            }
        }
        let mut run = self.builder.run.clone();
        let now = &mut run.now;
        now.study.clone_from(&self.plan.submission.study);
        now.trials = self.plan.submission.trials;
        now.done = shards.iter().map(|shard| shard.done).sum();
        now.activity = activity(&shards);
        now.ends_unix_ns = ends_unix_ns(now.trials.saturating_sub(now.done), &shards);
        now.messages.extend(self.queue.warning.clone());
        now.messages.extend(missing(&shards));
        now.messages
            .extend(self.incomplete.values().take(MAX_REPORTED).cloned());
        let steps = Steps::of(&self.plan, &shards, &self.queue);
        now.messages.extend(steps.notes);
        if unread > 0 {
            now.messages.push(format!(
                "cells are without the trials of {unread} shards under way on other machines"
            ));
        }
        run
    }

    fn query(&mut self) {
        self.queue = self.plan.queue();
        self.queried_at = Instant::now();
    }

    /// Adds the trials of a results file that are new.
    fn read_trials(&mut self, start: &Start, is_running: bool) -> Result<(), ResultsError> {
        let ended = start.progress.as_ref().filter(|_| !is_running);
        let ended_unix_s = ended.map(|progress| progress.updated_unix_s);
        let known = self.read.get(&start.dir);
        if ended_unix_s.is_some() && known.is_some_and(|read| read.ended_unix_s == ended_unix_s) {
            return Ok(());
        }
        let incomplete = (!is_running).then(|| start.check_results().err());
        match incomplete.flatten() {
            Some(error) => self.incomplete.insert(start.dir.clone(), error.to_string()),
            None => self.incomplete.remove(&start.dir),
        };
        // Records are checked when they are merged.
        let reader = Reader::unexamined(&start.dir)?;
        if !self.has_begun {
            self.builder.on_event(&Event::RunStarted {
                header: Box::new(reader.header()?),
                trials: self.plan.submission.trials,
                done: 0,
            });
            self.has_begun = true;
        }
        let read = self.read.entry(start.dir.clone()).or_default();
        for trial in reader.trials_without_series()? {
            if read.trials.insert(trial.index) {
                let trial = Box::new(trial);
                self.builder
                    .on_event(&Event::TrialEnded { trial, more: false });
            }
        }
        read.ended_unix_s = ended_unix_s;
        Ok(())
    }
}

fn activity(shards: &[Shard]) -> Activity {
    let mut counts = ShardCounts::default();
    for shard in shards {
        *match shard.state {
            ShardState::Complete => &mut counts.complete,
            ShardState::Running(_) => &mut counts.running,
            ShardState::Waiting(_) => &mut counts.waiting,
            ShardState::Missing(_) => &mut counts.missing,
        } += 1;
    }
    let complete = counts.missing == 0;
    match counts.running + counts.waiting {
        0 if complete => Activity::Ended {
            complete,
            reason: String::new(),
        },
        0 => Activity::Ended {
            complete,
            reason: counts.to_string(),
        },
        _ => Activity::Shards(counts),
    }
}

fn missing(shards: &[Shard]) -> impl Iterator<Item = String> {
    let messages = shards.iter().filter_map(|shard| match &shard.state {
        ShardState::Missing(reason) => Some(format!("shard {} is missing: {reason}", shard.number)),
        _ => None,
    });
    messages.take(MAX_REPORTED)
}

fn ends_unix_ns(trials: u32, shards: &[Shard]) -> Option<i64> {
    let remaining_ns = Shard::remaining_seconds(trials, shards)? * 1e9;
    Some(unix_ns().saturating_add(remaining_ns as i64))
}

/// Merges the finished trials in a directory for temporary files, and reads them.
fn load(plan: &ShardedPlan) -> Result<RunData> {
    let shards = plan.shards(&Queue::default());
    let starts = shards.into_iter().flat_map(|shard| shard.starts);
    let readable = starts
        .filter(|start| start.has_results && (start.is_of_this_machine() || !start.seems_to_run()));
    let parts: Vec<PathBuf> = readable.map(|start| start.dir).collect();
    let dir = TemporaryDirectory::new("regatta-merged-")?;
    merged_run::merge_finished(&parts, dir.path())?;
    regatta_report::load(dir.path()).map_err(Failure::bad)
}
