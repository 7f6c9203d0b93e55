//! `regatta compare`.

use std::path::PathBuf;

use regatta_report::{
    compare::{self, RunComparison},
    terminal::TerminalOptions,
};

use crate::{
    args::CompareArgs,
    directory,
    exit::{Code, OrFailure as _, Result},
    output::{self, Colour},
};

/// Runs `regatta compare`; the exit code is that of the gate, if there is one.
///
/// # Errors
/// Results that cannot be read or compared, and output that cannot be written.
pub fn compare(args: &CompareArgs, colour: Colour) -> Result<Code> {
    let read = |dir: &PathBuf| {
        let data = regatta_report::load(directory::of_run(dir)).bad()?;
        Ok((dir.display().to_string(), data))
    };
    let runs = args.dirs.iter().map(read).collect::<Result<Vec<_>>>()?;
    let comparison = compare::compare(&runs, args.fail_on().as_deref()).bad()?;
    if let Some(path) = &args.html {
        regatta_report::write_comparison(&comparison, path)?;
    }
    if args.json {
        output::json(&comparison)?;
    } else {
        let options = TerminalOptions {
            width: output::width(),
            color: colour.stdout,
            details: true,
        };
        output::coloured(&compare::render(&comparison, &options))?;
    }
    Ok(code(&comparison))
}

fn code(comparison: &RunComparison) -> Code {
    match comparison.gate.as_ref().is_none_or(|gate| gate.passed) {
        true => Code::Measured,
        false => Code::Failed,
    }
}
