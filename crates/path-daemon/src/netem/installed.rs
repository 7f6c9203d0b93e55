//! Queueing disciplines installed on the path, and their counters.

use std::io;

use regatta_forwarder::{LinkCounters, UnsupportedCounters};
use regatta_model::{LossBy, Offloads, PacketCounter, PacketCounters, PathSetup, Placement};

use super::{
    chain::DirectionInterfaces,
    failed, interface, missing,
    netlink::Counted,
    plan::Stages,
    qdisc::{Attachment, Interface, Qdisc, Statistics},
    sampler::{Sampler, Watched},
};
use crate::error::DaemonError;

/// Indices of a direction's disciplines in arrays.
const WIRE: usize = 0;
const RATE: usize = 1;
const QUEUE: usize = 2;
const DISCIPLINES: usize = 3;

/// Disciplines installed on one direction, with what was counted before.
struct InstalledQdiscs {
    direction: DirectionInterfaces,
    setup: PathSetup,
    stages: Stages,
    /// Counters of the interfaces when the condition was set.
    before: Counted,
    /// Counters of disciplines that a step of the schedule replaced.
    replaced: [Statistics; DISCIPLINES],
    /// Packets that iptables rules dropped before a step replaced them.
    replaced_by_rule: u64,
}

/// Disciplines installed on both directions.
pub(super) struct Installed {
    setup: PathSetup,
    directions: [Option<DirectionInterfaces>; 2],
    installed: [Option<InstalledQdiscs>; 2],
    sampler: Sampler,
}

impl Installed {
    /// Creates the state of a path without disciplines.
    pub(super) fn new(
        directions: [Option<DirectionInterfaces>; 2],
        setup: PathSetup,
    ) -> Result<Self, DaemonError> {
        Ok(Self {
            setup,
            directions,
            installed: [None, None],
            sampler: Sampler::start()?,
        })
    }

    /// Removes the installed disciplines and installs `target`.
    pub(super) fn replace(
        &mut self,
        mtu_bytes: u32,
        target: [Stages; 2],
    ) -> Result<(), DaemonError> {
        let directions = self.directions.iter().zip(&mut self.installed);
        for ((direction, installed), stages) in directions.zip(target) {
            let Some(direction) = direction.clone() else {
                continue;
            };
            if let Some(old) = installed.take() {
                for (interface, current) in disciplines(&direction, &old.stages) {
                    if current.is_some() {
                        let removed = interface.remove();
                        removed.map_err(failed("take a queueing discipline away"))?;
                    }
                }
            }
            for interface in &direction.interfaces {
                match interface.attachment {
                    Attachment::ROOT | Attachment::INSIDE => interface
                        .set_mtu(mtu_bytes)
                        .map_err(failed("set the largest packet"))?,
                    _ => interface::has_mtu(interface, mtu_bytes)?,
                }
            }
            for (interface, target) in disciplines(&direction, &stages) {
                if let Some(target) = target {
                    let added = target.add(interface);
                    added.map_err(missing(target.module(), "set a queueing discipline"))?;
                }
            }
            if self.setup.loss_by == LossBy::Iptables {
                direction.rule.set(stages.dropped_by_rule)?;
            }
            *installed = Some(InstalledQdiscs {
                before: direction.counted()?,
                direction,
                setup: self.setup,
                stages,
                replaced: Default::default(),
                replaced_by_rule: 0,
            });
        }
        self.sampler.watch(self.watched(), true);
        Ok(())
    }

    /// Changes the installed disciplines to `target`: one of the same kind is changed in place and
    /// keeps its packets.
    pub(super) fn change(&mut self, target: [Stages; 2]) -> Result<(), DaemonError> {
        for (installed, target) in self.installed.iter_mut().zip(target) {
            if let Some(installed) = installed {
                installed.change(target)?;
            }
        }
        self.sampler.watch(self.watched(), false);
        Ok(())
    }

    /// Ends the sampling of the queues until the next change.
    pub(super) fn stop_sampling(&self) {
        self.sampler.watch(Default::default(), false);
    }

    /// Returns the interfaces of the bottleneck's queues: none on a link without a rate, and none
    /// at the ends, where the queue is not apart from loss and delay.
    fn watched(&self) -> [Watched; 2] {
        self.installed.each_ref().map(|installed| {
            let installed = installed.iter();
            let disciplines = installed.flat_map(|it| {
                disciplines(&it.direction, &it.stages)
                    .into_iter()
                    .skip(RATE)
            });
            disciplines
                .filter_map(|(interface, current)| {
                    Some((interface.clone(), matches!(current?, Qdisc::Netem(_))))
                })
                .collect()
        })
    }

    /// Returns the counters of both directions.
    pub(super) fn counters(&self) -> Result<[LinkCounters; 2], DaemonError> {
        let most_bytes = self.sampler.most_bytes();
        let of = |direction: usize| match &self.installed[direction] {
            Some(installed) => installed.counters(most_bytes[direction]),
            None => Ok(LinkCounters::default()),
        };
        Ok([of(0)?, of(1)?])
    }
}

