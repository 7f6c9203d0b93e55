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
use regatta_model::{BitRate, Bytes, IpProtocol};
use regatta_transport::{
    Carries, ClientSession, Driver, DriverDescriptor, MessageSession, OptionValues, Result,
    ServerSession, TrialContext, driver_options,
    options::{Choice, DSCP, saturating_usize},
};
use strum::{EnumString, VariantNames};

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
    ip_protocol: Some(IpProtocol::Udp),
    summary: "UDP of the running kernel: one message is one datagram, nothing is sent again",
    carries: Carries::Messages,
    reliable: false,
    capabilities: &["gso", "pacing"],
    options: Options::DEFINITIONS,
    ..DriverDescriptor::PLAIN
};

driver_options! {
    /// Options of `udp`.
    #[derive(Debug, Clone)]
    pub(crate) struct Options {
        rate: Option<BitRate>,
            "rate of the messages' bytes, of each flow; as fast as the kernel accepts them if not set";
        frame: MessageFrame = "none",
            "`conn` adds a header of 21 bytes to each message and opens with CONN and CONACC; the receiver ends with \
             RCVD";
        gso: bool = true,
            "pass several messages that each fit into a packet to the kernel in one call (UDP_SEGMENT, UDP_GRO), if it \
             supports that";
        batch: bool = true,
            "pass several messages to the kernel, and take several from it, in one call (sendmmsg, recvmmsg); if \
             `false`, one call for each message, as a program with `sendto` and `recvfrom`";
        receive_buffer: Bytes = "32MiB",
            "size of the socket's receive buffer, of which the kernel may grant less; read back as a fact";
        send_buffer: Bytes = "4MiB",
            "size of the socket's send buffer, of which the kernel may grant less; read back as a fact";
        dscp: Option<u16> = DSCP;
    }
}

/// Frame around each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum MessageFrame {
    /// None: a datagram is a message.
    None,
    /// The header of a connection that begins with CONN and CONACC.
    Conn,
}

impl Choice for MessageFrame {
    const NAMES: &'static [&'static str] = Self::VARIANTS;
}

/// Returns the sizes of a socket's receive and send buffer to ask the kernel for, in bytes: it doubles them, for its own
/// bookkeeping. The options have defaults, which a kernel's defaults (`Tuning::Defaults`) leave unused.
fn buffer_bytes(order: &TrialOrder) -> [Option<usize>; 2] {
    let set = &order.transport.options;
    let options = Options::read(set);
    [
        (Options::receive_buffer, options.receive_buffer),
        (Options::send_buffer, options.send_buffer),
    ]
    .map(|(option, size)| {
        let holds = option.holds(set, order.path.tuning);
        holds.then(|| saturating_usize(size) / 2)
    })
}

/// Whether several packets are passed to the kernel in one call: as the option says, and not by default under a kernel's
/// defaults.
fn uses_gso(order: &TrialOrder) -> bool {
    let set = &order.transport.options;
    Options::read(set).gso && Options::gso.holds(set, order.path.tuning)
}

impl Driver for Udp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn never_waits(&self, options: &OptionValues) -> bool {
        Options::read(options).rate.is_none()
    }

    fn client(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ClientSession>> {
        self.check_options(&order.transport.options)?;
        let endpoint = Endpoint::client(order);
        Ok(MessageSession::new(endpoint, order, context)?)
    }

    fn server(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ServerSession>> {
        self.check_options(&order.transport.options)?;
        let endpoint = Endpoint::server(order)?;
        Ok(MessageSession::new(endpoint, order, context)?)
    }
}
