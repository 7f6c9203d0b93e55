//! Flows that share a link, known by the protocol and the port of their servers.

use std::time::Duration;

use regatta_model::{IpProtocol, PacketCounter, PacketCounters, units::nanoseconds};

use crate::{packet::Packet, settings::Direction};

/// Flow of a link, and the way to its hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowPath {
    /// Port of its server.
    pub port: u16,
    /// Protocol of this port; `None` if it is not known: the flow has all packets of this port that are of no other flow.
    pub protocol: Option<IpProtocol>,
    /// Delay of its packets beyond the bottleneck, beside the link's own.
    pub delay: Duration,
}

/// Counters of the packets of one flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Packets that arrived at the link.
    pub offered: u64,
    /// Packets that were lost, dropped or marked.
    pub packets: PacketCounters<u64>,
}

/// Flows of a link; none where they are not told apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flows {
    /// Place of the server's port among source and destination.
    place: usize,
    flows: Vec<(FlowPath, FlowCounters)>,
}

impl Flows {
    pub(crate) fn none(direction: Direction) -> Self {
        let place = match direction {
            Direction::Forward => 1,
            Direction::Reverse => 0,
        };
        Self {
            place,
            ..Self::default()
        }
    }

    pub(crate) fn set(&mut self, paths: &[FlowPath]) {
        let begun = |path: &FlowPath| (*path, FlowCounters::default());
        self.flows = paths.iter().map(begun).collect();
    }

    /// Whether packets of one flow can go ahead of those of another.
    pub(crate) fn reorder(&self) -> bool {
        self.flows.iter().any(|(path, _)| !path.delay.is_zero())
    }

    pub(crate) fn counters(&self) -> Vec<FlowCounters> {
        self.flows.iter().map(|(_, counters)| *counters).collect()
    }

    /// Returns the flow of a packet. Fragments of IP, which have no ports, are of none.
    #[inline]
    fn of<P: Packet>(&mut self, packet: &P) -> Option<&mut (FlowPath, FlowCounters)> {
        if self.flows.is_empty() {
            return None;
        }
        let (number, ports) = packet.ports()?;
        let port = ports[self.place];
        let is_of = |path: &FlowPath, protocol: Option<u8>| {
            path.port == port && path.protocol.map(IpProtocol::number) == protocol
        };
        let place = |protocol| (self.flows.iter()).position(|(path, _)| is_of(path, protocol));
        let index = place(Some(number)).or_else(|| place(None))?;
        self.flows.get_mut(index)
    }

    #[inline]
    pub(crate) fn offered<P: Packet>(&mut self, packet: &P) {
        if let Some((_, counters)) = self.of(packet) {
            counters.offered += 1;
        }
    }

    #[inline]
    pub(crate) fn count<P: Packet>(&mut self, packet: &P, counter: PacketCounter) {
        if let Some((_, counters)) = self.of(packet) {
            counters.packets[counter] += 1;
        }
    }

    /// Returns the delay of a packet beside the link's own, in nanoseconds.
    #[inline]
    pub(crate) fn delay<P: Packet>(&mut self, packet: &P) -> u64 {
        self.of(packet)
            .map_or(0, |(path, _)| nanoseconds(path.delay))
    }
}

/// Packet counters of a link: of all packets, and of each flow.
pub(crate) struct Counted<'a> {
    pub(crate) all: &'a mut PacketCounters<u64>,
    pub(crate) flows: &'a mut Flows,
}

impl Counted<'_> {
    #[inline]
    pub(crate) fn count<P: Packet>(&mut self, packet: &P, counter: PacketCounter) {
        self.all[counter] += 1;
        self.flows.count(packet, counter);
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::{BitRate, Bytes, Condition, Link};

    use super::*;
    use crate::{EmulatedLink, Offer};

    /// Packet of 1500 bytes to a port.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct To(u16);

    impl Packet for To {
        fn size(&self) -> usize {
            1500
        }

        fn duplicate(&self) -> Self {
            *self
        }

        fn flip_bit(&mut self, _: u64) {}

        fn ports(&self) -> Option<(u8, [u16; 2])> {
            (self.0 > 0).then_some((17, [50_000, self.0]))
        }
    }

    const MS: u64 = 1_000_000;

    /// A link of 12 Mbit/s, 10 ms and four packets in the queue: a packet takes 1 ms.
    fn link() -> EmulatedLink<To> {
        let forward = Link {
            rate: Some(BitRate(12_000_000)),
            delay: Duration::from_millis(10),
            queue: Some(Bytes(6000)),
            ..Link::default()
        };
        let condition = Condition {
            name: "c".into(),
            reverse: forward.clone(),
            forward,
            mtu_bytes: 1500,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        };
        EmulatedLink::new(&condition, Direction::Forward, 1).expect("a link")
    }

    #[test]
    fn flows_share_a_queue_and_have_their_own_delays_beyond_it() {
        let mut link = link();
        let far = FlowPath {
            port: 2,
            protocol: None,
            delay: Duration::from_millis(30),
        };
        let near = FlowPath {
            port: 1,
            protocol: None,
            delay: Duration::ZERO,
        };
        link.set_flows(&[near, far]);
        // The fragment has no ports.
        for packet in [To(2), To(1), To(0), To(2), To(1)] {
            assert_eq!(link.offer(0, packet), Offer::Carried);
        }
        for packet in [To(1), To(2), To(2)] {
            assert!(matches!(link.offer(0, packet), Offer::Dropped { .. }));
        }
        let mut left = Vec::new();
        while let Some(due) = link.poll(100 * MS) {
            left.push((due.packet.0, due.at / MS));
        }
        let near_then_far = [(1, 12), (0, 13), (1, 15), (2, 41), (2, 44)];
        assert_eq!(left, near_then_far);
        let counted = link.flow_counters();
        assert_eq!([counted[0].offered, counted[1].offered], [3, 4]);
        let dropped = |flow: &FlowCounters| flow.packets[PacketCounter::Queue];
        assert_eq!([dropped(&counted[0]), dropped(&counted[1])], [1, 2]);
    }

    /// Packet to port 7 of a protocol.
    struct Of(u8);

    impl Packet for Of {
        fn size(&self) -> usize {
            1500
        }

        fn duplicate(&self) -> Self {
            Self(self.0)
        }

        fn flip_bit(&mut self, _: u64) {}

        fn ports(&self) -> Option<(u8, [u16; 2])> {
            Some((self.0, [50_000, 7]))
        }
    }

    /// A flow whose protocol is not known has what is of no other.
    #[test]
    fn flows_of_one_port_are_told_apart_by_their_protocols() {
        let path = |protocol| FlowPath {
            port: 7,
            protocol,
            delay: Duration::ZERO,
        };
        let mut flows = Flows::none(Direction::Forward);
        flows.set(&[None, Some(IpProtocol::Udp), Some(IpProtocol::Tcp)].map(path));
        for number in [6, 17, 17, 132, 6, 6] {
            flows.offered(&Of(number));
        }
        let offered: Vec<u64> = flows.counters().iter().map(|it| it.offered).collect();
        assert_eq!(offered, [1, 2, 3]);
    }
}
