//! Arguments of `regatta compare`.

use std::{path::PathBuf, sync::LazyLock};

use clap::{Args as ClapArgs, builder::TypedValueParser};
use regatta_report::compare::Limit;

use super::values::{OneOf, directory};

const AFTER_HELP: &str = "Exit codes: 0 compared, whatever was found; 1 a cell fails the gate of --fail-on; \
                          2 bad usage, or runs without a cell in common.";

/// What fails a gate: more failed trials, which every gate includes, or a change of a metric.
#[derive(Debug, Clone, PartialEq)]
enum FailOn {
    Failed,
    Limit(Limit),
}

/// Returns the parser of what fails a gate: `failed`, or a limit such as `slower:5%`. Completions offer the names with a
/// percentage.
fn fail_on() -> impl TypedValueParser<Value = FailOn> {
    static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let limits = Limit::names().into_iter();
        let limits = limits.map(|name| &*format!("{name}:5%").leak());
        std::iter::once("failed").chain(limits).collect()
    });
    OneOf {
        names: NAMES.clone(),
        parse: |text: &str| match text {
            "failed" => Ok(FailOn::Failed),
            limit => limit.parse().map(FailOn::Limit),
        },
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
    /// of cells and transports, in virtual time by any trial, or if a cell of the first run was not measured again; with a
    /// limit also if a metric of a cell changed by this percentage or more, by a difference that was detected, whose
    /// corrected interval is wholly beyond 0. `slower:5%` and `faster:5%` are by the metric of the workload's ranking;
    /// others are `goodput`, `share`, `harm`, `fairness`, `convergence`, `delay`, `cpu`, `host-cpu`, `retransmissions`,
    /// `set-up`, `memory` or a name of `regatta list metrics`, each with `-worse`, which may be left out, `-better`, `-higher` or `-lower`:
    /// `delay-worse:10%`. Of several any fails the gate. Where nothing has changed, failures and each of the
    /// two families of metrics fail it by chance in at most 5 % of all comparisons (`slower` in about 2 %, since a false difference is as often
    /// `faster`)
    #[arg(long, value_name = "failed|LIMIT:PERCENT", value_parser = fail_on(), value_delimiter = ',', hide_possible_values = true)]
    fail_on: Vec<FailOn>,
    /// Write the comparison as a page to this file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the comparison as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

impl CompareArgs {
    /// Returns the limits of the gate, which more failed trials miss as well; `None` without a gate.
    pub fn fail_on(&self) -> Option<Vec<Limit>> {
        let limits = self.fail_on.iter().filter_map(|it| match it {
            FailOn::Failed => None,
            FailOn::Limit(limit) => Some(limit.clone()),
        });
        (!self.fail_on.is_empty()).then(|| limits.collect())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    fn gate(gates: &[&str]) -> Option<Vec<String>> {
        let options = gates.iter().flat_map(|gate| ["--fail-on", *gate]);
        let command = CompareArgs::augment_args(Command::new("compare"));
        let arguments = ["compare", "a", "b"].into_iter().chain(options);
        let matches = command.try_get_matches_from(arguments).expect("arguments");
        let args = CompareArgs::from_arg_matches(&matches).expect("arguments");
        let limits = args.fail_on()?.into_iter();
        Some(limits.map(|limit| limit.name).collect())
    }

    #[test]
    fn gates_are_given_one_by_one_or_as_a_list() {
        assert_eq!(gate(&[]), None);
        assert_eq!(gate(&["failed"]), Some(vec![]));
        let both = ["slower:10%", "delay-worse:5%"].map(str::to_owned);
        assert_eq!(
            gate(&["slower:10%", "failed", "delay-worse:5%"]),
            Some(both.to_vec())
        );
        assert_eq!(gate(&["slower:10%,delay-worse:5%"]), Some(both.to_vec()));
    }

    #[test]
    fn completions_offer_the_limits() {
        let parser = fail_on();
        let names = parser.possible_values().expect("values");
        let names: Vec<String> = names.map(|it| it.get_name().to_owned()).collect();
        for name in [
            "failed",
            "slower:5%",
            "faster:5%",
            "delay-worse:5%",
            "cpu-better:5%",
        ] {
            assert!(names.iter().any(|it| it == name), "{name} of {names:?}");
        }
    }
}
