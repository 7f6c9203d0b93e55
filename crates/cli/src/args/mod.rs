//! Command line of `regatta`.

mod assignment;
mod bundle;
mod client;
mod cluster;
mod compare;
pub mod exact;
mod export;
mod hosts;
mod iperf;
mod keys;
mod live;
mod local_address;
pub mod option_messages;
mod path;
mod path_command;
pub mod rate_unit;
mod server;
pub mod suggestions;
pub mod wdt;
mod work;

use std::{ffi::OsStr, path::PathBuf, time::Duration};

use clap::{
    Args as ClapArgs, Parser, Subcommand, ValueEnum,
    builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser},
};
use regatta_model::{
    BedKind, CaptureSetup, Clock, Named, Ratio, Shard, ShardError, Study, Until,
    study::{is_host_name, nearest, ranking_metric},
    units::parse_duration,
};
use regatta_report::{
    language::Language,
    pdf::{Form, Paper},
};

pub use self::{
    assignment::{Assignment, table},
    bundle::BundleArgs,
    client::{ClientArgs, MAX_CONNECT_TIMEOUT},
    cluster::{MergeArgs, StatusArgs, SubmitArgs},
    compare::CompareArgs,
    export::ExportArgs,
    hosts::{AddArgs, HostsArgs, HostsCommand},
    keys::SIZE,
    live::{AttachArgs, ViewArgs},
    local_address::LocalAddress,
    path::PathArgs,
    path_command::PathCommandArgs,
    server::ServerArgs,
    work::WorkArgs,
};

const AFTER_HELP: &str = "Exit codes: 0 all was measured, or timed out beside that; 1 something failed or a gate was missed; \
                          2 bad usage or bad input; 3 a merged run lacks trials; 77 nothing that was asked for is supported here.";

const COMPLETIONS_HELP: &str = "\
bash: regatta completions bash > ~/.local/share/bash-completion/completions/regatta
zsh: regatta completions zsh > DIR/_regatta, with DIR in `fpath`
fish: regatta completions fish > ~/.config/fish/completions/regatta.fish";

/// Compares transport protocols over the same network path.
#[derive(Debug, Parser)]
#[command(name = "regatta", version, long_version = env!("REGATTA_BUILD_VERSION"), after_help = AFTER_HELP, arg_required_else_help = true)]
pub struct Args {
    /// Whether to use colours; `auto` uses them on a terminal unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// Subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Choice of coloured output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Subcommand of `regatta`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a study: measure every transport under every condition
    Run(Box<RunArgs>),
    /// Say how many rounds a study needs to detect a difference
    Plan(PlanArgs),
    /// Run any program behind an emulated path
    Path(Box<PathCommandArgs>),
    /// Accept measurements from `regatta client`
    Server(Box<ServerArgs>),
    /// Measure against a server, with the flags of iperf3
    Client(Box<ClientArgs>),
    /// Move files over Warp Data Transfer, by the wire protocol of the reference program
    Wdt(Box<wdt::WdtArgs>),
    /// Add, check and remove the machines of `--hosts`, which are reached by SSH
    Hosts(Box<HostsArgs>),
    /// Sample hosts without a run: CPU, memory, interfaces, protocol counters
    Monitor(MonitorArgs),
    /// Merge the results of the shards of a plan
    Merge(MergeArgs),
    /// Run a study on a cluster, in shards that are merged at the end
    Submit(Box<SubmitArgs>),
    /// Show the progress of a submitted study
    Status(StatusArgs),
    /// Continue a run that was stopped or killed
    Resume(ResumeArgs),
    /// Watch a run of another process: on the terminal, as a web page, as metrics
    Attach(AttachArgs),
    /// Rebuild the reports of a run from its results file; the exit code is the run's
    Report(ReportArgs),
    /// Compare runs of a study: other days, hosts, kernels, versions
    Compare(CompareArgs),
    /// Write all tables of a run as Parquet or CSV, with a data dictionary
    Export(ExportArgs),
    /// Archive a run in one file: study, results, report, environment, digests, how to run it again
    Bundle(BundleArgs),
    /// List transports, workloads, traces, studies and metrics
    List(ListArgs),
    /// Show what this machine can do, and what to type where it cannot
    Doctor(DoctorArgs),
    /// Print a script that completes commands and options in a shell
    Completions(CompletionsArgs),
    /// Write the man pages of all commands
    Man(ManArgs),
}

