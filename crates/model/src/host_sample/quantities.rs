//! Names of host samples, with units and definitions.

use crate::Unit;

/// Quantity of a host sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostQuantity {
    /// First part of the name.
    pub group: Group,
    /// Last part of the name. It ends in the unit, or is a count.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: Unit,
    /// Relation of a value to the time before the sample.
    pub kind: Kind,
    /// Definition, one sentence without a full stop.
    pub definition: &'static str,
}

/// First part of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The sample itself: `sample.elapsed_ns`.
    Sample,
    /// One processor core: `cpu.0.busy_ratio`.
    Cpu,
    /// Load of the scheduler: `load.average_1min`.
    Load,
    /// Memory: `memory.available_bytes`.
    Memory,
    /// One interface: `interface.eth0.received_bytes`. Its name may hold full stops.
    Interface,
    /// IP, version 4 and 6 together: `ip.received_discards`.
    Ip,
    /// TCP over both versions of IP: `tcp.retransmitted_segments`.
    Tcp,
    /// UDP over both versions of IP: `udp.receive_buffer_errors`.
    Udp,
    /// SCTP of the kernel: `sctp.checksum_errors`.
    Sctp,
}

/// Relation of a value to the time before its sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// State at the time of the sample.
    State,
    /// Share of the time since the previous sample.
    Share,
    /// Events or bytes since the previous sample.
    Count,
}

impl Group {
    /// Returns the first part of the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sample => "sample",
            Self::Cpu => "cpu",
            Self::Load => "load",
            Self::Memory => "memory",
            Self::Interface => "interface",
            Self::Ip => "ip",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }

    /// Whether names of the group have a member as their middle part.
    #[must_use]
    pub const fn has_members(self) -> bool {
        matches!(self, Self::Cpu | Self::Interface)
    }
}

/// Name of the time since the previous sample, which every sample has.
pub const ELAPSED: &str = "sample.elapsed_ns";

const fn quantity(
    group: Group,
    name: &'static str,
    unit: Unit,
    kind: Kind,
    definition: &'static str,
) -> HostQuantity {
    HostQuantity {
        group,
        name,
        unit,
        kind,
        definition,
    }
}

const fn count(group: Group, name: &'static str, definition: &'static str) -> HostQuantity {
    quantity(group, name, Unit::Count, Kind::Count, definition)
}

const fn bytes(group: Group, name: &'static str, definition: &'static str) -> HostQuantity {
    quantity(group, name, Unit::Bytes, Kind::Count, definition)
}

const fn core(name: &'static str, definition: &'static str) -> HostQuantity {
    quantity(Group::Cpu, name, Unit::Ratio, Kind::Share, definition)
}

const fn state(
    group: Group,
    name: &'static str,
    unit: Unit,
    definition: &'static str,
) -> HostQuantity {
    quantity(group, name, unit, Kind::State, definition)
}

const fn offload(name: &'static str) -> HostQuantity {
    state(
        Group::Interface,
        name,
        Unit::Count,
        "whether the offload is on: 1 or 0",
    )
}

use Group::{Interface, Ip, Load, Memory, Sample, Sctp, Tcp, Udp};

