//! Wall time and CPU time of each test, and their table at the end of `make test`.
//!
//! `.config/nextest.toml` runs every test by `regatta-test-times run --group GROUP --budget SECONDS -- TEST…`, which
//! appends one line to a file of the test run. `regatta-test-times table` makes the table of that file, and with
//! `--check` fails where a group has used more than its budget allows.

mod cgroup;
mod record;
mod reference;
mod run;
mod table;

use std::{
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::ExitCode,
};

use run::Wrapped;

const USAGE: &str =
    "usage: regatta-test-times run --group GROUP --budget SECONDS [--nice N] -- PROGRAM ARGUMENT…
       regatta-test-times table [--partial | --check] FILE";

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let command = arguments.next().unwrap_or_default();
    let result = match command.to_str() {
        Some("run") => Wrapped::parse(arguments).and_then(run::run),
        Some("table") => parse_table(arguments).and_then(|(form, file)| table::print(form, &file)),
        _ => Err(USAGE.to_owned()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}

fn parse_table(
    arguments: impl Iterator<Item = OsString>,
) -> Result<(table::Form, PathBuf), String> {
    let mut form = table::Form::Whole;
    let mut file = None;
    for argument in arguments {
        match argument.to_str() {
            Some("--partial") => form = table::Form::Partial,
            Some("--check") => form = table::Form::Checked,
            _ if file.is_none() => file = Some(PathBuf::from(argument)),
            _ => return Err(USAGE.to_owned()),
        }
    }
    file.map(|file| (form, file)).ok_or(USAGE.to_owned())
}

impl Wrapped {
    /// Reads the arguments of `run`.
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut group, mut budget_s, mut nice) = (None, None, 0);
        while let Some(name) = arguments.next() {
            if name == "--" {
                break;
            }
            let value = arguments.next();
            let value = value.as_deref().and_then(OsStr::to_str).ok_or(USAGE)?;
            let number = || {
                value
                    .parse::<u32>()
                    .map_err(|_| format!("`{value}` is no number"))
            };
            match name.to_str() {
                Some("--group") => group = Some(value.to_owned()),
                Some("--budget") => budget_s = Some(number()?),
                Some("--nice") => nice = number()?,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(Self {
            group: group.ok_or(USAGE)?,
            budget_s: budget_s.ok_or(USAGE)?,
            nice,
            program: arguments.next().ok_or(USAGE)?,
            arguments: arguments.collect(),
        })
    }
}
