//! Shards of a plan in a directory, and their progress.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use regatta_engine::Plan;
use regatta_results::Reader;

use super::{
    SHARDS, SUBMISSION, Submission, shards_script,
    slurm::{self, TaskState},
    starts::{self, Start},
};
use crate::{
    directory,
    exit::{Failure, Result},
};

/// State of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardState {
    Complete,
    /// Runs, on this node.
    Running(String),
    /// Waits in the queue, for this reason.
    Waiting(String),
    /// Ended early, or never started, and is not in the queue.
    Missing(String),
}

/// Progress of a shard.
#[derive(Debug)]
pub struct Shard {
    pub number: u32,
    pub state: ShardState,
    pub done: u32,
    pub trials: Option<u32>,
    pub failed: u32,
    /// Trials per second of the start that runs.
    pub rate: f64,
    /// Its starts, the first one first.
    pub starts: Vec<Start>,
}

impl Shard {
    /// Estimates the seconds that trials take at the rate of the shards that run.
    pub fn remaining_seconds(trials: u32, shards: &[Self]) -> Option<f64> {
        let rate: f64 = shards.iter().map(|shard| shard.rate).sum();
        (trials > 0 && rate > 0.0).then(|| (f64::from(trials) / rate).min(1e9))
    }
}

/// Returns the errors of results files that lack what a shard has committed, with what to type next.
pub fn incomplete_results(shards: &[Shard]) -> impl Iterator<Item = String> {
    let starts = shards.iter().flat_map(|shard| &shard.starts);
    let errors = starts.filter_map(|start| start.check_results().err());
    errors.map(|error| {
        let (error, hint) = Failure::bad(error).message_and_hint();
        format!("{error}; {hint}")
    })
}

/// Answer of Slurm about the tasks of a plan.
#[derive(Debug, Default)]
pub struct Queue {
    /// Tasks that run or wait, by number. `None` if Slurm does not run the plan, or did not answer.
    tasks: Option<BTreeMap<u32, TaskState>>,
    /// The check of a node and the merge where they run or wait, by number of the job; `None` as above.
    pub(super) jobs: Option<BTreeMap<String, TaskState>>,
    /// Ends of tasks and jobs by Slurm's number, if the site keeps accounts.
    pub(super) ended: BTreeMap<String, String>,
    /// Reason why Slurm did not answer.
    pub warning: Option<String>,
}

/// Plan whose shards are in a directory.
#[derive(Debug, Clone)]
pub struct ShardedPlan {
    pub(super) dir: PathBuf,
    /// The plan. For shards that were started by hand, it is made from their files.
    pub(super) submission: Submission,
    /// Whether `regatta submit` made the directory.
    pub(super) is_submitted: bool,
}

impl ShardedPlan {
    /// Reads the plan of a submission, or else that of the shards in a directory.
    ///
    /// # Errors
    /// The directory holds neither.
    pub fn read(dir: &Path) -> Result<Self> {
        let of_parts = (!dir.join(SUBMISSION).exists()).then(|| of_parts(dir));
        let of_parts = of_parts.flatten();
        Ok(Self {
            dir: dir.to_owned(),
            is_submitted: of_parts.is_none(),
            submission: of_parts.map_or_else(|| Submission::read(dir), Ok)?,
        })
    }

    /// Asks Slurm, if the plan was submitted to it.
    pub fn queue(&self) -> Queue {
        if !self.is_submitted {
            return Queue::default();
        }
        let jobs = self.submission.jobs.as_ref();
        match self.tasks(jobs.map(|jobs| jobs.shards.as_str())) {
            Ok(tasks) => Queue {
                tasks: Some(tasks),
                jobs: jobs.and_then(|jobs| slurm::jobs(&[&jobs.preflight, &jobs.merge]).ok()),
                ended: jobs.map_or_else(BTreeMap::new, |jobs| {
                    slurm::ended(&[&jobs.preflight, &jobs.shards, &jobs.merge])
                }),
                warning: None,
            },
            Err(reason) => Queue {
                warning: Some(format!("{reason}; what runs is told by the files alone")),
                ..Queue::default()
            },
        }
    }

