//! Calls of Slurm's commands.

use std::{collections::BTreeMap, io, path::Path, process::Command};

use crate::exit::{Failure, Result};

/// Largest number of array tasks plus one, if the site does not report it: Slurm's default.
const DEFAULT_ARRAY_SIZE: u32 = 1001;

/// State of a job or of an array task: as Slurm names it, such as `RUNNING`, with the node or the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskState {
    pub state: String,
    /// Node of a task that runs; else the reason why it waits.
    pub location: String,
}

impl TaskState {
    fn new(state: &str, node: &str, reason: &str) -> Self {
        let location = if node.is_empty() { reason } else { node };
        Self {
            state: state.to_owned(),
            location: location.to_owned(),
        }
    }
}

/// Returns the output of a command of Slurm, or the reason why it has none.
fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let run = Command::new(program).args(args).output();
    let run = run.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("`{program}` is not on this machine"),
        _ => format!("`{program}` cannot be started: {error}"),
    })?;
    let [errors, text] = [&run.stderr, &run.stdout].map(|it| String::from_utf8_lossy(it));
    if run.status.success() {
        return Ok(text.into_owned());
    }
    let line = errors.lines().chain(text.lines()).next();
    let message = line.unwrap_or("it printed nothing");
    Err(format!("`{program}` failed: {message}"))
}

/// Returns the largest number of shards that one array can have on this site.
pub fn most_tasks() -> u32 {
    let config = output("scontrol", &["show", "config"]).unwrap_or_default();
    let size = config
        .lines()
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim() == "MaxArraySize")
        .and_then(|(_, value)| value.trim().parse().ok());
    // The largest number of a task is one less.
    size.unwrap_or(DEFAULT_ARRAY_SIZE).max(2) - 1
}

/// Submits a script and returns the number of its job.
pub fn submit(script: &Path, options: &[String]) -> Result<String> {
    let path = script.display().to_string();
    let mut args = vec!["--parsable"];
    args.extend(options.iter().map(String::as_str));
    args.push(&path);
    let output_text = output("sbatch", &args).map_err(|reason| {
        Failure::message(format!("cannot submit `{path}`: {reason}")).hint(
            "add what the site asks for with `--slurm-arg`, or write the scripts with `--write-only` and submit \
             them with `sbatch` where it is",
        )
    })?;
    // On a federation the cluster follows behind a semicolon.
    let job = output_text.trim().split(';').next().unwrap_or_default();
    Ok(job.to_owned())
}

/// Cancels jobs. Those that cannot be cancelled stay.
pub fn cancel(jobs: &[&str]) {
    let _ = output("scancel", jobs);
}

/// Returns the tasks that wait or run, by number: those of an array, and those of its script that this user has
/// submitted by hand; an error if Slurm does not answer.
///
/// Reads text in a format of our own: the form of `squeue --json` differs from version to version.
pub fn tasks(job: Option<&str>, script: &Path) -> Result<BTreeMap<u32, TaskState>, String> {
    let form = ["--noheader", "--array", "--format=%K|%T|%N|%r|%o"];
    let of_job = job.map(|job| queued(&form, job)).transpose()?;
    let mut tasks = read_tasks(&of_job.unwrap_or_default(), None);
    let own = output("squeue", &[&form[..], &["--me"]].concat())?;
    tasks.extend(read_tasks(&own, Some(script)));
    Ok(tasks)
}

/// Returns the jobs of this list that wait or run, by number; an error if Slurm does not answer.
pub fn jobs(list: &[&str]) -> Result<BTreeMap<String, TaskState>, String> {
    let text = queued(&["--noheader", "--format=%A|%T|%N|%r"], &list.join(","))?;
    let job = |line: &str| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [number, state, node, reason] = columns[..] else {
            return None;
        };
        Some((number.to_owned(), TaskState::new(state, node, reason)))
    };
    Ok(text.lines().filter_map(job).collect())
}

/// Returns what `squeue` says about jobs in this form.
fn queued(form: &[&str], jobs: &str) -> Result<String, String> {
    match output("squeue", &[form, &["--jobs", jobs]].concat()) {
        // It has forgotten a job that ended some minutes ago. `squeue` has one exit code for all of its errors and no form of
        // them for programs, so that its words are all there is; with other words its message is shown as it is.
        Err(reason) if reason.contains("Invalid job id") => Ok(String::new()),
        result => result,
    }
}

/// Reads the output of `squeue`, of all tasks or of those of one script.
fn read_tasks(text: &str, script_filter: Option<&Path>) -> BTreeMap<u32, TaskState> {
    let task = |line: &str| {
        let mut columns = line.splitn(5, '|').map(str::trim);
        let number = columns.next()?.parse().ok()?;
        let state = columns.next()?;
        let (node, reason) = (columns.next()?, columns.next()?);
        let script = columns.next()?;
        if script_filter.is_some_and(|script_filter| Path::new(script) != script_filter) {
            return None;
        }
        Some((number, TaskState::new(state, node, reason)))
    };
    text.lines().filter_map(task).collect()
}

/// Returns how jobs and the tasks of arrays ended, by the number that Slurm gives them, such as `7` and `8_1`, from the
/// accounting, where the site has one: state and exit status.
pub fn ended(jobs: &[&str]) -> BTreeMap<String, String> {
    let form = "--format=JobID,State,ExitCode";
    let args = ["--noheader", "--parsable2", "--allocations", form];
    let jobs = jobs.join(",");
    let output_text =
        output("sacct", &[&args[..], &["--jobs", &jobs]].concat()).unwrap_or_default();
    let task = |line: &str| {
        let mut columns = line.split('|');
        let number = columns.next()?.to_owned();
        let state = columns.next()?;
        Some((number, format!("{state}, exit code {}", columns.next()?)))
    };
    output_text.lines().filter_map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squeue_output_is_parsed() {
        let tasks = read_tasks(
            "3|RUNNING|n1|None|/a/shards.sbatch\n17|PENDING||Resources|/a/shards.sbatch\n\
             18|COMPLETING|n2|None|/b/shards.sbatch\nN/A|PENDING||Dependency|/a/merge.sbatch\n",
            None,
        );
        assert_eq!(tasks.len(), 3);
        assert_eq!(tasks[&3].state, "RUNNING");
        assert_eq!(tasks[&3].location, "n1");
        assert_eq!(tasks[&17].location, "Resources");
    }
}
