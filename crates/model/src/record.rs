//! Records of one run: its header, its path checks, its trials.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    facts::{Facts, HostFacts},
    metric::id,
    metric_values::MetricValues,
    outcome::Outcome,
    shard::RunPart,
    study::Study,
    warning::{Text, Warning},
    warning_code,
    workload::WorkloadKind,
};

/// Data about a run that is known before its first trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Unique identifier of the run.
    pub run_id: String,
    /// Version of Regatta that made the run.
    pub regatta_version: String,
    /// Start, in nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// The whole study, with every default filled in.
    pub study: Study,
    /// Text of the study as the user wrote it, or the options of the command line in the form of a
    /// study.
    pub study_text: String,
    /// Description of the bed and the path: `netns, user-space emulator`.
    pub bed: Text,
    /// Facts by host: `sender`, `receiver`.
    pub hosts: BTreeMap<String, HostFacts>,
    /// Identity of the run as a part of its plan.
    #[serde(default, skip_serializing_if = "RunPart::is_unknown")]
    pub part: RunPart,
}

/// Fact of a host: its name in the hosts file.
pub const HOST_NAME: &str = "host.name";

impl RunHeader {
    /// Returns the warnings that follow from the study and the hosts.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.study.warnings();
        warnings.extend(self.study.host_default_warning(&self.hosts));
        warnings
    }

    /// Returns the name by which reports show a host, `sender` or `receiver`: with that in the hosts file, if the run
    /// has stored one.
    #[must_use]
    pub fn host_label(&self, host: &str) -> String {
        let facts = self.hosts.get(host);
        match facts.and_then(|facts| facts.0.get(HOST_NAME)) {
            Some(name) => format!("{name} ({host})"),
            None => host.to_owned(),
        }
    }
}

/// Configured and achieved value of one quantity of the path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedAchieved {
    /// Name of the quantity: `round_trip_delay_mean_ns`, of a network as it is `round_trip_delay_p50_ns` (its
    /// median; results files before version 6 have `round_trip_delay_ns` for both), `round_trip_delay_near_ratio`,
    /// `forward_loss_ratio`, `reverse_loss_ratio`, `forward_link_rate_bps`,
    /// `reverse_link_rate_bps`.
    pub name: String,
    /// Value configured by the study.
    pub asked: f64,
    /// Measured value.
    pub achieved: f64,
    /// Smallest value that is accepted.
    pub lowest: f64,
    /// Largest value that is accepted.
    pub highest: f64,
    /// Number of packets or messages from which the value is computed.
    pub n: u64,
    /// Whether `achieved` lies between `lowest` and `highest`.
    pub within: bool,
}

/// Result of a bed's measurement of its own path under one condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathCheck {
    /// Name of the condition.
    pub condition: String,
    /// Step of the condition's schedule that was checked, by its time in a trial; 0 is the initial
    /// setting.
    #[serde(default)]
    pub step_at_ns: u64,
    /// Time of the check, in nanoseconds since the Unix epoch.
    pub checked_unix_ns: i64,
    /// Whether every quantity was within its tolerance.
    pub within: bool,
    /// Evidence that the machine did not let the check measure; such a check is repeated, and its
    /// result is not used.
    #[serde(default)]
    pub spoiled: Option<Text>,
    /// Quantities of the path that were measured.
    pub quantities: Vec<AskedAchieved>,
}

/// Quantity sampled over time at one end, see [`crate::metric::SERIES`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in [`crate::metric::SERIES`].
    pub name: String,
    /// `sender`, `receiver` or `path`.
    pub side: String,
    /// Times in nanoseconds: since the first connect call in a stored trial, on the agent's own
    /// monotonic clock in a message of an agent.
    pub t_ns: Vec<i64>,
    /// Values, one for each time.
    pub values: Vec<f64>,
}

/// A distribution, as an HDR histogram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Name of the quantity: `round_trip_delay_idle_ns`, `round_trip_delay_ns`, `one_way_delay_ns`. The metrics of its
    /// statistics have the statistic in their names.
    pub name: String,
    /// End that measured: `sender` or `receiver`.
    pub side: String,
    /// HdrHistogram V2 encoding (not compressed), base64.
    pub hdr_v2_base64: String,
}

