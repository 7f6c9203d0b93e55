//! `regatta attach`, and the views of a run that this process runs.

use std::{
    ffi::OsStr,
    io::IsTerminal,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use regatta_live::{Activity, Attached, LiveError, MAX_CLIENTS, SOCKET_NAME, ViewServer, Views};
use regatta_model::{TrialRecord, shell::quoted};
use regatta_process::readable;
use regatta_results::{
    Reader, ResultsError, RunState, is_being_written, is_locked, open_directory, state_now,
};

use super::cluster::{Queue, ShardedPlan, Watch, incomplete_results};
use crate::{
    args::{AttachArgs, ViewArgs},
    directory,
    exit::{Code, Failure, refuse},
    interrupt::Held,
    output::{self, charset},
};

/// Longest wait for the process of a run that does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time after the last change in a directory within which its lock may be released: the kernel reports that a file was
/// closed before it releases the file's lock.
const AFTER_CHANGE: Duration = Duration::from_millis(100);

/// Time between two attempts to attach to a run where its directory cannot be watched.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Runs `regatta attach`.
///
/// # Errors
/// No run is under way in the directory, or a view cannot be had.
pub fn attach(args: &AttachArgs) -> Result<Code, Failure> {
    let dir = directory::of_run(&args.dir);
    let mut views = views(&args.views);
    // The default view needs no further program.
    views.terminal |= !views.any();
    let held = Held::new()?;
    // Before the first attempt, so that nothing that comes after it is missed.
    let watch = watch_directory(dir).ok();
    let started = start_when_listening(dir, watch, ANSWER_TIMEOUT, || Attached::start(&views, dir));
    let (started, shards) = match started {
        Err(error @ LiveError::NoRun { .. }) => match ShardedPlan::read(dir) {
            Ok(plan) => {
                let (look, load) = Watch::start(plan.clone(), dir.display().to_string());
                (Attached::start_files(&views, look, load), Some(plan))
            }
            Err(_) => return Err(no_run(dir, error)),
        },
        started => (started, None),
    };
    let (attached, url) = started.map_err(failure)?;
    print_url(url.as_deref());
    let detach = attached.detach();
    let is_detached = Arc::<AtomicBool>::default();
    let detached = Arc::clone(&is_detached);
    let end = move || {
        detached.store(true, Ordering::Relaxed);
        detach();
    };
    held.end_with("detaching: the run goes on", end, || {})?;
    let quoted_dir = quoted(dir);
    let activity = attached.wait();
    if let Some(plan) = shards {
        for error in incomplete_results(&plan.shards(&Queue::default())) {
            output::err(&format!("warning: {error}"));
        }
        let next = format!("`regatta status {quoted_dir}` says what is next");
        output::err(&match activity {
            Activity::Ended { complete: true, .. } => format!("all shards are complete; {next}"),
            Activity::Ended { reason, .. } => format!("nothing runs any longer: {reason}; {next}"),
            _ => "detached; the shards go on".to_owned(),
        });
        return Ok(Code::Measured);
    }
    let state = match activity {
        Activity::Ended { complete: true, .. } => Some(RunState::Complete),
        Activity::Ended { reason, .. } => Some(RunState::Interrupted {
            reason: reason.into(),
        }),
        _ => state(dir).map_err(Failure::bad)?,
    };
    let resume = format!("`regatta resume {quoted_dir}` goes on with it");
    output::err(&match state {
        Some(RunState::Complete) => {
            format!("the run is complete; `regatta report {quoted_dir}` shows its results")
        }
        Some(RunState::Interrupted { reason }) => format!("the run has ended: {reason}; {resume}"),
        Some(RunState::Running) | None if is_detached.load(Ordering::Relaxed) => {
            "detached; the run goes on".to_owned()
        }
        Some(RunState::Running) if is_being_written(dir) == Some(true) => {
            let message = format!(
                "the run goes on, and serves no further process: {MAX_CLIENTS} are attached to it"
            );
            let hint = format!(
                "end one of the others, or see what the run has so far with `regatta report {quoted_dir}`"
            );
            return Err(Failure::message(message).hint(hint));
        }
        Some(RunState::Running) | None => format!("the run's process has gone; {resume}"),
    });
    Ok(Code::Measured)
}

/// Calls `start` for the run in a directory. A run that has just begun does not listen yet, and one that is about to end
/// no longer does: calls it again when the run listens, until no process writes the run or the time is over. Without an
/// inotify watch on the directory, of which a user may have a limited number, calls it again after a pause.
fn start_when_listening<T>(
    dir: &Path,
    watch: Option<Inotify>,
    within: Duration,
    mut start: impl FnMut() -> Result<T, LiveError>,
) -> Result<T, LiveError> {
    let mut started = start();
    let Ok(opened) = open_directory(dir) else {
        return started;
    };
    let until = Instant::now() + within;
    let mut pause = AFTER_CHANGE;
    while matches!(started, Err(LiveError::NoRun { .. })) && is_locked(&opened) == Some(true) {
        let remaining = until.saturating_duration_since(Instant::now());
        let Some(watch) = &watch else {
            if remaining.is_zero() {
                break;
            }
            std::thread::sleep(remaining.min(RETRY_INTERVAL));
            started = start();
            continue;
        };
        match readable(&[watch.as_fd()], Some(remaining.min(pause))) {
            Ok(true) => pause = AFTER_CHANGE,
            Ok(false) if pause < remaining => pause = within,
            Ok(false) | Err(_) => break,
        }
        let events = watch.read_events().unwrap_or_default();
        if (events.iter()).any(|event| event.name.as_deref() == Some(OsStr::new(SOCKET_NAME))) {
            started = start();
        }
    }
    started
}

/// Watches a directory for sockets that have begun to listen, and for the end of the process that writes the run in it,
/// which closes the directory.
fn watch_directory(dir: &Path) -> nix::Result<Inotify> {
    let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    let changes =
        AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_CLOSE_NOWRITE;
    watch.add_watch(dir, changes)?;
    Ok(watch)
}

/// Starts the views of a run of this process, and prints the address of the page. Every run can be attached to, with
/// views of its own or without.
///
/// # Errors
/// A view cannot be had.
pub fn start(
    args: &ViewArgs,
    dir: &Path,
    earlier: Vec<TrialRecord>,
    is_json: bool,
) -> Result<ViewServer, Failure> {
    refuse! {
        args.live && is_json && std::io::stdout().is_terminal() =>
            "`--json` writes on the terminal on which `--live` draws";
            "send standard output to a file or a program, or leave one of the two out";
    }
    let (views, url) = ViewServer::start(&views(args), dir, earlier).map_err(failure)?;
    print_url(url.as_deref());
    Ok(views)
}

fn views(args: &ViewArgs) -> Views {
    Views {
        terminal: args.live,
        is_utf8: charset::is_utf8(),
        web: args.web,
        prometheus: args.prometheus,
        textfile: args.prometheus_textfile.clone(),
    }
}

fn print_url(url: Option<&str>) {
    if let Some(url) = url {
        output::err(&format!("web page of the run: {url}"));
    }
}

fn failure(error: LiveError) -> Failure {
    match error {
        LiveError::Thread(_) => Failure::failed(error),
        error => Failure::bad(error),
    }
}

/// Returns the state of the run in a directory, as far as its results file can be read.
///
/// # Errors
/// The results file of a run that no process writes lacks records.
fn state(dir: &Path) -> Result<Option<RunState>, ResultsError> {
    if is_being_written(dir) == Some(false) {
        Reader::check_commits(dir)?;
    }
    let saved = Reader::unexamined(dir).and_then(|reader| reader.state());
    Ok(saved.ok().map(|saved| state_now(dir, saved)))
}

/// Creates the error of a directory in which no run answers.
fn no_run(dir: &Path, error: LiveError) -> Failure {
    if !dir.exists() {
        let path = dir.to_owned();
        return Failure::bad(ResultsError::NotFound { path }).context("cannot attach to a run");
    }
    let state = match state(dir) {
        Ok(state) => state,
        Err(error) => return Failure::bad(error).context("cannot attach to a run"),
    };
    let quoted_dir = quoted(dir);
    let report = format!("`regatta report {quoted_dir}` shows");
    Failure::bad(error).hint(match state {
        Some(RunState::Complete) => format!("the run is complete: {report} its results"),
        Some(RunState::Interrupted { reason }) => format!(
            "the run was interrupted: {reason}; `regatta resume {quoted_dir}` goes on with it, {report} its results"
        ),
        _ if is_being_written(dir) == Some(true) => format!(
            "a run goes on there: it has just begun, or it is one of another version; {report} what it has so far"
        ),
        _ => match &runs_below(dir)[..] {
            [] => "name the directory of a run that goes on".to_owned(),
            runs => format!("it holds runs that go on: {}", commands(runs)),
        },
    })
}

/// Maximum number of runs of a directory that are named.
const MAX_NAMED: usize = 4;

/// Returns the commands that attach to these runs.
fn commands(runs: &[PathBuf]) -> String {
    let attach = |run: &PathBuf| format!("`regatta attach {}`", quoted(run));
    let mut named: Vec<String> = runs.iter().take(MAX_NAMED).map(attach).collect();
    if let more @ 1.. = runs.len().saturating_sub(MAX_NAMED) {
        named.push(format!("and {more} more"));
    }
    named.join(", ")
}

/// Returns the directories of the runs that go on in a directory, or in one of its directories, such as shards of a plan.
fn runs_below(dir: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|it| it.is_dir()).collect()
    };
    let first = below(dir);
    let second: Vec<PathBuf> = first.iter().flat_map(|it| below(it)).collect();
    let mut runs: Vec<PathBuf> = (first.into_iter().chain(second))
        .filter(|it| it.join(SOCKET_NAME).exists() && is_being_written(it) == Some(true))
        .collect();
    runs.sort();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);

    fn no_answer<T>(dir: &Path) -> Result<T, LiveError> {
        Err(LiveError::NoRun {
            dir: dir.to_owned(),
            source: std::io::ErrorKind::ConnectionRefused.into(),
        })
    }

    #[test]
    fn a_run_that_has_just_begun_is_attached_to_when_it_listens() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        let writer = open_directory(dir).expect("opened");
        writer.lock().expect("locked");
        let watch = Some(watch_directory(dir).expect("a watch"));
        let mut attempts = 0;
        let started = start_when_listening(dir, watch, NEVER, || {
            attempts += 1;
            if attempts == 2 {
                return Ok("attached");
            }
            // It listens right after the first attempt.
            let new = dir.join("new");
            std::fs::write(&new, "").expect("written");
            std::fs::rename(new, dir.join(SOCKET_NAME)).expect("renamed");
            no_answer(dir)
        });
        assert_eq!(started.expect("attached"), "attached");
    }

    #[test]
    fn a_run_that_ends_or_does_not_answer_is_given_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        let writer = open_directory(dir).expect("opened");
        writer.lock().expect("locked");
        let watch = watch_directory(dir).expect("a watch");
        let silent =
            start_when_listening(dir, Some(watch), Duration::ZERO, || no_answer::<()>(dir));
        assert!(matches!(silent, Err(LiveError::NoRun { .. })));
        std::thread::scope(|scope| {
            let (attempt, attempted) = std::sync::mpsc::channel();
            let waits = scope.spawn(move || {
                let watch = Some(watch_directory(dir).expect("a watch"));
                start_when_listening(dir, watch, NEVER, || {
                    attempt.send(()).expect("a receiver");
                    no_answer::<()>(dir)
                })
            });
            attempted.recv().expect("an attempt");
            // The end of its process.
            drop(writer);
            let ended = waits.join().expect("no panic");
            assert!(matches!(ended, Err(LiveError::NoRun { .. })));
        });
    }

    #[test]
    fn attempts_are_repeated_where_the_directory_cannot_be_watched() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        let writer = open_directory(dir).expect("opened");
        writer.lock().expect("locked");
        let mut attempts = 0;
        let started = start_when_listening(dir, None, NEVER, || {
            attempts += 1;
            match attempts {
                3 => Ok("attached"),
                _ => no_answer(dir),
            }
        });
        assert_eq!(started.expect("attached"), "attached");
        let silent = start_when_listening(dir, None, Duration::ZERO, || no_answer::<()>(dir));
        assert!(matches!(silent, Err(LiveError::NoRun { .. })));
        drop(writer);
        let ended = start_when_listening(dir, None, NEVER, || no_answer::<()>(dir));
        assert!(matches!(ended, Err(LiveError::NoRun { .. })));
    }
}
