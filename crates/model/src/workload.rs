//! What is sent in a trial.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, format_duration, nanos, optional_nanos};

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
    /// White noise in a file on disk, made once and read during the transfer.
    File,
}

/// Who sends what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The connecting host.
    #[default]
    Forward,
    /// The listening host.
    Reverse,
    /// Both at once, each its own amount.
    Both,
}

impl Direction {
    /// As in a study file.
    pub const CHOICES: &[(&str, Self)] = &[
        ("forward", Self::Forward),
        ("reverse", Self::Reverse),
        ("both", Self::Both),
    ];
}

/// How a transfer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// When the receiver has acknowledged all.
    #[default]
    Agree,
    /// As soon as the sender has handed the last message to the transport, which it closes without
    /// waiting: what is under way then is lost. The method of some published experiments.
    Abandon,
}

impl Finish {
    /// As in a study file.
    pub const CHOICES: &[(&str, Self)] = &[("agree", Self::Agree), ("abandon", Self::Abandon)];
}

/// How closely what arrives is compared with what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// The header and both ends of each piece that arrives: cheap beside moving it.
    #[default]
    Ends,
    /// Every byte, and a digest of all of them is compared at both ends.
    Digest,
}

impl Verify {
    /// As in a study file.
    pub const CHOICES: &[(&str, Self)] = &[("ends", Self::Ends), ("digest", Self::Digest)];
}

/// Which handshake a connection makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Handshake {
    /// A full one.
    #[default]
    #[serde(rename = "full")]
    Full,
    /// With a ticket of an earlier connection (RFC 8446, 2.2).
    #[serde(rename = "resumed")]
    Resumed,
    /// With a ticket, and the request in the first flight (RFC 8446, 2.3; RFC 9001, 4.6).
    #[serde(rename = "0-rtt")]
    EarlyData,
    /// A full one after the listening end had the address proved (RFC 9000, 8.1).
    #[serde(rename = "retry")]
    Retry,
}

impl Handshake {
    /// As in a study file.
    pub const CHOICES: &[(&str, Self)] = &[
        ("full", Self::Full),
        ("resumed", Self::Resumed),
        ("0-rtt", Self::EarlyData),
        ("retry", Self::Retry),
    ];
}

/// When requests leave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum Arrivals {
    /// At so many a second, whatever became of earlier ones; delay is counted from the schedule,
    /// so that waiting is not hidden.
    Open {
        /// Requests each second.
        requests_per_second: f64,
    },
    /// So many are under way at any time; each answer lets the next one leave.
    Closed {
        /// Requests under way.
        outstanding: u32,
    },
}

/// How independent messages are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Over the streams of one connection or association.
    Streams,
    /// Over connections with one stream each.
    Connections,
}

impl Spread {
    /// As in a study file.
    pub const CHOICES: &[(&str, Self)] = &[
        ("streams", Self::Streams),
        ("connections", Self::Connections),
    ];
}

/// What may be changed about a bulk transfer; the defaults are one flow from the connecting host,
/// all of it measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BulkOptions {
    /// Who sends.
    pub direction: Direction,
    /// Connections at once, each with an equal part of the size.
    pub flows: u32,
    /// Send for so long instead of a size.
    #[serde(rename = "duration_ns", with = "optional_nanos")]
    pub duration: Option<Duration>,
    /// Leave so much time from the beginning of the transfer out of goodput.
    #[serde(rename = "warm_up_ns", with = "nanos")]
    pub warm_up: Duration,
    /// How it ends.
    pub finish: Finish,
    /// How closely content is compared.
    pub verify: Verify,
}

impl Default for BulkOptions {
    fn default() -> Self {
        Self {
            direction: Direction::default(),
            flows: 1,
            duration: None,
            warm_up: Duration::ZERO,
            finish: Finish::default(),
            verify: Verify::default(),
        }
    }
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
    /// What the messages during the transfer travel on.
    #[serde(default)]
    pub placement: ProbePlacement,
}

/// What the probe messages during a transfer travel on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbePlacement {
    /// A connection of their own, over every transport: they share the path with the transfer, and no
    /// window of its connection.
    #[default]
    Connection,
    /// A stream of the transfer's connection, of a transport that multiplexes: they wait for its
    /// congestion window, too.
    Stream,
}

