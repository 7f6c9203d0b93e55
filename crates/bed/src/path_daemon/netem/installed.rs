//! Queueing disciplines installed on the path, and their counters.

use std::{io, sync::Arc};

use regatta_model::{LossBy, Offloads, PathSetup, Placement};

use super::{
    chain::{Chain, DirectionInterfaces, NodeInterface},
    failed, interface,
    netlink::Counted,
    plan::Stages,
    qdisc::{self, Place, Qdisc, Statistics},
    sampler::Watched,
};
use crate::{
    messages::{LinkCounters, UnsupportedCounters},
    path_daemon::error::DaemonError,
};

/// Indices of a direction's disciplines in arrays.
const WIRE: usize = 0;
const RATE: usize = 1;
const QUEUE: usize = 2;
const PLACES: usize = 3;

/// Disciplines installed on one direction, with what was counted before.
#[derive(Debug)]
struct Standing {
    stages: Stages,
    /// Counters of the sending host's interface, then of the routers', when the condition was set.
    before: Vec<Counted>,
    /// Counters of disciplines that a step of the schedule replaced.
    gone: [Statistics; PLACES],
    /// Packets that iptables rules dropped before a step replaced them.
    gone_by_rule: u64,
}

/// Disciplines installed on both directions.
#[derive(Debug)]
pub(super) struct Installed {
    chain: Arc<Chain>,
    setup: PathSetup,
    standing: [Option<Standing>; 2],
}

impl Installed {
    /// Creates the state of a path without disciplines.
    pub(super) fn new(chain: Arc<Chain>, setup: PathSetup) -> Self {
        Self {
            chain,
            setup,
            standing: [None, None],
        }
    }

    /// Removes the installed disciplines and installs `wanted`.
    pub(super) fn replace(
        &mut self,
        mtu_bytes: u32,
        wanted: [Stages; 2],
    ) -> Result<(), DaemonError> {
        let chain = &*self.chain;
        let directions = chain.directions.iter().zip(&mut self.standing);
        for ((place, standing), stages) in directions.zip(wanted) {
            let Some(place) = place else {
                continue;
            };
            if let Some(old) = standing.take() {
                for (interface, stands) in places(place, &old.stages) {
                    if stands.is_some() {
                        qdisc::remove(chain.netlink(interface), interface.interface)
                            .map_err(failed("take a queueing discipline away"))?;
                    }
                }
            }
            for at in &place.interfaces {
                let node = &chain.nodes[at.node];
                match at.interface.place {
                    Place::ROOT | Place::SPLIT => node
                        .set_mtu(at.interface, mtu_bytes)
                        .map_err(failed("set the largest packet"))?,
                    _ => interface::has_mtu(node, at.interface, mtu_bytes)?,
                }
            }
            for (interface, wanted) in places(place, &stages) {
                if let Some(wanted) = wanted {
                    wanted
                        .add(chain.netlink(interface), interface.interface)
                        .map_err(failed("set a queueing discipline"))?;
                }
            }
            if self.setup.loss_by == LossBy::Iptables {
                chain.set_rule(place, stages.dropped_by_rule)?;
            }
            *standing = Some(Standing {
                stages,
                before: counted(chain, place)?,
                gone: Default::default(),
                gone_by_rule: 0,
            });
        }
        Ok(())
    }

    /// Changes the installed disciplines to `wanted`: one of the same kind is changed in place and
    /// keeps its packets.
    pub(super) fn change(&mut self, wanted: [Stages; 2]) -> Result<(), DaemonError> {
        let directions = self.chain.directions.iter().zip(&mut self.standing);
        for ((place, standing), stages) in directions.zip(wanted) {
            if let (Some(place), Some(standing)) = (place, standing) {
                standing.change(&self.chain, place, self.setup, stages)?;
            }
        }
        Ok(())
    }

    /// Returns the interfaces of the bottleneck's queues: none on a link without a rate, and none
    /// at the ends, where the queue is not apart from loss and delay.
    pub(super) fn watched(&self) -> [Watched; 2] {
        [0, 1].map(|direction| {
            let Some((place, standing)) = self.direction(direction) else {
                return Vec::new();
            };
            places(place, &standing.stages)
                .into_iter()
                .skip(RATE)
                .filter_map(|(interface, stands)| {
                    Some((interface, matches!(stands?, Qdisc::Netem(_))))
                })
                .collect()
        })
    }

    /// Returns the counters of both directions; `most_bytes` are the most that waited.
    pub(super) fn counters(&self, most_bytes: [u64; 2]) -> Result<[LinkCounters; 2], DaemonError> {
        let of = |direction: usize| match self.direction(direction) {
            Some((place, standing)) => {
                standing.counters(&self.chain, place, self.setup, most_bytes[direction])
            }
            None => Ok(LinkCounters::default()),
        };
        Ok([of(0)?, of(1)?])
    }

    fn direction(&self, direction: usize) -> Option<(&DirectionInterfaces, &Standing)> {
        let place = self.chain.directions[direction].as_ref();
        place.zip(self.standing[direction].as_ref())
    }
}

