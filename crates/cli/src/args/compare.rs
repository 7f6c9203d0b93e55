//! Arguments of `regatta compare`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use regatta_report::compare::FailOn;

use super::{directory, quantity};

const AFTER_HELP: &str = "Exit codes: 0 compared, whatever was found; 1 a cell fails the gate of --fail-on; \
                          2 bad usage, or runs without a cell in common.";

/// Reads what fails a gate: `slower:5%`, or `failed` for failures alone.
fn fail_on(text: &str) -> Result<FailOn, String> {
    match text.split_once(':') {
        Some(("slower", least)) => Ok(FailOn {
            slower: Some(quantity(least)?),
        }),
        None if text == "failed" => Ok(FailOn { slower: None }),
        _ => Err(
            "`failed`, or `slower:` and a percentage, are asked for, such as `slower:5%`"
                .to_owned(),
        ),
    }
}

/// `regatta compare`.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub struct CompareArgs {
    /// Directories of the runs, at most 26; the first is the baseline
    #[arg(required = true, num_args = 2..=26, value_name = "DIR", value_parser = directory())]
    pub dirs: Vec<PathBuf>,
    /// Exit with 1 if more trials failed in a later run than in the first one, by an exact test, corrected for the number
    /// of cells and transports; in virtual time by any trial. With `slower:PERCENT` also if a cell is slower by this
    /// percentage or more: by the metric of its workload's ranking, over all trials, and by a difference that was
    /// detected, whose interval, corrected for the number of cells, is wholly beyond 0. Also if a cell of the first run was
    /// not measured again. Of several the strictest counts. Where nothing has changed, each of the two fails by chance in at most 5 % of all comparisons
    /// (that of rates in about 2 %, since a false difference is as often `faster`)
    #[arg(long, value_name = "failed|slower:PERCENT", value_parser = fail_on)]
    fail_on: Vec<FailOn>,
    /// Write the comparison as a page to this file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the comparison as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

impl CompareArgs {
    /// Returns the gate: of several the one that the least slowdown fails, which includes that of failures.
    pub fn fail_on(&self) -> Option<FailOn> {
        let slower = self.fail_on.iter().filter_map(|gate| gate.slower);
        let slower = slower.reduce(|a, b| if b.0 < a.0 { b } else { a });
        (!self.fail_on.is_empty()).then_some(FailOn { slower })
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};
    use regatta_model::Ratio;

    use super::*;

    #[test]
    fn strictest_of_several_gates_counts() {
        let gate = |gates: &[&str]| {
            let options = gates.iter().flat_map(|gate| ["--fail-on", *gate]);
            let command = CompareArgs::augment_args(Command::new("compare"));
            let arguments = ["compare", "a", "b"].into_iter().chain(options);
            let matches = command.try_get_matches_from(arguments).expect("arguments");
            let args = CompareArgs::from_arg_matches(&matches).expect("arguments");
            args.fail_on().map(|gate| gate.slower)
        };
        assert_eq!(gate(&[]), None);
        assert_eq!(gate(&["failed"]), Some(None));
        let strict = Some(Some(Ratio(0.05)));
        assert_eq!(gate(&["slower:10%", "failed", "slower:5%"]), strict);
    }
}
