//! Types of `summary.json`; `schemas/summary.schema.json` is their description for other programs.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regatta_model::{AskedAchieved, CellEnd, Outcome, PathCheck, Unit, Warning};
use serde::{Deserialize, Serialize};

pub use super::comparison::{Claim, Comparison, Conclusion, Difference, WorkloadDifference};
use super::{
    claim_result::ClaimResult,
    mean::{MeanKind, MeanOfAll},
    sweep_result::SweepResult,
};
use crate::{
    RunData,
    data::CellKey,
    format::Scale,
    language::{self, tr},
};

/// Version of `summary.json`; raised when a reader of an older version would misread it.
pub const SCHEMA_VERSION: u32 = 4;

/// Summary of the trials of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the format, [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Identifier of the run.
    pub run_id: String,
    /// Version of Regatta that made the run.
    pub regatta_version: String,
    /// Builds of the program at the hosts; one entry for all hosts with the same build.
    pub builds: Vec<Build>,
    /// Facts about the transports' stacks, fact by fact under each condition.
    pub stacks: Vec<StackRow>,
    /// Start of the run, in nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// Name of the study.
    pub study: String,
    /// Title of the study, one line.
    pub title: String,
    /// Description of the bed and the path.
    pub bed: String,
    /// Seed of the order of trials, of the paths and of random data.
    pub seed: u64,
    /// Rounds that the study asks for; for a run that ended when its intervals were narrow, the
    /// rounds that it had.
    pub rounds: u32,
    /// Rule that ends a cell before the last round; absent if every cell has all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell_end: Option<CellEnd>,
    /// Metric of the ranking that the study names; absent if it is that of each workload's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_by: Option<String>,
    /// State of the run at the time of saving.
    pub state: State,
    /// Statistical method of the intervals and comparisons.
    pub statistics: Statistics,
    /// Verdict in sentences.
    pub verdict: Verdict,
    /// Requirements that the run must meet to pass.
    pub gates: Vec<Gate>,
    /// Claims of the study, in its order, with their outcomes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimResult>,
    /// Cells: one for each transport, condition and workload, in the order of the study.
    pub cells: Vec<Cell>,
    /// Comparisons of every pair of transports under each condition and workload, for each headline
    /// metric.
    pub comparisons: Vec<Comparison>,
    /// Differences of each transport under each further condition from the first one.
    pub differences: Vec<Difference>,
    /// Differences of each transport with each further workload of a kind from the first of that kind.
    #[serde(default)]
    pub workload_differences: Vec<WorkloadDifference>,
    /// Metrics against the parameters of the study's sweeps.
    #[serde(default)]
    pub sweeps: Vec<SweepResult>,
    /// Published figures with the measured ones.
    pub published: Vec<PublishedBeside>,
    /// Checks by the bed of its own path.
    pub path_checks: Vec<PathCheck>,
    /// Warnings, equal ones once with their number.
    pub warnings: Vec<CountedWarning>,
}

/// Build of the program. `None` is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Hosts whose agents have this build: `sender`, `receiver`.
    pub hosts: Vec<String>,
    /// Commit of the sources.
    pub commit: Option<String>,
    /// Whether the sources differed from the commit.
    pub dirty: Option<bool>,
    /// Directory of the profile in the build directory: `release`, `debug`.
    pub profile: Option<String>,
    /// Optimisation level of the crate that the payload goes through: `3`.
    pub opt_level: Option<String>,
    /// Whether debug assertions were on.
    pub debug_assertions: Option<bool>,
    /// SHA-256 of `Cargo.lock`, hexadecimal.
    pub lockfile_sha256: Option<String>,
    /// Compiler and its version.
    pub compiler: Option<String>,
}

/// One fact about every transport's stack under one condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRow {
    /// Name of the condition.
    pub condition: String,
    /// Name of the fact, as in `trials.csv`.
    pub fact: String,
    /// Title in tables.
    pub title: String,
    /// Values by label of the transport, of those whose trials state the fact.
    pub values: BTreeMap<String, String>,
    /// Whether any two known values differ.
    pub differs: bool,
}

