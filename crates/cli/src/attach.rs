//! `regatta attach`, and the views of a run that this process runs.

use std::{io::IsTerminal, path::Path};

use regatta_live::{Activity, Attached, Hub, LiveError, Views};
use regatta_model::{TrialRecord, shell::quoted};
use regatta_results::{Reader, ResultsError, RunState, is_being_written};

use crate::{
    args::{AttachArgs, ViewArgs},
    charset, directory,
    exit::{Code, Failure},
    interrupt::Held,
    output,
};

/// Runs `regatta attach`.
///
/// # Errors
/// No run is under way in the directory, or a view cannot be had.
pub fn attach(args: &AttachArgs) -> Result<Code, Failure> {
    let dir = directory::of_run(&args.dir);
    let mut views = views(&args.views);
    // Without any view asked for, the one that needs no further program.
    views.terminal |= !views.any();
    let held = Held::new().map_err(Failure::failed)?;
    let (attached, url) = Attached::start(&views, dir).map_err(|error| match error {
        LiveError::NoRun { .. } => no_run(dir, error),
        error => failure(error),
    })?;
    say_url(url.as_deref());
    let detach = attached.detach();
    held.end_with("detaching: the run goes on", detach, || {})
        .map_err(Failure::failed)?;
    let shown = quoted(dir);
    output::err(&match attached.wait() {
        Activity::Ended { complete: true, .. } => {
            format!("the run is complete; `regatta report {shown}` shows its results")
        }
        Activity::Ended { reason, .. } => {
            format!("the run has ended: {reason}; `regatta resume {shown}` goes on with it")
        }
        _ if is_being_written(dir) == Some(true) => "detached; the run goes on".to_owned(),
        _ if is_complete(dir) => {
            format!("the run is complete; `regatta report {shown}` shows its results")
        }
        _ => format!("the run's process has gone; `regatta resume {shown}` goes on with it"),
    });
    Ok(Code::Measured)
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
) -> Result<Hub, Failure> {
    if args.live && is_json && std::io::stdout().is_terminal() {
        return Err(Failure::input(
            "`--json` writes on the terminal on which `--live` draws",
            "send standard output to a file or a program, or leave one of the two out",
        ));
    }
    let (hub, url) = Hub::start(&views(args), dir, earlier).map_err(failure)?;
    say_url(url.as_deref());
    Ok(hub)
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

fn say_url(url: Option<&str>) {
    if let Some(url) = url {
        output::err(&format!("web page of the run: {url}"));
    }
}

fn failure(error: LiveError) -> Failure {
    let hint = error.hint();
    match error {
        LiveError::Thread(_) => Failure::failed(error),
        error => Failure::bad(error).hint(hint),
    }
}

/// Whether the run in a directory has come to its end, as far as its results file can be read.
fn is_complete(dir: &Path) -> bool {
    let state = Reader::unexamined(dir).and_then(|reader| reader.state());
    matches!(state, Ok(RunState::Complete))
}

/// Creates the error of a directory in which no run answers.
fn no_run(dir: &Path, error: LiveError) -> Failure {
    if !dir.exists() {
        let path = dir.to_owned();
        return Failure::bad(ResultsError::NotFound { path }).context("cannot attach to a run");
    }
    let shown = quoted(dir);
    match is_being_written(dir) {
        Some(true) => Failure::bad(error).hint(format!(
            "a run goes on there: it has just begun, or it is one of another version; `regatta report {shown}` shows what it has so far"
        )),
        _ if is_complete(dir) => Failure::bad(error).hint(format!(
            "the run is complete: `regatta report {shown}` shows its results"
        )),
        _ => Failure::bad(error).hint(format!(
            "no run is under way there: `regatta report {shown}` shows its results, `regatta resume {shown}` goes on with it"
        )),
    }
}
