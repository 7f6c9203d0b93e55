//! `summary.json` as types; `schemas/summary.schema.json` says the same to other programs.

use std::collections::BTreeMap;

use regatta_model::{AskedAchieved, PathCheck};
use serde::{Deserialize, Serialize};

/// Version of `summary.json`; raised when a reader of the older one would be misled.
pub const SCHEMA_VERSION: u32 = 2;

/// Everything that the trials of a run say together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Identifier of the run.
    pub run_id: String,
    /// Version of Regatta that made the run.
    pub regatta_version: String,
    /// What the program at each host was built of; one for all hosts that had the same.
    pub builds: Vec<Build>,
    /// What the transports' stacks did in the trials, fact by fact under each condition.
    pub stacks: Vec<StackRow>,
    /// Start of the run, in nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// Name of the study.
    pub study: String,
    /// One line about it.
    pub title: String,
    /// Which bed and path carried it.
    pub bed: String,
    /// Seed of the order of trials, of the paths and of random data.
    pub seed: u64,
    /// Rounds that the study asks for; of one that ended when its intervals were narrow, those that it
    /// had.
    pub rounds: u32,
    /// Whether the run came to its end.
    pub state: State,
    /// How the intervals and comparisons were had.
    pub statistics: Statistics,
    /// The answer in sentences.
    pub verdict: Verdict,
    /// What must hold for the run to count as passed.
    pub gates: Vec<Gate>,
    /// One for each transport, condition and workload, in the order of the study.
    pub cells: Vec<Cell>,
    /// Every pair of transports under each condition and workload, for each headline metric.
    pub comparisons: Vec<Comparison>,
    /// Each transport under each further condition against the first one.
    pub differences: Vec<Difference>,
    /// Published figures beside the measured ones.
    pub published: Vec<PublishedBeside>,
    /// What the bed found of its own path.
    pub path_checks: Vec<PathCheck>,
    /// Warnings, equal ones once with their number.
    pub warnings: Vec<CountedWarning>,
}

/// What a program was built of. `None` is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Hosts whose agents were built so: `sender`, `receiver`.
    pub hosts: Vec<String>,
    /// Commit of the sources.
    pub commit: Option<String>,
    /// Whether the sources differed from the commit.
    pub dirty: Option<bool>,
    /// Directory of the profile in the build directory: `release`, `debug`.
    pub profile: Option<String>,
    /// Optimisation of the crate that the payload goes through: `3`.
    pub opt_level: Option<String>,
    /// Whether debug assertions were on.
    pub debug_assertions: Option<bool>,
    /// SHA-256 of `Cargo.lock`, hexadecimal.
    pub lockfile_sha256: Option<String>,
    /// Compiler and its version.
    pub compiler: Option<String>,
}

/// One fact of every transport's stack under one condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRow {
    /// Name of the condition.
    pub condition: String,
    /// Name of the fact, as in `trials.csv`.
    pub fact: String,
    /// As in tables.
    pub title: String,
    /// Value by label of the transport, of those whose trials state it.
    pub values: BTreeMap<String, String>,
    /// Whether any two known values differ.
    pub differs: bool,
}

/// Whether a run came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// `running`, `complete` or `interrupted`.
    pub name: String,
    /// Why it was interrupted.
    pub reason: Option<String>,
    /// Trials that the study plans.
    pub trials_planned: u64,
    /// Trials that were saved, whatever their outcome.
    pub trials_saved: u64,
}

/// How the intervals and comparisons were had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Level of the intervals of means; 1 less the probability of one false claim or more in the run.
    pub confidence: f64,
    /// Number of tests in the run's family.
    pub tests: u64,
    /// In words.
    pub method: Vec<String>,
}

/// The answer in sentences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Over the whole run.
    pub overall: String,
    /// Differences between two of the same transport, where the study has such.
    pub noise_floor: Option<NoiseFloor>,
    /// One for each condition and workload.
    pub conditions: Vec<ConditionVerdict>,
}

/// Differences between two of the same driver and options, by the metrics of the rankings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Pairs of the same transport.
    pub pairs: u64,
    /// Pairs that were told apart, which is false each time.
    pub told_apart: u64,
    /// The largest ratio between two of them, above 1.
    pub largest_ratio: f64,
    /// Which pair that was.
    pub largest_pair: String,
}

/// The answer for one condition and workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConditionVerdict {
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the metric of the ranking.
    pub metric: String,
    /// The transports that did their work, best first.
    pub ranking: Vec<Ranked>,
    /// The others that were measured or failed, in the order of the study.
    pub not_ranked: Vec<NotRanked>,
    /// Smallest ratio that every pair among the first could have shown with a power of 80 %; absent
    /// where one transport is first, and where the rounds do not tell.
    pub detectable_ratio: Option<f64>,
    /// Which transport was faster, by how much, how sure.
    pub text: String,
    /// Titles of the facts in which the stacks of the transports differ that `text` sets against each
    /// other.
    #[serde(default)]
    pub stacks_differ_in: Vec<String>,
    /// What must be known beside it: differences of the stacks, deadlines, outcomes, loss.
    pub notes: Vec<String>,
}