    /// Returns the state of all shards.
    pub fn shards(&self, queue: &Queue) -> Vec<Shard> {
        let mut starts = starts::by_shard(self.starts());
        let job = self
            .submission
            .jobs
            .as_ref()
            .map(|jobs| jobs.shards.as_str());
        let mut of = |number| {
            let starts = starts.remove(&number).unwrap_or_default();
            let ended = job.and_then(|job| queue.ended.get(&format!("{job}_{number}")));
            shard(number, starts, queue, ended)
        };
        (1..=self.submission.shards).map(&mut of).collect()
    }

    /// Returns the tasks that Slurm knows.
    fn tasks(&self, job: Option<&str>) -> Result<BTreeMap<u32, TaskState>, String> {
        let dir = directory::absolute(&self.dir).map_err(|failure| failure.message_and_hint().0)?;
        let tasks = slurm::tasks(job, &shards_script(&dir))?;
        if job.is_none() && tasks.is_empty() {
            return Err("the scripts were not submitted by `regatta submit`".to_owned());
        }
        Ok(tasks)
    }

    fn starts(&self) -> Vec<Start> {
        if self.is_submitted {
            return starts::read(&self.dir.join(SHARDS));
        }
        let mut starts = starts::read(&self.dir);
        starts.retain(|start| is_of_plan(start, &self.submission.plan_sha256));
        starts
    }
}

fn is_of_plan(start: &Start, plan_sha256: &str) -> bool {
    (start.progress.as_ref()).is_some_and(|it| it.plan_sha256 == plan_sha256)
}

/// Returns the plan of the shards in a directory that began last, if there are any.
fn of_parts(dir: &Path) -> Option<Submission> {
    let starts = starts::read(dir);
    let started_unix_s = |start: &Start| start.progress.as_ref().map(|it| it.started_unix_s);
    let last = starts.iter().max_by_key(|start| started_unix_s(start))?;
    let progress = last.progress.as_ref()?;
    // The file of a shard that runs on another machine cannot be read.
    let header = starts
        .iter()
        .filter(|start| is_of_plan(start, &progress.plan_sha256))
        .find_map(|start| Reader::unexamined(&start.dir).ok()?.header().ok())?;
    Some(Submission {
        trials: Plan::new(&header.study).ok()?.trials().len() as u32,
        study: header.study.name,
        plan_sha256: progress.plan_sha256.clone(),
        shards: progress.shard.of,
        jobs: None,
    })
}

fn shard(number: u32, starts: Vec<Start>, queue: &Queue, ended: Option<&String>) -> Shard {
    let progress = || starts.iter().filter_map(|start| start.progress.as_ref());
    let last = starts.last();
    let running = last.and_then(|start| start.progress.as_ref());
    let state = if starts.iter().any(Start::is_complete) {
        ShardState::Complete
    } else {
        match (queue.tasks.as_ref()).map(|tasks| tasks.get(&number)) {
            Some(Some(task)) if task.state == "PENDING" => {
                ShardState::Waiting(task.location.clone())
            }
            Some(Some(task)) => ShardState::Running(task.location.clone()),
            None if last.is_some_and(Start::seems_to_run) => {
                ShardState::Running(running.map_or_else(String::new, |it| it.node.clone()))
            }
            None if last.is_none() => {
                ShardState::Waiting("it was not started, as far as its files tell".to_owned())
            }
            Some(None) | None => ShardState::Missing(missing_reason(last, ended)),
        }
    };
    let rate = match (&state, running) {
        (ShardState::Running(_), Some(it)) => {
            let seconds = it.updated_unix_s.saturating_sub(it.started_unix_s).max(1);
            f64::from(it.of_this_run) / seconds as f64
        }
        _ => 0.0,
    };
    Shard {
        number,
        state,
        done: progress().map(|it| it.done).max().unwrap_or(0),
        trials: progress().map(|it| it.trials).next(),
        failed: progress().map(|it| it.failed).sum(),
        rate,
        starts,
    }
}

fn missing_reason(last: Option<&Start>, ended: Option<&String>) -> String {
    let status = last.and_then(|last| last.exit_status);
    let mut reason = match (last, status) {
        (None, _) => "it was never started".to_owned(),
        (_, Some(status)) => format!("it ended with exit status {status}"),
        (Some(it), _) if it.disk_was_full => "it ended on a full disk".to_owned(),
        _ => "it was killed".to_owned(),
    };
    if let Some(ended) = ended {
        reason += &format!(" ({ended})");
    }
    reason
}