impl Standing {
    fn change(
        &mut self,
        chain: &Chain,
        place: &DirectionInterfaces,
        setup: PathSetup,
        wanted: Stages,
    ) -> Result<(), DaemonError> {
        let standing = places(place, &self.stages);
        for (index, (interface, wanted)) in places(place, &wanted).into_iter().enumerate() {
            let netlink = chain.netlink(interface);
            let interface = interface.interface;
            let stands = standing[index].1;
            let mut set = || -> io::Result<()> {
                if let (Some(stands), Some(wanted)) = (stands, wanted)
                    && wanted.is_like(stands)
                {
                    return match wanted == stands {
                        true => Ok(()),
                        false => wanted.change(netlink, interface),
                    };
                }
                if stands.is_some() {
                    self.gone[index].add(qdisc::statistics(netlink, interface)?);
                    qdisc::remove(netlink, interface)?;
                }
                wanted.map_or(Ok(()), |wanted| wanted.add(netlink, interface))
            };
            set().map_err(failed("change a queueing discipline"))?;
        }
        if setup.loss_by == LossBy::Iptables
            && wanted.dropped_by_rule != self.stages.dropped_by_rule
        {
            self.gone_by_rule += chain.dropped_by_rule(place)?;
            chain.set_rule(place, wanted.dropped_by_rule)?;
        }
        self.stages = Stages {
            full_queue_bytes: self.stages.full_queue_bytes.max(wanted.full_queue_bytes),
            only_bursts: wanted.only_bursts && self.stages.only_bursts,
            ..wanted
        };
        Ok(())
    }

    /// Returns what the disciplines of a direction, by their place, counted since the condition was
    /// set.
    fn statistics(
        &self,
        chain: &Chain,
        place: &DirectionInterfaces,
    ) -> Result<[Statistics; PLACES], DaemonError> {
        let mut all = self.gone;
        for (index, (interface, stands)) in places(place, &self.stages).into_iter().enumerate() {
            if stands.is_some() {
                let counted = qdisc::statistics(chain.netlink(interface), interface.interface)
                    .map_err(failed("read a discipline's counters"))?;
                all[index].add(counted);
            }
        }
        Ok(all)
    }

    fn counters(
        &self,
        chain: &Chain,
        place: &DirectionInterfaces,
        setup: PathSetup,
        most_bytes: u64,
    ) -> Result<LinkCounters, DaemonError> {
        let all = self.statistics(chain, place)?;
        let wire = all[WIRE];
        let at_ends = setup.placement == Placement::Ends;
        let with_offloads = setup.offloads == Offloads::On;
        let by_rule = match setup.loss_by {
            LossBy::Iptables => self.gone_by_rule + chain.dropped_by_rule(place)?,
            LossBy::Emulator => 0,
        };
        let mut queue_drops = all[RATE].drops + all[QUEUE].drops;
        let mut loss_drops = wire.drops + by_rule;
        let lossless = self.stages.loses_nothing();
        if at_ends && lossless {
            // Whatever this netem dropped found it full.
            (loss_drops, queue_drops) = (by_rule, wire.drops);
        }
        let mut burst_drops = 0;
        if self.stages.only_bursts && !at_ends {
            (loss_drops, burst_drops) = (by_rule, wire.drops);
        }
        let mut codel_drops = 0;
        if let (Some([queue, _]), true) = (place.before_wire(), self.stages.has_codel()) {
            let overflows = qdisc::codel_overflows(chain.netlink(queue), queue.interface)
                .map_err(failed("read a discipline's counters"))?;
            codel_drops = queue_drops.saturating_sub(overflows);
            queue_drops = overflows;
        }
        let now = counted(chain, place)?;
        let pairs = now.iter().zip(&self.before);
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let refused_drops = pairs
            .map(|(now, before)| since(now.sent_drops, before.sent_drops))
            .sum();
        // At the ends the host's own interface sends what netem has delayed, and the rule comes
        // last; between the hosts the rule comes before the wire.
        let passed = wire.sent + wire.drops + wire.waiting_packets;
        let (offered, arrived, delivered) = if at_ends {
            (passed, passed, wire.sent.saturating_sub(by_rule))
        } else {
            let offered = since(now[0].sent_packets, self.before[0].sent_packets);
            let waiting = all[RATE].waiting_packets + all[QUEUE].waiting_packets;
            let arrived = offered.saturating_sub(queue_drops + codel_drops + waiting + by_rule);
            (offered, arrived, wire.sent)
        };
        // A drop-tail queue that dropped was full, whenever it was looked at, and never fuller.
        let queue_max_bytes = match self.stages.full_queue_bytes {
            Some(full) if queue_drops > 0 => full,
            Some(full) => most_bytes.min(full),
            None => most_bytes,
        };
        Ok(LinkCounters {
            offered,
            delivered,
            loss_drops,
            burst_drops,
            queue_drops,
            codel_drops,
            refused_drops,
            duplicated: match at_ends || with_offloads {
                true => 0,
                false => passed.saturating_sub(arrived),
            },
            reordered: wire.requeues,
            queue_max_bytes,
            unsupported: UnsupportedCounters {
                offered: with_offloads,
                queue_drops: at_ends && !lossless && self.stages.wire_has_rate(),
                burst_drops: at_ends || !self.stages.only_bursts,
                corrupted: true,
                duplicated: at_ends || with_offloads,
                queue_max_bytes: at_ends,
                lateness: true,
            },
            ..LinkCounters::default()
        })
    }
}

/// Returns the interfaces of a direction's disciplines (wire, then rate and queue if there are
/// routers), with what `stages` installs there.
fn places<'a>(
    direction: &DirectionInterfaces,
    stages: &'a Stages,
) -> Vec<(NodeInterface, Option<&'a Qdisc>)> {
    let mut places = vec![(direction.wire(), Some(&stages.wire))];
    if let Some([queue, rate]) = direction.before_wire() {
        places.push((rate, stages.rate.as_ref()));
        places.push((queue, stages.queue.as_ref()));
    }
    places
}

fn counted(chain: &Chain, place: &DirectionInterfaces) -> Result<Vec<Counted>, DaemonError> {
    let interfaces = place.interfaces.iter();
    interfaces
        .map(|it| chain.nodes[it.node].netlink.counted(it.interface.index))
        .collect::<io::Result<_>>()
        .map_err(failed("read an interface's counters"))
}
