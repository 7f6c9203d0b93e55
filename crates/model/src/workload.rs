//! Workload of a trial.

pub mod competition;
pub mod script;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use competition::Competition;
use script::{Script, SentBy};

use crate::{
    metric::{DelayMetrics, id},
    named::named,
    phrase,
    template::{Argument, Phrase},
    units::{Bytes, format_duration, nanos},
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
    /// Returns what belongs to the links, forward and reverse, in the order of a transfer: that of the data's link first. Of
    /// both directions at once the forward one is first.
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
    /// Returns what [`Spread::Either`] is for a transport that has several streams on one connection, or has not.
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

/// Kind of work that a trial does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Messages as fast as the transport carries them: by default one flow from the connecting host to the listening one.
    Bulk {
        /// Bytes to send, or time to send for.
        #[serde(flatten)]
        amount: Amount,
        /// Size of a message; of a write for transports that carry streams.
        #[serde(rename = "message_bytes")]
        message: Bytes,
        /// Content of the messages.
        pattern: Pattern,
        /// Options that differ from one whole flow from the connecting host.
        #[serde(default)]
        options: BulkOptions,
    },
    /// Messages of which each is acknowledged by the other end's application before the next one is
    /// sent.
    StopAndWait {
        /// Total size; the last message may be shorter.
        #[serde(rename = "size_bytes")]
        size: Bytes,
        /// Size of a message.
        #[serde(rename = "message_bytes")]
        message: Bytes,
        /// Content of the messages.
        pattern: Pattern,
        /// Time to wait for the acknowledgement, over a transport that may lose messages, before
        /// the message counts as lost and the next one is sent.
        #[serde(rename = "timeout_ns", with = "nanos")]
        timeout: Duration,
    },
    /// Small requests, each with its answer, over one connection.
    RequestResponse {
        /// Number of requests.
        requests: u64,
        /// Size of a request.
        #[serde(rename = "request_bytes")]
        request: Bytes,
        /// Size of its answer.
        #[serde(rename = "response_bytes")]
        response: Bytes,
        /// Schedule of the requests.
        arrivals: Arrivals,
    },
    /// Connections one after another, each with one small exchange.
    ShortConnections {
        /// Number of connections that are measured.
        connections: u32,
        /// Kind of handshake that the connections make.
        handshake: Handshake,
        /// Size of the request.
        #[serde(rename = "request_bytes")]
        request: Bytes,
        /// Size of its answer.
        #[serde(rename = "response_bytes")]
        response: Bytes,
    },
    /// Independent messages at a rate, spread over streams or connections; the delay of each from
    /// its scheduled departure to its complete arrival is measured, so that blocking by the loss of
    /// another shows.
    MultiStream {
        /// Number of messages.
        messages: u64,
        /// Size of a message.
        #[serde(rename = "message_bytes")]
        message: Bytes,
        /// Messages per second, over all streams.
        messages_per_second: f64,
        /// Number of streams; message `i` uses stream `i` modulo this.
        streams: u32,
        /// Streams of one connection, or as many connections.
        spread: Spread,
    },
    /// Flows of steps that the study describes.
    Script(Script),
}

impl WorkloadKind {
    /// Whether the sender closes without waiting for delivery ([`Finish::Abandon`]), so that data
    /// under way is lost with any transport.
    #[must_use]
    pub fn abandons(&self) -> bool {
        matches!(self, Self::Bulk { options, .. } if options.finish == Finish::Abandon)
    }

