//! Workload of a trial.

pub mod competition;
mod kind;
pub mod script;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use competition::Competition;
pub(crate) use kind::KINDS;
pub use kind::{WorkloadKind, workload_kinds};

use crate::{
    named::named,
    units::{Bytes, nanos},
};

/// Content of a message after its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Text `DATA` repeated.
    Data,
    /// Zero bytes.
    Zeros,
    /// Random bytes from the trial's seed.
    Random,
    /// White noise in a file on disk, made once and read during the transfer.
    File,
}

named!(Pattern: "data" => Data, "zeros" => Zeros, "random" => Random, "file" => File);

/// Host whose sent data is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Connecting host.
    #[default]
    Forward,
    /// Listening host.
    Reverse,
    /// Both hosts at once, each with its own amount.
    Both,
}

named!(Direction: "forward" => Forward, "reverse" => Reverse, "both" => Both);

impl Direction {
    /// Orders a pair of values of the links, `[forward, reverse]`, as `[link of the data, link of the
    /// acknowledgements]`. With data in both directions the order stays.
    #[must_use]
    pub fn data_first<T>(self, [forward, reverse]: [T; 2]) -> [T; 2] {
        match self {
            Self::Forward | Self::Both => [forward, reverse],
            Self::Reverse => [reverse, forward],
        }
    }
}

/// Opening of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Opening {
    /// Data leaves together with the opening.
    #[default]
    WithData,
    /// Data leaves when the receiver has answered the opening, a round trip later: an opening exchange of the
    /// application. Over a transport of messages it is always so.
    Answered,
}

named!(Opening: "with-data" => WithData, "answered" => Answered);

/// Condition for the end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Finish {
    /// Acknowledgement of all data by the receiver.
    #[default]
    Agree,
    /// Handover of the last message to the transport, which the sender closes without waiting: data
    /// under way is lost. The method of some published experiments.
    Abandon,
}

named!(Finish: "agree" => Agree, "abandon" => Abandon);

/// Extent of the comparison of received with sent data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// Comparison of the header and both ends of each received piece: cheap beside moving the data.
    #[default]
    Ends,
    /// Comparison of every byte, and of a digest of all bytes at both ends.
    Digest,
    /// None: bytes are counted, and a stack that can discard them without a copy does so. Messages have no header.
    None,
}

named!(Verify: "ends" => Ends, "digest" => Digest, "none" => None);

/// Kind of handshake that a connection makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Handshake {
    /// Full handshake.
    #[default]
    Full,
    /// Resumption with a ticket of an earlier connection (RFC 8446, 2.2).
    Resumed,
    /// Resumption with the request in the first flight (RFC 8446, 2.3; RFC 9001, 4.6).
    EarlyData,
    /// Full handshake after the listening end validated the address (RFC 9000, 8.1).
    Retry,
}

named!(Handshake: "full" => Full, "resumed" => Resumed, "0-rtt" => EarlyData, "retry" => Retry);

/// Schedule of requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum Arrivals {
    /// Constant rate of requests, independent of earlier answers; delay is counted from the
    /// schedule, so that waiting is not hidden.
    Open {
        /// Requests per second.
        requests_per_second: f64,
    },
    /// Constant number of outstanding requests; each answer lets the next request leave.
    Closed {
        /// Number of outstanding requests.
        outstanding: u32,
    },
}

/// Distribution of independent messages over streams or connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Streams of one connection or association.
    Streams,
    /// Connections with one stream each.
    Connections,
    /// Streams where the transport has several on one connection, else connections: as a browser loads a page over HTTP/3
    /// and over HTTP/1.1.
    Either,
}

named!(Spread: "streams" => Streams, "connections" => Connections, "either" => Either);

impl Spread {
    /// Resolves [`Spread::Either`]: streams for a transport that `multiplexes` them on one connection, otherwise
    /// connections.
    #[must_use]
    pub const fn of(self, multiplexes: bool) -> Self {
        match (self, multiplexes) {
            (Self::Either, true) => Self::Streams,
            (Self::Either, false) => Self::Connections,
            (chosen, _) => chosen,
        }
    }
}