/// State of a run: running, complete or interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Name of the state: `running`, `complete` or `interrupted`.
    pub name: String,
    /// Reason of an interruption.
    pub reason: Option<String>,
    /// Number of trials that the study plans.
    pub trials_planned: u64,
    /// Number of trials that were saved, with any outcome.
    pub trials_saved: u64,
}

/// Statistical method of the intervals and comparisons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Level of the intervals of means. With this probability all intervals of pairs by the metrics of the rankings hold;
    /// of the other claims that are made, this share is true on average.
    pub confidence: f64,
    /// Largest difference between two sides that are the same, as a ratio less 1.
    pub equivalence: f64,
    /// Number of tests in both families of the run.
    pub tests: u64,
    /// Description of the method, in sentences.
    pub method: Vec<String>,
}

/// Verdict in sentences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Answer of the whole run in at most two lines.
    #[serde(default)]
    pub headline: Vec<String>,
    /// Sentence about the whole run.
    pub overall: String,
    /// Differences between two instances of the same transport, if the study has such.
    pub noise_floor: Option<NoiseFloor>,
    /// Verdicts for each condition and workload.
    pub conditions: Vec<ConditionVerdict>,
    /// Sentences about each further workload of a kind against the first of that kind.
    #[serde(default)]
    pub workloads: Vec<String>,
}

/// Differences between two transports of the same driver and options, by the metrics of the
/// rankings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Number of pairs of the same transport.
    pub pairs: u64,
    /// Number of pairs with a detected difference, which is false each time.
    #[serde(rename = "told_apart")]
    pub distinguished: u64,
    /// Largest ratio between the transports of a pair, above 1.
    pub largest_ratio: f64,
    /// Pair with the largest ratio.
    pub largest_pair: String,
}

/// Verdict for one condition and workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConditionVerdict {
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Description of the path: `100 Mbit/s, RTT 30 ms, 5 % loss each way`.
    #[serde(default)]
    pub path: String,
    /// Name of the metric of the ranking.
    pub metric: String,
    /// Transports that did their work, best first.
    pub ranking: Vec<Ranked>,
    /// Transports that no other is faster than: one is faster than all others, of several the first is not for certain.
    #[serde(default)]
    pub leaders: Vec<String>,
    /// Other transports that were measured or failed, in the order of the study.
    pub not_ranked: Vec<NotRanked>,
    /// Smallest ratio that every pair among the leaders could have shown with a power of 80 %;
    /// absent if a single transport leads, and if the rounds are not enough to know it.
    pub detectable_ratio: Option<f64>,
    /// Numbers of rounds from which and up to which a new run should decide the leader against every other transport;
    /// absent if it is decided, and if they are not known.
    #[serde(default)]
    pub rounds_to_decide: Option<[u64; 2]>,
    /// Sentence that names the fastest transport, by how much, and with which certainty.
    pub text: String,
    /// Sentence about what else the transports that `text` compares have more of, such as CPU time; absent where nothing is
    /// claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Clauses about what the comparison does not show: encryption, transports that do not retransmit, deadlines.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Titles of the facts in which the stacks of the transports differ that `text` compares.
    #[serde(default)]
    pub stacks_differ_in: Vec<String>,
    /// Notes that belong to the sentence: differences of the stacks, deadlines, outcomes, loss.
    pub notes: Vec<String>,
}

impl ConditionVerdict {
    /// Returns the position of a transport in the ranking, from 0.
    pub fn rank(&self, transport: &str) -> Option<usize> {
        self.ranking.iter().position(|it| it.transport == transport)
    }

    /// Letters of a transport; `None` if it is not ranked, or the only one that is.
    pub fn letters(&self, transport: &str) -> Option<&str> {
        let ranked = self.ranking.iter().find(|it| it.transport == transport)?;
        (self.ranking.len() > 1).then_some(ranked.letters.as_str())
    }
}

/// A transport in a ranking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Label of the transport.
    pub transport: String,
    /// Compact letter display: two transports share a letter if and only if neither is better for
    /// certain.
    pub letters: String,
    /// Geometric mean of the metric over the transport's own rounds. The order is that of the
    /// ratios over shared rounds.
    pub value: f64,
    /// Ratio of the metric to that of the first leader, over the rounds that both have; absent for that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_leader: Option<f64>,
    /// Interval of that ratio, by which the claim about both was decided; absent if it has too few rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_interval: Option<[f64; 2]>,
}

