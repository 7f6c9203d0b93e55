//! Data types of Regatta: study, condition, workload, units, outcomes, metric names.
//!
//! This crate does no input or output: a study is parsed from text that the caller has read. Only the names of the
//! user's [`directories`] come from the environment. Every other crate may use this one; it uses none of them.

mod causes;
pub mod condition;
pub mod directories;
mod fact_value;
mod facts;
pub mod host_sample;
mod ip_protocol;
mod kernel;
pub mod loss_response;
pub mod metric;
mod metric_values;
mod name;
pub mod named;
pub mod outcome;
pub mod port_range;
mod problem;
pub mod record;
mod secret;
pub mod shard;
pub mod shell;
pub mod stack;
pub mod study;
pub mod table;
pub mod units;
pub mod warning;
pub mod workload;

pub use causes::causes;
pub use condition::{
    Condition, DelayDistribution, DeliveryTrace, GilbertElliott, HOST_SETTINGS, HostSetting,
    HostTuning, HostValue, Impairment, Link, QueueDiscipline, RateOf, RedThresholds,
    SHIPPED_TRACES, Setting, ShippedTrace, Step, SysctlSetting, Tuning, differing_sysctls,
};
pub use facts::{Facts, HostFacts};
pub use host_sample::{HostSample, HostSamples};
pub use ip_protocol::IpProtocol;
pub use kernel::{KERNEL_DEFAULTS, KernelDefault, KernelVersion};
pub use metric::{Better, Fate, METRICS, MetricDefinition, PacketCounter, PacketCounters, Unit};
pub use metric_values::MetricValues;
pub use name::Name;
pub use named::Named;
pub use outcome::Outcome;
pub use port_range::PortRange;
pub use problem::{Problem, ProblemKind, reasons};
pub use record::{
    AskedAchieved, HOST_NAME, Histogram, Measurements, PathCheck, RunHeader, Series, TrialRecord,
};
pub use secret::is_same_secret;
pub use shard::{RunPart, Shard, ShardError};
pub use stack::{STACK_FACTS, StackFact, StackFacts};
pub use study::{
    BedKind, CaptureSetup, CellEnd, CellTrials, Clock, Curve, Emulator, Formula, FormulaInputs,
    GuestSetup, Guests, LossBy, Offloads, OptionValue, Part, PathSetup, Placement, Published,
    Source, Spacing, Study, Sweep, Sweeps, SweptEntry, SweptValue, Transport, Until,
};
pub use units::{BitRate, Bytes, QueueSize, Ratio, UnitError};
pub use warning::{
    Argument, Phrase, Text, Warning, code as warning_code, fact, phrase, reason, template,
};
pub use workload::{
    Amount, Arrivals, BulkOptions, Direction, Finish, Handshake, Opening, Pattern, Probe,
    ProbePlacement, Spread, Verify, Workload, WorkloadKind,
    competition::{Competition, CompetitionFlow},
    script::{self, Script},
};
