//! UDP of the running kernel, with segmentation and receive offload and batched system calls: plain
//! (`udp`), and with reliable delivery on top (`udp-reliable`).

mod batch;
mod endpoint;
mod flow;
mod framing;
mod packets;
mod reliable;
mod sockets;

use std::collections::BTreeMap;

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, MessageSession, OptionDefinition, OptionKind, Session,
    TransportError, TrialContext,
    options::{self, DSCP, RATE},
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
    options: &[RATE, FRAME, GSO, RECEIVE_BUFFER, SEND_BUFFER, DSCP],
};

const FRAME: OptionDefinition = OptionDefinition {
    name: "frame",
    kind: OptionKind::OneOf(&["none", "conn"]),
    default: "none",
    help: "`conn` puts a header before each message and opens with CONN and CONACC; the \
           receiver ends with RCVD",
};

/// Segmentation and receive offload.
const GSO: OptionDefinition = OptionDefinition {
    help: "hand several messages that each fit a packet to the kernel at once (UDP_SEGMENT, \
           UDP_GRO), where it can do that",
    ..options::GSO
};

/// Receive buffer of the socket.
const RECEIVE_BUFFER: OptionDefinition = OptionDefinition {
    default: "32MiB",
    help: "receive buffer of the socket; the kernel may give less, which is read back",
    ..options::RECEIVE_BUFFER
};

/// Send buffer of the socket.
const SEND_BUFFER: OptionDefinition = OptionDefinition {
    default: "4MiB",
    help: "send buffer of the socket; the kernel may give less, which is read back",
    ..options::SEND_BUFFER
};

/// Returns a size in bytes; every option that is read so has a default.
fn bytes(option: &OptionDefinition, options: &BTreeMap<String, OptionValue>) -> usize {
    let size = option.size(options).unwrap_or_default();
    usize::try_from(size).unwrap_or(usize::MAX)
}

impl Driver for Udp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn never_waits(&self, options: &BTreeMap<String, OptionValue>) -> bool {
        RATE.rate(options).is_none()
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        self.check_options(&order.transport.options)?;
        let endpoint = Endpoint::new(order)?;
        Ok(Box::new(MessageSession::new(endpoint, order, context)?))
    }
}