    /// Returns the name in a study file.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bulk { .. } => "bulk",
            Self::StopAndWait { .. } => "stop-and-wait",
            Self::RequestResponse { .. } => "request-response",
            Self::ShortConnections { .. } => "short-connections",
            Self::MultiStream { .. } => "multi-stream",
            Self::Script(_) => "script",
        }
    }

    /// Returns the number of bytes that the workload transfers, in both directions together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bulk { amount, .. } => amount.bytes().0,
            Self::StopAndWait { size, .. } => size.0,
            Self::RequestResponse {
                requests,
                request,
                response,
                ..
            } => requests.saturating_mul(request.0.saturating_add(response.0)),
            Self::ShortConnections {
                connections,
                request,
                response,
                ..
            } => (*connections as u64).saturating_mul(request.0.saturating_add(response.0)),
            Self::MultiStream {
                messages, message, ..
            } => messages.saturating_mul(message.0),
            Self::Script(script) => script.volume().bytes(),
        }
    }

    /// Returns the size of the file of white noise that the sender reads, in bytes; `None` for other content.
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        match self {
            Self::Bulk {
                amount,
                message,
                pattern: Pattern::File,
                ..
            } => Some(match amount {
                Amount::Bytes(size) => size.0,
                // A whole message is read from one place of a file.
                Amount::Time(_) => amount.bytes().max(*message).0,
            }),
            _ => None,
        }
    }

    /// Returns the bytes of a transfer that ends when they are delivered, in both directions where both have them; `None` of
    /// one that ends otherwise.
    #[must_use]
    pub fn whole_bytes(&self) -> Option<u64> {
        match self {
            Self::Bulk {
                amount: Amount::Bytes(size),
                options,
                ..
            } => {
                let directions = 1 + u64::from(options.direction == Direction::Both);
                Some(size.0.saturating_mul(directions))
            }
            Self::StopAndWait { size, .. } => Some(size.0),
            Self::Script(_) => Some(self.bytes()),
            _ => None,
        }
    }

    /// Returns the largest message, and whether a transport of datagrams sends it as one: a message
    /// has to be one, but the requests and responses of small exchanges may be cut.
    #[must_use]
    pub fn largest_message(&self) -> (Bytes, bool) {
        match self {
            Self::Bulk {
                amount, message, ..
            } => ((*message).min(amount.bytes()), true),
            Self::StopAndWait { size, message, .. } => (*message.min(size), true),
            Self::MultiStream { message, .. } => (*message, true),
            Self::RequestResponse {
                request, response, ..
            }
            | Self::ShortConnections {
                request, response, ..
            } => (*request.max(response), false),
            Self::Script(script) => (script.largest_message(), false),
        }
    }

    /// Names a change of the options that makes the workload take less time.
    #[must_use]
    pub fn shorter(&self) -> Phrase {
        match self {
            Self::Bulk {
                amount: Amount::Time(_),
                ..
            } => phrase::shorter_duration(),
            Self::Bulk { .. } | Self::StopAndWait { .. } => phrase::smaller_size(),
            Self::RequestResponse { .. } => phrase::fewer(Argument::option("--requests")),
            Self::ShortConnections { .. } => phrase::fewer(Argument::option("--connections")),
            Self::MultiStream { .. } => phrase::fewer(Argument::option("--messages")),
            Self::Script(_) => phrase::shorter_script(),
        }
    }

    /// Returns a part of the work that takes at least as long as the deadline, which would always
    /// cut it short: its key in a study file, and its duration.
    #[must_use]
    pub fn part_not_within(&self, deadline: Duration) -> Option<(&'static str, Duration)> {
        let (amount, options) = match self {
            Self::Bulk {
                amount, options, ..
            } => (amount, options),
            Self::Script(script) => {
                return Some(("steps", script.least_time())).filter(|(_, time)| *time >= deadline);
            }
            _ => return None,
        };
        let duration = amount.time().map(|duration| ("duration", duration));
        let mut parts = duration.into_iter().chain([("warm_up", options.warm_up)]);
        parts.find(|(_, part)| *part >= deadline)
    }

    /// Describes the workload: `10 MB in messages of 10 kB`.
    #[must_use]
    pub fn description(&self) -> String {
        match self {
            Self::Bulk {
                amount,
                message,
                options,
                ..
            } => {
                let mut text = match amount {
                    Amount::Time(time) => {
                        format!("{} of messages of {message}", format_duration(*time))
                    }
                    Amount::Bytes(size) => format!("{size} in messages of {message}"),
                };
                text.push_str(match options.direction {
                    Direction::Forward => "",
                    Direction::Reverse => ", to the connecting host",
                    Direction::Both => ", each way",
                });
                if options.flows > 1 {
                    text.push_str(&format!(", over {} flows", options.flows));
                }
                if !options.warm_up.is_zero() {
                    let warm_up = format_duration(options.warm_up);
                    text.push_str(&format!(", without the first {warm_up}"));
                }
                if options.finish == Finish::Abandon {
                    text.push_str(", closed without waiting for delivery");
                }
                text
            }
            Self::StopAndWait { size, message, .. } => {
                format!("{size} in messages of {message}, each acknowledged before the next")
            }
            Self::RequestResponse {
                requests,
                request,
                response,
                arrivals,
            } => {
                let arrivals = match arrivals {
                    Arrivals::Open {
                        requests_per_second,
                    } => format!("{requests_per_second} a second"),
                    Arrivals::Closed { outstanding: 1 } => "one after another".to_owned(),
                    Arrivals::Closed { outstanding } => format!("{outstanding} under way"),
                };
                format!("{requests} requests of {request}, answers of {response}, {arrivals}")
            }
            Self::ShortConnections {
                connections,
                handshake,
                request,
                response,
            } => {
                let handshake = match handshake {
                    Handshake::Full => "full handshake",
                    Handshake::Resumed => "resumed",
                    Handshake::EarlyData => "0-RTT",
                    Handshake::Retry => "with Retry",
                };
                format!("{connections} connections, {handshake}, {request} for {response}")
            }
            Self::MultiStream {
                messages,
                message,
                messages_per_second,
                streams,
                spread,
            } => {
                let over = match spread {
                    Spread::Streams => "streams of one connection",
                    Spread::Connections => "connections",
                    Spread::Either => "streams or connections",
                };
                format!(
                    "{messages} messages of {message}, {messages_per_second} a second, over {streams} {over}"
                )
            }
            Self::Script(script) => script.description(),
        }
    }

    /// Returns the host that sends.
    #[must_use]
    pub fn direction(&self) -> Direction {
        match self {
            Self::Bulk { options, .. } => options.direction,
            Self::Script(script) => script.direction(),
            _ => Direction::Forward,
        }
    }

    /// Returns the host that sends most: of both directions with the same bytes the client.
    #[must_use]
    pub fn main_sender(&self) -> SentBy {
        let is_server = match self {
            Self::Script(script) => {
                let volume = script.volume();
                volume.from_server > volume.from_client
            }
            _ => self.direction() == Direction::Reverse,
        };
        if is_server {
            SentBy::Server
        } else {
            SentBy::Client
        }
    }

    /// Returns the directions in which payload is carried: of exchanges both.
    #[must_use]
    pub fn payload_direction(&self) -> Direction {
        match self {
            Self::RequestResponse { .. } | Self::ShortConnections { .. } => Direction::Both,
            Self::Bulk { .. }
            | Self::StopAndWait { .. }
            | Self::MultiStream { .. }
            | Self::Script(_) => self.direction(),
        }
    }

    /// Returns the number of streams that carry messages of one connection side by side; 0 for a workload that has
    /// one stream at a time.
    #[must_use]
    pub fn parallel_streams(&self) -> u32 {
        match self {
            Self::MultiStream { streams, .. } => *streams,
            Self::Script(script) if script.spread != Spread::Connections => script.flow_count(),
            _ => 0,
        }
    }

    /// Whether messages of the workload are what is measured, so that none are sent beside it to measure delay.
    #[must_use]
    pub fn measures_delay(&self) -> bool {
        match self {
            Self::ShortConnections { .. } | Self::MultiStream { .. } => true,
            Self::Script(script) => script.measures(),
            _ => false,
        }
    }

    /// Returns the time from the beginning of a transfer that its goodput leaves out.
    #[must_use]
    pub const fn warm_up(&self) -> Duration {
        match self {
            Self::Bulk { options, .. } => options.warm_up,
            _ => Duration::ZERO,
        }
    }

    /// Whether goodput ranks transports: it does not where the rate is given or each
    /// exchange is small.
    #[must_use]
    pub const fn has_goodput(&self) -> bool {
        matches!(self, Self::Bulk { .. } | Self::StopAndWait { .. })
    }

    /// Returns the families of metrics that are delays from one host to the other, which depend on the clocks of both.
    #[must_use]
    pub fn one_way_delays(&self) -> Vec<DelayMetrics> {
        let mut families = vec![DelayMetrics::ONE_WAY];
        if let Self::MultiStream { .. } = self {
            families.push(DelayMetrics::MESSAGE);
        }
        families
    }

    /// Returns the metric by which transports are ranked for this workload, and which the verdict
    /// is about.
    #[must_use]
    pub fn primary_metric(&self) -> &'static str {
        match self {
            Self::Bulk { .. } | Self::StopAndWait { .. } => id::GOODPUT_BPS,
            // The number of outstanding requests is fixed, so that transports differ in the rate.
            Self::RequestResponse {
                arrivals: Arrivals::Closed { .. },
                ..
            } => id::REQUESTS_PER_SECOND,
            // The rate is fixed, so that transports differ in the delay.
            Self::RequestResponse {
                arrivals: Arrivals::Open { .. },
                ..
            }
            | Self::MultiStream { .. } => id::MESSAGE_DELAY_P95_NS,
            Self::ShortConnections { .. } => id::TIME_TO_COMPLETION_P50_NS,
            Self::Script(script) => script.ranked_by(),
        }
    }

    /// Resolves settings that depend on the transport, such as [`Spread::Either`]; `multiplexes` is whether it has several
    /// streams on one connection.
    pub fn resolve(&mut self, multiplexes: bool) {
        match self {
            Self::MultiStream { spread, .. } => *spread = spread.of(multiplexes),
            Self::Script(script) => script.spread = script.spread.of(multiplexes),
            _ => {}
        }
    }

    /// Returns the kind of handshake that the connections make.
    #[must_use]
    pub const fn handshake(&self) -> Handshake {
        match self {
            Self::ShortConnections { handshake, .. } => *handshake,
            _ => Handshake::Full,
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
