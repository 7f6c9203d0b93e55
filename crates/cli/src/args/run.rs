//! Arguments of `regatta run`.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, ValueEnum};
use regatta_model::{BedKind, CaptureSetup, Clock, Ratio, Shard, Study};
use regatta_report::language::Language;

use super::{
    PathArgs, Rounds, TwoHosts, ViewArgs, WorkArgs,
    values::{
        LANGUAGES, choice, directory, integer, named_value, part, ranking, rounds, shard, snap,
        span, title, two_hosts,
    },
};

/// Requirement of a run beside its gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// No claim of the study may fail to come out, or be without a measurement.
    Claims,
}

/// `regatta run`.
#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// A study file, or the name of a built-in study; without one, and without options that
    /// describe a path, a transport or a workload, the default study
    pub study: Option<String>,

    /// Transports to compare: names of drivers (`regatta list transports`), with options as in
    /// `tcp:cc=bbr`, and with a name of your own as in `tcp:cc=bbr,label=BBR`; with a STUDY, labels of
    /// the study too [default without a STUDY: every driver]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub transport: Vec<String>,

    /// Transports that send at once over one path, and each alone: written as for `--transport`, one of them
    /// several times for several flows of it. They send for `--duration` [default: 60s], of which `--warm-up` does not
    /// count [default: 10s, and a quarter of the duration at most]
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with_all = ["transport", "study"])]
    pub compete: Vec<String>,

    #[command(flatten)]
    pub path: PathArgs,

    #[command(flatten)]
    pub work: WorkArgs,

    /// Longest time of one transfer once it is connected; it is then measured on what was delivered
    /// [default without a STUDY: 30s, and 30s more than `--duration`]
    #[arg(long, value_name = "TIME", value_parser = span, allow_hyphen_values = true, help_heading = "Work")]
    pub deadline: Option<Duration>,
    /// Longest time that a connection may take to be made; a trial without one has timed out
    /// [default without a STUDY: 10s]
    #[arg(long, value_name = "TIME", value_parser = span, allow_hyphen_values = true, help_heading = "Work")]
    pub connect_deadline: Option<Duration>,
    /// Number of runs of each cell; or `decided`: rounds are run until the leader of each condition and workload is
    /// decided against every other transport [default without a STUDY: 5]
    #[arg(long, value_name = "N|decided", value_parser = rounds, allow_hyphen_values = true, help_heading = "Work")]
    pub rounds: Option<Rounds>,
    /// Most rounds of a run that ends by a rule, such as `--rounds decided` [default without a STUDY: 60]
    #[arg(long, value_name = "N", value_parser = integer(3, Study::MAX_ROUNDS), allow_hyphen_values = true, help_heading = "Work")]
    pub at_most: Option<u32>,
    /// Time after which a run that ends by a rule begins no further round; `regatta resume` goes on for as long again
    #[arg(long = "for", value_name = "TIME", value_parser = span, allow_hyphen_values = true, help_heading = "Work")]
    pub time_limit: Option<Duration>,
    /// Shorten the study to this fraction of its cost, such as 10% or 0.1: first fewer rounds (of a series, a
    /// shorter one), at least 3; then less data per trial (sizes, durations, numbers of requests, connections
    /// and messages), under new workload names
    #[arg(long, value_name = "FRACTION", value_parser = part, allow_hyphen_values = true, help_heading = "Work")]
    pub scale: Option<Ratio>,
    /// A/A test: compare each transport with itself, to measure the noise floor
    #[arg(long, help_heading = "Work")]
    pub aa: bool,
    /// Metric that ranks the transports (`regatta list metrics`), such as `transfer_time_ns`
    /// [default: that of the STUDY, else that of each workload]
    #[arg(long, value_name = "METRIC", value_parser = ranking, help_heading = "Work")]
    pub rank_by: Option<String>,
    /// Seed of the order of trials, of the paths' losses and of random data
    #[arg(long, value_name = "N", value_parser = integer(0, i64::MAX as u64), allow_hyphen_values = true, help_heading = "Work")]
    pub seed: Option<u64>,
    /// Bed: `netns`, two network namespaces on this machine; `uml`, the same in a User
    /// Mode Linux guest, whose kernel has SCTP, netem and every congestion control; `hosts`, two
    /// machines reached by SSH
    #[arg(long, value_name = "BED", value_parser = named_value::<BedKind>(), hide_possible_values = true, help_heading = "Work")]
    pub bed: Option<BedKind>,
    /// Hosts of `--bed hosts` by their names in the hosts file: the one that connects, and the other one;
    /// `local` is this machine
    #[arg(long, value_name = "A,B", value_parser = two_hosts, help_heading = "Work")]
    pub hosts: Option<TwoHosts>,
    /// File of the hosts [default: ~/.config/regatta/hosts.toml]
    #[arg(long, value_name = "FILE", help_heading = "Work")]
    pub hosts_file: Option<PathBuf>,
    /// Guests of `--bed uml`: 1 with both hosts in it, or 2, each host in one of its own, joined by a
    /// virtual Ethernet with netem on both ends [default without a STUDY: 1]
    #[arg(long, value_name = "N", value_parser = integer(1, 2_u8), allow_hyphen_values = true, help_heading = "Work")]
    pub guests: Option<u8>,
    /// Clock of the guest of `--bed uml`: `real`, or `virtual`, which skips the time in which
    /// the guest waits, so that runs repeat exactly [default without a STUDY: real]
    #[arg(long, value_name = "CLOCK", value_parser = named_value::<Clock>(), hide_possible_values = true, help_heading = "Work")]
    pub clock: Option<Clock>,
    /// Guests with a virtual clock that run at once, each a part of the rounds [default: 1]
    #[arg(long, value_name = "N", value_parser = integer(1, 64_u32), allow_hyphen_values = true, help_heading = "Work")]
    pub jobs: Option<u32>,
    /// Run one of N equal parts of the plan, whole rounds or, if these are fewer, conditions of a
    /// round; `regatta merge` puts the parts together
    #[arg(long, value_name = "I/N", value_parser = shard, help_heading = "Work")]
    pub shard: Option<Shard>,
    /// Leave out the trials that are finished in this earlier run of the same plan, as of a shard that
    /// was stopped; can be given several times
    #[arg(long, value_name = "DIR", value_parser = directory(), help_heading = "Work")]
    pub done: Vec<PathBuf>,
    /// Kernel of the guest of `--bed uml` [default: the one that is found]
    #[arg(long, value_name = "PATH", help_heading = "Work")]
    pub kernel: Option<PathBuf>,

    /// Capture the packets of every trial, as pcapng in the results' `files/`, each with what
    /// became of it: their first 128 bytes (`headers`), `full`, a size, or `times`: removed when the
    /// transfer's time was read from it
    #[arg(long, value_name = "SIZE", value_parser = snap, num_args = 0..=1, require_equals = true, default_missing_value = "headers", help_heading = "Output")]
    pub capture: Option<CaptureSetup>,
    /// Title of the report [default: that of the STUDY; without one, what is compared]
    #[arg(long, value_name = "TITLE", value_parser = title, help_heading = "Output")]
    pub title: Option<String>,
    /// Directory for the results; it must not hold a run already
    /// [default: regatta-results/STUDY-TIME]
    #[arg(long, value_name = "DIR", value_parser = directory(), allow_hyphen_values = true, help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Write machine output alone on standard output: one JSON value per line for each event, the
    /// summary last
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Exit with 1 if a claim of the study (`[[claim]]`) does not come out or was not measured; one that the intervals leave
    /// undecided passes
    #[arg(
        long,
        value_name = "claims",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    pub fail_on: Option<FailOn>,
    /// Show the plan, its longest time, and what cannot be measured here; run nothing
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// Show no progress
    #[arg(long, help_heading = "Output")]
    pub no_progress: bool,
    /// Language of the tables on standard output, of `report.html` and of `brief.pdf`
    #[arg(long, value_name = "LANGUAGE", default_value = "en", value_parser = choice(LANGUAGES), help_heading = "Output")]
    pub lang: Language,

    #[command(flatten)]
    pub views: ViewArgs,
}

impl RunArgs {
    /// Returns the transports that were named, each with its options separated by colons: an option may also follow a
    /// comma, as in `tcp:cc=bbr,label=BBR`, since no driver's name has an equals sign.
    pub fn transports(&self) -> Vec<String> {
        with_options(&self.transport)
    }

    /// Returns the flows of `--compete`, as [`RunArgs::transports`].
    pub fn competing(&self) -> Vec<String> {
        with_options(&self.compete)
    }
}

/// Returns transports of the command line, which were separated at commas, each with its options separated by colons.
pub(super) fn with_options(texts: &[String]) -> Vec<String> {
    let mut transports: Vec<String> = Vec::new();
    for text in texts {
        let name = text.split(':').next().unwrap_or_default();
        match transports.last_mut() {
            Some(before) if name.contains('=') => {
                before.push(':');
                before.push_str(text);
            }
            _ => transports.push(text.clone()),
        }
    }
    transports
}