/// Measurements of a trial: those of one end in its report, or those of both ends and the path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    /// Values by name in [`crate::metric::METRICS`]. Values that were not measured are absent.
    pub metrics: MetricValues,
    /// Samples over time.
    pub series: Vec<Series>,
    /// Distributions.
    pub histograms: Vec<Histogram>,
    /// Facts read back from the running stacks: `congestion_control.sender`, `tls.cipher_suite`,
    /// `probe.placement`, `gso.sender`, `acknowledgement`, ….
    pub facts: Facts,
    /// Warnings about this trial.
    pub warnings: Vec<Warning>,
}

/// Complete record of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Unique number of the record, from 0. That of a first attempt is the trial's position in the
    /// plan; each further attempt adds the number of trials in the plan.
    pub index: u32,
    /// Number of the attempt at this trial, from 1: an invalid trial is repeated at the end of its
    /// round. The last attempt counts.
    #[serde(default = "first_attempt")]
    pub attempt: u32,
    /// Number of the round, from 0.
    pub round: u32,
    /// Label of the transport.
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Start, in nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// Seed of this trial's path and data.
    pub seed: u64,
    /// Outcome of the trial.
    pub outcome: Outcome,
    /// Reasons for every outcome but `measured`: the causes, outermost first.
    pub reasons: Vec<Text>,
    /// Hint on what to type next; empty if nothing can be done or nothing is wrong.
    pub hint: Text,
    /// Measurements of both ends and of the path.
    #[serde(flatten)]
    pub measurements: Measurements,
}

impl TrialRecord {
    /// Whether the trial was stopped by its deadline and is measured on what was delivered by then.
    #[must_use]
    pub fn reached_deadline(&self) -> bool {
        let mut warnings = self.measurements.warnings.iter();
        warnings.any(|it| it.code == warning_code::DEADLINE_REACHED)
    }

    /// Returns the value of a metric as it is shown and compared: that of the measurement, but for the transfer time of a
    /// transfer by size that the deadline stopped the time of the whole, at the rate until then. Until then all take
    /// equally long, the slow and the fast.
    #[must_use]
    pub fn value(&self, metric: &str, work: &WorkloadKind) -> Option<f64> {
        let get = |name: &str| self.measurements.metrics.get(name).copied();
        let value = get(metric)?;
        if metric != id::TRANSFER_TIME_NS || !self.reached_deadline() {
            return Some(value);
        }
        let facts = &self.measurements.facts;
        let sends_once = facts.get("retransmission").map(Text::as_str) == Some("none");
        // What is lost is not sent again, and an end that abandons its transfer has done with what it has handed over.
        let done = match sends_once || work.abandons() {
            true => get(id::BYTES_SENT),
            false => get(id::BYTES_DELIVERED),
        };
        let parts = (work.whole_bytes())
            .zip(done)
            .map(|(whole, done)| whole as f64 / done);
        Some(value * parts.unwrap_or(1.0).max(1.0))
    }

    /// Whether the trial did all of its work: it was measured, its deadline did not stop it, and
    /// everything that was sent arrived and was answered.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let metric = |name: &str| self.measurements.metrics.get(name).copied();
        let is_zero = |name| metric(name).is_none_or(|count| count == 0.0);
        let nothing_missing = is_zero(id::MESSAGES_LOST)
            && is_zero(id::MESSAGES_CORRUPTED)
            && is_zero(id::REQUESTS_UNANSWERED)
            && is_zero(id::CONNECTIONS_FAILED);
        let bytes = metric(id::BYTES_SENT).zip(metric(id::BYTES_DELIVERED));
        let all_delivered = bytes.is_none_or(|(sent, delivered)| delivered >= sent);
        self.outcome == Outcome::Measured
            && !self.reached_deadline()
            && nothing_missing
            && all_delivered
    }
}

fn first_attempt() -> u32 {
    1
}
