//! `regatta compare`.

use std::path::Path;

use regatta_report::{
    RunData,
    compare::{self, RunComparison},
    terminal::TerminalOptions,
};

use crate::{
    args::CompareArgs,
    directory,
    exit::{Code, Failure},
    output::{self, Colour},
};

/// Runs `regatta compare`; the exit code is that of the gate, if there is one.
///
/// # Errors
/// Results that cannot be read or compared, and output that cannot be written.
pub fn compare(args: &CompareArgs, colour: Colour) -> Result<Code, Failure> {
    let mut runs = Vec::new();
    for dir in &args.dirs {
        runs.push((dir.display().to_string(), load(dir)?));
    }
    let least = args.fail_on.map(|regression| regression.0);
    let comparison = compare::compare(&runs, least).map_err(|error| {
        let hint = error.hint();
        Failure::bad(error).hint(hint)
    })?;
    if let Some(path) = &args.html {
        regatta_report::write_comparison(&comparison, path).map_err(Failure::failed)?;
    }
    if args.json {
        let mut text = serde_json::to_string_pretty(&comparison).map_err(Failure::failed)?;
        text.push('\n');
        output::exactly(&text)?;
    } else {
        let options = TerminalOptions {
            width: output::width(),
            color: colour.stdout,
        };
        output::coloured(&compare::render(&comparison, &options)).map_err(Failure::failed)?;
    }
    Ok(code(&comparison))
}

fn load(dir: &Path) -> Result<RunData, Failure> {
    regatta_report::load(directory::of_run(dir)).map_err(Failure::bad)
}

fn code(comparison: &RunComparison) -> Code {
    match comparison.gate.as_ref().is_none_or(|gate| gate.passed) {
        true => Code::Measured,
        false => Code::Failed,
    }
}
