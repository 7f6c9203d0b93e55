//! Samples of a host over the time of a run: CPU by core, memory, interfaces, protocol counters.
//!
//! A sample has values for a list of names, which is sent and stored once for many samples. A name
//! is `group.name`, or `group.member.name` for groups with several members: `cpu.0.busy_ratio`,
//! `interface.eth0.received_bytes`, `tcp.retransmitted_segments`. [`QUANTITIES`] defines the names.
//! A quantity that the host's kernel does not provide has no name in the list, or no value in a
//! sample; it is never zero.

mod quantities;

use serde::{Deserialize, Serialize};

pub use quantities::{ELAPSED, Group, HostQuantity, Kind, QUANTITIES, find};

/// Samples of one host with the same names, in the order in which they were taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostSamples {
    /// Name of the host: `sender` or `receiver` in a run.
    pub host: String,
    /// Number of the record of the trial during which the samples were taken; absent between
    /// trials.
    pub trial: Option<u32>,
    /// Names of the values.
    pub names: Vec<String>,
    /// The samples.
    pub samples: Vec<HostSample>,
}

/// Values of one host at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostSample {
    /// Time by the host's clock, in nanoseconds since the Unix epoch.
    pub unix_ns: i64,
    /// Time by the host's monotonic clock, in nanoseconds.
    pub monotonic_ns: i64,
    /// Values in the order of the names; absent where there is none.
    ///
    /// Single precision: seven digits, and every count up to 16 777 216 exactly.
    pub values: Vec<Option<f32>>,
}

impl HostSamples {
    /// Returns the position of a name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }
}

/// Line on the standard input of `regatta host-monitor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorRequest {
    /// Time between samples from now on, in nanoseconds.
    pub interval_ns: u64,
    /// Number of the record of the trial that begins; absent if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<u32>,
}

/// Line on the standard output of `regatta host-monitor`: one sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MonitorLine {
    /// Names of the values of this and the following samples; absent if they are as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// Trial of the request during which the sample was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<u32>,
    /// The sample.
    #[serde(flatten)]
    pub sample: HostSample,
}