/// Parses a time span that is not zero.
fn span(text: &str) -> Result<Duration, String> {
    let value = duration(text)?;
    if value.is_zero() {
        return Err("it must be longer than zero; write a time such as `30s`".to_owned());
    }
    Ok(value)
}

/// Parses the time between samples of a host.
fn sampling_interval(text: &str) -> Result<Duration, String> {
    let value = duration(text)?;
    if (Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&value) {
        Ok(value)
    } else {
        Err("it must be from `10ms` to `1h`".to_owned())
    }
}

/// Parses the part of a study that is run: `10%`, or a factor such as `0.1`, which nobody takes for a percentage.
fn part(text: &str) -> Result<Ratio, String> {
    let factor = text.parse().ok();
    let factor = factor.filter(|factor| text.starts_with("0.") && *factor < 1.0);
    let part = match factor {
        Some(factor) => Ratio(factor),
        None => quantity(text)?,
    };
    if part.0 < 0.0001 {
        return Err("it is less than 0.01 %; write a part such as `10%`".to_owned());
    }
    Ok(part)
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| with_hint(&error))
}

fn snap(text: &str) -> Result<CaptureSetup, String> {
    quantity(text)
}

fn snaplen(text: &str) -> Result<CaptureSetup, String> {
    match snap(text)? {
        setup if setup.times_only => {
            Err("`times` is for trials; write `headers`, `full` or a size".to_owned())
        }
        setup => Ok(setup),
    }
}

/// Reads the name of a metric that can rank transports.
fn ranking(name: &str) -> Result<String, String> {
    let metric = ranking_metric(name).map_err(|error| with_hint(&error))?;
    Ok(metric.to_owned())
}

/// Reads a title: visible characters on one line.
fn title(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty; write what the report is about".to_owned()),
        text if text.contains(char::is_control) => {
            Err("it is one line of visible characters".to_owned())
        }
        text => Ok(text.to_owned()),
    }
}

fn shard(text: &str) -> Result<Shard, String> {
    text.parse().map_err(|error: ShardError| error.to_string())
}

fn with_hint(error: &regatta_model::UnitError) -> String {
    format!("{error}; {}", error.hint)
}

fn quantity<T: std::str::FromStr<Err = regatta_model::UnitError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| with_hint(&error))
}

/// Reads a whole number between two bounds, both allowed.
fn integer<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy,
{
    move |text| {
        let number = text.parse().ok();
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| format!("it is not a whole number from {least} to {most}"))
    }
}

/// Value of `--rounds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// Number of rounds.
    Number(u32),
    /// As many as decide the ranking.
    Decided,
}

/// Parses the value of `--rounds`.
fn rounds(text: &str) -> Result<Rounds, String> {
    if text == Until::DECIDED {
        return Ok(Rounds::Decided);
    }
    let number = integer(1, Study::MAX_ROUNDS)(text).map(Rounds::Number);
    number.map_err(|error| format!("{error}, nor `{}`", Until::DECIDED))
}

/// Returns a parser of the names of a type's values.
fn named_value<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let names = || T::NAMES.iter().map(|(name, _)| *name);
    OneOf {
        names: names().collect(),
        parse: move |text: &str| T::from_name(text).ok_or_else(|| not_one_of(names())),
    }
}

/// Parser of one of several names, which completions offer.
#[derive(Clone)]
struct OneOf<P> {
    names: Vec<&'static str>,
    parse: P,
}

impl<P: TypedValueParser> TypedValueParser for OneOf<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = self.names.iter();
        Some(Box::new(names.map(|name| PossibleValue::new(*name))))
    }
}

/// Values of an option: name, help, value.
type Choices<T> = &'static [(&'static str, &'static str, T)];

/// Languages of a report.
const LANGUAGES: Choices<Language> = &[
    ("en", "English", Language::English),
    ("ru", "Russian", Language::Russian),
];

/// Sizes of the pages of a PDF.
const PAPERS: Choices<Paper> = &[
    ("a4", "210 × 297 mm", Paper::A4),
    ("letter", "8.5 × 11 inches", Paper::Letter),
];

/// Lengths of a PDF.
const FORMS: Choices<Form> = &[
    (
        "full",
        "all figures, tables and terms: `report.pdf`",
        Form::Full,
    ),
    (
        "brief",
        "two pages: the answer, one figure, the main table, and how they were measured: `brief.pdf`",
        Form::Brief,
    ),
];