/// Transport that is not ranked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotRanked {
    /// Label of the transport.
    pub transport: String,
    /// Geometric mean of the metric over the transport's own rounds, if there is one.
    pub value: Option<f64>,
    /// Reasons, each a predicate of the transport: `failed 1 of 5 trials`.
    pub reasons: Vec<String>,
}

/// Requirement that a run must meet to pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Short name for machines: `trials_measured`, `path_within_tolerance`, ….
    pub name: String,
    /// Whether the requirement is met.
    pub passed: bool,
    /// Whether nothing was measured that decides it; it passes then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_judged: bool,
    /// Figures behind the result, one line.
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
    /// Whether the transport retransmits lost data.
    pub retransmits: bool,
    /// Number of measured trials: those behind the metrics.
    pub n: u64,
    /// Number of trials by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Number of measured trials that the deadline stopped.
    pub deadline_reached: u64,
    /// Number of measured trials over a path that was not as configured: the emulator did not keep
    /// up, or a check found the path outside its tolerance.
    pub path_doubted: u64,
    /// Work that was not done, by kind.
    pub failures: Vec<Failure>,
    /// Lag-1 autocorrelation of the logarithms of the metric of the ranking over the rounds, for which
    /// its interval is widened; 0 where none was detected.
    pub autocorrelation: f64,
    /// Change of that metric from the first round to the last, as a ratio to its median; absent
    /// where no trend was detected.
    pub trend_ratio: Option<f64>,
    /// Reasons for which trials were not measured: outcome, first reason and hint, with the number
    /// of trials.
    pub reasons: Vec<CountedReason>,
    /// Descriptions by name of the metric.
    pub metrics: BTreeMap<String, MetricSummary>,
    /// Largest error from the offset between the hosts' clocks, of delays from one host to the other, by name of the
    /// metric, in nanoseconds.
    #[serde(skip)]
    pub clock_errors_ns: BTreeMap<String, f64>,
    /// Metric of the ranking, whose geometric mean is shown, where the study names it or it is not one by which every study
    /// compares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranked_by: Option<String>,
}

/// Kind of work that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Trials that failed or timed out.
    Trials,
    /// Measured trials in which nothing was delivered.
    Nothing,
    /// Measured trials that the deadline stopped when little was delivered.
    Little,
    /// Connections that failed or were refused.
    Connections,
    /// Requests without an answer, or with a late one.
    Requests,
    /// Messages without acknowledgement in time.
    Acknowledgements,
    /// Messages that were lost.
    Messages,
    /// Messages that were not delivered by the deadline.
    Undelivered,
}

impl FailureKind {
    /// Whether measured trials fail in this way, which no share of the trials makes tolerable.
    #[must_use]
    pub const fn is_of_measured_trials(self) -> bool {
        matches!(self, Self::Nothing | Self::Little)
    }
}

/// Work of one kind that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Kind of the work.
    pub kind: FailureKind,
    /// Number of failures.
    pub count: u64,
    /// Number of attempts.
    pub of: u64,
}

/// Reason for which some trials of a cell were not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedReason {
    /// Outcome of the trials.
    pub outcome: String,
    /// The causes, outermost first.
    pub reasons: Vec<String>,
    /// Hint on what to type next; may be empty.
    pub hint: String,
    /// Number of trials.
    pub count: u64,
}

/// One metric over the measured trials of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// Unit of every value in this structure but `n` and `cv`.
    pub unit: String,
    /// Number of trials that have this metric.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; absent for one trial.
    pub sd: Option<f64>,
    /// Coefficient of variation, `sd / mean`; absent for one trial or a mean of zero.
    pub cv: Option<f64>,
    /// 95 % confidence interval of the mean, Student's t, clipped to the metric's possible values;
    /// absent for one trial.
    pub ci95: Option<[f64; 2]>,
    /// Geometric mean; absent where a value is not above zero.
    pub geometric_mean: Option<f64>,
    /// 95 % confidence interval of the geometric mean, Student's t of the logarithms.
    pub geometric_ci95: Option<[f64; 2]>,
    /// Mean over every trial that was started, if cells are compared by this metric and some trial failed or delivered
    /// nothing; it then takes the place of the geometric mean in tables and comparisons. All other values are of measured
    /// trials alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_all: Option<MeanOfAll>,
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

