//! UDP of the running kernel, with segmentation and receive offload and batched system calls: plain
//! (`udp`), and with reliable delivery on top (`udp-reliable`).

mod batch;
mod endpoint;
mod flow;
mod framing;
mod reliable;
mod sockets;

use std::collections::BTreeMap;

use regatta_control::TrialOrder;
use regatta_model::{BitRate, Bytes, OptionValue};
use regatta_transport::{
    Carries, Driver, DriverDescriptor, MessageSession, OptionDefinition, OptionKind, Session,
    TransportError, TrialContext, Unsupported,
};

use endpoint::Endpoint;

/// The drivers of this crate: `udp` and `udp-reliable`.
#[must_use]
pub fn drivers() -> &'static [&'static dyn Driver] {
    &[&Udp, &reliable::UdpReliable]
}

/// Driver of plain UDP: one message is one datagram, and a lost one is not sent again.
struct Udp;

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "udp",
    title: "UDP",
    summary: "UDP of the running kernel: one message is one datagram, nothing is sent again",
    carries: Carries::Messages,
    reliable: false,
    encrypted: false,
    multiplexes: false,
    congestion_control_choosable: false,
    capabilities: &["gso", "pacing"],
    stack: "Linux kernel",
    stack_version: "",
    options: &[
        OptionDefinition {
            name: "rate",
            kind: OptionKind::Rate,
            default: "",
            help: "rate at which messages leave, counting their bytes; as fast as the kernel \
                   takes them if absent",
        },
        OptionDefinition {
            name: "frame",
            kind: OptionKind::OneOf(&["none", "conn"]),
            default: "none",
            help: "`conn` puts a header before each message and opens with CONN and CONACC; the \
                   receiver ends with RCVD",
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

/// Returns a size in bytes among options that were checked.
fn size_option(options: &BTreeMap<String, OptionValue>, name: &str, default: usize) -> usize {
    match options.get(name) {
        Some(OptionValue::Text(text)) => text
            .parse::<Bytes>()
            .ok()
            .and_then(|size| usize::try_from(size.0).ok())
            .unwrap_or(default),
        _ => default,
    }
}

/// The options of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Settings {
    /// Payload rate in bits per second; unlimited if absent.
    rate: Option<u64>,
    framed: bool,
    gso: bool,
    receive_buffer: usize,
    send_buffer: usize,
}

impl Settings {
    /// Reads options that were checked.
    fn new(options: &BTreeMap<String, OptionValue>) -> Self {
        Self {
            rate: match options.get("rate") {
                Some(OptionValue::Text(text)) => text.parse::<BitRate>().ok().map(|rate| rate.0),
                _ => None,
            },
            framed: options.get("frame") == Some(&OptionValue::Text("conn".to_owned())),
            gso: options.get("gso") != Some(&OptionValue::Flag(false)),
            receive_buffer: size_option(options, "receive_buffer", 32 << 20),
            send_buffer: size_option(options, "send_buffer", 4 << 20),
        }
    }
}

impl Driver for Udp {
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
        let settings = Settings::new(&order.transport.options);
        let endpoint = Endpoint::new(order, settings)?;
        Ok(Box::new(MessageSession::new(endpoint, order, context)?))
    }
}
