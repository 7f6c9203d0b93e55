//! The lines that an agent and an external program exchange: one JSON object each, over the
//! program's standard input and output. `docs/external-drivers.md` explains them to authors.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use regatta_model::Phrase;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::error::ProgramError;

/// Version of this contract. A change that an older program would misread raises it.
pub(crate) const CONTRACT_VERSION: u32 = 2;

/// Exit code of a program that does not support the request on this host.
pub(crate) const UNSUPPORTED_EXIT: i32 = 77;

/// Capability of a program that carries out one trial after another.
pub(crate) const REPEAT: &str = "repeat";

/// Capability of a program that can end without the receiver's acknowledgement.
pub(crate) const ABANDON: &str = "abandon";

/// Capability of a program that sends and answers the probe's messages.
pub(crate) const PROBE: &str = "probe";

/// Message of the agent to a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToProgram {
    /// Answer with a description, and end.
    Describe {
        /// [`CONTRACT_VERSION`].
        contract: u32,
    },
    /// Be the end that listens and receives.
    Listen(Box<Order>),
    /// Be the end that connects and sends.
    Connect(Box<Order>),
    /// To the connecting end of a trial with a probe, once both are ready: connect the probe to this port, have the
    /// messages before the transfer answered, and say `probed`.
    Probe {
        /// Port of the listening end.
        port: u16,
    },
    /// To the connecting end, once both are ready: connect to this port and send.
    Start {
        /// Port of the listening end.
        port: u16,
    },
    /// To the listening end at the deadline: report the bytes delivered by now.
    Stop,
    /// To a program with the capability [`REPEAT`]: end this trial, say `over`, and await the next request.
    End,
}

/// Parameters of a trial for one end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Order {
    /// [`CONTRACT_VERSION`].
    pub contract: u32,
    /// This end's address on the path.
    pub local: IpAddr,
    /// The other end's address; connections from any other are refused.
    pub peer: IpAddr,
    /// Lowest and highest port on which this end may listen; absent where any port will do.
    pub ports: Option<(u16, u16)>,
    /// Token of 16 random bytes, hexadecimal, with which the data begins.
    pub token: String,
    /// Workload: `bulk`, `stop-and-wait` or `request-response`.
    pub workload: &'static str,
    /// Bytes of all messages to the listening end.
    pub size_bytes: u64,
    /// Size of every message but the last, which may be shorter.
    pub message_bytes: u64,
    /// File with one full-length message.
    pub message_file: PathBuf,
    /// Answers to the messages; absent in a bulk transfer.
    pub exchange: Option<Exchange>,
    /// Messages of the probe; absent where there is none.
    pub probe: Option<Probe>,
    /// End of the transfer: `agree`, or `abandon` if the program has that capability.
    pub finish: &'static str,
    /// Directory for files of the trial, which is kept with its results; absent without the option `keep`.
    pub files: Option<PathBuf>,
    /// Congestion control that the sender must use; absent where there is no choice.
    pub congestion_control: Option<String>,
    /// Maximum duration of the transfer from the time when its connection can carry data, in
    /// nanoseconds.
    pub deadline_ns: u64,
    /// Maximum duration of the connection's establishment, in nanoseconds.
    pub connect_deadline_ns: u64,
    /// Certificate and key, for programs that encrypt.
    pub tls: Tls,
    /// Properties of the path.
    pub path: Path,
}

/// Answers of an exchange: one to each message, in the same order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Exchange {
    /// Number of messages, and of answers.
    pub requests: u64,
    /// Size of each answer.
    pub answer_bytes: u64,
    /// File with one answer.
    pub answer_file: PathBuf,
    /// Maximum number of messages that may wait for their answers at once.
    pub outstanding: u64,
    /// Rate of the messages' schedule; absent where each leaves as soon as `outstanding` allows.
    pub requests_per_second: Option<f64>,
}

/// Probe over a connection of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Probe {
    /// Token with which the probe's connection begins, as the transfer's with its own.
    pub token: String,
    /// Size of a message.
    pub message_bytes: u64,
    /// Number of messages before the transfer, one after another.
    pub idle_messages: u32,
    /// Time between messages during the transfer, in nanoseconds; absent without such.
    pub interval_ns: Option<u64>,
}

