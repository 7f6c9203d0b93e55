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
mod run;
mod server;
pub mod suggestions;
mod values;
pub mod wdt;
mod work;

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum, builder::TypedValueParser};
use regatta_model::{Ratio, study::nearest};
use regatta_report::{
    language::Language,
    pdf::{Form, Paper},
};

use self::values::{
    FORMS, LANGUAGES, OneOf, PAPERS, choice, directory, quantity, sampling_interval, span,
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
    run::{FailOn, RunArgs},
    server::ServerArgs,
    values::{Rounds, TwoHosts},
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