impl ConditionVerdict {
    /// Letters of a transport; `None` if it is not ranked, or the only one that is.
    pub fn letters(&self, transport: &str) -> Option<&str> {
        let ranked = self.ranking.iter().find(|it| it.transport == transport)?;
        (self.ranking.len() > 1).then_some(ranked.letters.as_str())
    }
}

/// A transport in a ranking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Its label.
    pub transport: String,
    /// Compact letter display: two transports share a letter if and only if they cannot be told apart.
    pub letters: String,
    /// Geometric mean of the metric over its own rounds. The order is that of the ratios over shared
    /// rounds.
    pub value: f64,
}

/// A transport that is not ranked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotRanked {
    /// Its label.
    pub transport: String,
    /// Geometric mean of the metric over its own rounds, if there is one.
    pub value: Option<f64>,
    /// Why, each to stand after its name: `failed 1 of 5 trials`.
    pub reasons: Vec<String>,
}

/// Something that must hold for the run to count as passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Short name for machines: `trials_measured`, `path_within_tolerance`, ….
    pub name: String,
    /// Whether it holds.
    pub passed: bool,
    /// The figures behind it, one line.
    pub detail: String,
}

/// One transport under one condition with one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Label of the transport.
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Whether the transport sends again what was lost.
    pub retransmits: bool,
    /// Measured trials: those behind the metrics.
    pub n: u64,
    /// Trials by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Of the measured trials, those that the deadline stopped.
    pub deadline_reached: u64,
    /// Of the measured trials, those over a path that was not what was asked for: the emulator did
    /// not keep up, or a check found it outside its tolerance.
    pub path_doubted: u64,
    /// Work that was not done, by kind.
    pub failures: Vec<Failure>,
    /// Lag-1 autocorrelation of the logarithms of the metric of the ranking over the rounds, for which
    /// its interval is widened; 0 where none was detected.
    pub autocorrelation: f64,
    /// Change of that metric from the first round to the last, as a ratio of its median; absent where
    /// no trend was detected.
    pub trend_ratio: Option<f64>,
    /// Why trials were not measured: outcome, first reason and hint, with their number.
    pub reasons: Vec<CountedReason>,
    /// Descriptions by name of the metric.
    pub metrics: BTreeMap<String, MetricSummary>,
}

/// A kind of work that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Trials that failed or timed out.
    Trials,
    /// Measured trials in which nothing was delivered.
    Nothing,
    /// Connections that broke or were refused.
    Connections,
    /// Requests without answer, or with a late one.
    Requests,
    /// Messages without acknowledgement in time.
    Acknowledgements,
    /// Messages that were lost, or came too late to count.
    Messages,
}

/// Work of one kind that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Kind of the work.
    pub kind: FailureKind,
    /// Number that failed.
    pub count: u64,
    /// Number that was tried.
    pub of: u64,
}

/// Why some trials of a cell were not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedReason {
    /// Their outcome.
    pub outcome: String,
    /// The causes, outermost first.
    pub reasons: Vec<String>,
    /// What to type next; may be empty.
    pub hint: String,
    /// How many trials.
    pub count: u64,
}

/// One metric over the measured trials of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// Unit of every value here but `n` and `cv`.
    pub unit: String,
    /// Number of trials that have this metric.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; absent for one trial.
    pub sd: Option<f64>,
    /// Coefficient of variation, `sd / mean`; absent for one trial or a mean of zero.
    pub cv: Option<f64>,
    /// 95 % confidence interval of the mean, Student's t, cut at what the metric can be; absent for
    /// one trial.
    pub ci95: Option<[f64; 2]>,
    /// Geometric mean; absent where a value is not above zero.
    pub geometric_mean: Option<f64>,
    /// 95 % confidence interval of the geometric mean, Student's t of the logarithms.
    pub geometric_ci95: Option<[f64; 2]>,
    /// Median.
    pub median: f64,
    /// Lower quartile.
    pub q1: f64,
    /// Upper quartile.
    pub q3: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// Conclusion of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conclusion {
    /// The one side does better than the other by this metric.
    #[serde(rename = "faster")]
    Faster,
    /// The one side does worse than the other by this metric.
    #[serde(rename = "slower")]
    Slower,
    /// The interval holds 1.
    #[serde(rename = "no difference detected")]
    NoDifferenceDetected,
    /// Fewer than two rounds have both, or all differ alike and are too few for that not to be chance.
    #[serde(rename = "not enough rounds")]
    NotEnoughRounds,
}

impl Conclusion {
    /// The name in files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifferenceDetected => "no difference detected",
            Self::NotEnoughRounds => "not enough rounds",
        }
    }
}

