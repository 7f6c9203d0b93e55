//! Names of host samples, with units and definitions.

use crate::{
    Unit,
    named::{Named as _, named},
};

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

named!(Group:
    "sample" => Sample, "cpu" => Cpu, "load" => Load, "memory" => Memory, "interface" => Interface,
    "ip" => Ip, "tcp" => Tcp, "udp" => Udp, "sctp" => Sctp);

impl Group {
    /// Returns the first part of the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.as_str()
    }

    /// Whether names of the group have a member as their middle part.
    #[must_use]
    pub const fn has_members(self) -> bool {
        matches!(self, Self::Cpu | Self::Interface)
    }
}

/// Name of the time since the previous sample, which every sample has.
pub const ELAPSED: &str = "sample.elapsed_ns";

/// Defines the quantities, one entry each: group, name, unit, kind, definition.
macro_rules! quantities {
    ($($group:ident $name:literal [$unit:ident, $kind:ident] $definition:literal;)*) => {
        &[$(HostQuantity {
            group: Group::$group,
            name: $name,
            unit: Unit::$unit,
            kind: Kind::$kind,
            definition: $definition,
        }),*]
    };
}

/// Every quantity of host samples, in the order of their names in a sample.
pub const QUANTITIES: &[HostQuantity] = quantities! {
    Sample "elapsed_ns" [Nanoseconds, State] "time since the previous sample, which counts and shares of time are of";
    Cpu "busy_ratio" [Ratio, Share]
        "share of the time in which the core was not idle, waiting for I/O, or taken by a hypervisor; measured by the clock, in steps of mostly 10 ms";
    Cpu "user_ratio" [Ratio, Share] "share of the time in user mode, by samples of the timer tick";
    Cpu "system_ratio" [Ratio, Share]
        "share of the time in the kernel and in hardware interrupts, by samples of the timer tick";
    Cpu "softirq_ratio" [Ratio, Share] "share of the time in softirq, by samples of the timer tick";
    Cpu "iowait_ratio" [Ratio, Share] "share of the time idle with I/O outstanding";
    Cpu "steal_ratio" [Ratio, Share] "share of the time that a hypervisor gave to other machines";
    Cpu "idle_ratio" [Ratio, Share] "share of the time idle";
    Load "average_1min" [Count, State] "load average over one minute";
    Load "runnable_tasks" [Count, State] "tasks that run or wait for a core";
    Memory "total_bytes" [Bytes, State] "memory of the host";
    Memory "available_bytes" [Bytes, State] "memory that programs can get without swapping";
    Memory "swap_used_bytes" [Bytes, State] "swap space in use";
    Interface "received_bytes" [Bytes, Count] "bytes received";
    Interface "received_packets" [Count, Count] "packets received";
    Interface "receive_errors" [Count, Count] "errors of reception";
    Interface "receive_drops" [Count, Count] "received packets that were dropped";
    Interface "sent_bytes" [Bytes, Count] "bytes sent";
    Interface "sent_packets" [Count, Count] "packets sent";
    Interface "send_errors" [Count, Count] "errors of transmission";
    Interface "send_drops" [Count, Count] "packets to send that were dropped";
    Interface "collisions" [Count, Count] "collisions";
    Interface "offload_rx_checksum" [Count, State] "whether the offload is on: 1 or 0";
    Interface "offload_tx_checksum" [Count, State] "whether the offload is on: 1 or 0";
    Interface "offload_scatter_gather" [Count, State] "whether the offload is on: 1 or 0";
    Interface "offload_tso" [Count, State] "whether the offload is on: 1 or 0";
    Interface "offload_gso" [Count, State] "whether the offload is on: 1 or 0";
    Interface "offload_gro" [Count, State] "whether the offload is on: 1 or 0";
    Ip "received_packets" [Count, Count] "packets received";
    Ip "receive_header_errors" [Count, Count] "received packets with errors in their header";
    Ip "receive_discards" [Count, Count]
        "received packets dropped though they were sound, such as for lack of memory";
    Ip "send_discards" [Count, Count] "packets to send that were dropped, such as for lack of memory";
    Ip "reassembly_failures" [Count, Count] "packets that could not be put together from their fragments";
    Ip "received_ect0_packets" [Count, Count] "packets received with ECT(0)";
    Ip "received_ect1_packets" [Count, Count] "packets received with ECT(1)";
    Ip "received_ce_packets" [Count, Count] "packets received with a mark (congestion experienced)";
    Tcp "received_segments" [Count, Count] "segments received";
    Tcp "sent_segments" [Count, Count] "segments sent, those sent again left out";
    Tcp "retransmitted_segments" [Count, Count] "segments sent again";
    Tcp "receive_errors" [Count, Count] "received segments with errors, those of the checksum included";
    Tcp "checksum_errors" [Count, Count] "received segments with a wrong checksum";
    Tcp "retransmission_timeouts" [Count, Count] "timeouts of the retransmission timer";
    Tcp "backlog_drops" [Count, Count] "segments dropped because the socket's backlog was full";
    Tcp "receive_queue_drops" [Count, Count] "segments dropped because the socket's receive queue was full";
    Tcp "memory_pressures" [Count, Count] "times that the kernel's memory for TCP ran short (`net.ipv4.tcp_mem`)";
    Udp "received_datagrams" [Count, Count] "datagrams delivered to sockets";
    Udp "sent_datagrams" [Count, Count] "datagrams sent";
    Udp "receive_errors" [Count, Count]
        "received datagrams that were not delivered, full buffers and checksums included";
    Udp "receive_buffer_errors" [Count, Count] "datagrams dropped because the socket's receive buffer was full";
    Udp "send_buffer_errors" [Count, Count]
        "datagrams that could not be sent because the socket's send buffer was full";
    Udp "checksum_errors" [Count, Count] "received datagrams with a wrong checksum";
    Sctp "received_packets" [Count, Count] "packets received";
    Sctp "sent_packets" [Count, Count] "packets sent";
    Sctp "checksum_errors" [Count, Count] "received packets with a wrong checksum";
    Sctp "retransmitted_chunks" [Count, Count] "chunks sent again after a timeout (T3-rtx) or by fast retransmission";
    Sctp "receive_discards" [Count, Count] "received packets dropped";
};

/// Returns the definition of a sample's value by its name, and the member if its group has members.
#[must_use]
pub fn find(name: &str) -> Option<(&'static HostQuantity, Option<&str>)> {
    let (group, rest) = name.split_once('.')?;
    let group = Group::from_name(group)?;
    // The name of an interface may hold full stops, that of a quantity does not.
    let (member, last) = match rest.rsplit_once('.') {
        Some((member, last)) => (Some(member), last),
        None => (None, rest),
    };
    let quantity = QUANTITIES
        .iter()
        .find(|it| (it.group, it.name) == (group, last))?;
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
        assert_eq!((quantity.group, member), (Group::Tcp, None));
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
