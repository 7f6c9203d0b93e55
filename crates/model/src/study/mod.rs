//! Study: transports × conditions × workloads, rounds, seed, bed.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};

mod builtin;
mod capture;
mod cell_end;
mod claim;
mod competition;
mod curve;
mod draft;
mod emulator;
mod error;
mod file;
mod guest;
mod host_address;
mod hosts_file;
mod key;
mod keys;
mod message;
mod names;
mod overlay;
mod parts;
mod path;
mod rounds;
mod scale;
mod script;
mod section;
mod source;
mod steps;
mod sweep;
mod until;
mod value_key;
mod warnings;
mod work;
mod work_keys;

pub use crate::workload::workload_kinds;
pub use builtin::{BUILTIN, Builtin, DEFAULT, builtin};
pub use capture::CaptureSetup;
pub use cell_end::{CellEnd, CellTrials};
pub use claim::{Bounds, ClaimedCell, Relation, StudyClaim, Trend, TrendLine};
pub use curve::{Curve, Formula, FormulaInputs};
pub use emulator::{Emulator, LossBy, Offloads, PathSetup, Placement};
pub use error::StudyError;
pub use file::{StudyFile, is_host_name};
pub use guest::{Clock, GuestMistake, GuestSetup, Guests};
pub use host_address::HostAddress;
pub use hosts_file::{Attach, LOCAL, RemoteHost, Shaping};
pub use key::{KeyKind, PathKey};
pub use keys::{PATH_KEYS, Particular};
pub use message::{Message, MessagePart};
pub use names::nearest;
pub use overlay::Overlay;
pub use parts::LONGEST_NAME;
pub use rounds::ranking_metric;
pub use scale::Scaled;
pub use sweep::{Part, Spacing, Sweep, Sweeps, SweptEntry, SweptValue};
pub use until::Until;
pub use value_key::ValueKey;
pub use work_keys::{PROBE_KEYS, WORKLOAD_KEYS};

use crate::{
    condition::Condition,
    named::named,
    units::{Ratio, nanos, optional_nanos},
    workload::Workload,
};

/// Bed that a study runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BedKind {
    /// Two network namespaces on this machine.
    Netns,
    /// Two network namespaces in a guest, a User Mode Linux kernel over this machine's files.
    Uml,
    /// Two machines, reached by OpenSSH.
    Hosts,
}

named!(BedKind: "netns" => Netns, "uml" => Uml, "hosts" => Hosts);

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

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Driver with its options, under a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// Label, unique in the study.
    pub label: String,
    /// Name in the registry: `tcp`, `tcp-tls`, `udp`, `quic-quinn`, ….
    pub driver: String,
    /// Options by name. The driver checks names and values before the first trial.
    pub options: BTreeMap<String, OptionValue>,
}

/// Publication that a study reproduces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Citation: authors, title, journal.
    pub citation: String,
    /// Digital object identifier, if there is one.
    pub doi: Option<String>,
    /// Release of the kernel of the published hosts, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Operating system of the published hosts, from which `kernel` follows where the publication names no kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_of: Option<String>,
    /// Differences between the published method and this one, one sentence each.
    pub differences: Vec<String>,
}

/// Published figure for comparison with the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Label of the transport in this study, or the publication's name of a transport that this
    /// study does not run (then the figure stands alone).
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload; if absent, the first workload that has the metric.
    #[serde(default)]
    pub workload: Option<String>,
    /// Name in [`crate::metric::METRICS`].
    pub metric: String,
    /// Value in the metric's unit.
    pub value: f64,
    /// Note on the published figure's method, where that differs.
    pub note: Option<String>,
    /// Whether the published path permits the figure, if that is not to be computed from its packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_permits: Option<bool>,
}

impl Published {
    /// Whether the figure is to be compared with this workload.
    #[must_use]
    pub fn is_of_workload(&self, name: &str) -> bool {
        let workload = self.workload.as_deref();
        workload.is_none_or(|workload| workload == name)
    }
}

