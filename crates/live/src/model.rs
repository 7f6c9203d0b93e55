//! State of a run under way, as all views show it.

use std::collections::BTreeMap;

use regatta_model::Unit;
use serde::{Deserialize, Serialize};

/// Number of goodput samples that a trial under way keeps: half a minute.
pub const HISTORY: usize = 120;

/// Maximum number of trials of a cell that have a value of their own: the last ones.
pub const VALUES: usize = 120;

/// Number of messages that are kept.
pub const MESSAGES: usize = 8;

/// State of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveRun {
    /// Part that changes with every report of the trial under way.
    pub now: RunStatus,
    /// Cells in the order of the study. They change when a trial ends.
    pub cells: Vec<LiveCell>,
}

/// Part of a run's state that is sent to a view as one message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// New value of [`LiveRun::now`].
    Now(RunStatus),
    /// New value of [`LiveRun::cells`].
    Cells(Vec<LiveCell>),
}

/// State of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunStatus {
    /// Name of the study.
    pub study: String,
    /// Title of the study, one line.
    pub title: String,
    /// Description of the bed and the path.
    pub bed: String,
    /// Version of Regatta that runs it.
    pub version: String,
    /// Directory of the results, as the user can name it.
    pub directory: String,
    /// Start of the run, in nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// Number of trials of the run.
    pub trials: u32,
    /// Number of trials done.
    pub done: u32,
    /// Number of rounds of the study.
    pub rounds: u32,
    /// Round under way, from 0.
    pub round: u32,
    /// Estimated end of the run, in nanoseconds since the Unix epoch; absent before the first trial has ended.
    pub ends_unix_ns: Option<i64>,
    /// Activity of the run.
    pub activity: Activity,
    /// Last messages, the newest last.
    pub messages: Vec<String>,
}

/// Activity of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// The bed and its path are made and checked, or a trial is prepared.
    #[default]
    Preparing,
    /// The next round of a series waits for its time.
    Waiting {
        /// Its time, in nanoseconds since the Unix epoch.
        until_unix_ns: i64,
    },
    /// A trial is under way.
    Trial(Box<LiveTrial>),
    /// Shards of the plan run, each in a process of its own.
    Shards(ShardCounts),
    /// The run has ended.
    Ended {
        /// Whether every trial of the plan is done.
        complete: bool,
        /// Reason of an interruption; empty if the run is complete.
        reason: String,
    },
}

/// Number of shards of a plan by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardCounts {
    /// All trials of the shard are done.
    pub complete: u32,
    /// A process runs the shard.
    pub running: u32,
    /// The shard is queued, or was not started.
    pub waiting: u32,
    /// The shard ended before all of its trials were done, and nothing will continue it.
    pub missing: u32,
}

impl ShardCounts {
    /// Returns the numbers with the name of each state, in the order in which they are shown.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u32); 4] {
        [
            ("complete", self.complete),
            ("running", self.running),
            ("waiting", self.waiting),
            ("missing", self.missing),
        ]
    }
}

impl std::fmt::Display for ShardCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: u32 = self.named().iter().map(|(_, count)| count).sum();
        let plural = if all == 1 { "" } else { "s" };
        write!(f, "{all} shard{plural}: ")?;
        for (position, (state, count)) in self.named().iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {state}")?;
        }
        Ok(())
    }
}

/// Trial under way. Values that the ends, their stacks or the path do not report are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveTrial {
    /// Label of the transport.
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Attempt at this trial, from 1.
    pub attempt: u32,
    /// Start, in nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// Time since the transfer began, in nanoseconds.
    pub elapsed_ns: Option<u64>,
    /// Bytes delivered to the receiving application, or to both.
    pub delivered_bytes: Option<u64>,
    /// Goodput since the report before, in bits per second.
    pub goodput_bps: Option<f64>,
    /// Congestion window of the sender.
    pub congestion_window_bytes: Option<u64>,
    /// Smoothed round-trip time of the sender.
    pub smoothed_rtt_ns: Option<u64>,
    /// Bytes that the sender has in flight.
    pub bytes_in_flight: Option<u64>,
    /// Packets that the sender has sent again.
    pub retransmitted_packets: Option<u64>,
    /// Packets that the path has dropped, forward and reverse.
    pub dropped: Option<[u64; 2]>,
    /// CPU time of the sender's process over the time since the report before; 1 is one core.
    pub cpu_sender_ratio: Option<f64>,
    /// CPU time of the receiver's process.
    pub cpu_receiver_ratio: Option<f64>,
    /// Goodput of the last reports, in bits per second, the newest last.
    pub goodput_history_bps: Vec<f64>,
}

/// Transport under a condition with a workload, with the results of the trials done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveCell {
    /// Label of the transport.
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of trials by the outcome of their last attempt.
    pub outcomes: BTreeMap<String, u64>,
    /// Metric by which the transports are ranked.
    pub metric: String,
    /// Title of the metric in tables.
    pub title: String,
    /// Unit of the metric.
    pub unit: Unit,
    /// Number of measured trials with the metric.
    pub n: u64,
    /// Geometric mean of the metric, as in the report.
    pub value: Option<f64>,
    /// 95 % confidence interval of the mean over the trials done.
    pub interval: Option<[f64; 2]>,
    /// Metric of the last measured trials, at most [`VALUES`], in the order of the rounds.
    #[serde(default)]
    pub values: Vec<f64>,
    /// Colour and mark of the transport in the report, as numbers.
    #[serde(default)]
    pub colour_and_mark: [usize; 2],
}

impl RunStatus {
    /// Returns the trial under way.
    #[must_use]
    pub fn trial(&self) -> Option<&LiveTrial> {
        match &self.activity {
            Activity::Trial(trial) => Some(trial),
            _ => None,
        }
    }
}

impl LiveCell {
    /// Whether a trial belongs to this cell.
    #[must_use]
    pub fn is_of(&self, transport: &str, condition: &str, workload: &str) -> bool {
        self.transport == transport && self.condition == condition && self.workload == workload
    }
}

impl LiveRun {
    /// Replaces a part of the state.
    pub fn update(&mut self, update: Update) {
        match update {
            Update::Now(now) => self.now = now,
            Update::Cells(cells) => self.cells = cells,
        }
    }
}
