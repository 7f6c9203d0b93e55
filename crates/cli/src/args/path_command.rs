//! Arguments of `regatta path`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::Args;
use regatta_model::CaptureSetup;

use super::{
    PathArgs,
    values::{duration, snaplen},
};

const AFTER_HELP: &str = "\
Both hosts find their addresses in the environment: REGATTA_CLIENT is where COMMAND runs, \
REGATTA_SERVER the other one.

The exit code is COMMAND's; as in a shell 127 if it was not found, 126 if it cannot be run, 128 and \
the signal's number if a signal ended it. Before COMMAND has started: 2 bad usage or bad input; 1 \
the server did not start; 77 no path can be made here.";

/// `regatta path`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct PathCommandArgs {
    #[command(flatten)]
    pub path: PathArgs,
    /// Take the path of a study, a file or a built-in one: its first condition, or the one that
    /// `--condition` names; its schedule begins with COMMAND. Other options change it
    #[arg(long, value_name = "STUDY", help_heading = "Path (docs/conditions.md)")]
    pub study: Option<String>,
    /// Name of a condition of the study
    #[arg(
        long,
        value_name = "NAME",
        requires = "study",
        help_heading = "Path (docs/conditions.md)"
    )]
    pub condition: Option<String>,
    /// Seed of the path's losses [default: another one each time]
    #[arg(long, value_name = "N", help_heading = "Path (docs/conditions.md)")]
    pub seed: Option<u64>,

    /// Command to run on the other host, as `sh -c` takes it; its output goes to standard error, and
    /// it ends with COMMAND
    #[arg(long, value_name = "COMMAND", help_heading = "Server")]
    pub server: Option<String>,
    /// Longest wait for the server to listen, which COMMAND does not start before; `0s` for none
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, default_value = "5s", requires = "server", help_heading = "Server")]
    pub wait: Duration,
    /// Wait until the server listens on this port, of TCP or UDP [default: on any]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), requires = "server", help_heading = "Server")]
    pub wait_port: Option<u16>,

    /// Capture the path's packets in this file, as pcapng: both ways, each with what became of it
    #[arg(long, value_name = "FILE", help_heading = "Capture")]
    pub capture: Option<PathBuf>,
    /// Part of each packet to keep: `headers` (128 bytes), `full`, or a size
    #[arg(long, value_name = "SIZE", value_parser = snaplen, allow_hyphen_values = true, default_value = "headers", requires = "capture", help_heading = "Capture")]
    pub snap: CaptureSetup,

    /// Write the path's counters to this file as JSON when COMMAND has ended
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print only errors and the output of the server
    #[arg(long, short)]
    pub quiet: bool,

    /// Program to run behind the path, with its arguments [default: a shell]
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}