impl MetricSummary {
    /// Returns value and interval of a metric by which transports are compared: the mean over every trial that was
    /// started if some failed, else the geometric mean, or the mean where there is none.
    #[must_use]
    pub fn compared(&self) -> (f64, Option<[f64; 2]>) {
        match (&self.of_all, self.geometric_mean) {
            (Some(all), _) => (all.mean, all.ci95),
            (None, Some(mean)) => (mean, self.geometric_ci95),
            (None, None) => (self.mean, self.ci95),
        }
    }
}

/// Published figure with the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedBeside {
    /// Label of the transport, or a name of the publication that this study does not run.
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload, if the published figure belongs to one of several.
    pub workload: Option<String>,
    /// Name of the metric.
    pub metric: String,
    /// Unit of the values.
    pub unit: String,
    /// The published value.
    pub published: f64,
    /// Figure of the tables: for a metric that is compared, the geometric mean of the measured
    /// trials (of the first workload that has them), for others the mean; absent if there are no
    /// such trials.
    pub measured: Option<f64>,
    /// 95 % interval of the measured figure.
    pub measured_ci95: Option<[f64; 2]>,
    /// Ratio of the measured to the published figure.
    pub ratio: Option<f64>,
    /// Ratio of the published figure to that of the same transport under the study's first condition; absent under
    /// the first one, or if none is published there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_change: Option<f64>,
    /// The same ratio of the measured figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_change: Option<f64>,
    /// Note on the published figure's method, where that differs.
    pub note: Option<String>,
    /// Whether the path permits the figure: what the study says, or its limits; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_permits: Option<bool>,
    /// Smallest value that the path permits by its packets; absent without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_at_least: Option<f64>,
    /// Largest value that the path permits by its packets; absent without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_at_most: Option<f64>,
}

/// Warning with the number of its occurrences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedWarning {
    /// The warning; if the messages of several trials differ only in figures, that of the first.
    #[serde(flatten)]
    pub warning: Warning,
    /// Number of trials with this warning; 0 for a warning of the whole run.
    pub trials: u64,
    /// Cells with this warning, as `transport under condition`.
    pub cells: Vec<String>,
}

impl CountedReason {
    /// Returns the name of the outcome.
    pub(crate) fn outcome_text(&self) -> String {
        language::text(&self.outcome.replace('_', " ")).to_owned()
    }

    /// Returns the causes as one text, outermost first.
    pub(crate) fn causes_text(&self) -> String {
        self.reasons.join(": ")
    }
}

impl Verdict {
    /// Returns the verdicts of the groups that belong to no sweep.
    pub(crate) fn outside_of_sweeps(&self, data: &RunData) -> Vec<&ConditionVerdict> {
        let swept: BTreeSet<(&str, &str)> = (data.groups())
            .filter(|group| group.is_swept)
            .map(|group| (&*group.condition.name, &*group.workload.name))
            .collect();
        let is_plain = |it: &&ConditionVerdict| !swept.contains(&(&*it.condition, &*it.workload));
        self.conditions.iter().filter(is_plain).collect()
    }
}

impl CountedWarning {
    /// Returns a warning of the whole run, about these cells.
    pub(crate) fn of_run(warning: Warning, cells: Vec<String>) -> Self {
        Self {
            warning,
            trials: 0,
            cells,
        }
    }
}

impl Summary {
    /// Returns the cell of a transport under a condition with a workload.
    #[must_use]
    pub fn cell(&self, transport: &str, condition: &str, workload: &str) -> Option<&Cell> {
        let key = [transport, condition, workload];
        self.cells.iter().find(|cell| cell.key() == key)
    }

    /// Returns the number of trials of a cell, to which its measured ones are compared: the rounds, or
    /// where a rule ends cells, its own.
    #[must_use]
    pub fn trials_of(&self, cell: &Cell) -> u64 {
        match self.cell_end {
            Some(_) => cell.trials(),
            None => u64::from(self.rounds),
        }
    }

    /// Whether all gates pass.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.gates.iter().all(|gate| gate.passed)
    }
}