/// Study with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Short name: letters, digits, hyphens.
    pub name: String,
    /// Title of one line.
    pub title: String,
    /// Description of one paragraph; may be empty.
    pub description: String,
    /// Publication that the study reproduces, if there is one.
    pub source: Option<Source>,
    /// Number of runs of each cell; the maximum if `until` or `cell_end` is set.
    pub rounds: u32,
    /// Rule that ends the run before `rounds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Time from the beginning of a run with `until`, or of its resumption, after which no further round begins.
    #[serde(
        rename = "time_limit_ns",
        with = "optional_nanos",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub time_limit: Option<Duration>,
    /// Rule that ends a cell before `rounds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell_end: Option<CellEnd>,
    /// Metric by which transports are ranked with every workload; that of the workload's kind if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_by: Option<String>,
    /// Largest difference between two sides that count as the same, as a ratio less 1.
    #[serde(default = "Study::equivalence_default")]
    pub equivalence: Ratio,
    /// Time from the beginning of a round to that of the next, for a study that is a series; its rounds
    /// follow one another without it.
    #[serde(
        rename = "every_ns",
        with = "optional_nanos",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub every: Option<Duration>,
    /// Scaling from the whole study, of which this is a short form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<Scaled>,
    /// Seed of the order of trials, of the paths and of random data.
    pub seed: u64,
    /// Bed that the study runs in.
    pub bed: BedKind,
    /// Names of hosts a and b in the hosts file, for the bed `hosts`; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Guest settings, for a bed with guests.
    #[serde(default)]
    pub guest: GuestSetup,
    /// Settings of the path's emulation.
    pub path: PathSetup,
    /// Setting for the capture of every trial's packets; `None` without capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureSetup>,
    /// Longest duration of a transfer from the time when its connection can carry data; a transfer
    /// that reaches it is measured on what was delivered.
    #[serde(rename = "deadline_ns", with = "nanos")]
    pub deadline: Duration,
    /// Longest time for the establishment of a connection; a trial without one has timed out.
    #[serde(
        rename = "connect_deadline_ns",
        with = "nanos",
        default = "Study::connect_deadline_default"
    )]
    pub connect_deadline: Duration,
    /// Time between the samples of series.
    #[serde(rename = "sample_interval_ns", with = "nanos")]
    pub sample_interval: Duration,
    /// Transports: at least one, with different labels.
    pub transports: Vec<Transport>,
    /// Conditions: at least one, with different names.
    pub conditions: Vec<Condition>,
    /// Workloads: at least one, with different names.
    pub workloads: Vec<Workload>,
    /// Published figures.
    pub published: Vec<Published>,
    /// Statements that are checked against the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<StudyClaim>,
    /// Formulas whose lines are drawn beside the measured values of sweeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// Sweeps, and the transports, conditions and workloads that they made.
    #[serde(default, skip_serializing_if = "Sweeps::is_empty")]
    pub sweeps: Sweeps,
}

/// Whether a transport, which may be a copy of another one, has a cell with this workload.
fn has_cell(transport: &str, workload: &Workload, is_copy: impl FnOnce(&str) -> bool) -> bool {
    match &workload.competition {
        Some(competition) => competition.flow(transport).is_some(),
        None => {
            let chosen = &workload.transports;
            let is_chosen = chosen.is_empty() || chosen.iter().any(|it| it == transport);
            is_chosen && !is_copy(transport)
        }
    }
}

impl Study {
    /// Connect deadline of a study that names none: four of TCP's SYNs on a path of any delay below a
    /// second.
    pub const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

    const fn connect_deadline_default() -> Duration {
        Self::CONNECT_DEADLINE
    }

    /// Margin of a study that names none.
    pub const EQUIVALENCE: Ratio = Ratio(0.03);

    const fn equivalence_default() -> Ratio {
        Self::EQUIVALENCE
    }

    /// Returns the metric by which transports are ranked with this workload, and which the verdict is
    /// about.
    #[must_use]
    pub fn primary_metric<'a>(&'a self, workload: &Workload) -> &'a str {
        match &self.rank_by {
            Some(metric) => metric,
            None => workload.primary_metric(),
        }
    }

    /// Whether the study has the cells of this transport and workload: in a competition those of its flows, and alone those
    /// of each transport that is no copy for a further flow.
    #[must_use]
    pub fn has_cell(&self, transport: &str, workload: &Workload) -> bool {
        has_cell(transport, workload, |transport| self.is_copy(transport))
    }

    /// Whether the study has the cell of these names: transport, condition, workload.
    fn has(&self, [transport, condition, workload]: &ClaimedCell) -> bool {
        let mut works = self.workloads.iter();
        let work = works.find(|work| work.name == *workload);
        work.is_none_or(|work| self.has_cell(transport, work) && work.is_under(condition))
    }

    /// Whether a transport is a copy of another one for a further flow in competitions.
    #[must_use]
    pub fn is_copy(&self, transport: &str) -> bool {
        self.copies().any(|copy| copy == transport)
    }

    /// Iterates over the transports that are copies of others for further flows.
    fn copies(&self) -> impl Iterator<Item = &str> {
        let competitions = self
            .workloads
            .iter()
            .filter_map(|it| it.competition.as_ref());
        let flows = competitions.flat_map(|it| &it.flows);
        let copies = flows.filter(|flow| flow.copy_of.is_some());
        copies.map(|flow| flow.transport.as_str())
    }

    /// Iterates over the transports that have cells with a workload, with their positions.
    pub fn transports_of<'a>(
        &'a self,
        workload: &'a Workload,
    ) -> impl Iterator<Item = (usize, &'a Transport)> {
        let copies: Vec<&str> = self.copies().collect();
        let transports = self.transports.iter().enumerate();
        transports.filter(move |(_, transport)| {
            has_cell(&transport.label, workload, |label| copies.contains(&label))
        })
    }

    /// Iterates over the workloads with which a transport has cells, and what it does in each.
    pub fn works_of<'a>(
        &'a self,
        transport: &'a str,
    ) -> impl Iterator<Item = (&'a Workload, &'a Workload)> {
        let works = self.workloads.iter();
        let works = works.filter(|work| self.has_cell(transport, work));
        works.map(|work| (work, work.of_transport(transport)))
    }

    /// Returns the number of cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        let of_workload = |work: &Workload| {
            let conditions = self.conditions.iter().filter(|it| work.is_under(&it.name));
            self.transports_of(work).count() * conditions.count()
        };
        self.workloads.iter().map(of_workload).sum()
    }

    /// Whether the number of trials is known only when the run has ended.
    #[must_use]
    pub fn may_end_early(&self) -> bool {
        self.until.is_some() || self.cell_end.is_some()
    }
}
