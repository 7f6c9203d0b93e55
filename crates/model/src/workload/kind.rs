//! Kinds of work: what each is, its defaults, sizes, texts, and the metric by which it ranks transports.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Amount, Arrivals, BulkOptions, Direction, Finish, Handshake, Pattern, Spread,
    script::{Script, SentBy},
};
use crate::{
    metric::{DelayMetrics, id},
    phrase,
    template::{Argument, Phrase},
    units::{Bytes, format_duration, nanos},
};

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

/// Kinds of work with their defaults, in the order of help and documents; the first one is that of a workload without a kind.
pub(crate) const KINDS: [fn() -> WorkloadKind; 6] = [
    || WorkloadKind::Bulk {
        amount: Amount::default(),
        message: Bytes(10_000),
        pattern: Pattern::Data,
        options: BulkOptions::default(),
    },
    || WorkloadKind::StopAndWait {
        size: Bytes(10_000_000),
        message: Bytes(10_000),
        pattern: Pattern::Data,
        timeout: Duration::from_secs(1),
    },
    || WorkloadKind::RequestResponse {
        requests: 1000,
        request: Bytes(100),
        response: Bytes(1000),
        arrivals: Arrivals::Closed { outstanding: 1 },
    },
    || WorkloadKind::ShortConnections {
        connections: 20,
        handshake: Handshake::Full,
        request: Bytes(100),
        response: Bytes(1000),
    },
    || WorkloadKind::MultiStream {
        messages: 500,
        message: Bytes(10_000),
        messages_per_second: 100.0,
        streams: 8,
        spread: Spread::Streams,
    },
    || WorkloadKind::Script(Script::page_load()),
];

/// Returns the kinds of work, each with its defaults.
pub fn workload_kinds() -> impl Iterator<Item = WorkloadKind> {
    KINDS.iter().map(|default| default())
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

    /// Scales the volume of a trial; returns whether it changed.
    pub(crate) fn scale(&mut self, factor: f64, keeps_durations: bool) -> bool {
        let count = |of: &mut u64| {
            let scaled = ((*of as f64 * factor).round() as u64).max(1);
            std::mem::replace(of, scaled) != scaled
        };
        let bytes = |of: &mut Bytes, message: Bytes| {
            let scaled = ((of.0 as f64 * factor).round() as u64).max(message.0.min(of.0));
            std::mem::replace(&mut of.0, scaled) != scaled
        };
        match self {
            Self::Bulk {
                amount: Amount::Time(time),
                options,
                ..
            } => {
                if keeps_durations {
                    return false;
                }
                options.warm_up = options.warm_up.mul_f64(factor);
                *time = time.mul_f64(factor);
                true
            }
            Self::Bulk {
                amount: Amount::Bytes(size),
                message,
                ..
            }
            | Self::StopAndWait { size, message, .. } => bytes(size, *message),
            Self::RequestResponse { requests, .. } => count(requests),
            Self::MultiStream { messages, .. } => count(messages),
            Self::Script(script) => script.scale(factor),
            Self::ShortConnections { connections, .. } => {
                let mut number = u64::from(*connections);
                let changed = count(&mut number);
                *connections = number as u32;
                changed
            }
        }
    }
}
