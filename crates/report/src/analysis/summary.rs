//! `summary.json` as types; `schemas/summary.schema.json` says the same to other programs.

use std::collections::BTreeMap;

use regatta_model::{AskedAchieved, PathCheck};
use serde::{Deserialize, Serialize};

/// Version of `summary.json`; raised when a reader of the older one would be misled.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that the trials of a run say together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Identifier of the run.
    pub run_id: String,
    /// Version of Regatta that made the run.
    pub regatta_version: String,
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
    /// Rounds that the study asks for.
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
    /// Level of the intervals of means, and simultaneous level of each family of comparisons.
    pub confidence: f64,
    /// In words.
    pub method: Vec<String>,
}

/// The answer in sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Over the whole run.
    pub overall: String,
    /// One for each condition and workload.
    pub conditions: Vec<ConditionVerdict>,
}

/// The answer for one condition and workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionVerdict {
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Which transport was faster, by how much, how sure.
    pub text: String,
    /// What must be known beside it: deadlines, outcomes, loss.
    pub notes: Vec<String>,
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
    /// Whether the transport sends again what was lost. Not so if its driver is `udp`, or if it
    /// lost messages anywhere in this run but where a workload closes without waiting for delivery.
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
    /// Why trials were not measured: outcome, first reason and hint, with their number.
    pub reasons: Vec<CountedReason>,
    /// Descriptions by name of the metric.
    pub metrics: BTreeMap<String, MetricSummary>,
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

/// What a comparison comes to, seen from `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conclusion {
    /// `a` does better than `b` by this metric.
    #[serde(rename = "faster")]
    Faster,
    /// `a` does worse than `b` by this metric.
    #[serde(rename = "slower")]
    Slower,
    /// The simultaneous interval holds equality.
    #[serde(rename = "no difference detected")]
    NoDifferenceDetected,
    /// Fewer than two rounds have both.
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

/// Two transports under one condition and workload, by one metric, paired by round.
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
    /// Rounds that have both.
    pub n: u64,
    /// Mean of `a − b` over these rounds, in the metric's unit.
    pub difference: Option<f64>,
    /// Its interval at `confidence`.
    pub difference_interval: Option<[f64; 2]>,
    /// Ratio of geometric means `a / b` over these rounds; absent if any value is zero or less.
    pub ratio: Option<f64>,
    /// Its interval at `confidence`.
    pub ratio_interval: Option<[f64; 2]>,
    /// Level of the two intervals, corrected so that all intervals of the family hold together
    /// at `statistics.confidence`.
    pub confidence: f64,
    /// Number of comparisons in the family: the pairs of this condition, workload and metric.
    pub family: u64,
    /// Of the paired t-test, on logarithms where the ratio is given.
    pub p_value: Option<f64>,
    /// The same, adjusted by Holm's method within the family.
    pub p_holm: Option<f64>,
    /// Mean share of messages that `a` lost, if any were. A transport that loses is compared with
    /// one that sends again what was lost: read the ratio with this.
    pub loss_a: Option<f64>,
    /// Mean share of messages that `b` lost, if any were.
    pub loss_b: Option<f64>,
    /// What it comes to, seen from `a`.
    pub conclusion: Conclusion,
}

/// One transport under one condition against the first condition of the study.
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
    /// Mean under `from`.
    pub mean_from: f64,
    /// Mean under `to`.
    pub mean_to: f64,
    /// `mean_to / mean_from − 1`; absent if `mean_from` is not above zero.
    pub relative: Option<f64>,
    /// 95 % interval of the relative difference (Fieller's, samples taken as independent); absent
    /// where the trials allow none.
    pub interval: Option<[f64; 2]>,
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
    /// Mean of the measured trials (of the first workload that has them), if there are any.
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

    /// The mean of a metric.
    #[must_use]
    pub fn mean(&self, metric: &str) -> Option<f64> {
        self.metrics.get(metric).map(|description| description.mean)
    }

    /// Mean share of messages that were lost; zero where the transport cannot lose any.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.mean("message_loss_ratio").unwrap_or(0.0)
    }
}

/// The quantities of a condition's path that were out of tolerance.
pub fn out_of_tolerance(check: &PathCheck) -> impl Iterator<Item = &AskedAchieved> {
    check.quantities.iter().filter(|quantity| !quantity.within)
}
