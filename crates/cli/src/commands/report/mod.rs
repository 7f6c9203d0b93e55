//! `regatta report`, and the display of a run's results.

mod figures;

use std::path::Path;

use regatta_model::{Study, shell::quoted};
use regatta_process::StopRequest;
use regatta_report::{
    RunData, Summary,
    analysis::ClaimOutcome,
    figure_files::INDEX_FILE_NAME,
    language,
    pdf::Form,
    terminal::{self, TerminalOptions},
};
use regatta_results::{Reader, RunState, exports::write_exports, hosts_csv::HOSTS_FILE_NAME};

use crate::{
    args::{FailOn, ReportArgs},
    directory,
    exit::{Code, Failure, OrFailure as _, Result, refuse},
    interrupt::Held,
    listen::Tally,
    output::{self, Colour, typeset},
};

/// Runs `regatta report`; the exit code is that of the run.
///
/// # Errors
/// The results cannot be read, or a report cannot be written.
pub fn report(args: &ReportArgs, colour: Colour) -> Result<Code> {
    language::with(args.lang, || make(args, colour))
}

/// Makes the requested reports.
fn make(args: &ReportArgs, colour: Colour) -> Result<Code> {
    let dir = directory::of_run(&args.dir);
    let data = regatta_report::load(dir).bad()?;
    let summary = regatta_report::summarise(&data);
    check_claims(args.fail_on, &data.header.study)?;
    let missed = !summary.passed() || misses_claims(args.fail_on, &summary);
    let code = Tally::of(data.trials.iter().chain(&data.repeated)).verdict(missed);
    if args.json {
        output::json(&summary)?;
        return Ok(code);
    }
    if args.csv {
        Reader::open(dir).and_then(|reader| write_exports(&reader, dir))?;
        let hosts = (!data.hosts.is_empty()).then_some(HOSTS_FILE_NAME);
        let files = ["trials.csv", "series.csv"].into_iter().chain(hosts);
        print_paths(dir, &files.collect::<Vec<_>>())?;
    }
    if args.html {
        regatta_report::write_html(&data, &summary, dir)?;
        print_paths(dir, &["report.html"])?;
    }
    if let Some(form) = args.pdf {
        let stop = stopped_by_signals(match form {
            Form::Full => "stopping: no `report.pdf` is written",
            Form::Brief => "stopping: no `brief.pdf` is written",
        })?;
        typeset::write_pdf(&data, &summary, args.paper, form, dir, &stop)?;
        print_paths(dir, &[form.file_name()])?;
    }
    if let Some(out) = &args.figures {
        let stop = stopped_by_signals("stopping: not every figure has its PDF and PNG")?;
        figures::write(&data, &summary, out, &args.figure, &stop)?;
        print_paths(out, &[INDEX_FILE_NAME])?;
    }
    if !args.csv && !args.html && args.pdf.is_none() && args.figures.is_none() {
        // The table first: it can be had of a directory that cannot be written. The files can be
        // had without it.
        let shown = show_tables(dir, (&data, &summary), args.details, colour);
        regatta_report::write_files(&data, &summary, dir)?;
        shown?;
        print_report_paths(dir)?;
        if matches!(data.state, RunState::Interrupted { .. }) {
            let shown = quoted(dir);
            output::err(&format!("hint: run `regatta resume {shown}` to go on"));
        }
    }
    Ok(code)
}

/// Checks that a study has claims, if the run is to fail on them.
///
/// # Errors
/// It has none.
pub fn check_claims(fail_on: Option<FailOn>, study: &Study) -> Result<()> {
    refuse! {
        fail_on == Some(FailOn::Claims) && study.claims.is_empty() =>
            "`--fail-on claims` of a study without claims, or whose path or work options have changed";
            "write `[[claim]]` into the study (docs/studies.md), or leave the option out";
    }
    Ok(())
}

/// Whether claims of the study do not come out, or were not measured, on which the run is to fail; names them on standard
/// error.
pub fn misses_claims(fail_on: Option<FailOn>, summary: &Summary) -> bool {
    let missed = summary.claims.iter().filter(|claim| {
        fail_on == Some(FailOn::Claims)
            && matches!(
                claim.outcome,
                ClaimOutcome::DoesNot | ClaimOutcome::NotMeasured
            )
    });
    let mut is_missed = false;
    for claim in missed {
        is_missed = true;
        let outcome = claim.outcome.text();
        output::err(&format!(
            "claim: {}: {outcome}: {}",
            claim.text, claim.found
        ));
    }
    is_missed
}

/// Returns a request to stop that is made by signals such as Ctrl-C, which also print `message`.
fn stopped_by_signals(message: &'static str) -> Result<StopRequest> {
    let stop = StopRequest::default();
    let held = Held::new()?;
    let request = stop.clone();
    held.end_with(message, move || request.request(), || {})?;
    Ok(stop)
}

fn print_paths(dir: &Path, files: &[&str]) -> Result<()> {
    let lines: String = files
        .iter()
        .map(|file| format!("{}\n", dir.join(file).display()))
        .collect();
    output::out(&lines)
}

/// Prints the answer, and the place of the files, which are already written.
///
/// # Errors
/// Standard output cannot be written.
pub fn show(dir: &Path, data: &RunData, summary: &Summary, colour: Colour) -> Result<()> {
    show_tables(dir, (data, summary), false, colour)?;
    print_report_paths(dir)
}

/// Prints the answer on one screen, or with `details` everything.
///
/// # Errors
/// Standard output cannot be written.
pub fn show_tables(
    dir: &Path,
    (data, summary): (&RunData, &Summary),
    details: bool,
    colour: Colour,
) -> Result<()> {
    let options = TerminalOptions {
        width: output::width(),
        color: colour.stdout,
        details,
    };
    print(dir, terminal::render(summary, data, &options))
}

fn print_report_paths(dir: &Path) -> Result<()> {
    print(dir, terminal::whereabouts(dir))
}

fn print(dir: &Path, mut text: String) -> Result<()> {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    output::coloured(&text).map_err(|error| print_error(dir, error))
}

/// Creates the error of a run whose results are saved, but could not be printed.
pub fn print_error(dir: &Path, error: impl Into<anyhow::Error>) -> Failure {
    Failure::failed(error).hint(format!(
        "the results are in `{}`; `regatta report {}` shows them",
        dir.display(),
        quoted(dir)
    ))
}
