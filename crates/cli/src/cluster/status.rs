//! `regatta status`: how far a submission is.

use std::{collections::BTreeMap, fmt::Write as _, path::Path, time::Duration};

use regatta_model::{shell::quoted, units::format_duration};
use regatta_results::{FILE_NAME, RunState};

use super::{
    LOGS, MERGE_SCRIPT, MERGED, SHARDS, Submission, shards_script,
    slurm::{self, TaskState},
    starts::{self, Start},
};
use crate::{
    args::StatusArgs,
    directory,
    exit::{Code, Failure},
    output::{self, counted},
};

/// Most shards of a kind that are listed.
const MOST_LISTED: usize = 20;

/// State of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ShardState {
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
struct Shard {
    number: u32,
    state: ShardState,
    done: u32,
    trials: Option<u32>,
    failed: u32,
    /// Trials per second of the start that runs.
    rate: f64,
}

/// Runs `regatta status`.
///
/// # Errors
/// If the directory holds no submission.
pub fn status(args: &StatusArgs) -> Result<Code, Failure> {
    let run = directory::of_run(&args.dir);
    if run.join(FILE_NAME).exists() {
        return of_run(run);
    }
    let submission = Submission::read(&args.dir)?;
    let starts = starts::read(&args.dir.join(SHARDS));
    let job = submission.jobs.as_ref().map(|jobs| jobs.shards.as_str());
    let asked = match slurm::tasks(job, &shards_script(&directory::absolute(&args.dir)?)) {
        Ok(tasks) if job.is_none() && tasks.is_empty() => {
            Err("the scripts were not submitted by `regatta submit`".to_owned())
        }
        asked => asked,
    };
    if let Err(why) = &asked {
        output::err(&format!(
            "warning: {why}; what runs is told by the files alone"
        ));
    }
    let ended = match (job, &asked) {
        (Some(job), Ok(_)) => slurm::ended(job),
        _ => BTreeMap::new(),
    };
    let shards: Vec<Shard> = (1..=submission.shards)
        .map(|number| {
            let starts = starts.get(&number).map_or(&[][..], Vec::as_slice);
            shard(number, starts, asked.as_ref().ok(), &ended)
        })
        .collect();
    output::out(&text(&submission, &shards, args))?;
    let missing = (shards.iter()).any(|shard| matches!(shard.state, ShardState::Missing(_)));
    Ok(if missing {
        Code::Incomplete
    } else {
        Code::Measured
    })
}

/// Prints the state of a single run.
fn of_run(dir: &Path) -> Result<Code, Failure> {
    let data = regatta_report::load(dir).map_err(Failure::bad)?;
    let shown = quoted(dir);
    let (state, next) = match &data.state {
        RunState::Running => (
            "running".to_owned(),
            format!("`regatta attach {shown}` shows it"),
        ),
        RunState::Complete => (
            "complete".to_owned(),
            format!("`regatta report {shown}` shows its results"),
        ),
        RunState::Interrupted { reason } => (
            format!("interrupted: {reason}"),
            format!("`regatta resume {shown}` goes on with it"),
        ),
    };
    output::out(&format!(
        "{}: {} of {} done, {state}\n{next}\n",
        data.header.study.name,
        data.trials.len(),
        counted(data.planned() as usize, "trial"),
    ))?;
    Ok(match data.state {
        RunState::Interrupted { .. } => Code::Incomplete,
        _ => Code::Measured,
    })
}