/// Every quantity of host samples, in the order of their names in a sample.
pub const QUANTITIES: &[HostQuantity] = &[
    quantity(
        Sample,
        "elapsed_ns",
        Unit::Nanoseconds,
        Kind::State,
        "time since the previous sample, which counts and shares of time are of",
    ),
    core(
        "busy_ratio",
        "share of the time in which the core was not idle, waiting for I/O, or taken by a hypervisor; measured by the clock, in steps of mostly 10 ms",
    ),
    core(
        "user_ratio",
        "share of the time in user mode, by samples of the timer tick",
    ),
    core(
        "system_ratio",
        "share of the time in the kernel and in hardware interrupts, by samples of the timer tick",
    ),
    core(
        "softirq_ratio",
        "share of the time in softirq, by samples of the timer tick",
    ),
    core(
        "iowait_ratio",
        "share of the time idle with I/O outstanding",
    ),
    core(
        "steal_ratio",
        "share of the time that a hypervisor gave to other machines",
    ),
    core("idle_ratio", "share of the time idle"),
    state(
        Load,
        "average_1min",
        Unit::Count,
        "load average over one minute",
    ),
    state(
        Load,
        "runnable_tasks",
        Unit::Count,
        "tasks that run or wait for a core",
    ),
    state(Memory, "total_bytes", Unit::Bytes, "memory of the host"),
    state(
        Memory,
        "available_bytes",
        Unit::Bytes,
        "memory that programs can get without swapping",
    ),
    state(Memory, "swap_used_bytes", Unit::Bytes, "swap space in use"),
    bytes(Interface, "received_bytes", "bytes received"),
    count(Interface, "received_packets", "packets received"),
    count(Interface, "receive_errors", "errors of reception"),
    count(
        Interface,
        "receive_drops",
        "received packets that were dropped",
    ),
    bytes(Interface, "sent_bytes", "bytes sent"),
    count(Interface, "sent_packets", "packets sent"),
    count(Interface, "send_errors", "errors of transmission"),
    count(Interface, "send_drops", "packets to send that were dropped"),
    count(Interface, "collisions", "collisions"),
    offload("offload_rx_checksum"),
    offload("offload_tx_checksum"),
    offload("offload_scatter_gather"),
    offload("offload_tso"),
    offload("offload_gso"),
    offload("offload_gro"),
    count(Ip, "received_packets", "packets received"),
    count(
        Ip,
        "receive_header_errors",
        "received packets with errors in their header",
    ),
    count(
        Ip,
        "receive_discards",
        "received packets dropped though they were sound, such as for lack of memory",
    ),
    count(
        Ip,
        "send_discards",
        "packets to send that were dropped, such as for lack of memory",
    ),
    count(
        Ip,
        "reassembly_failures",
        "packets that could not be put together from their fragments",
    ),
    count(Tcp, "received_segments", "segments received"),
    count(
        Tcp,
        "sent_segments",
        "segments sent, those sent again left out",
    ),
    count(Tcp, "retransmitted_segments", "segments sent again"),
    count(
        Tcp,
        "receive_errors",
        "received segments with errors, those of the checksum included",
    ),
    count(
        Tcp,
        "checksum_errors",
        "received segments with a wrong checksum",
    ),
    count(
        Tcp,
        "retransmission_timeouts",
        "timeouts of the retransmission timer",
    ),
    count(
        Tcp,
        "backlog_drops",
        "segments dropped because the socket's backlog was full",
    ),
    count(
        Tcp,
        "receive_queue_drops",
        "segments dropped because the socket's receive queue was full",
    ),
    count(Udp, "received_datagrams", "datagrams delivered to sockets"),
    count(Udp, "sent_datagrams", "datagrams sent"),
    count(
        Udp,
        "receive_errors",
        "received datagrams that were not delivered, full buffers and checksums included",
    ),
    count(
        Udp,
        "receive_buffer_errors",
        "datagrams dropped because the socket's receive buffer was full",
    ),
    count(
        Udp,
        "send_buffer_errors",
        "datagrams that could not be sent because the socket's send buffer was full",
    ),
    count(
        Udp,
        "checksum_errors",
        "received datagrams with a wrong checksum",
    ),
    count(Sctp, "received_packets", "packets received"),
    count(Sctp, "sent_packets", "packets sent"),
    count(
        Sctp,
        "checksum_errors",
        "received packets with a wrong checksum",
    ),
    count(
        Sctp,
        "retransmitted_chunks",
        "chunks sent again after a timeout (T3-rtx) or by fast retransmission",
    ),
    count(Sctp, "receive_discards", "received packets dropped"),
];

/// Returns the definition of a sample's value by its name, and the member if its group has members.
#[must_use]
pub fn find(name: &str) -> Option<(&'static HostQuantity, Option<&str>)> {
    let (group, rest) = name.split_once('.')?;
    let known = |rest: &str| {
        QUANTITIES
            .iter()
            .find(|quantity| quantity.group.name() == group && quantity.name == rest)
    };
    // The name of an interface may hold full stops, that of a quantity does not.
    let (member, last) = match rest.rsplit_once('.') {
        Some((member, last)) => (Some(member), last),
        None => (None, rest),
    };
    let quantity = known(last)?;
    (quantity.group.has_members() == member.is_some()).then_some((quantity, member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_with_its_member() {
        let (quantity, member) = find("interface.eth0.100.received_bytes").unwrap();
        assert_eq!(
            (quantity.unit, quantity.kind, member),
            (Unit::Bytes, Kind::Count, Some("eth0.100"))
        );
        let (quantity, member) = find("tcp.retransmitted_segments").unwrap();
        assert_eq!((quantity.group, member), (Tcp, None));
        assert!(find(ELAPSED).is_some());
    }

    #[test]
    fn a_name_of_another_form_is_not_found() {
        for name in [
            "",
            "tcp",
            "tcp.",
            "cpu.busy_ratio",
            "tcp.lo.sent_segments",
            "interface.received_bytes",
        ] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = QUANTITIES
            .iter()
            .map(|quantity| format!("{}.{}", quantity.group.name(), quantity.name))
            .collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
