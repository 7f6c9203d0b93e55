//! Comparison of both emulators with each other and with theory, in a guest.
//!
//! `emulators compare|queues|theory [--real] [FILE]` starts a guest of virtual (or real) time that makes
//! the comparison, prints tables in Markdown, and puts them into FILE, between the lines
//! `<!-- compare -->` and `<!-- end -->`. It fails if something differs by more than chance and
//! the stated bounds explain.
//!
//! `emulators compare|queues|theory --only CASE` runs one case, in this guest or in one that it starts; `emulators cases
//! compare|queues|theory` lists their names.

mod compare;
mod conditions;
mod hosts;
mod lateness;
mod queues;
mod table;
mod theory;

use std::{
    cell::Cell,
    error::Error,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use regatta_bed::guest::{self, Clock, Guest, GuestMessage, Order};
use table::Table;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Longest time that the guest may take.
const LONGEST: Duration = Duration::from_secs(3600);

/// Environment variable that asks for the long form: `1`, as for the tests.
const LONG_TESTS: &str = "REGATTA_LONG_TESTS";

fn is_long() -> bool {
    std::env::var_os(LONG_TESTS).is_some_and(|set| set == "1")
}

/// Prefix of a finding in the guest's output; other lines are part of the tables.
const FINDING: &str = "differs: ";

/// Tables, and the differences that were found.
struct Found {
    tables: Vec<Table>,
    differences: Vec<String>,
}

/// Selection of the cases to run.
struct Selection<'a> {
    /// Name of the only case; all of them if absent.
    only: Option<&'a str>,
    /// Whether the names of the cases are printed instead of running them.
    listing: bool,
    /// Cases that were run.
    run: Cell<usize>,
}

impl Selection<'_> {
    /// Whether the case of this name is to be run.
    fn has(&self, name: &str) -> bool {
        if self.listing {
            println!("{name}");
            return false;
        }
        let selected = self.only.is_none_or(|only| only == name);
        self.run.set(self.run.get() + usize::from(selected));
        selected
    }
}

pub(crate) fn main() -> ExitCode {
    exit_code(run())
}

/// Prints the lateness of packets of the user-space emulator: see [`lateness`].
pub(crate) fn lateness() -> ExitCode {
    exit_code(lateness::run().map(|()| ExitCode::SUCCESS))
}

fn exit_code(outcome: Outcome<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) => {
            println!("error: {error}");
            let mut cause = error.source();
            while let Some(next) = cause {
                println!("caused by: {next}");
                cause = next.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<ExitCode> {
    let mut arguments: Vec<String> = std::env::args().skip(2).collect();
    let real = arguments.iter().any(|argument| argument == "--real");
    arguments.retain(|argument| argument != "--real");
    let listing = arguments.first().is_some_and(|first| first == "cases");
    if listing {
        arguments.remove(0);
    }
    let what = arguments.first().map(String::as_str);
    let Some(what @ ("compare" | "queues" | "theory")) = what else {
        return Err(
            "usage: emulators [cases] compare|queues|theory [--real] [--only CASE | FILE]".into(),
        );
    };
    let only = match arguments.get(1..3) {
        Some([flag, case]) if flag == "--only" => Some(case.as_str()),
        _ => None,
    };
    if listing || guest::is_guest() {
        let selection = Selection {
            only,
            listing,
            run: Cell::new(0),
        };
        let found = match what {
            "compare" => compare::run(&selection)?,
            "queues" => queues::run(&selection)?,
            _ => theory::run(&selection)?,
        };
        if listing {
            return Ok(ExitCode::SUCCESS);
        }
        if selection.run.get() == 0 {
            return Err(format!("there is no case `{}`", only.unwrap_or_default()).into());
        }
        for table in &found.tables {
            println!("{table}");
        }
        for difference in &found.differences {
            println!("{FINDING}{difference}");
        }
        return Ok(if found.differences.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    let clock = if real { Clock::Real } else { Clock::Virtual };
    let started = Instant::now();
    let (release, text, code) = in_guest(what, only, clock)?;
    let took = started.elapsed().as_secs();
    let clock = if real { "real" } else { "virtual" };
    println!("{text}\nin {clock} time, Linux {release}, took {took} s");
    if let (Some(file), None) = (arguments.get(1), only) {
        let tables: Vec<&str> = text.lines().filter(|l| !l.starts_with(FINDING)).collect();
        let note = format!("In a guest with Linux {release}, in {clock} time.");
        insert(
            Path::new(file),
            what,
            &format!("{note}\n\n{}", tables.join("\n")),
        )?;
    }
    Ok(code)
}

/// Runs the comparison in a guest. Returns the kernel's release, the output and the exit code.
fn in_guest(what: &str, only: Option<&str>, clock: Clock) -> Outcome<(String, String, ExitCode)> {
    let program = std::env::current_exe()?;
    let kernel = guest::find(None, clock).map_err(|error| format!("{error}; {}", error.hint()))?;
    let order = Order {
        kernel: kernel.path,
        clock,
        seed: 1,
        memory_mib: Order::DEFAULT_MEMORY_MIB,
        arguments: ["emulators", what]
            .into_iter()
            .chain(only.into_iter().flat_map(|case| ["--only", case]))
            .map(str::to_owned)
            .collect(),
        environment: std::env::vars()
            .filter(|(name, _)| name == "PATH" || name == "HOME")
            .chain([(LONG_TESTS.to_owned(), "1".to_owned())])
            .collect(),
        files: None,
        payload: String::new(),
    };
    let mut guest = Guest::start(&program, &order)?;
    let until = Instant::now() + LONGEST;
    let (mut kernel, mut lines) = (String::new(), Vec::new());
    loop {
        match guest.receive(until.saturating_duration_since(Instant::now())) {
            Some(GuestMessage::Started { release }) => kernel = release,
            Some(GuestMessage::Console { line }) => eprintln!("console: {line}"),
            Some(GuestMessage::Output { line } | GuestMessage::Message { text: line }) => {
                lines.push(line)
            }
            Some(GuestMessage::Ended { code }) => {
                let code = if code == 0 {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                };
                return Ok((kernel, lines.join("\n"), code));
            }
            Some(other) => return Err(format!("{}\n{other:?}", lines.join("\n")).into()),
            None => return Err(format!("no end within {LONGEST:?}:\n{}", lines.join("\n")).into()),
        }
    }
}

/// Replaces the text between the marks of `what` in `file`.
fn insert(file: &Path, what: &str, text: &str) -> Outcome<()> {
    const END: &str = "<!-- end -->";
    let begin = format!("<!-- {what} -->\n");
    let page = std::fs::read_to_string(file)?;
    let (before, rest) = page.split_once(&begin).ok_or("the file has no such mark")?;
    let (_, after) = rest.split_once(END).ok_or("the mark has no end")?;
    let text = text.trim_end();
    std::fs::write(file, format!("{before}{begin}\n{text}\n\n{END}{after}"))?;
    Ok(())
}