fn shard(
    number: u32,
    starts: &[Start],
    tasks: Option<&BTreeMap<u32, TaskState>>,
    ended: &BTreeMap<u32, String>,
) -> Shard {
    let progress = || starts.iter().filter_map(|start| start.progress.as_ref());
    let last = starts.last();
    let running = last.and_then(|start| start.progress.as_ref());
    let state = if starts.iter().any(Start::is_complete) {
        ShardState::Complete
    } else {
        match tasks.map(|tasks| tasks.get(&number)) {
            Some(Some(task)) if task.state == "PENDING" => ShardState::Waiting(task.place.clone()),
            Some(Some(task)) => ShardState::Running(task.place.clone()),
            None if last.is_some_and(Start::seems_to_run) => {
                ShardState::Running(running.map_or_else(String::new, |it| it.node.clone()))
            }
            None if last.is_none() => ShardState::Waiting("not known".to_owned()),
            Some(None) | None => ShardState::Missing(why_missing(last, ended.get(&number))),
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
    }
}

fn why_missing(last: Option<&Start>, ended: Option<&String>) -> String {
    let mut why = match last {
        None => "it was never started".to_owned(),
        Some(Start {
            exit_status: Some(status),
            ..
        }) => format!("it ended with exit status {status}"),
        Some(it) if it.disk_was_full => "it ended on a full disk".to_owned(),
        Some(_) => "it was killed".to_owned(),
    };
    if let Some(ended) = ended {
        why += &format!(" ({ended})");
    }
    why
}

fn text(submission: &Submission, shards: &[Shard], args: &StatusArgs) -> String {
    let is = |state: fn(&ShardState) -> bool| shards.iter().filter(move |it| state(&it.state));
    let complete = is(|state| *state == ShardState::Complete).count();
    let running: Vec<_> = is(|state| matches!(state, ShardState::Running(_))).collect();
    let waiting: Vec<_> = is(|state| matches!(state, ShardState::Waiting(_))).collect();
    let missing: Vec<_> = is(|state| matches!(state, ShardState::Missing(_))).collect();
    let done: u32 = shards.iter().map(|shard| shard.done).sum();
    let failed: u32 = shards.iter().map(|shard| shard.failed).sum();
    let mut text = format!(
        "{}: {complete} of {} complete, {} running, {} waiting, {} missing\n{done} of {} done{}{}\n",
        submission.study,
        counted(submission.shards as usize, "shard"),
        running.len(),
        waiting.len(),
        missing.len(),
        counted(submission.trials as usize, "trial"),
        match failed {
            0 => String::new(),
            failed => format!(", {failed} of them failed"),
        },
        left(submission.trials.saturating_sub(done), &running),
    );
    for (kind, shards) in [
        ("running", &running),
        ("waiting", &waiting),
        ("missing", &missing),
    ] {
        for shard in shards.iter().take(MOST_LISTED) {
            let told = match &shard.state {
                ShardState::Running(node) => format!("on {node}"),
                ShardState::Waiting(why) | ShardState::Missing(why) => why.clone(),
                ShardState::Complete => String::new(),
            };
            let of = shard.trials.map_or_else(String::new, |trials| {
                format!(", {} of {trials} trials", shard.done)
            });
            let _ = writeln!(
                text,
                "  {kind}  {}/{}{of}: {told}",
                shard.number, submission.shards
            );
        }
        if shards.len() > MOST_LISTED {
            let _ = writeln!(text, "  {kind}  and {} more", shards.len() - MOST_LISTED);
        }
    }
    if !missing.is_empty() {
        let numbers: Vec<String> = missing.iter().map(|it| it.number.to_string()).collect();
        let _ = writeln!(
            text,
            "run the missing ones again with `sbatch --array={} {}`, and then `sbatch {}`; their output is in `{}`",
            numbers.join(","),
            shards_script(&args.dir).display(),
            args.dir.join(MERGE_SCRIPT).display(),
            args.dir.join(LOGS).display()
        );
    }
    if args.dir.join(MERGED).join("summary.json").exists() {
        let _ = writeln!(text, "merged in `{}`", args.dir.join(MERGED).display());
    }
    text
}

/// Estimates the time left from the rate of the shards that run.
fn left(trials: u32, running: &[&Shard]) -> String {
    let rate: f64 = running.iter().map(|shard| shard.rate).sum();
    if trials == 0 || rate <= 0.0 {
        return String::new();
    }
    let seconds = (f64::from(trials) / rate).min(1e9);
    let minutes = (seconds / 60.0).ceil() as u64;
    format!(
        ", about {} left at the rate of the running shards",
        format_duration(Duration::from_secs(minutes * 60))
    )
}
