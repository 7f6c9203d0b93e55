//! `udp-reliable`: reliable delivery over UDP datagrams, by stop-and-wait or a sliding window.
//!
//! - `frame` defines the datagrams, `sender` and `receiver` the two halves of a connection,
//!   `rtt` and `congestion` the timer and the window of the sender, `core` combines them: pure
//!   state machines, which `tests` runs over simulated paths.
//! - `connection` advances a core over a socket, `timer_thread` does so while no call does,
//!   `stream` and `endpoint` are the interface to the workloads.

mod congestion;
mod connection;
mod core;
mod endpoint;
mod frame;
mod receiver;
mod rtt;
mod sender;
mod stream;
#[cfg(test)]
mod tests;
mod timer;

use std::{collections::BTreeMap, time::Duration};

use regatta_control::TrialOrder;
use regatta_model::{Bytes, OptionValue, WorkloadKind, units::parse_duration};
use regatta_transport::{
    Carries, Driver, DriverDescriptor, OptionDefinition, OptionKind, Session, StreamSession,
    TransportError, TrialContext, Unsupported,
};

use self::{endpoint::Endpoint, frame::LARGEST_WINDOW, sender::Rules};
use crate::{batch::LONGEST_PAYLOAD, size_option};

/// Driver of reliable UDP: each message is a datagram that is acknowledged, and sent again if it is
/// not.
pub(crate) struct UdpReliable;

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "udp-reliable",
    title: "Reliable UDP",
    summary: "reliable delivery over UDP, one message a datagram: stop-and-wait as published, or a \
              sliding window with selective acknowledgement",
    carries: Carries::Streams,
    reliable: true,
    encrypted: false,
    multiplexes: false,
    congestion_control_choosable: true,
    capabilities: &["gso"],
    stack: "Regatta over UDP of the Linux kernel",
    stack_version: env!("CARGO_PKG_VERSION"),
    options: &[
        OptionDefinition {
            name: "window",
            kind: OptionKind::Number {
                least: 1,
                most: LARGEST_WINDOW as i64,
            },
            default: "1",
            help: "most messages under way; 1 is stop-and-wait",
        },
        OptionDefinition {
            name: "cc",
            kind: OptionKind::OneOf(&["cubic", "none"]),
            default: "cubic",
            help: "congestion control below a window of more than one message; `none` keeps the \
                   window full",
        },
        OptionDefinition {
            name: "max_wait",
            kind: OptionKind::Time,
            default: "1s",
            help: "wait for an acknowledgement before a message is sent again; for a larger window \
                   the longest, as it goes by the round-trip time",
        },
        OptionDefinition {
            name: "max_retransmits",
            kind: OptionKind::Number {
                least: 0,
                most: 1_000_000,
            },
            default: "15",
            help: "how often a message is sent again before the transfer fails",
        },
        OptionDefinition {
            name: "gso",
            kind: OptionKind::Flag,
            default: "true",
            help: "whether several messages that fit a packet each are handed to the kernel as \
                   one (UDP_SEGMENT, UDP_GRO), where it can",
        },
        OptionDefinition {
            name: "receive_buffer",
            kind: OptionKind::Size,
            default: "32MiB",
            help: "receive buffer of the socket; the kernel may give less, which is read back",
        },
        OptionDefinition {
            name: "send_buffer",
            kind: OptionKind::Size,
            default: "4MiB",
            help: "send buffer of the socket; the kernel may give less, which is read back",
        },
    ],
};

/// The options of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Settings {
    rules: Rules,
    gso: bool,
    receive_buffer: usize,
    send_buffer: usize,
}

impl Settings {
    /// Reads options that were checked.
    fn new(options: &BTreeMap<String, OptionValue>) -> Self {
        let number = |name: &str, default: i64| match options.get(name) {
            Some(OptionValue::Number(number)) => *number,
            _ => default,
        };
        let window = usize::try_from(number("window", 1)).unwrap_or(1);
        let cubic = options.get("cc") != Some(&OptionValue::Text("none".to_owned()));
        let max_wait = match options.get("max_wait") {
            Some(OptionValue::Text(text)) => parse_duration(text).ok(),
            _ => None,
        };
        Self {
            rules: Rules {
                window,
                max_wait: max_wait.unwrap_or(Duration::from_secs(1)),
                max_retransmits: u32::try_from(number("max_retransmits", 15)).unwrap_or(15),
                // One message at a time leaves nothing to control.
                cubic: cubic && window > 1,
            },
            gso: options.get("gso") != Some(&OptionValue::Flag(false)),
            receive_buffer: size_option(options, "receive_buffer", 32 << 20),
            send_buffer: size_option(options, "send_buffer", 4 << 20),
        }
    }
}

/// Returns the largest message of a workload, and whether it has to be one datagram: a message has
/// to, but the requests and responses of small exchanges may be cut.
fn largest_message(kind: &WorkloadKind) -> (Bytes, bool) {
    match kind {
        WorkloadKind::Bulk { size, message, .. }
        | WorkloadKind::StopAndWait { size, message, .. } => (*message.min(size), true),
        WorkloadKind::MultiStream { message, .. } => (*message, true),
        WorkloadKind::RequestResponse {
            request, response, ..
        }
        | WorkloadKind::ShortConnections {
            request, response, ..
        } => (*request.max(response), false),
    }
}

impl Driver for UdpReliable {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn supported(&self, _options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        // Every kernel has UDP; one without segmentation offload sends one by one and says so.
        Ok(())
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        self.check_options(&order.transport.options)?;
        let (message, is_datagram) = largest_message(&order.workload.kind);
        if is_datagram && message.0 > LONGEST_PAYLOAD as u64 {
            return Err(TransportError::Unsupported(Unsupported {
                reason: format!("a message of `{message}` is longer than a datagram carries"),
                hint: format!("choose a message of at most {LONGEST_PAYLOAD} B"),
            }));
        }
        let datagram = if is_datagram {
            usize::try_from(message.0).ok()
        } else {
            None
        };
        let settings = Settings::new(&order.transport.options);
        let endpoint = Endpoint::new(order, settings, datagram)?;
        Ok(Box::new(StreamSession::new(endpoint, order, context)?))
    }
}
