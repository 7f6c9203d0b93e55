//! The check of a node before the shards, and the merge after them.

use std::{fs, path::Path};

use regatta_model::shell::{printable, quoted};

use super::{
    LOGS, MERGE_LOG, MERGE_SCRIPT, MERGE_STATUS, MERGED, PREFLIGHT_LOG, PREFLIGHT_STATUS, SHARDS,
    shards::{Queue, Shard, ShardState, ShardedPlan},
};
use crate::{exit::Code, output::typeset};

/// Lines at the end of a log that are shown.
const LOG_LINES: usize = 3;

/// State of a submission's steps other than its shards: the check of the node, and the merge.
#[derive(Debug, Default)]
pub struct Steps {
    /// Lines for the user.
    pub notes: Vec<String>,
    /// Whether something has to be done by the user.
    pub is_stuck: bool,
}

impl Steps {
    /// Returns the state of both steps of a submission, from their files and from Slurm's answer.
    pub fn of(plan: &ShardedPlan, shards: &[Shard], queue: &Queue) -> Self {
        let mut steps = Self::default();
        if plan.is_submitted {
            steps.add_preflight(plan, shards, queue);
            steps.add_merge(plan, shards, queue);
        }
        steps
    }

    fn add_preflight(&mut self, plan: &ShardedPlan, shards: &[Shard], queue: &Queue) {
        let dir = &plan.dir;
        let log = dir.join(LOGS).join(PREFLIGHT_LOG);
        match (
            exit_status(&dir.join(PREFLIGHT_STATUS)),
            &plan.submission.jobs,
        ) {
            (Some(0), _) => {}
            // Shards that have started need no check any more.
            _ if shards.iter().any(|shard| !shard.starts.is_empty()) => {}
            (Some(code), _) => {
                let end = last_lines(&log);
                self.stuck(format!(
                    "the check of a node failed with exit status {code}, so that no shard is started:{end}\nits output is in `{}`",
                    log.display()
                ));
            }
            (None, Some(jobs)) => {
                self.add_job("the check of a node", &jobs.preflight, queue, &log);
            }
            (None, None) => {}
        }
    }

    fn add_merge(&mut self, plan: &ShardedPlan, shards: &[Shard], queue: &Queue) {
        let dir = &plan.dir;
        let merged = dir.join(MERGED);
        let log = dir.join(LOGS).join(MERGE_LOG);
        if merged.join("summary.json").exists() {
            self.notes.push(format!("merged in `{}`", merged.display()));
            if !merged.join("brief.pdf").exists() {
                self.notes.push(typeset::missing_note(&merged));
            }
            return;
        }
        let here = format!(
            "`regatta merge {} {}/*/results.sqlite` merges them here",
            quoted(&merged),
            quoted(&dir.join(SHARDS))
        );
        let is_over = shards.iter().all(|it| it.state == ShardState::Complete);
        match (exit_status(&dir.join(MERGE_STATUS)), &plan.submission.jobs) {
            (Some(code), _) if code != 0 && code != i32::from(u8::from(Code::Incomplete)) => {
                let end = last_lines(&log);
                self.stuck(format!(
                    "the merge failed with exit status {code}:{end}\nits output is in `{}`; `sbatch {}` runs it again, {here}",
                    log.display(),
                    dir.join(MERGE_SCRIPT).display()
                ));
            }
            (_, Some(jobs)) if is_over => {
                self.add_job("the merge", &jobs.merge, queue, &log);
                self.notes.push(format!("all shards are complete: {here}"));
            }
            (_, None) if is_over => {
                self.stuck(format!(
                    "all shards are complete: run `sbatch {}`, {here}",
                    dir.join(MERGE_SCRIPT).display()
                ));
            }
            _ => {}
        }
    }

    /// Adds the state of a job that has left no exit status.
    fn add_job(&mut self, name: &str, job: &str, queue: &Queue, log: &Path) {
        let Some(jobs) = &queue.jobs else {
            // The warning that Slurm does not answer is there.
            return;
        };
        match jobs.get(job) {
            Some(state) if state.state == "PENDING" => {
                let waits = format!("{name} (job {job}) waits: {}", state.location);
                self.notes.push(waits);
            }
            Some(state) => self.notes.push(format!(
                "{name} (job {job}) is {} on {}",
                state.state.to_lowercase(),
                state.location
            )),
            None => {
                let ended = queue.ended.get(job);
                let ended = ended.map_or_else(String::new, |ended| format!(" ({ended})"));
                self.stuck(format!(
                    "{name} (job {job}) is not in the queue and has not come to its end{ended}:{}\nits output is in `{}`",
                    last_lines(log),
                    log.display()
                ));
            }
        }
    }

    fn stuck(&mut self, note: String) {
        self.is_stuck = true;
        self.notes.push(note);
    }
}

fn exit_status(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the last lines of a log, each on a line of its own.
fn last_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    last.iter()
        .map(|line| format!("\n  {}", printable(line)))
        .collect()
}