impl InstalledQdiscs {
    fn change(&mut self, target: Stages) -> Result<(), DaemonError> {
        let pairs = disciplines(&self.direction, &self.stages).into_iter();
        let pairs = pairs.zip(disciplines(&self.direction, &target));
        for (((interface, current), (_, target)), replaced) in pairs.zip(&mut self.replaced) {
            let mut set = || -> io::Result<()> {
                if let (Some(current), Some(target)) = (current, target)
                    && target.is_like(current)
                {
                    return match target == current {
                        true => Ok(()),
                        false => target.change(interface),
                    };
                }
                if let Some(old) = current {
                    replaced.add(old.statistics(interface)?);
                    interface.remove()?;
                }
                target.map_or(Ok(()), |target| target.add(interface))
            };
            let module = target.map_or("sch_tbf", Qdisc::module);
            set().map_err(missing(module, "change a queueing discipline"))?;
        }
        if self.setup.loss_by == LossBy::Iptables
            && target.dropped_by_rule != self.stages.dropped_by_rule
        {
            self.replaced_by_rule += self.direction.rule.dropped()?;
            self.direction.rule.set(target.dropped_by_rule)?;
        }
        self.stages = Stages {
            full_queue_bytes: self.stages.full_queue_bytes.max(target.full_queue_bytes),
            only_bursts: target.only_bursts && self.stages.only_bursts,
            ..target
        };
        Ok(())
    }

    /// Returns what the disciplines of a direction, by their place, counted since the condition was
    /// set.
    fn statistics(&self) -> Result<[Statistics; DISCIPLINES], DaemonError> {
        let mut all = self.replaced;
        let disciplines = disciplines(&self.direction, &self.stages).into_iter();
        for ((interface, current), sum) in disciplines.zip(&mut all) {
            if let Some(current) = current {
                let counted = current.statistics(interface);
                sum.add(counted.map_err(failed("read a discipline's counters"))?);
            }
        }
        Ok(all)
    }

    fn counters(&self, most_bytes: u64) -> Result<LinkCounters, DaemonError> {
        let all = self.statistics()?;
        let wire = all[WIRE];
        let at_ends = self.setup.placement == Placement::Ends;
        let with_offloads = self.setup.offloads == Offloads::On;
        let by_rule = match self.setup.loss_by {
            LossBy::Iptables => self.replaced_by_rule + self.direction.rule.dropped()?,
            LossBy::Emulator => 0,
        };
        let mut queue_drops = all[RATE].drops + all[QUEUE].overflows;
        let aqm_drops = all[QUEUE].drops - all[QUEUE].overflows;
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
        let now = self.direction.counted()?;
        let refused_drops = now.sent_drops.saturating_sub(self.before.sent_drops);
        // At the ends the host's own interface sends what netem has delayed, and the rule comes
        // last; between the hosts the rule comes before the wire.
        let passed = wire.sent + wire.drops + wire.waiting_packets;
        let (offered, arrived, delivered) = if at_ends {
            (passed, passed, wire.sent.saturating_sub(by_rule))
        } else {
            let offered = now.sent_packets.saturating_sub(self.before.sent_packets);
            let waiting = all[RATE].waiting_packets + all[QUEUE].waiting_packets;
            let arrived = offered.saturating_sub(queue_drops + aqm_drops + waiting + by_rule);
            (offered, arrived, wire.sent)
        };
        // A drop-tail queue that dropped was full, whenever it was looked at, and never fuller.
        let queue_max_bytes = match self.stages.full_queue_bytes {
            Some(full) if queue_drops > 0 => full,
            Some(full) => most_bytes.min(full),
            None => most_bytes,
        };
        let duplicated = match at_ends || with_offloads {
            true => 0,
            false => passed.saturating_sub(arrived),
        };
        Ok(LinkCounters {
            offered,
            delivered,
            packets: PacketCounters::from([
                (PacketCounter::Loss, loss_drops),
                (PacketCounter::Burst, burst_drops),
                (PacketCounter::Queue, queue_drops),
                (PacketCounter::Discipline, aqm_drops),
                (PacketCounter::Marked, all[QUEUE].marks),
                (PacketCounter::Refused, refused_drops),
                (PacketCounter::Duplicated, duplicated),
                (PacketCounter::Reordered, wire.requeues),
            ]),
            queue_max_bytes,
            unsupported: UnsupportedCounters {
                offered: with_offloads,
                packets: PacketCounters::from([
                    (
                        PacketCounter::Queue,
                        at_ends && !lossless && self.stages.wire_has_rate(),
                    ),
                    (PacketCounter::Burst, at_ends || !self.stages.only_bursts),
                    (PacketCounter::Corrupted, true),
                    (PacketCounter::Duplicated, at_ends || with_offloads),
                ]),
                queue_max_bytes: at_ends,
                lateness: true,
            },
            ..LinkCounters::default()
        })
    }
}

/// Returns the interfaces of a direction's disciplines (wire, then rate and queue if there are
/// routers), with what `stages` installs there.
fn disciplines<'a>(
    direction: &'a DirectionInterfaces,
    stages: &'a Stages,
) -> Vec<(&'a Interface, Option<&'a Qdisc>)> {
    let mut disciplines = vec![(direction.wire(), Some(&stages.wire))];
    if let Some([queue, rate]) = direction.before_wire() {
        disciplines.push((rate, stages.rate.as_ref()));
        disciplines.push((queue, stages.queue.as_ref()));
    }
    disciplines
}
