//! The lines that an agent and an external program exchange: one JSON object each, over the
//! program's standard input and output. `docs/external-drivers.md` explains them to authors.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Version of this contract. A change that an older program would misread raises it.
pub(crate) const CONTRACT_VERSION: u32 = 1;

/// The exit code of a program that cannot do here what it was asked for.
pub(crate) const UNSUPPORTED_EXIT: i32 = 77;

/// What the agent says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToProgram {
    /// Say what you are, and end.
    Describe {
        /// [`CONTRACT_VERSION`].
        contract: u32,
    },
    /// Be the end that listens, which receives.
    Listen(Box<Order>),
    /// Be the end that connects, which sends.
    Connect(Box<Order>),
    /// To the connecting end, once both are ready: connect to this port and send.
    Start {
        /// Where the listening end listens.
        port: u16,
    },
    /// To the listening end at the deadline: say what was delivered by now.
    Stop,
}

/// All that an end needs to know of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Order {
    /// [`CONTRACT_VERSION`].
    pub contract: u32,
    /// This end's address on the path.
    pub local: IpAddr,
    /// The other end's; nothing else is let in.
    pub peer: IpAddr,
    /// 16 random bytes, hexadecimal, that the data opens with.
    pub token: String,
    /// What is done: `bulk`.
    pub workload: &'static str,
    /// All that is sent.
    pub size_bytes: u64,
    /// Size of every message but the last, which may be shorter.
    pub message_bytes: u64,
    /// A file with one whole message.
    pub message_file: PathBuf,
    /// How it ends: `agree`, or `abandon` if the program says that it can.
    pub finish: &'static str,
    /// Which congestion control the sender must use; absent where there is no choice.
    pub congestion_control: Option<String>,
    /// Longest that the transfer may take once its connection can carry data, in nanoseconds.
    pub deadline_ns: u64,
    /// Longest that the connection may take to be made, in nanoseconds.
    pub connect_deadline_ns: u64,
    /// For programs that encrypt.
    pub tls: Tls,
    /// What is known of the path.
    pub path: Path,
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

/// What is known of the path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Path {
    /// Round-trip propagation delay, in nanoseconds.
    pub round_trip_delay_ns: u64,
    /// Rate of the bottleneck towards the receiver, in bits per second; unlimited if absent.
    pub link_rate_bps: Option<u64>,
    /// Flow-control window of one flow, in bytes, the same for all drivers; absent where the path
    /// has no rate.
    pub window_bytes: Option<u64>,
    /// Largest IP packet, in bytes.
    pub mtu_bytes: u32,
}

/// What a program says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum FromProgram {
    /// Answer to `describe`.
    Description(Description),
    /// Ready: a listening end says where it listens.
    Ready {
        /// The port, at a listening end.
        #[serde(default)]
        port: Option<u16>,
    },
    /// The connection can carry data.
    Connected {
        /// Connecting end: `CLOCK_MONOTONIC` just before the connect call, in nanoseconds.
        #[serde(default)]
        started_ns: Option<i64>,
        /// `CLOCK_MONOTONIC` when data could be sent, or, at the listening end, when the token was right,
        /// in nanoseconds.
        #[serde(default)]
        at_ns: Option<i64>,
    },
    /// How far it is: bytes handed to the transport, or delivered.
    Progress {
        /// So many since the beginning.
        bytes: u64,
    },
    /// This end is done.
    Done(Done),
}

impl FromProgram {
    /// Its `type`.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Description(_) => "description",
            Self::Ready { .. } => "ready",
            Self::Connected { .. } => "connected",
            Self::Progress { .. } => "progress",
            Self::Done(_) => "done",
        }
    }
}

/// What a program is and what it can do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// The contract's version that it speaks.
    pub contract: u32,
    /// Name of the stack.
    pub name: String,
    /// The stack's version.
    pub version: String,
    /// What it can carry out.
    pub workloads: Vec<String>,
    /// What else it can do: `abandon`.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// What one end knows after the transfer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Done {
    /// Receiver: bytes delivered. Sender: bytes that the receiver has acknowledged.
    pub bytes: u64,
    /// Receiver: CRC-32 (IEEE 802.3, as zlib's) of all that was delivered.
    #[serde(default)]
    pub crc32: Option<u32>,
    /// `CLOCK_MONOTONIC` when the receiver's acknowledgement arrived, or, at the receiver, when all was
    /// delivered, in nanoseconds.
    #[serde(default)]
    pub at_ns: Option<i64>,
    /// What was read back.
    #[serde(default)]
    pub facts: Option<BTreeMap<String, String>>,
    /// Values that the stack tells, by name in `regatta_model::METRICS`.
    #[serde(default)]
    pub metrics: Option<BTreeMap<String, f64>>,
}
