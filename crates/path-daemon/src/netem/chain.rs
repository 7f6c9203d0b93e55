//! Namespaces that the path is made of, and the interfaces in them that have each direction's
//! disciplines.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use regatta_model::{Emulator, Offloads, PathSetup, Placement};

use super::{
    failed,
    interface::Shaping,
    iptables::Rule,
    netlink::{Counted, LOOPBACK},
    qdisc::Interface,
    veth::Node,
};
use crate::{
    messages::End,
    {ADDRESSES, error::DaemonError, namespaces::Namespace, second, tun::MTU_RANGE},
};

/// Name of the interface in each host.
const HOST_INTERFACE: &str = "path0";

/// Name of the loopback device.
const LOOPBACK_NAME: &str = "lo";

/// Name of a router's interface towards host a.
const LEFT: &str = "left";

/// Name of a router's interface towards host b.
const RIGHT: &str = "right";

/// Routers between the hosts: a direction's queue, its rate, and its loss and delay each have an
/// interface of their own, in this order from the sender.
const ROUTERS: usize = 3;

/// Outgoing interfaces of one direction, from the sending host on.
#[derive(Clone)]
pub(super) struct DirectionInterfaces {
    /// The sending host's interface, then those of the routers.
    pub interfaces: Vec<Interface>,
    /// Rule by which iptables drops packets.
    pub rule: Rule,
}

impl DirectionInterfaces {
    /// Returns the interface that has loss and delay.
    pub(super) fn wire(&self) -> &Interface {
        &self.interfaces[self.interfaces.len() - 1]
    }

    /// Returns the interfaces of the queue and of the rate, if there are routers.
    pub(super) fn before_wire(&self) -> Option<[&Interface; 2]> {
        match &self.interfaces[..] {
            [_, queue, rate, _] => Some([queue, rate]),
            _ => None,
        }
    }

    /// Returns the packets that the sending host's interface has sent, and the drops of all interfaces.
    pub(super) fn counted(&self) -> Result<Counted, DaemonError> {
        let interfaces = self.interfaces.iter();
        let counted = interfaces.map(|it| it.netlink.counted(it.index));
        let all: Vec<Counted> = counted
            .collect::<Result<_, _>>()
            .map_err(failed("read an interface's counters"))?;
        Ok(Counted {
            sent_packets: all[0].sent_packets,
            sent_drops: all.iter().map(|it| it.sent_drops).sum(),
        })
    }
}

/// Returns the Ethernet address of a host's macvlan in a run: locally administered, of one interface.
fn ethernet(run: u64, index: usize) -> [u8; 6] {
    let [a, b, c, d, ..] = run.to_ne_bytes();
    [0x02, a, b, c, d, index as u8 + 1]
}

/// Hosts of a path, and the interfaces between them.
pub(in super::super) struct Chain {
    /// Namespaces of hosts a and b, or of the one on this machine.
    hosts: Vec<Arc<Namespace>>,
    /// Forward and reverse direction; a direction that starts at a host in another kernel is not
    /// here.
    pub(super) directions: [Option<DirectionInterfaces>; 2],
    /// Shaping of an interface of the host itself.
    pub(super) shaping: Option<Shaping>,
}

impl Chain {
    /// Creates both hosts, with the routers between them if netem is there. Without an emulator one virtual Ethernet
    /// joins the hosts, and no discipline is on it. The calling thread changes its namespace.
    pub(in super::super) fn lay(setup: PathSetup) -> Result<Self, DaemonError> {
        if setup.emulator == Emulator::Loopback {
            return Self::loopback(setup.offloads);
        }
        let is_plain = setup.emulator == Emulator::None;
        let at_ends = !is_plain && setup.placement == Placement::Ends;
        let routers = if is_plain || at_ends { 0 } else { ROUTERS };
        let nodes = (0..routers + 2)
            .map(|_| Node::create(setup.offloads))
            .collect::<Result<Vec<_>, _>>()?;
        let last = nodes.len() - 1;
        let mut rightward = Vec::new();
        let mut leftward = Vec::new();
        for node in 0..last {
            let (left, right) = (&nodes[node], &nodes[node + 1]);
            let left_name = if node == 0 { HOST_INTERFACE } else { RIGHT };
            let is_last = node + 1 == last;
            let right_name = if is_last { HOST_INTERFACE } else { LEFT };
            let [mut here, mut there] = left.join(left_name, right, right_name)?;
            if at_ends {
                (here, there) = (left.split(here)?, right.split(there)?);
            }
            rightward.push(here);
            leftward.push(there);
        }
        leftward.reverse();
        let [a, b] = ADDRESSES;
        for (direction, from, to) in [(&rightward, a, b), (&leftward, b, a)] {
            direction[0].address(from)?;
            for interface in &direction[1..] {
                interface.route(to)?;
            }
        }
        // The last router has the rule, or without routers the receiving host.
        let with_rule = |interfaces, host: usize, router: usize, from| {
            let rule = match routers {
                0 => Rule::new(&nodes[host], "INPUT", HOST_INTERFACE),
                _ => Rule::new(&nodes[router], "FORWARD", from),
            };
            Some(DirectionInterfaces { interfaces, rule })
        };
        let directions = [
            with_rule(rightward, last, last - 1, LEFT),
            with_rule(leftward, 0, 1, RIGHT),
        ];
        let hosts = [&nodes[0], &nodes[last]].map(|host| Arc::clone(&host.namespace));
        Ok(Self {
            hosts: hosts.into(),
            directions,
            shaping: None,
        })
    }

