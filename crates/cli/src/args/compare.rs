//! Arguments of `regatta compare`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use regatta_model::Ratio;

use super::{directory, quantity};

const AFTER_HELP: &str = "Exit codes: 0 compared, whatever was found; 1 a cell fails the gate of --fail-on; \
                          2 bad usage, or runs without a cell in common.";

/// Worsening that fails a gate: `slower:5%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regression(pub Ratio);

fn regression(text: &str) -> Result<Regression, String> {
    let Some(("slower", least)) = text.split_once(':') else {
        return Err("`slower:` and a percentage are asked for, such as `slower:5%`".to_owned());
    };
    quantity(least).map(Regression)
}

/// `regatta compare`.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub struct CompareArgs {
    /// Directories of the runs, at most 26; the first is the baseline
    #[arg(required = true, num_args = 2..=26, value_name = "DIR", value_parser = directory())]
    pub dirs: Vec<PathBuf>,
    /// Exit with 1 if a cell of a later run is slower than in the first one by this percentage or
    /// more: by the metric of its workload's ranking, and by a difference that was detected, whose
    /// interval, corrected for the number of cells, is wholly beyond 0. Also if a cell of the first run
    /// was not measured again. Where nothing has changed, the gate fails by chance in at most 5 % of
    /// all comparisons (about 2 %, since a false difference is as often `faster`)
    #[arg(long, value_name = "slower:PERCENT", value_parser = regression)]
    pub fail_on: Option<Regression>,
    /// Write the comparison as a page to this file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the comparison as JSON on standard output
    #[arg(long)]
    pub json: bool,
}