/// The run's certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Tls {
    /// The certificate; the connecting end accepts this one and no other.
    pub certificate_file: PathBuf,
    /// Its key; only at the listening end.
    pub key_file: Option<PathBuf>,
    /// Name in the certificate.
    pub server_name: String,
}

/// Properties of the path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Path {
    /// Longest round-trip propagation delay that the path has during the trial, without jitter and queues, in
    /// nanoseconds.
    pub round_trip_delay_ns: u64,
    /// Rate of the bottleneck towards the receiver, in bits per second; unlimited if absent.
    pub link_rate_bps: Option<u64>,
    /// Flow-control window of one flow, in bytes, the same for all drivers; absent where the path
    /// has no rate.
    pub window_bytes: Option<u64>,
    /// Largest IP packet, in bytes.
    pub mtu_bytes: u32,
}

/// Message of a program to the agent.
#[derive(Debug, Clone, PartialEq, Deserialize, IntoStaticStr)]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(crate) enum FromProgram {
    /// Answer to `describe`.
    Description(Description),
    /// Ready; a listening end names its port.
    Ready {
        /// The port, at a listening end.
        port: Option<u16>,
    },
    /// The connection can carry data.
    Connected {
        /// Connecting end: `CLOCK_MONOTONIC` just before the connect call, in nanoseconds.
        started_ns: Option<i64>,
        /// `CLOCK_MONOTONIC` when data could be sent, or, at the listening end, when the token was right,
        /// in nanoseconds.
        at_ns: Option<i64>,
    },
    /// Progress: bytes handed to the transport, or delivered.
    Progress {
        /// Bytes since the beginning.
        bytes: u64,
    },
    /// Connecting end: messages that were answered since the line before, in the order of departure.
    Answers {
        /// Kind of the messages.
        to: AnswersTo,
        /// Departure of each, scheduled for `probe`, and arrival of its answer, on `CLOCK_MONOTONIC`.
        times_ns: Vec<[i64; 2]>,
    },
    /// Packets of the probe's connection that the stack of this end has sent again.
    ProbeRetransmitted {
        /// Packets since this end's `connected`.
        packets: u64,
    },
    /// Answer to `probe`: the probe's connection can carry data, and all its messages before the transfer are answered.
    Probed,
    /// This end is done.
    Done(Done),
    /// Answer to `end`: no process of the trial is left.
    Over,
}

impl FromProgram {
    /// Returns the error of a program that sent this message at the wrong time; `when` names the phase: `before it was
    /// ready`.
    pub(crate) fn unexpected(&self, when: Phrase) -> ProgramError {
        let message = self.into();
        ProgramError::UnexpectedMessage { message, when }
    }
}

/// Kind of messages that are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswersTo {
    /// Messages of the workload.
    Requests,
    /// Messages of the probe before the transfer.
    IdleProbe,
    /// Messages of the probe during the transfer.
    Probe,
}

/// Identity and capabilities of a program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// Version of the contract that the program implements.
    pub contract: u32,
    /// Name of the stack.
    pub name: String,
    /// The stack's version.
    pub version: String,
    /// Workloads that the program supports.
    pub workloads: Vec<String>,
    /// Further capabilities: `abandon`, `probe`, `repeat`.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

impl Description {
    /// Whether the program has this capability.
    pub(crate) fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|name| name == capability)
    }
}

/// Result of the transfer at one end.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Done {
    /// Receiver: bytes delivered. Sender: bytes that the receiver has acknowledged.
    pub bytes: u64,
    /// CRC-32 (IEEE 802.3, as zlib's) of all bytes delivered: at the receiver of all messages, at the sender of all answers.
    pub crc32: Option<u32>,
    /// `CLOCK_MONOTONIC` when the receiver's acknowledgement arrived, or, at the receiver, when all
    /// was delivered, in nanoseconds.
    pub at_ns: Option<i64>,
    /// Facts that the program read back.
    pub facts: Option<BTreeMap<String, String>>,
    /// Values that the stack reports, by name in `regatta_model::METRICS`.
    pub metrics: Option<BTreeMap<String, f64>>,
}