/// Amount of a bulk transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Amount {
    /// Size, of all flows of a direction together; the last message may be shorter.
    #[serde(rename = "size_bytes")]
    Bytes(Bytes),
    /// Time for which messages are sent, none of which is shorter than the others.
    #[serde(rename = "duration_ns", with = "nanos")]
    Time(Duration),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Bytes(Self::USUAL)
    }
}

impl Amount {
    /// Size where nothing names one.
    const USUAL: Bytes = Bytes(10_000_000);

    /// Returns the size; of a transfer for a time that of the content which it sends again and again.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::Bytes(size) => size,
            Self::Time(_) => Self::USUAL,
        }
    }

    /// Returns the time for which messages are sent; `None` of a size.
    #[must_use]
    pub const fn time(self) -> Option<Duration> {
        match self {
            Self::Bytes(_) => None,
            Self::Time(time) => Some(time),
        }
    }
}

impl From<Bytes> for Amount {
    fn from(size: Bytes) -> Self {
        Self::Bytes(size)
    }
}

/// Options of a bulk transfer; the defaults are one flow from the connecting host, all of it
/// measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BulkOptions {
    /// Host that sends.
    pub direction: Direction,
    /// Number of concurrent connections, each with an equal part of the size.
    pub flows: u32,
    /// Time from the beginning of the transfer that is left out of goodput.
    #[serde(rename = "warm_up_ns", with = "nanos")]
    pub warm_up: Duration,
    /// Opening of each flow.
    #[serde(default)]
    pub opening: Opening,
    /// Condition for the end of the transfer.
    pub finish: Finish,
    /// Extent of the comparison of content.
    pub verify: Verify,
}

impl Default for BulkOptions {
    fn default() -> Self {
        Self {
            direction: Direction::default(),
            flows: 1,
            warm_up: Duration::ZERO,
            opening: Opening::default(),
            finish: Finish::default(),
            verify: Verify::default(),
        }
    }
}

/// Small message that is sent and sent back, to measure the message round-trip delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Number of messages sent one after another over an idle path before the transfer.
    pub idle_messages: u32,
    /// Whether messages are sent during the transfer as well.
    pub under_load: bool,
    /// Time between the scheduled departures under load. Delay is counted from the schedule, so
    /// that it includes the time for which a message waits to be sent.
    #[serde(rename = "interval_ns", with = "nanos")]
    pub interval: Duration,
    /// Size of a message.
    #[serde(rename = "message_bytes")]
    pub message: Bytes,
    /// Placement of the messages during the transfer.
    #[serde(default)]
    pub placement: ProbePlacement,
}

/// Placement of the probe messages during a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProbePlacement {
    /// Connection of its own, with every transport: the messages share the path with the transfer,
    /// and no window of its connection.
    #[default]
    Connection,
    /// Stream of the transfer's connection, with a transport that multiplexes: the messages wait
    /// for its congestion window, too.
    Stream,
}

named!(ProbePlacement: "connection" => Connection, "stream" => Stream);

impl ProbePlacement {
    /// Returns the name in the fact `probe.placement`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "own connection",
            Self::Stream => "own stream",
        }
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            idle_messages: 8,
            under_load: true,
            interval: Duration::from_millis(20),
            message: Bytes(64),
            placement: ProbePlacement::default(),
        }
    }
}

/// Workload under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name, unique in the study.
    pub name: String,
    /// Kind of work.
    #[serde(flatten)]
    pub kind: WorkloadKind,
    /// Measurement of the message round-trip delay.
    pub probe: Probe,
    /// Labels of the transports that do it alone; all of the study if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transports: Vec<String>,
    /// Names of the conditions under which it is done; all of the study if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// Transports that do this work at once; each of the study does it alone if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competition: Option<Competition>,
}
