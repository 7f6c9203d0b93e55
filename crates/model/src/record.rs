//! Records of one run: its header, its path checks, its trials.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    facts::{Facts, HostFacts},
    metric::{Unit, id},
    metric_values::MetricValues,
    name::Name,
    outcome::Outcome,
    shard::RunPart,
    study::Study,
    table::record,
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
    /// Text of the study file, or options of the command line in the form of a study. Options that changed a study are
    /// comments at its end.
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

record! {
    /// Configured and achieved value of one quantity of the path.
    ///
    /// Quantities are `round_trip_delay_mean_ns`, of a network as it is `round_trip_delay_p50_ns` (its median),
    /// `round_trip_delay_near_ratio`, `forward_loss_ratio`, `reverse_loss_ratio`, `forward_link_rate_bps`,
    /// `reverse_link_rate_bps`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct AskedAchieved {
        pub name: String = "name of the quantity, which ends in its unit";
        pub asked: f64 = "value of the study", nullable();
        pub achieved: f64 = "value that was measured", nullable();
        pub lowest: f64 = "smallest value that is accepted, or negative infinity", nullable();
        pub highest: f64 = "largest value that is accepted, or infinity", nullable();
        pub n: u64 = "number of packets or messages of the measurement", in_unit(Unit::Count);
        pub within: bool = "whether `achieved` is from `lowest` to `highest`";
    }
}

record! {
    /// Result of a bed's measurement of its own path under one condition.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct PathCheck {
        pub condition: String = "name of the condition";
        pub step_at_ns: u64 =
            "step of the condition's schedule that was checked, by its time in a trial; 0 is the beginning",
            in_unit(Unit::Nanoseconds);
        pub checked_unix_ns: i64 = "time of the check, since the Unix epoch", in_unit(Unit::Nanoseconds);
        pub within: bool = "whether every quantity was within its tolerance";
        /// The check is repeated: the machine did not let it measure.
        pub spoiled: Option<Text> = "reason why the check is void; absent if it is valid";
        /// Quantities of the path that were measured.
        pub quantities: Vec<AskedAchieved>;
    }
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

record! {
    /// A distribution, as an HDR histogram.
    ///
    /// Quantities are `round_trip_delay_idle_ns`, `round_trip_delay_ns`, `one_way_delay_ns`. The metrics of their
    /// statistics have the statistic in their names.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Histogram {
        pub side: String = "end that measured: `sender` or `receiver`";
        pub name: String = "name of the quantity, which ends in its unit";
        pub hdr_v2_base64: String = "HdrHistogram V2 encoding, not compressed, in base64";
    }
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

record! {
    /// Complete record of one trial.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct TrialRecord {
        pub index: u32 =
            "number of the attempt: of a first one the position in the plan from 0, of a repeated one that plus the number of trials in the plan for each earlier attempt",
            named("trial");
        /// An invalid trial is repeated at the end of its round, and the last attempt counts.
        pub attempt: u32 = "number of the attempt at this trial, from 1";
        pub round: u32 = "number of the round, from 0";
        pub transport: Name = "label of the transport";
        pub condition: Name = "name of the condition";
        pub workload: Name = "name of the workload";
        pub started_unix_ns: i64 = "start of the trial, since the Unix epoch", in_unit(Unit::Nanoseconds);
        pub seed: u64 = "seed of the path and of the data of the trial", decimal();
        pub outcome: Outcome = "`measured`, `unsupported`, `failed`, `timed_out` or `invalid`";
        /// Reasons for every outcome but `measured`: the causes, outermost first.
        pub reasons: Vec<Text>;
        pub hint: Text = "what to type next, or empty";
        /// Measurements of both ends and of the path.
        #[serde(flatten)]
        pub measurements: Measurements;
    }
}

impl TrialRecord {
    /// Whether the trial was stopped by its deadline and is measured on what was delivered by then.
    #[must_use]
    pub fn reached_deadline(&self) -> bool {
        let mut warnings = self.measurements.warnings.iter();
        warnings.any(|it| it.code == warning_code::DEADLINE_REACHED)
    }

    /// Returns the value of a metric as it is shown and compared: the measured one, with one exception. The transfer time of
    /// a transfer by size that the deadline stopped is the time that the whole would take at the rate until then: the
    /// measured one is the deadline, for slow and fast transports alike.
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
            && is_zero(id::STEPS_LOST)
            && is_zero(id::CONNECTIONS_FAILED);
        let bytes = metric(id::BYTES_SENT).zip(metric(id::BYTES_DELIVERED));
        let all_delivered = bytes.is_none_or(|(sent, delivered)| delivered >= sent);
        self.outcome == Outcome::Measured
            && !self.reached_deadline()
            && nothing_missing
            && all_delivered
    }
}
