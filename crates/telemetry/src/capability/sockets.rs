//! Probes of the sockets of this network namespace.

use nix::sys::socket::{
    SetSockOpt, setsockopt,
    sockopt::{UdpGroSegment, UdpGsoSegment},
};
use socket2::{Domain, Protocol, Socket, Type};

use super::{Capability, module_hint};

/// Sets an option of a UDP socket.
fn udp<O: SetSockOpt>(option: O, value: &O::Val) -> std::io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    Ok(setsockopt(&socket, option, value)?)
}

pub(super) fn capabilities() -> Vec<Capability> {
    let mptcp_hint = match crate::facts::sysctl("net.mptcp.enabled") {
        Some(_) => "sysctl -w net.mptcp.enabled=1",
        None => "boot a kernel built with CONFIG_MPTCP=y",
    };
    let stream = |protocol| Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).map(drop);
    vec![
        Capability::tried(
            "sctp",
            "SCTP socket of the kernel",
            stream(Protocol::SCTP),
            module_hint("sctp", "CONFIG_IP_SCTP"),
        ),
        Capability::tried("mptcp", "MPTCP socket", stream(Protocol::MPTCP), mptcp_hint),
        Capability::tried(
            "udp_gso",
            "UDP_SEGMENT",
            udp(UdpGsoSegment, &1200),
            "use a kernel of 4.18 or newer",
        ),
        Capability::tried(
            "udp_gro",
            "UDP_GRO",
            udp(UdpGroSegment, &true),
            "use a kernel of 5.0 or newer",
        ),
    ]
}
