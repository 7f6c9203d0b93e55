//! Types of a comparison of runs; `schemas/comparison.schema.json` is their description for other
//! programs.

use regatta_model::{Better, Unit};
use serde::Serialize;

use super::limit::Limit;
use crate::analysis::{Build, Conclusion, MeanKind, State, Statistics, better};

/// Version of the comparison's JSON; raised when a reader of an older version would misread it.
pub const SCHEMA_VERSION: u32 = 4;

/// Comparison of several runs, each pair by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunComparison {
    /// Version of the format, [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Runs, in the order in which they were given; the first is the baseline.
    pub runs: Vec<ComparedRun>,
    /// Statistical method of the intervals and conclusions.
    pub statistics: Statistics,
    /// Every pair of runs, the earlier one of the order as `from`.
    pub pairs: Vec<PairOfRuns>,
    /// Result of the gate, if one was requested.
    pub gate: Option<RegressionGate>,
}

/// Run of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRun {
    /// Name in the comparison: `A`, `B`, ….
    pub name: String,
    /// Path of the result directory.
    pub directory: String,
    /// Identifier of the run.
    pub run_id: String,
    /// Name of the study.
    pub study: String,
    /// Version of Regatta that made the run.
    pub regatta_version: String,
    /// Builds of the program at the hosts.
    pub builds: Vec<Build>,
    /// Start of the run, in nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// Description of the bed and the path.
    pub bed: String,
    /// Seed of the study.
    pub seed: u64,
    /// Number of rounds.
    pub rounds: u32,
    /// State of the run.
    pub state: State,
}

/// Comparison of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairOfRuns {
    /// Name of the run that the ratios divide by.
    pub from: String,
    /// Name of the other run.
    pub to: String,
    /// Differences of study, program, environment and stacks.
    pub changes: Vec<Change>,
    /// Cells that both runs have, in the order of the study.
    pub cells: Vec<CellPair>,
    /// Cells of `from` alone.
    pub only_from: Vec<CellName>,
    /// Cells of `to` alone.
    pub only_to: Vec<CellName>,
    /// Cells, and transports over all their cells, that have more failed trials in `to`.
    pub more_failures: Vec<MoreFailures>,
    /// Verdict in sentences.
    pub verdict: String,
}

/// More failed trials in one run than in another, of a cell or of all cells of a transport: detected by an exact test,
/// or seen in virtual time, where nothing fails by chance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MoreFailures {
    /// Label of the transport.
    pub transport: String,
    /// The cell; `None` for all of the transport's.
    pub cell: Option<CellName>,
    /// Number of trials in `from` and in `to` that were started.
    pub started: [u64; 2],
    /// Number of these that did not do their work.
    pub failed: [u64; 2],
    /// One-sided p-value of Fisher's exact test, adjusted for the number of cells and transports; `None` in
    /// virtual time.
    pub p_adjusted: Option<f64>,
}

/// Name of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CellName {
    /// Label of the transport.
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
}

impl CellName {
    /// Returns the name for a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            transport,
            condition,
            workload,
        } = self;
        format!("`{transport}` under `{condition}` with `{workload}`")
    }
}

/// Kind of a difference between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Bed, path and state of the run.
    Run,
    /// Version and build of Regatta, version and digest of external programs.
    Program,
    /// Study: seed, rounds, transports, conditions, workloads.
    Study,
    /// Facts of the hosts.
    Host,
    /// Facts of the transports' stacks.
    Stack,
}

/// Difference between two runs that is no measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Kind of the difference.
    pub kind: ChangeKind,
    /// Name of the quantity: `kernel.release`, `conditions.baseline.forward.delay_ns`.
    pub name: String,
    /// Hosts or transports that it concerns; empty where it concerns the run.
    pub of: Vec<String>,
    /// Value in `from`; `None` where that run has none.
    pub from: Option<String>,
    /// Value in `to`; `None` where that run has none.
    pub to: Option<String>,
}

/// Cell that two runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellPair {
    /// Name of the cell.
    #[serde(flatten)]
    pub name: CellName,
    /// Whether transport, condition or workload of this name have other settings in the two runs.
    pub settings_differ: bool,
    /// Number of measured trials in `from` and in `to`.
    pub measured: [u64; 2],
    /// Number of trials in `from` and in `to` that were started: measured, failed or timed out.
    pub started: [u64; 2],
    /// Number of these that did not do their work: failed, timed out, delivered nothing or little by the deadline, or left
    /// more than 1 % of their connections, requests or acknowledgements.
    pub failed: [u64; 2],
    /// Descriptions of the work that was not done in `from` and in `to`.
    pub failures: [Vec<String>; 2],
    /// Whether a larger share of some work failed in `to` than in `from`. Counted, not tested.
    pub fails_more: bool,
    /// Comparison by each metric; the first is the metric of the workload's ranking.
    pub metrics: Vec<MetricPair>,
}

