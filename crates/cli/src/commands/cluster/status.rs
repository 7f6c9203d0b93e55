//! `regatta status`: progress of a submission.

use std::{fmt::Write as _, path::Path, time::Duration};

use regatta_model::{shell::quoted, units::format_duration};
use regatta_results::{FILE_NAME, RunState};

use super::{
    LOGS, MERGE_SCRIPT, MERGED,
    shards::{Shard, ShardState, ShardedPlan, incomplete_results},
    shards_script,
    steps::Steps,
};
use crate::{
    args::StatusArgs,
    directory,
    exit::{Code, OrFailure as _, Result},
    output::{self, counted},
};

/// Maximum number of shards of a kind that are listed.
const MAX_LISTED: usize = 20;

/// Runs `regatta status`.
///
/// # Errors
/// If the directory holds neither a submission nor shards.
pub fn status(args: &StatusArgs) -> Result<Code> {
    let run = directory::of_run(&args.dir);
    if run.join(FILE_NAME).exists() {
        return print_run(run);
    }
    let plan = ShardedPlan::read(&args.dir)?;
    let queue = plan.queue();
    let shards = plan.shards(&queue);
    if let Some(warning) = &queue.warning {
        output::err(&format!("warning: {warning}"));
    }
    let steps = Steps::of(&plan, &shards, &queue);
    let notes: String = steps.notes.iter().map(|note| format!("{note}\n")).collect();
    output::out(&(text(&plan, &shards, args) + &notes))?;
    let incomplete: Vec<String> = incomplete_results(&shards).collect();
    for error in &incomplete {
        output::err(&format!("warning: {error}"));
    }
    let is_missing = |shard: &Shard| matches!(shard.state, ShardState::Missing(_));
    let has_all = incomplete.is_empty() && !shards.iter().any(is_missing);
    Ok(match steps.is_stuck || !has_all {
        true => Code::Incomplete,
        false => Code::Measured,
    })
}

/// Prints the state of a single run.
fn print_run(dir: &Path) -> Result<Code> {
    let data = regatta_report::load(dir).bad()?;
    let shown = quoted(dir);
    let (state, next, code) = match data.state {
        RunState::Running => (
            "running".to_owned(),
            format!("`regatta attach {shown}` shows it"),
            Code::Measured,
        ),
        RunState::Complete => (
            "complete".to_owned(),
            format!("`regatta report {shown}` shows its results"),
            Code::Measured,
        ),
        RunState::Interrupted { ref reason } => (
            format!("interrupted: {reason}"),
            format!("`regatta resume {shown}` goes on with it"),
            Code::Incomplete,
        ),
    };
    output::out(&format!(
        "{}: {} of {} done, {state}\n{next}\n",
        data.header.study.name,
        data.trials.len(),
        counted(data.planned() as usize, "trial"),
    ))?;
    Ok(code)
}

fn text(plan: &ShardedPlan, shards: &[Shard], args: &StatusArgs) -> String {
    let submission = &plan.submission;
    let is = |state: fn(&ShardState) -> bool| -> Vec<&Shard> {
        shards.iter().filter(|it| state(&it.state)).collect()
    };
    let complete = is(|state| *state == ShardState::Complete).len();
    let running = is(|state| matches!(state, ShardState::Running(_)));
    let waiting = is(|state| matches!(state, ShardState::Waiting(_)));
    let missing = is(|state| matches!(state, ShardState::Missing(_)));
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
        remaining_text(submission.trials.saturating_sub(done), shards),
    );
    for (kind, shards) in [
        ("running", &running),
        ("waiting", &waiting),
        ("missing", &missing),
    ] {
        for shard in shards.iter().take(MAX_LISTED) {
            let description = match &shard.state {
                ShardState::Running(node) => format!("on {node}"),
                ShardState::Waiting(reason) | ShardState::Missing(reason) => reason.clone(),
                ShardState::Complete => String::new(),
            };
            let of = shard.trials.map_or_else(String::new, |trials| {
                format!(", {} of {trials} trials", shard.done)
            });
            let (number, all) = (shard.number, submission.shards);
            let _ = writeln!(text, "  {kind}  {number}/{all}{of}: {description}");
        }
        if shards.len() > MAX_LISTED {
            let _ = writeln!(text, "  {kind}  and {} more", shards.len() - MAX_LISTED);
        }
    }
    match plan.is_submitted {
        true => text.push_str(&next_of_submission(&missing, &args.dir)),
        false => text.push_str(&next_of_parts(shards, &args.dir)),
    }
    text
}

/// Returns the next commands for a submission.
fn next_of_submission(missing: &[&Shard], dir: &Path) -> String {
    let mut text = String::new();
    if !missing.is_empty() {
        let numbers: Vec<String> = missing.iter().map(|it| it.number.to_string()).collect();
        let _ = writeln!(
            text,
            "run the missing ones again with `sbatch --array={} {}`, and then `sbatch {}`; their output is in `{}`",
            numbers.join(","),
            shards_script(dir).display(),
            dir.join(MERGE_SCRIPT).display(),
            dir.join(LOGS).display()
        );
    }
    text
}

/// Returns the next commands for shards that were started by hand.
fn next_of_parts(shards: &[Shard], dir: &Path) -> String {
    let mut text = String::new();
    let stopped = (shards.iter()).filter(|it| matches!(it.state, ShardState::Missing(_)));
    for start in stopped.filter_map(|it| it.starts.last()).take(MAX_LISTED) {
        let dir = quoted(&start.dir);
        let _ = writeln!(text, "`regatta resume {dir}` goes on with it");
    }
    if shards.iter().all(|it| it.state == ShardState::Complete) {
        let starts = shards.iter().flat_map(|it| &it.starts);
        let dirs: Vec<_> = starts.map(|start| quoted(&start.dir)).collect();
        let (merged, dirs) = (quoted(&dir.join(MERGED)), dirs.join(" "));
        let _ = writeln!(text, "`regatta merge {merged} {dirs}` merges them");
    }
    text
}

/// Formats the remaining time.
fn remaining_text(trials: u32, shards: &[Shard]) -> String {
    let Some(seconds) = Shard::remaining_seconds(trials, shards) else {
        return String::new();
    };
    let minutes = (seconds / 60.0).ceil() as u64;
    let remaining = format_duration(Duration::from_secs(minutes * 60));
    format!(", about {remaining} left at the rate of the running shards")
}
