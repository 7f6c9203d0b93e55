//! Namespaces that the path is made of, and the interfaces in them that have each direction's
//! disciplines.

use std::net::{IpAddr, Ipv4Addr};

use regatta_model::{Emulator, Offloads, PathSetup, Placement};

use super::{
    failed, interface::Shaping, iptables::Rule, netlink::Netlink, qdisc::Interface, wires::Node,
};
use crate::{
    messages::End,
    path_daemon::{ADDRESSES, error::DaemonError, namespaces::Namespace, second},
};

/// Name of the interface in each host.
const HOST_INTERFACE: &str = "path0";

/// Names of the interfaces of a router, towards host a and towards host b.
const LEFT: &str = "left";
const RIGHT: &str = "right";

/// Routers between the hosts: a direction's queue, its rate, and its loss and delay each have an
/// interface of their own, in this order from the sender.
const ROUTERS: usize = 3;

/// An interface of one of the nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeInterface {
    pub node: usize,
    pub interface: Interface,
}

/// Outgoing interfaces of one direction, from the sending host on.
#[derive(Debug, Clone)]
pub(super) struct DirectionInterfaces {
    /// The sending host's interface, then those of the routers.
    pub interfaces: Vec<NodeInterface>,
    /// Node at which iptables drops packets, by its index, and its rule there.
    rule: (usize, Rule),
}

impl DirectionInterfaces {
    /// Returns the interface that has loss and delay.
    pub(super) fn wire(&self) -> NodeInterface {
        self.interfaces[self.interfaces.len() - 1]
    }

    /// Returns the interfaces of the queue and of the rate, if there are routers.
    pub(super) fn before_wire(&self) -> Option<[NodeInterface; 2]> {
        match self.interfaces[..] {
            [_, queue, rate, _] => Some([queue, rate]),
            _ => None,
        }
    }
}

/// Returns the Ethernet address of a host's macvlan in a run: locally administered, of one interface.
fn ethernet(run: u64, place: usize) -> [u8; 6] {
    let [a, b, c, d, ..] = run.to_ne_bytes();
    [0x02, a, b, c, d, place as u8 + 1]
}

/// Nodes from host a to host b.
#[derive(Debug)]
pub(in super::super) struct Chain {
    pub(super) nodes: Vec<Node>,
    /// Forward and reverse direction; a direction that starts at a host in another kernel is not
    /// here.
    pub(super) directions: [Option<DirectionInterfaces>; 2],
}