impl CellPair {
    /// Returns the comparison by the metric of the workload's ranking.
    #[must_use]
    pub fn primary(&self) -> Option<&MetricPair> {
        self.metrics.first().filter(|metric| metric.primary)
    }

    /// Returns the conclusion by the metric of the workload's ranking.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion {
        self.primary()
            .map_or(Conclusion::Undecided, |metric| metric.conclusion)
    }

    /// Returns the distance of the ratio of that metric from 1, as a logarithm.
    pub(crate) fn distance(&self) -> f64 {
        self.primary().map_or(0.0, MetricPair::distance)
    }

    /// Whether the cell was measured in `from` and not at all in `to`.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.measured[0] > 0 && self.measured[1] == 0
    }
}

/// Ratio of one metric in a cell of two runs. Conclusions are seen from `to`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricPair {
    /// Name of the metric.
    pub metric: String,
    /// Unit of the means.
    #[serde(serialize_with = "unit_name")]
    pub unit: Unit,
    /// Whether the workload's ranking is by this metric.
    pub primary: bool,
    /// Number of rounds in `from` and in `to`.
    pub n: [u64; 2],
    /// Whether the rounds are paired: both runs have one seed, and the same condition and workload.
    pub is_paired: bool,
    /// Kind of both means: geometric, unless a trial failed in either run.
    pub mean_kind: MeanKind,
    /// Mean in `from` over every trial that was started.
    pub mean_from: Option<f64>,
    /// Mean in `to` over every trial that was started.
    pub mean_to: Option<f64>,
    /// Ratio of the means, `to / from`.
    pub ratio: Option<f64>,
    /// Interval of the ratio at `confidence`.
    pub interval: Option<[f64; 2]>,
    /// Level of the interval, by which the claim was decided.
    pub confidence: f64,
    /// Two-sided p-value of "the ratio is 1" by itself.
    pub p_value: Option<f64>,
    /// p-value adjusted for every other test of the comparison.
    pub p_adjusted: Option<f64>,
    /// Smallest ratio above 1 that these rounds detect with a power of 80 %, of a claim that is undecided.
    pub detectable_ratio: Option<f64>,
    /// Conclusion: `slower` is worse in `to`, whatever the metric.
    pub conclusion: Conclusion,
}

fn unit_name<S: serde::Serializer>(unit: &Unit, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(unit.name())
}

impl MetricPair {
    /// Returns the distance of the ratio from 1, as a logarithm.
    pub(crate) fn distance(&self) -> f64 {
        self.ratio.map_or(0.0, |ratio| ratio.ln().abs())
    }

    /// Whether the metric is larger in `to` than in `from`.
    pub(crate) fn is_higher(&self) -> bool {
        match (self.ratio, self.mean_from.zip(self.mean_to)) {
            (Some(ratio), _) => ratio > 1.0,
            (None, Some((from, to))) => to > from,
            (None, None) => false,
        }
    }

    /// Returns how much worse `to` is, as a share of the value in `from`: 0.05 for a goodput of 95
    /// against 100 Mbit/s, and for a delay of 105 against 100 ms. Negative where it is better.
    #[must_use]
    pub fn worse_by(&self) -> Option<f64> {
        Some(self.worsening(self.ratio?))
    }

    /// Returns the interval of [`MetricPair::worse_by`].
    #[must_use]
    pub fn worse_by_interval(&self) -> Option<[f64; 2]> {
        let [a, b] = self.interval?.map(|ratio| self.worsening(ratio));
        Some([a.min(b), a.max(b)])
    }

    fn worsening(&self, ratio: f64) -> f64 {
        match better(&self.metric) {
            Better::Lower => ratio - 1.0,
            _ => 1.0 - ratio,
        }
    }
}

/// Gate of `--fail-on`: each further run against the first. More failed trials miss every gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegressionGate {
    /// Changes of metrics that miss the gate; empty where only failures do.
    pub limits: Vec<Limit>,
    /// Whether no cell misses it.
    pub passed: bool,
    /// Cells that miss it, each with the reason, one sentence each.
    pub misses: Vec<String>,
}