impl Cell {
    /// Returns the key of the cell.
    #[must_use]
    pub fn key(&self) -> CellKey<'_> {
        [&self.transport, &self.condition, &self.workload].map(String::as_str)
    }

    /// Returns the number of trials with any outcome.
    #[must_use]
    pub fn trials(&self) -> u64 {
        self.outcomes.values().sum()
    }

    /// Returns the number of trials with an outcome.
    #[must_use]
    pub fn outcome(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(outcome.name()).copied().unwrap_or(0)
    }

    /// Returns the names of the outcomes of the trials, for a cell without figures.
    pub(crate) fn outcomes_text(&self) -> String {
        let mut ended = (Outcome::ALL.into_iter())
            .filter(|outcome| self.outcome(*outcome) > 0)
            .map(|outcome| language::text(&outcome.label()).to_owned())
            .peekable();
        match ended.peek() {
            None => tr!("not run"),
            Some(_) => ended.join(", "),
        }
    }

    /// Formats a value of a metric, with its largest error from the hosts' clocks if there is one.
    #[must_use]
    pub fn text(&self, metric: &str, value: f64, scale: Scale) -> String {
        match self.clock_errors_ns.get(metric) {
            Some(error) => format!("{}\u{a0}±\u{a0}{}", scale.text(value), scale.text(*error)),
            None => scale.text(value),
        }
    }

    /// Returns the kind of the mean that is shown of a metric, if trials that failed make it another one than of the other
    /// cells, and whether it lacks rounds for an interval.
    #[must_use]
    pub fn kind_of_mean(&self, metric: &str) -> Option<String> {
        let all = self.metrics.get(metric)?.of_all.as_ref()?;
        let kind = match all.kind {
            MeanKind::Geometric => return None,
            MeanKind::Arithmetic => tr!("arithmetic mean"),
            MeanKind::Harmonic => tr!("harmonic mean"),
        };
        Some(match all.lacks_rounds() {
            true => tr!("{}, too few rounds", kind),
            false => kind,
        })
    }

    /// Returns value and interval of a metric for tables and figures: the mean of its comparisons for a metric by which
    /// transports or conditions are compared, and the arithmetic mean of the measured trials for any other.
    #[must_use]
    pub fn shown(&self, metric: &str) -> Option<(f64, Option<[f64; 2]>)> {
        let summary = self.metrics.get(metric)?;
        let is_compared = self.ranked_by.as_deref() == Some(metric) || super::is_compared(metric);
        Some(match is_compared {
            true => summary.compared(),
            false => (summary.mean, summary.ci95),
        })
    }
}

/// Returns the part of a caption about means that are not geometric, if some of these cells have such.
pub(crate) fn other_means(cells: &[&Cell]) -> Option<String> {
    let mut described = cells.iter().flat_map(|cell| cell.metrics.values());
    described.any(|metric| metric.of_all.is_some()).then(|| {
        tr!(
            "; an arithmetic or harmonic mean is over every trial that was started, one that failed as a rate of 0 or a time without end"
        )
    })
}

/// Returns the quantities of a condition's path that were out of tolerance.
pub fn out_of_tolerance(check: &PathCheck) -> impl Iterator<Item = &AskedAchieved> {
    check.quantities.iter().filter(|quantity| !quantity.within)
}

/// Returns the unit of a quantity of a path check, by the suffix of its name, and its title.
pub(crate) fn path_quantity(name: &str) -> (Unit, String) {
    let units = [
        ("_ns", Unit::Nanoseconds),
        ("_bps", Unit::BitsPerSecond),
        ("_bytes", Unit::Bytes),
        ("_ratio", Unit::Ratio),
    ];
    let found = units.into_iter().find(|(suffix, _)| name.ends_with(suffix));
    let (suffix, unit) = found.unwrap_or(("", Unit::Count));
    let title = name.strip_suffix(suffix).unwrap_or(name).replace('_', " ");
    (unit, language::text(&title).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_and_little_are_of_measured_trials() {
        use FailureKind::{Connections, Little, Messages, Nothing, Trials};
        assert!(
            [Nothing, Little]
                .iter()
                .all(|it| it.is_of_measured_trials())
        );
        let others = [Trials, Connections, Messages];
        assert!(!others.iter().any(|it| it.is_of_measured_trials()));
    }
}
