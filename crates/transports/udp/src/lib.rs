//! UDP of the running kernel, with segmentation and receive offload and batched system calls: plain
//! (`udp`), and with reliable delivery on top (`udp-reliable`).

mod batch;
mod endpoint;
mod flow;
mod framing;
mod packets;
mod reliable;
mod sockets;

use regatta_control::TrialOrder;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, MessageSession, OptionDefinition, OptionKind, OptionValues,
    Result, Session, TrialContext,
    options::{self, DSCP},
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
    capabilities: &["gso", "pacing"],
    options: &[
        RATE,
        FRAME,
        GSO,
        BATCH,
        RECEIVE_BUFFER,
        SEND_BUFFER,
        DSCP.definition,
    ],
    ..DriverDescriptor::PLAIN
};

/// Rate of a flow.
const RATE: OptionDefinition = OptionDefinition {
    help: "rate of the messages' bytes, of each flow; as fast as the kernel accepts them if not set",
    ..options::RATE.definition
};

const FRAME: OptionDefinition = OptionDefinition {
    name: "frame",
    kind: OptionKind::OneOf(&["none", "conn"]),
    default: "none",
    help: "`conn` adds a header of 21 bytes to each message and opens with CONN and CONACC; the receiver ends with RCVD",
};

/// Segmentation and receive offload.
const GSO: OptionDefinition = OptionDefinition {
    help: "pass several messages that each fit into a packet to the kernel in one call (UDP_SEGMENT, UDP_GRO), if it \
           supports that",
    ..options::GSO.definition
};

/// Batched system calls.
const BATCH: OptionDefinition = options::flag(
    "batch",
    true,
    "pass several messages to the kernel, and take several from it, in one call (sendmmsg, recvmmsg); if `false`, one call \
     for each message, as a program with `sendto` and `recvfrom`",
);

/// Receive buffer of the socket.
const RECEIVE_BUFFER: OptionDefinition = OptionDefinition {
    default: "32MiB",
    help: "size of the socket's receive buffer, of which the kernel may grant less; read back as a fact",
    ..options::RECEIVE_BUFFER.definition
};

/// Send buffer of the socket.
const SEND_BUFFER: OptionDefinition = OptionDefinition {
    default: "4MiB",
    help: "size of the socket's send buffer, of which the kernel may grant less; read back as a fact",
    ..options::SEND_BUFFER.definition
};

/// Returns the size of a socket's buffer to ask the kernel for, in bytes: it doubles that, for its own bookkeeping. The
/// option has a default, which a kernel's defaults (`Tuning::Defaults`) leave unused.
fn buffer_bytes(option: &OptionDefinition, order: &TrialOrder) -> Option<usize> {
    let options = &order.transport.options;
    let holds = option.holds(options, order.path.tuning);
    holds.then(|| option.bytes(options).unwrap_or_default() / 2)
}

/// Whether several packets are passed to the kernel in one call: as the option says, and not by default under a kernel's
/// defaults.
fn uses_gso(order: &TrialOrder) -> bool {
    let options = &order.transport.options;
    GSO.flag(options) && GSO.holds(options, order.path.tuning)
}

impl Driver for Udp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn never_waits(&self, options: &OptionValues) -> bool {
        RATE.rate(options).is_none()
    }

    fn prepare(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn Session>> {
        self.check_options(&order.transport.options)?;
        let endpoint = Endpoint::new(order)?;
        Ok(Box::new(MessageSession::new(endpoint, order, context)?))
    }
}
