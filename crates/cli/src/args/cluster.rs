//! Command lines of the commands for plans that several machines run.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::{
    RunArgs,
    values::{directory, integer},
};

/// `regatta merge`.
#[derive(Debug, ClapArgs)]
pub struct MergeArgs {
    /// Directory for the merged run; a merged run of the same plan that it holds is replaced
    #[arg(value_parser = directory())]
    pub out: PathBuf,
    /// Directories of the parts, or their results files
    #[arg(required = true, value_name = "DIR", value_parser = directory())]
    pub parts: Vec<PathBuf>,
    /// Leave out what cannot be merged, such as damaged files, with a warning; otherwise nothing is
    /// merged then
    #[arg(long)]
    pub skip_bad: bool,
    /// Write the results file only, and no reports
    #[arg(long)]
    pub no_report: bool,
}

/// `regatta submit`.
#[derive(Debug, ClapArgs)]
pub struct SubmitArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Submit to Slurm, with `sbatch`
    #[arg(long, required = true, help_heading = "Cluster")]
    pub slurm: bool,
    /// Number of shards [default: as many as take ten minutes each, by a rough estimate]
    #[arg(long, value_name = "N", value_parser = integer(1, 10_000_000_u32), help_heading = "Cluster")]
    pub shards: Option<u32>,
    /// Most shards that run at once [default: as many as Slurm starts]
    #[arg(long, value_name = "N", value_parser = integer(1, 1_000_000_u32), help_heading = "Cluster")]
    pub at_once: Option<u32>,
    /// Further option for `sbatch`, such as `--slurm-arg=--partition=long`; can be given several times
    #[arg(
        long,
        value_name = "OPTION",
        allow_hyphen_values = true,
        help_heading = "Cluster"
    )]
    pub slurm_arg: Vec<String>,
    /// Write the scripts and submit nothing
    #[arg(long, help_heading = "Cluster")]
    pub write_only: bool,
}

/// `regatta status`.
#[derive(Debug, ClapArgs)]
pub struct StatusArgs {
    /// Directory that was given to `regatta submit --out`, or that of a run
    #[arg(value_parser = directory())]
    pub dir: PathBuf,
}
