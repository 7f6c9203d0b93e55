//! What one run leaves: its header, its path checks, its trials.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{outcome::Outcome, study::Study};

/// Facts about a host by name: kernel, CPU, governor, sysctls, offloads, versions of every stack.
///
/// Names are dotted (`kernel.release`, `cpu.model`, `sysctl.net.core.rmem_max`,
/// `offload.tun0.gso`, `version.quinn`), values are what the host said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostFacts(pub BTreeMap<String, String>);

/// What is known of a run before its first trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Identifier of this run, unique.
    pub run_id: String,
    /// Version of Regatta that made it.
    pub regatta_version: String,
    /// Start, in nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// The whole study, with every default filled in.
    pub study: Study,
    /// The study's text as the user wrote it, or the options of the command line as one.
    pub study_text: String,
    /// Which bed and path carried it, in words: `netns, user-space emulator`.
    pub bed: String,
    /// Facts by host: `sender`, `receiver`.
    pub hosts: BTreeMap<String, HostFacts>,
}

/// One quantity of the path: what was asked for and what was achieved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedAchieved {
    /// `round_trip_delay_ns` (mean), `round_trip_delay_near_ratio`, `forward_loss_ratio`,
    /// `reverse_loss_ratio`, `forward_link_rate_bps`, `reverse_link_rate_bps`.
    pub name: String,
    /// What the study asked for.
    pub asked: f64,
    /// What was measured.
    pub achieved: f64,
    /// Smallest value that is accepted.
    pub lowest: f64,
    /// Largest value that is accepted.
    pub highest: f64,
    /// Number of packets or messages behind the value.
    pub n: u64,
    /// Whether `achieved` lies between `lowest` and `highest`.
    pub within: bool,
}

/// What the bed found when it measured its own path under one condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathCheck {
    /// Name of the condition.
    pub condition: String,
    /// Step of the condition's schedule that was checked, by its moment in a trial; 0 is what the
    /// path begins as.
    #[serde(default)]
    pub step_at_ns: u64,
    /// When, in nanoseconds since the Unix epoch.
    pub checked_unix_ns: i64,
    /// Whether every quantity was within its tolerance.
    pub within: bool,
    /// Evidence that the machine did not let the check measure, whatever it found; such a check is
    /// repeated and decides nothing.
    #[serde(default)]
    pub spoiled: Option<String>,
    /// The quantities.
    pub quantities: Vec<AskedAchieved>,
}

/// A quantity sampled over time at one end, see [`crate::metric::SERIES`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in [`crate::metric::SERIES`].
    pub name: String,
    /// `sender`, `receiver` or `path`.
    pub side: String,
    /// Times in nanoseconds: in a stored trial since the first connect call, in what an agent
    /// sends on its own monotonic clock.
    pub t_ns: Vec<i64>,
    /// Values, one for each time.
    pub values: Vec<f64>,
}

/// A distribution, as an HDR histogram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// `round_trip_delay_idle_ns`, `round_trip_delay_ns`, `one_way_delay_ns`.
    pub name: String,
    /// `sender` or `receiver`.
    pub side: String,
    /// HdrHistogram V2 encoding (not compressed), base64.
    pub hdr_v2_base64: String,
}

/// Something that a reader must know before using a figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// Short name for machines: `deadline_reached`, `window_limited`, `path_out_of_tolerance`, ….
    pub code: String,
    /// One sentence, without a full stop.
    pub message: String,
    /// What to type or to change; empty if nothing can be done.
    pub hint: String,
}

/// One trial, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Number of the record, from 0; unique. That of a first attempt is the trial's position in the
    /// plan; each further attempt adds the number of trials in the plan.
    pub index: u32,
    /// Attempt at this trial, from 1: an invalid one is repeated at the end of its round. The last
    /// one counts.
    #[serde(default = "first_attempt")]
    pub attempt: u32,
    /// Round, from 0.
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
    /// How it ended.
    pub outcome: Outcome,
    /// Why, for every outcome but `measured`: the causes, outermost first.
    pub reasons: Vec<String>,
    /// What to type next; empty if nothing can be done or nothing is wrong.
    pub hint: String,
    /// Values by name in [`crate::metric::METRICS`]. What was not measured is absent.
    pub metrics: BTreeMap<String, f64>,
    /// Samples over time.
    pub series: Vec<Series>,
    /// Distributions.
    pub histograms: Vec<Histogram>,
    /// What was read back: `congestion_control.sender`, `tls.cipher_suite`, `probe.placement`,
    /// `gso.sender`, `acknowledgement`, ….
    pub facts: BTreeMap<String, String>,
    /// Flags of this trial.
    pub warnings: Vec<Warning>,
}

fn first_attempt() -> u32 {
    1
}