/// Returns a parser of the names of some values, which help and completions list.
fn choice<T: Copy + Send + Sync>(values: Choices<T>) -> impl TypedValueParser<Value = T> {
    let names = values.iter();
    let names = names.map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).try_map(|text| {
        let known = values.iter().find(|(name, ..)| *name == text);
        known.map(|(.., value)| *value).ok_or(text)
    })
}

fn not_one_of(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    format!("it is one of {}", names.join(", "))
}

/// Names of the two hosts of `--hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwoHosts(pub [String; 2]);

fn two_hosts(text: &str) -> Result<TwoHosts, String> {
    match text.split_once(',') {
        Some((a, b)) if a != b && is_host_name(a) && is_host_name(b) => {
            Ok(TwoHosts([a.to_owned(), b.to_owned()]))
        }
        _ => Err(
            "two different names of the hosts file are asked for, such as `lab1,local`".to_owned(),
        ),
    }
}

/// Returns a parser for a directory, which may begin with one hyphen; with two it is rather an
/// option, and the name of the directory was forgotten.
fn directory() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path.as_os_str().as_encoded_bytes().starts_with(b"--") {
            let path = path.display();
            Err(format!(
                "a directory is asked for; write `./{path}` if its name is `{path}`"
            ))
        } else {
            Ok(path)
        }
    })
}

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
fn with_options(texts: &[String]) -> Vec<String> {
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

/// `regatta plan`.
#[derive(Debug, ClapArgs)]
pub struct PlanArgs {
    /// A study file, the name of a built-in study, or the directory of a run
    pub study: String,
    /// The difference to be detected between two transports, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = quantity::<Ratio>, allow_hyphen_values = true)]
    pub detect: Ratio,
    /// Directory of a run of that study, of two rounds or more, which shows how much rounds differ
    /// [default: its newest run in regatta-results]
    #[arg(long, value_name = "DIR", value_parser = directory(), allow_hyphen_values = true)]
    pub pilot: Option<PathBuf>,
}

/// `regatta resume`.
#[derive(Debug, ClapArgs)]
pub struct ResumeArgs {
    /// Directory of the run
    pub dir: PathBuf,
    /// Write machine output alone on standard output, as `regatta run --json`
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long)]
    pub no_progress: bool,
    /// File of the hosts, for a run on hosts [default: ~/.config/regatta/hosts.toml]
    #[arg(long, value_name = "FILE")]
    pub hosts_file: Option<PathBuf>,
    /// Exit with 1 if a claim of the study does not come out or was not measured, as `regatta run --fail-on`
    #[arg(long, value_name = "claims", hide_possible_values = true)]
    pub fail_on: Option<FailOn>,
    /// Language of the tables on standard output, of `report.html` and of `brief.pdf`
    #[arg(long, value_name = "LANGUAGE", default_value = "en", value_parser = choice(LANGUAGES))]
    pub lang: Language,

    #[command(flatten)]
    pub views: ViewArgs,
}

/// `regatta report`.
#[derive(Debug, ClapArgs)]
pub struct ReportArgs {
    /// Directory of the run
    pub dir: PathBuf,
    /// Print every table, warning and hint, and not only what fits on one screen
    #[arg(long)]
    pub details: bool,
    /// Write `report.html` only
    #[arg(long)]
    pub html: bool,
    /// Write `trials.csv` and `series.csv` only, and `hosts.csv` if the hosts were monitored
    #[arg(long)]
    pub csv: bool,
    /// Write `report.pdf` only, or with `--pdf=brief` its short form `brief.pdf`
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "full", value_parser = choice(FORMS))]
    pub pdf: Option<Form>,
    /// Size of the pages of the PDF
    #[arg(long, value_name = "SIZE", default_value = "a4", value_parser = choice(PAPERS), requires = "pdf")]
    pub paper: Paper,
    /// Write each figure as SVG, PDF and PNG into this directory, with its values as CSV and its caption as text
    #[arg(long, value_name = "OUT")]
    pub figures: Option<PathBuf>,
    /// Write only these figures, by their names in `figures.csv`, such as `mean-goodput-bps`
    #[arg(
        long,
        value_name = "NAME,NAME",
        value_delimiter = ',',
        requires = "figures"
    )]
    pub figure: Vec<String>,
    /// Exit with 1 if a claim of the study does not come out or was not measured, as `regatta run --fail-on`
    #[arg(long, value_name = "claims", hide_possible_values = true)]
    pub fail_on: Option<FailOn>,
    /// Language of the tables on standard output, of `report.html`, of the PDF and of the figures; `summary.json`
    /// and the CSV are the same in each
    #[arg(long, value_name = "LANGUAGE", default_value = "en", value_parser = choice(LANGUAGES))]
    pub lang: Language,
    /// Write `summary.json` on standard output, and no file
    #[arg(long, conflicts_with_all = ["html", "csv", "pdf", "figures", "lang"])]
    pub json: bool,
}