impl Chain {
    /// Creates both hosts, with the routers between them if netem is there. Without an emulator one virtual Ethernet
    /// joins the hosts, and no discipline is on it. The calling thread changes its namespace.
    pub(in super::super) fn lay(setup: PathSetup) -> Result<Self, DaemonError> {
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
            let at = |node, interface| NodeInterface { node, interface };
            rightward.push(at(node, here));
            leftward.push(at(node + 1, there));
        }
        leftward.reverse();
        for (direction, address) in [(&rightward, ADDRESSES[0]), (&leftward, ADDRESSES[1])] {
            let NodeInterface { node, interface } = direction[0];
            nodes[node].address(interface, address)?;
        }
        for (direction, to) in [(&rightward, ADDRESSES[1]), (&leftward, ADDRESSES[0])] {
            for interface in &direction[1..] {
                nodes[interface.node].route(to, interface.interface)?;
            }
        }
        let rule = |direction: &[NodeInterface], far: usize, from: &'static str| match direction {
            [_] => (far, Rule::host(HOST_INTERFACE)),
            [.., wire] => (wire.node, Rule::router(from)),
            [] => unreachable!("a direction has an interface"),
        };
        let directions = [
            Some(DirectionInterfaces {
                rule: rule(&rightward, last, LEFT),
                interfaces: rightward,
            }),
            Some(DirectionInterfaces {
                rule: rule(&leftward, 0, RIGHT),
                interfaces: leftward,
            }),
        ];
        Ok(Self { nodes, directions })
    }

    /// Sets up one host, whose wire leads to the other host in another kernel.
    pub(super) fn lay_end(end: &End, name: &str) -> Result<Self, DaemonError> {
        let root = Node::first()?;
        let host = Node::create(Offloads::Off)?;
        let interface = host.split(host.take(&root, name, HOST_INTERFACE)?)?;
        host.address(interface, ADDRESSES[end.host as usize])?;
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
        let place = end.host as usize;
        let root = Node::own()?;
        let host = Node::create(Offloads::Off)?;
        let interface = host.macvlan(&root, parent, HOST_INTERFACE, ethernet(run, place))?;
        let interface = host.split(interface)?;
        let other = end.host.other() as usize;
        let seconds = has_second_addresses(addresses).then(|| addresses.map(second));
        for addresses in [addresses].into_iter().chain(seconds) {
            host.one_address(interface, addresses[place], prefix)?;
            host.neighbour(interface, addresses[other], ethernet(run, other))?;
        }
        Ok(Self::of_end(end, host, interface))
    }

    /// Sets up one host on an interface of its own, of which only the packets to the other host are shaped. Dropping the
    /// second value ends that.
    pub(super) fn lay_interface(
        end: &End,
        name: &str,
        ssh_ports: &[u16],
    ) -> Result<(Self, Shaping), DaemonError> {
        let host = Node::own()?;
        let laid = Shaping::install(&host, end, name, ssh_ports);
        let (shaping, interface) = laid.map_err(|source| DaemonError::interface(name, source))?;
        Ok((Self::of_end(end, host, interface), shaping))
    }

    fn of_end(end: &End, host: Node, interface: Interface) -> Self {
        let direction = DirectionInterfaces {
            interfaces: vec![NodeInterface { node: 0, interface }],
            rule: (0, Rule::host(HOST_INTERFACE)),
        };
        let mut directions = [None, None];
        directions[end.host as usize] = Some(direction);
        Self {
            nodes: vec![host],
            directions,
        }
    }

    /// Sets the largest IP packet of the hosts of a direct link, in bytes.
    pub(in super::super) fn set_mtu(&self, mtu_bytes: u32) -> Result<(), DaemonError> {
        let directions = self.directions.iter().flatten();
        let mut interfaces = directions.flat_map(|direction| &direction.interfaces);
        interfaces.try_for_each(|at| {
            let set = self.nodes[at.node].set_mtu(at.interface, mtu_bytes);
            set.map_err(failed("set the MTU of the direct link"))
        })
    }

    /// Sets the probability with which the rule of a direction drops packets; 0 for no rule.
    pub(super) fn set_rule(
        &self,
        direction: &DirectionInterfaces,
        probability: f64,
    ) -> Result<(), DaemonError> {
        let (node, rule) = direction.rule;
        rule.set(&self.nodes[node].namespace, probability)
    }

    /// Returns the packets that the rule of a direction has dropped since it was set.
    pub(super) fn dropped_by_rule(
        &self,
        direction: &DirectionInterfaces,
    ) -> Result<u64, DaemonError> {
        let (node, rule) = direction.rule;
        rule.dropped(&self.nodes[node].namespace)
    }

    /// Returns the socket in the namespace of an interface.
    pub(super) fn netlink(&self, of: NodeInterface) -> &Netlink {
        &self.nodes[of.node].netlink
    }

    /// Returns the namespaces of the hosts: a and b, or the one that is here.
    pub(in super::super) fn hosts(&self) -> Vec<&Namespace> {
        match &self.nodes[..] {
            [host] => vec![&host.namespace],
            nodes => vec![&nodes[0].namespace, &nodes[nodes.len() - 1].namespace],
        }
    }
}

/// Whether hosts on macvlans with these addresses get second ones, for transports that use several: where all of them
/// are among those that are reserved for benchmarks (198.18.0.0/15, RFC 2544), so that nobody else has them.
fn has_second_addresses(addresses: [Ipv4Addr; 2]) -> bool {
    let seconds = addresses.map(second);
    let is_reserved = |address: &Ipv4Addr| matches!(address.octets(), [198, 18 | 19, ..]);
    addresses.iter().all(is_reserved) && seconds.iter().all(|second| !addresses.contains(second))
}