impl ProbePlacement {
    /// As in the fact `probe.placement`.
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
            idle_messages: 10,
            under_load: true,
            interval: Duration::from_millis(20),
            message: Bytes(64),
            placement: ProbePlacement::default(),
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
        /// What differs from one whole flow from the connecting host.
        #[serde(default)]
        options: BulkOptions,
    },
    /// Each message is acknowledged by the other end's application before the next one leaves.
    StopAndWait {
        /// All of it; the last message may be shorter.
        #[serde(rename = "size_bytes")]
        size: Bytes,
        /// Size of a message.
        #[serde(rename = "message_bytes")]
        message: Bytes,
        /// What the messages are filled with.
        pattern: Pattern,
        /// Over a transport that may lose messages: how long the acknowledgement is waited for
        /// before the message counts as lost and the next one leaves.
        #[serde(rename = "timeout_ns", with = "nanos")]
        timeout: Duration,
    },
    /// Small questions, each with its answer, over one connection.
    RequestResponse {
        /// How many.
        requests: u64,
        /// Size of a question.
        #[serde(rename = "request_bytes")]
        request: Bytes,
        /// Size of its answer.
        #[serde(rename = "response_bytes")]
        response: Bytes,
        /// When they leave.
        arrivals: Arrivals,
    },
    /// Connections one after another, each with one small exchange.
    ShortConnections {
        /// How many are measured.
        connections: u32,
        /// Which handshake they make.
        handshake: Handshake,
        /// Size of the question.
        #[serde(rename = "request_bytes")]
        request: Bytes,
        /// Size of its answer.
        #[serde(rename = "response_bytes")]
        response: Bytes,
    },
    /// Independent messages at a rate, spread over streams or connections; each one's delay from
    /// its scheduled departure to its whole arrival is measured, so that blocking by another's
    /// loss shows.
    MultiStream {
        /// How many.
        messages: u64,
        /// Size of a message.
        #[serde(rename = "message_bytes")]
        message: Bytes,
        /// Messages each second, over all streams.
        messages_per_second: f64,
        /// Message `i` takes stream `i` modulo this.
        streams: u32,
        /// Streams of one connection, or as many connections.
        spread: Spread,
    },
}

impl WorkloadKind {
    /// Whether the sender closes without waiting for delivery ([`Finish::Abandon`]), so that what is
    /// under way then is lost whatever the transport does.
    #[must_use]
    pub fn abandons(&self) -> bool {
        matches!(self, Self::Bulk { options, .. } if options.finish == Finish::Abandon)
    }

    /// As in a study file.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bulk { .. } => "bulk",
            Self::StopAndWait { .. } => "stop-and-wait",
            Self::RequestResponse { .. } => "request-response",
            Self::ShortConnections { .. } => "short-connections",
            Self::MultiStream { .. } => "multi-stream",
        }
    }

    /// What of it takes at least as long as the deadline, which would always cut it short: its key
    /// in a study file, and the time.
    #[must_use]
    pub fn part_not_within(&self, deadline: Duration) -> Option<(&'static str, Duration)> {
        let Self::Bulk { options, .. } = self else {
            return None;
        };
        let whole = options.duration.map(|duration| ("duration", duration));
        [whole, Some(("warm_up", options.warm_up))]
            .into_iter()
            .flatten()
            .find(|(_, part)| *part >= deadline)
    }

    /// What a trial does, in words: `10 MB in messages of 10 kB`.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Bulk {
                size,
                message,
                options,
                ..
            } => {
                let mut words = match options.duration {
                    Some(duration) => {
                        format!("{} of messages of {message}", format_duration(duration))
                    }
                    None => format!("{size} in messages of {message}"),
                };
                match options.direction {
                    Direction::Forward => {}
                    Direction::Reverse => words.push_str(", to the connecting host"),
                    Direction::Both => words.push_str(", each way"),
                }
                if options.flows > 1 {
                    words.push_str(&format!(", over {} flows", options.flows));
                }
                if !options.warm_up.is_zero() {
                    words.push_str(&format!(
                        ", without the first {}",
                        format_duration(options.warm_up)
                    ));
                }
                if options.finish == Finish::Abandon {
                    words.push_str(", closed without waiting for delivery");
                }
                words
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
                };
                format!(
                    "{messages} messages of {message}, {messages_per_second} a second, over {streams} {over}"
                )
            }
        }
    }

    /// Who sends.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        match self {
            Self::Bulk { options, .. } => options.direction,
            _ => Direction::Forward,
        }
    }

    /// Whether delivered bits over time tell how well a transport did: it is not so where the rate
    /// is given or each exchange is small.
    #[must_use]
    pub const fn has_goodput(&self) -> bool {
        matches!(self, Self::Bulk { .. } | Self::StopAndWait { .. })
    }

    /// The metric that transports are ranked by when they do this work: what a verdict is about.
    #[must_use]
    pub const fn primary_metric(&self) -> &'static str {
        match self {
            Self::Bulk { .. } | Self::StopAndWait { .. } => "goodput_bps",
            // So many under way at any time: what is left to the transport is how many a second.
            Self::RequestResponse {
                arrivals: Arrivals::Closed { .. },
                ..
            } => "requests_per_second",
            // The rate is given: what is left to the transport is how late answers come.
            Self::RequestResponse {
                arrivals: Arrivals::Open { .. },
                ..
            }
            | Self::MultiStream { .. } => "message_delay_p95_ns",
            Self::ShortConnections { .. } => "time_to_completion_p50_ns",
        }
    }

    /// Which handshake its connections make.
    #[must_use]
    pub const fn handshake(&self) -> Handshake {
        match self {
            Self::ShortConnections { handshake, .. } => *handshake,
            _ => Handshake::Full,
        }
    }
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