/// A ratio with the run's claim about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Rounds behind it: those that have both sides.
    pub n: u64,
    /// Ratio of geometric means.
    pub ratio: Option<f64>,
    /// Its interval at `confidence`: it leaves out 1 exactly where a difference is claimed.
    pub interval: Option<[f64; 2]>,
    /// Level of the interval: that of the step of Holm's procedure at which the claim was decided.
    pub confidence: f64,
    /// Two-sided p-value of "the ratio is 1" by itself.
    pub p_value: Option<f64>,
    /// p-value adjusted for every other test of the run.
    pub p_holm: Option<f64>,
    /// Where no difference was detected: the smallest ratio above 1 that these rounds detect with a
    /// power of 80 %.
    pub detectable_ratio: Option<f64>,
    /// Lag-1 autocorrelation of the rounds for which the interval is widened; 0 where none was
    /// detected.
    pub autocorrelation: f64,
    /// Conclusion.
    pub conclusion: Conclusion,
}

/// Two transports under one condition and workload, by one metric, paired by round. The ratio is
/// `a / b`, the conclusion seen from `a`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the metric.
    pub metric: String,
    /// Label of one transport.
    pub a: String,
    /// Label of the other.
    pub b: String,
    /// Geometric mean of `a` over the rounds that both have.
    pub geometric_mean_a: Option<f64>,
    /// Geometric mean of `b` over the same rounds.
    pub geometric_mean_b: Option<f64>,
    /// The ratio and what is claimed of it.
    #[serde(flatten)]
    pub claim: Claim,
}

/// One transport under one condition against the first condition of the study, paired by round. The
/// ratio is `to / from`, the conclusion seen from `to`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Label of the transport.
    pub transport: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the metric.
    pub metric: String,
    /// The first condition.
    pub from: String,
    /// The other one.
    pub to: String,
    /// Geometric mean under `from` over the rounds that have both.
    pub geometric_mean_from: f64,
    /// Geometric mean under `to` over the same rounds.
    pub geometric_mean_to: f64,
    /// The ratio and what is claimed of it.
    #[serde(flatten)]
    pub claim: Claim,
}

/// A published figure beside the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedBeside {
    /// Label of the transport, or a name of the publication that this study does not run.
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload, where the published figure is of one of several.
    pub workload: Option<String>,
    /// Name of the metric.
    pub metric: String,
    /// Unit of the values.
    pub unit: String,
    /// The published value.
    pub published: f64,
    /// The figure of the tables: the geometric mean of the measured trials (of the first workload that
    /// has them) where it is one that is compared, else the mean; absent if there are none.
    pub measured: Option<f64>,
    /// Its 95 % interval.
    pub measured_ci95: Option<[f64; 2]>,
    /// Measured over published.
    pub ratio: Option<f64>,
    /// How the published figure was had, where that differs.
    pub note: Option<String>,
}

/// Equal warnings, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedWarning {
    /// Short name for machines.
    pub code: String,
    /// One sentence, without a full stop; where the sentences of several trials differ only in
    /// figures, that of the first.
    pub message: String,
    /// What to type or to change; may be empty.
    pub hint: String,
    /// How many trials carry it; 0 for one that belongs to the whole run.
    pub trials: u64,
    /// The cells concerned, `transport under condition`.
    pub cells: Vec<String>,
}

impl Summary {
    /// The cell of a transport under a condition with a workload.
    #[must_use]
    pub fn cell(&self, transport: &str, condition: &str, workload: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            cell.transport == transport && cell.condition == condition && cell.workload == workload
        })
    }

    /// Whether every gate holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.gates.iter().all(|gate| gate.passed)
    }
}

impl Cell {
    /// Trials with an outcome.
    #[must_use]
    pub fn outcome(&self, outcome: regatta_model::Outcome) -> u64 {
        self.outcomes.get(outcome.name()).copied().unwrap_or(0)
    }

    /// Value and interval that tables and figures show of a metric: see [`MetricSummary::shown`].
    #[must_use]
    pub fn shown(&self, metric: &str) -> Option<(f64, Option<[f64; 2]>)> {
        Some(self.metrics.get(metric)?.shown(metric))
    }
}

impl MetricSummary {
    /// The value that stands for the trials, with its interval: the geometric mean of what transports
    /// or conditions are compared by, as the comparisons have it, and the mean of everything else.
    #[must_use]
    pub fn shown(&self, metric: &str) -> (f64, Option<[f64; 2]>) {
        match self.geometric_mean {
            Some(mean) if super::is_compared(metric) => (mean, self.geometric_ci95),
            _ => (self.mean, self.ci95),
        }
    }
}

/// The quantities of a condition's path that were out of tolerance.
pub fn out_of_tolerance(check: &PathCheck) -> impl Iterator<Item = &AskedAchieved> {
    check.quantities.iter().filter(|quantity| !quantity.within)
}