    /// Creates one namespace for both hosts, whose addresses are those of its loopback device. The calling thread changes
    /// its namespace.
    fn loopback(offloads: Offloads) -> Result<Self, DaemonError> {
        let node = Node::create(offloads)?;
        let interface = node.prepare(LOOPBACK_NAME)?;
        for address in ADDRESSES {
            interface.one_address(address, 32)?;
        }
        let direction = DirectionInterfaces {
            interfaces: vec![interface],
            rule: Rule::new(&node, "INPUT", LOOPBACK_NAME),
        };
        let host = node.namespace;
        Ok(Self {
            hosts: vec![Arc::clone(&host), host],
            directions: [Some(direction), None],
            shaping: None,
        })
    }

    /// Opens the namespace of this process as that of a host on a network that is used as it is.
    pub(in super::super) fn own() -> Result<Self, DaemonError> {
        Ok(Self {
            hosts: vec![Arc::new(Namespace::own()?)],
            directions: [None, None],
            shaping: None,
        })
    }

    /// Sets up one host, whose wire leads to the other host in another kernel.
    pub(super) fn lay_end(end: &End, name: &str) -> Result<Self, DaemonError> {
        let root = Node::first()?;
        let host = Node::create(Offloads::Off)?;
        let interface = host.split(host.take(&root, name, HOST_INTERFACE)?)?;
        interface.address(ADDRESSES[end.host as usize])?;
        Ok(Self::of_end(end, host, interface))
    }

    /// Sets up one host on a macvlan of the interface `parent`. Both hosts know one another's Ethernet address, which
    /// `run` determines, so that no packet but theirs travels on the path.
    pub(super) fn lay_macvlan(
        end: &End,
        (parent, prefix): (&str, u8),
        run: u64,
    ) -> Result<Self, DaemonError> {
        let ipv4 = |address| match address {
            IpAddr::V4(address) => Ok(address),
            IpAddr::V6(_) => Err(DaemonError::NoIpv4(address)),
        };
        let addresses = [ipv4(end.addresses[0])?, ipv4(end.addresses[1])?];
        let index = end.host as usize;
        let root = Node::own()?;
        let host = Node::create(Offloads::Off)?;
        let interface = host.macvlan(&root, parent, HOST_INTERFACE, ethernet(run, index))?;
        let interface = host.split(interface)?;
        let other = end.host.other() as usize;
        let seconds = has_second_addresses(addresses).then(|| addresses.map(second));
        for addresses in [addresses].into_iter().chain(seconds) {
            interface.one_address(addresses[index], prefix)?;
            interface.neighbour(addresses[other], ethernet(run, other))?;
        }
        Ok(Self::of_end(end, host, interface))
    }

    /// Sets up one host on an interface of its own, of which only the packets to the other host are shaped.
    pub(super) fn lay_interface(
        end: &End,
        name: &str,
        ssh_ports: &[u16],
    ) -> Result<Self, DaemonError> {
        let host = Node::own()?;
        let laid = Shaping::install(&host, end, name, ssh_ports);
        let (shaping, interface) = laid.map_err(|source| DaemonError::interface(name, source))?;
        Ok(Self {
            shaping: Some(shaping),
            ..Self::of_end(end, host, interface)
        })
    }

    fn of_end(end: &End, host: Node, interface: Interface) -> Self {
        let direction = DirectionInterfaces {
            interfaces: vec![interface],
            rule: Rule::new(&host, "INPUT", HOST_INTERFACE),
        };
        let mut directions = [None, None];
        directions[end.host as usize] = Some(direction);
        Self {
            hosts: vec![host.namespace],
            directions,
            shaping: None,
        }
    }

    /// Sets the largest IP packet of the hosts of a direct link or of the loopback, in bytes.
    pub(in super::super) fn set_mtu(&self, mtu_bytes: u32) -> Result<(), DaemonError> {
        let directions = self.directions.iter().flatten();
        for interface in directions.flat_map(|direction| &direction.interfaces) {
            // A condition has no larger one than that of the loopback.
            if interface.index != LOOPBACK && !MTU_RANGE.contains(&mtu_bytes) {
                return Err(DaemonError::Mtu(mtu_bytes));
            }
            let set = interface.set_mtu(mtu_bytes);
            set.map_err(failed("set the MTU of the path"))?;
        }
        Ok(())
    }

    /// Returns the namespaces of the hosts: a and b, or the one on this machine.
    pub(in super::super) fn hosts(&self) -> Vec<&Namespace> {
        self.hosts.iter().map(|host| &**host).collect()
    }
}

/// Whether hosts on macvlans with these addresses get second ones, for transports that use several: where all of them
/// are among those that are reserved for benchmarks (198.18.0.0/15, RFC 2544), so that nobody else has them.
fn has_second_addresses(addresses: [Ipv4Addr; 2]) -> bool {
    let seconds = addresses.map(second);
    let is_reserved = |address: &Ipv4Addr| matches!(address.octets(), [198, 18 | 19, ..]);
    addresses.iter().all(is_reserved) && seconds.iter().all(|second| !addresses.contains(second))
}