/// `regatta monitor`.
#[derive(Debug, ClapArgs)]
pub struct MonitorArgs {
    /// Hosts to sample, by their names in the hosts file; `local` is this machine
    #[arg(required = true, value_name = "HOST,HOST", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Time to sample them; Ctrl-C ends it earlier, and keeps what was sampled
    #[arg(long = "for", value_name = "TIME", value_parser = span, allow_hyphen_values = true)]
    pub duration: Duration,
    /// Time between samples, from 10ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = sampling_interval, allow_hyphen_values = true)]
    pub interval: Duration,
    /// File of the hosts [default: ~/.config/regatta/hosts.toml]
    #[arg(long, value_name = "FILE")]
    pub hosts_file: Option<PathBuf>,
    /// Directory for `hosts.csv` and `monitor.html`
    #[arg(long, value_name = "DIR", value_parser = directory(), allow_hyphen_values = true)]
    pub out: PathBuf,
}

/// `regatta list`.
#[derive(Debug, ClapArgs)]
pub struct ListArgs {
    /// Table to print: `transports`, `workloads`, `traces`, `studies` or `metrics`; or the name of a transport, of which
    /// its options, features and metrics are printed; without it, everything
    #[arg(value_parser = list_what(), hide_possible_values = true)]
    pub what: Option<ListWhat>,
    /// Write one JSON value
    #[arg(long)]
    pub json: bool,
}

/// Table to list, or one transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListWhat {
    /// The drivers with their options.
    Transports,
    /// The workloads with their keys.
    Workloads,
    /// The traces that come with Regatta.
    Traces,
    /// The built-in studies.
    Studies,
    /// The metrics with their units and definitions.
    Metrics,
    /// One driver, by its name.
    Transport(&'static str),
}

/// Tables to list, by their names.
const TABLES: [(&str, ListWhat); 5] = [
    ("transports", ListWhat::Transports),
    ("workloads", ListWhat::Workloads),
    ("traces", ListWhat::Traces),
    ("studies", ListWhat::Studies),
    ("metrics", ListWhat::Metrics),
];

/// Returns a parser of the names of tables and transports.
fn list_what() -> impl TypedValueParser<Value = ListWhat> {
    let drivers = regatta_agent::registry().into_iter();
    let drivers = drivers.map(|driver| driver.descriptor().name);
    let all: Vec<(&str, ListWhat)> = (TABLES.into_iter())
        .chain(drivers.map(|name| (name, ListWhat::Transport(name))))
        .collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    OneOf {
        names: names.clone(),
        parse: move |text: &str| {
            let found = all.iter().find(|(name, _)| *name == text);
            found.map(|(_, what)| *what).ok_or_else(|| {
                let near = nearest(text, &names);
                let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                format!("{near}it is a table, such as `transports` or `metrics`, or the name of a transport")
            })
        },
    }
}

/// `regatta completions`.
#[derive(Debug, ClapArgs)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct CompletionsArgs {
    /// Shell that reads the script
    pub shell: clap_complete::Shell,
}

/// `regatta man`.
#[derive(Debug, ClapArgs)]
pub struct ManArgs {
    /// Directory for `regatta.1`, `regatta-run.1` and the others
    #[arg(value_parser = directory(), allow_hyphen_values = true)]
    pub dir: PathBuf,
}

/// `regatta doctor`.
#[derive(Debug, ClapArgs)]
pub struct DoctorArgs {
    /// Print only what to type, one line for each thing that is missing
    #[arg(long)]
    pub fix_hints: bool,
    /// Write one JSON value
    #[arg(long, conflicts_with = "fix_hints")]
    pub json: bool,
    /// Only what this study needs: a study file, or the name of a built-in one
    #[arg(long, value_name = "STUDY")]
    pub study: Option<String>,
}
