//! What is sent in a trial.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, nanos};

/// What the bytes of a message are, after its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// The text `DATA` repeated.
    Data,
    /// Zero bytes.
    Zeros,
    /// Random bytes from the trial's seed.
    Random,
}

/// A small message that is sent and sent back, to measure the message round-trip delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// How many messages are sent one after another over an idle path before the transfer.
    pub idle_messages: u32,
    /// Whether messages are sent during the transfer as well.
    pub under_load: bool,
    /// Time between the scheduled departures under load. Delay is counted from the schedule, so
    /// that a message that had to wait for its turn counts its waiting.
    #[serde(rename = "interval_ns", with = "nanos")]
    pub interval: Duration,
    /// Size of a message.
    #[serde(rename = "message_bytes")]
    pub message: Bytes,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            idle_messages: 10,
            under_load: true,
            interval: Duration::from_millis(20),
            message: Bytes(64),
        }
    }
}

/// What a trial does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// One flow of messages from the connecting host to the listening one, as fast as the
    /// transport carries them.
    Bulk {
        /// All of it; the last message may be shorter.
        #[serde(rename = "size_bytes")]
        size: Bytes,
        /// Size of a message; of a write for transports that carry streams.
        #[serde(rename = "message_bytes")]
        message: Bytes,
        /// What the messages are filled with.
        pattern: Pattern,
    },
}

/// What is sent, under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Unique in the study.
    pub name: String,
    /// What a trial does.
    #[serde(flatten)]
    pub kind: WorkloadKind,
    /// How message round-trip delay is measured.
    pub probe: Probe,
}
