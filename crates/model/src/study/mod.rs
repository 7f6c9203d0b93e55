//! A study: transports × conditions × workloads, rounds, seed, bed.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

mod builtin;
mod capture;
mod emulator;
mod encryption;
mod error;
mod file;
mod guest;
mod parts;
mod path;
mod section;
mod steps;
mod work;

pub use builtin::{BUILTIN, Builtin, DEFAULT, builtin};
pub use capture::CaptureSetup;
pub use emulator::{Emulator, LossBy, Offloads, PathSetup, Placement};
pub use error::StudyError;
pub use file::StudyFile;
pub use guest::{Clock, GuestMistake, GuestSetup, Guests};
pub use parts::LONGEST_NAME;
pub use path::change_condition;
pub use section::nearest;

use crate::{
    condition::Condition,
    units::{Ratio, nanos},
    workload::Workload,
};

/// Where a study runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BedKind {
    /// Two network namespaces on this machine.
    Netns,
    /// The same in a guest, a User Mode Linux kernel over this machine's files.
    Uml,
}

/// Value of a transport's option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A text; rates, sizes and times are texts with a unit.
    Text(String),
}

/// A driver with its options, under a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// Unique in the study.
    pub label: String,
    /// Name in the registry: `tcp`, `tcp-tls`, `udp`, `quic-quinn`, ….
    pub driver: String,
    /// The driver checks names and values before the first trial.
    pub options: BTreeMap<String, OptionValue>,
}

/// Where a study comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Authors, title, journal.
    pub citation: String,
    /// Digital object identifier, if there is one.
    pub doi: Option<String>,
    /// How the published method differs from ours, one sentence each.
    pub differences: Vec<String>,
}

/// One published figure, to stand beside the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Label of the transport in this study, or a name of the publication that this study does
    /// not run (then the figure stands alone).
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload; of the first one that has the metric, if absent.
    #[serde(default)]
    pub workload: Option<String>,
    /// Name in [`crate::metric::METRICS`].
    pub metric: String,
    /// In the metric's unit.
    pub value: f64,
    /// How the published figure was had, where that differs.
    pub note: Option<String>,
}

impl Published {
    /// Whether it belongs beside what was measured with this workload.
    #[must_use]
    pub fn is_of_workload(&self, name: &str) -> bool {
        self.workload
            .as_deref()
            .is_none_or(|workload| workload == name)
    }
}

/// A study with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Short name: letters, digits, hyphens.
    pub name: String,
    /// One line.
    pub title: String,
    /// A paragraph; may be empty.
    pub description: String,
    /// Where it comes from, if it was published.
    pub source: Option<Source>,
    /// How often every cell is run, at most if `until` is set.
    pub rounds: u32,
    /// Relative half-width of the intervals at which the run ends before `rounds`: see
    /// [`Study::LEAST_ROUNDS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Ratio>,
    /// Seed of the order of trials, of the paths and of random data.
    pub seed: u64,
    /// Where it runs.
    pub bed: BedKind,
    /// Clock and kernel of the guest where the bed is one.
    #[serde(default)]
    pub guest: GuestSetup,
    /// How the path between the hosts is made.
    pub path: PathSetup,
    /// Whether the packets of every trial are captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureSetup>,
    /// Longest that a transfer may take from the moment when its connection can carry data; one that
    /// reaches it is measured on what was delivered.
    #[serde(rename = "deadline_ns", with = "nanos")]
    pub deadline: Duration,
    /// Longest that a connection may take to be made; a trial without one has timed out.
    #[serde(
        rename = "connect_deadline_ns",
        with = "nanos",
        default = "Study::connect_deadline_default"
    )]
    pub connect_deadline: Duration,
    /// Time between the samples of series.
    #[serde(rename = "sample_interval_ns", with = "nanos")]
    pub sample_interval: Duration,
    /// At least one, with different labels.
    pub transports: Vec<Transport>,
    /// At least one, with different names.
    pub conditions: Vec<Condition>,
    /// At least one, with different names.
    pub workloads: Vec<Workload>,
    /// Published figures.
    pub published: Vec<Published>,
}

impl Study {
    /// Connect deadline of a study that names none: four of TCP's SYNs on a path of any delay below a
    /// second.
    pub const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

    const fn connect_deadline_default() -> Duration {
        Self::CONNECT_DEADLINE
    }
}
