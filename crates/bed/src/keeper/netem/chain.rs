//! Namespaces that the path is made of, and the interfaces in them that have each direction's
//! disciplines.

use std::net::Ipv4Addr;

use regatta_model::{Offloads, Placement};

use super::{
    iptables::Rule,
    wires::{Interface, Node},
};
use crate::{
    keeper::{ADDRESSES, error::KeeperError, namespaces::Namespace},
    messages::End,
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
pub(super) struct Spot {
    pub node: usize,
    pub interface: Interface,
}

/// Outgoing interfaces of one direction, from the sending host on.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    /// The sending host's interface, then those of the routers.
    pub spots: Vec<Spot>,
    /// Node at which iptables drops packets, by its index, and its rule there.
    pub rule: (usize, Rule),
}

impl Lane {
    /// Returns the interface that has loss and delay.
    pub(super) fn wire(&self) -> Spot {
        self.spots[self.spots.len() - 1]
    }

    /// Returns the interfaces of the queue and of the rate, if there are routers.
    pub(super) fn before_wire(&self) -> Option<[Spot; 2]> {
        match self.spots[..] {
            [_, queue, rate, _] => Some([queue, rate]),
            _ => None,
        }
    }
}

/// Nodes from host a to host b.
#[derive(Debug)]
pub(super) struct Chain {
    pub nodes: Vec<Node>,
    /// Forward and reverse direction; a direction that starts at a host in another kernel is not
    /// here.
    pub lanes: [Option<Lane>; 2],
}

impl Chain {
    pub(super) fn lay(placement: Placement, offloads: Offloads) -> Result<Self, KeeperError> {
        let routers = match placement {
            Placement::Between => ROUTERS,
            Placement::Ends => 0,
        };
        let nodes = (0..routers + 2)
            .map(|_| Node::create(offloads))
            .collect::<Result<Vec<_>, _>>()?;
        let last = nodes.len() - 1;
        let mut rightward = Vec::new();
        let mut leftward = Vec::new();
        for (place, pair) in nodes.windows(2).enumerate() {
            let names = [
                if place == 0 { HOST_INTERFACE } else { RIGHT },
                if place + 1 == last {
                    HOST_INTERFACE
                } else {
                    LEFT
                },
            ];
            let [here, there] = pair[0].join(names[0], &pair[1], names[1])?;
            rightward.push(Spot {
                node: place,
                interface: here,
            });
            leftward.push(Spot {
                node: place + 1,
                interface: there,
            });
        }
        leftward.reverse();
        let addressed: [(&Node, Spot, Ipv4Addr); 2] = [
            (&nodes[0], rightward[0], ADDRESSES[0]),
            (&nodes[last], leftward[0], ADDRESSES[1]),
        ];
        for (node, spot, address) in addressed {
            node.address(spot.interface, address)?;
        }
        for (lane, to) in [(&rightward, ADDRESSES[1]), (&leftward, ADDRESSES[0])] {
            for spot in &lane[1..] {
                nodes[spot.node].route(to, spot.interface)?;
            }
        }
        let rule = |lane: &[Spot], far: usize, from: &'static str| match lane {
            [_] => (
                far,
                Rule {
                    chain: "INPUT",
                    interface: HOST_INTERFACE,
                },
            ),
            _ => (
                lane[lane.len() - 1].node,
                Rule {
                    chain: "FORWARD",
                    interface: from,
                },
            ),
        };
        let lanes = [
            Some(Lane {
                rule: rule(&rightward, last, LEFT),
                spots: rightward,
            }),
            Some(Lane {
                rule: rule(&leftward, 0, RIGHT),
                spots: leftward,
            }),
        ];
        Ok(Self { nodes, lanes })
    }

    /// Sets up one host, whose wire leads to the other host in another kernel.
    pub(super) fn lay_end(end: &End) -> Result<Self, KeeperError> {
        let root = Node::first()?;
        let host = Node::create(Offloads::Off)?;
        let interface = host.take(&root, &end.wire, HOST_INTERFACE)?;
        let place = end.host.min(1);
        host.address(interface, ADDRESSES[place])?;
        let lane = Lane {
            spots: vec![Spot { node: 0, interface }],
            rule: (
                0,
                Rule {
                    chain: "INPUT",
                    interface: HOST_INTERFACE,
                },
            ),
        };
        let mut lanes = [None, None];
        lanes[place] = Some(lane);
        Ok(Self {
            nodes: vec![host],
            lanes,
        })
    }

    /// Returns the namespaces of the hosts: a and b, or the one that is here.
    pub(super) fn hosts(&self) -> Vec<&Namespace> {
        match &self.nodes[..] {
            [host] => vec![&host.namespace],
            nodes => vec![&nodes[0].namespace, &nodes[nodes.len() - 1].namespace],
        }
    }
}
