//! Disciplines of a bottleneck's queue: which packet leaves next, and which ones are dropped or marked.
//!
//! Each is a state machine of its own file. All are asked when a packet arrives and when the bottleneck takes the next one, and
//! none has a timer: what a discipline does at intervals it catches up with then.

mod codel;
mod dual_pi2;
mod fq_codel;
mod pie;
mod red;

use regatta_model::{PacketCounter, QueueDiscipline, RedThresholds, units::nanoseconds};

use crate::{
    flows::Counted,
    outcome::Discarded,
    packet::{Ecn, Packet},
    queue::{Queue, Waiting},
    rng::LinkRng,
};
use codel::Codel;
pub(crate) use codel::Times;
use dual_pi2::DualPi2;
use fq_codel::FqCodel;
use pie::Pie;
use red::Red;

/// Limit of a queue, in bytes and in packets; whichever is reached first applies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}

/// Destinations of the packets that a discipline drops, and of its counts of drops and marks.
pub(crate) struct Fates<'a, P> {
    pub(crate) counted: Counted<'a>,
    pub(crate) discarded: &'a mut Vec<Discarded<P>>,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub(crate) ecn: bool,
}

impl<P: Packet> Fates<'_, P> {
    /// Drops a packet. One that was to be lost on the wire has been counted and given back already.
    fn discard(&mut self, at: u64, waiting: Waiting<P>, cause: PacketCounter) {
        if let Some(packet) = waiting.packet {
            self.counted.count(&packet, cause);
            self.discarded.push(Discarded { at, packet, cause });
        }
    }

    /// Marks a packet if it can be; returns whether it is marked.
    fn mark(&mut self, waiting: &mut Waiting<P>) -> bool {
        if !self.ecn || waiting.ecn == Ecn::NotEct {
            return false;
        }
        if waiting.ecn != Ecn::Ce {
            waiting.ecn = Ecn::Ce;
            if let Some(packet) = &mut waiting.packet {
                packet.set_ecn(Ecn::Ce);
                self.counted.count(packet, PacketCounter::Marked);
            }
        }
        true
    }
}

/// The packets that wait for the bottleneck, under a discipline.
#[derive(Debug, Clone)]
pub(crate) enum Discipline<P> {
    DropTail(Queue<P>),
    Codel(Queue<P>, Codel),
    Pie(Queue<P>, Box<Pie>),
    FqCodel(Box<FqCodel<P>>),
    DualPi2(Box<DualPi2<P>>),
    Red(Queue<P>, Box<Red>),
}

impl<P: Packet> Discipline<P> {
    /// Makes an empty queue, whose full packets have `max_packet` bytes, and which is served at `rate_bps`; draws are those
    /// of `rng`. A discipline that only the kernel has is drop-tail: [`Settings`](crate::settings::Settings) has refused it.
    pub(crate) fn new(
        kind: QueueDiscipline,
        (max_packet, rate_bps): (u64, u64),
        rng: impl FnOnce() -> LinkRng,
    ) -> Self {
        let queue = Queue::new();
        match kind {
            QueueDiscipline::DropTail
            | QueueDiscipline::FqPie { .. }
            | QueueDiscipline::Cake { .. } => Self::DropTail(queue),
            QueueDiscipline::Codel { target, interval } => {
                Self::Codel(queue, Codel::new(max_packet, Times::of(target, interval)))
            }
            QueueDiscipline::Pie { target } => {
                Self::Pie(queue, Box::new(Pie::new(max_packet, target, rng())))
            }
            QueueDiscipline::FqCodel { target, interval } => {
                let times = Times::of(target, interval);
                Self::FqCodel(Box::new(FqCodel::new(max_packet, times)))
            }
            QueueDiscipline::DualPi2 { target, any_ect } => {
                Self::DualPi2(Box::new(DualPi2::new(max_packet, target, any_ect)))
            }
            QueueDiscipline::Red { target } => {
                let thresholds = RedThresholds::of(target, rate_bps, max_packet);
                let red = Red::new((max_packet, rate_bps), thresholds, rng());
                Self::Red(queue, Box::new(red))
            }
        }
    }

    /// Goes on as another discipline with what waits. One of the same kind keeps its state.
    pub(crate) fn change(
        &mut self,
        kind: QueueDiscipline,
        served: (u64, u64),
        rng: impl FnOnce() -> LinkRng,
    ) {
        match (&mut *self, kind) {
            (Self::DropTail(_), QueueDiscipline::DropTail) => {}
            (Self::Codel(_, codel), QueueDiscipline::Codel { target, interval }) => {
                codel.times = Times::of(target, interval);
            }
            (Self::Pie(_, pie), QueueDiscipline::Pie { target }) => pie.set_target(target),
            (Self::FqCodel(fq), QueueDiscipline::FqCodel { target, interval }) => {
                fq.times = Times::of(target, interval);
            }
            (Self::DualPi2(dual), QueueDiscipline::DualPi2 { target, any_ect }) => {
                dual.set(target, any_ect);
            }
            (Self::Red(_, red), QueueDiscipline::Red { target }) => {
                let (max_packet, rate_bps) = served;
                red.set(served, RedThresholds::of(target, rate_bps, max_packet));
            }
            _ => {
                let mut next = Self::new(kind, served, rng);
                while let Some(waiting) = self.pop() {
                    next.push(waiting);
                }
                *self = next;
            }
        }
    }

    /// Whether the discipline looks at what a packet says of its flow and of ECN.
    pub(crate) fn reads_packets(&self) -> bool {
        !matches!(self, Self::DropTail(_))
    }

    /// Decides what becomes of a packet that arrives and has to wait: returns the cause of its drop, or none; marks it if
    /// that is what the discipline does instead.
    pub(crate) fn admit(
        &mut self,
        now: u64,
        waiting: &mut Waiting<P>,
        limit: Limit,
        fates: &mut Fates<'_, P>,
    ) -> Option<PacketCounter> {
        let has_room = self.bytes() + waiting.size <= limit.bytes && self.packets() < limit.packets;
        match self {
            // It drops what waits in the longest queue.
            Self::FqCodel(fq) if !has_room => {
                fq.make_room(now, fates);
                let has_room =
                    fq.bytes() + waiting.size <= limit.bytes && fq.packets() < limit.packets;
                (!has_room).then_some(PacketCounter::Queue)
            }
            _ if !has_room => Some(PacketCounter::Queue),
            Self::Pie(queue, pie) => pie.admit(now, queue, waiting, fates),
            Self::Red(queue, red) => red.admit(now, queue, waiting, fates),
            _ => None,
        }
    }

    /// Adds a packet that was admitted.
    pub(crate) fn push(&mut self, waiting: Waiting<P>) {
        match self {
            Self::DropTail(queue)
            | Self::Codel(queue, _)
            | Self::Pie(queue, _)
            | Self::Red(queue, _) => queue.push(waiting),
            Self::FqCodel(fq) => fq.push(waiting),
            Self::DualPi2(dual) => dual.push(waiting),
        }
    }

    /// Returns the packet that the bottleneck takes at `now`.
    pub(crate) fn take(&mut self, now: u64, fates: &mut Fates<'_, P>) -> Option<Waiting<P>> {
        match self {
            Self::DropTail(queue) => queue.pop(),
            Self::Codel(queue, codel) => codel.take(queue, now, fates),
            Self::Pie(queue, pie) => {
                pie.catch_up(now, queue);
                queue.pop()
            }
            Self::FqCodel(fq) => fq.take(now, fates),
            Self::DualPi2(dual) => dual.take(now, fates),
            Self::Red(queue, red) => {
                let taken = queue.pop();
                red.taken(now, queue);
                taken
            }
        }
    }

    /// Returns the next packet, without the discipline's decisions.
    pub(crate) fn pop(&mut self) -> Option<Waiting<P>> {
        match self {
            Self::DropTail(queue)
            | Self::Codel(queue, _)
            | Self::Pie(queue, _)
            | Self::Red(queue, _) => queue.pop(),
            Self::FqCodel(fq) => fq.pop(),
            Self::DualPi2(dual) => dual.pop(),
        }
    }

    /// Returns the size of a packet that waits, in bytes: of the one at the head where there is one queue.
    #[inline]
    pub(crate) fn head(&self) -> Option<u64> {
        match self {
            Self::DropTail(queue)
            | Self::Codel(queue, _)
            | Self::Pie(queue, _)
            | Self::Red(queue, _) => queue.head(),
            Self::FqCodel(fq) => fq.head(),
            Self::DualPi2(dual) => dual.head(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets() == 0
    }

    #[inline]
    pub(crate) fn packets(&self) -> u64 {
        match self {
            Self::DropTail(queue)
            | Self::Codel(queue, _)
            | Self::Pie(queue, _)
            | Self::Red(queue, _) => queue.packets(),
            Self::FqCodel(fq) => fq.packets(),
            Self::DualPi2(dual) => dual.packets(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::DropTail(queue)
            | Self::Codel(queue, _)
            | Self::Pie(queue, _)
            | Self::Red(queue, _) => queue.bytes(),
            Self::FqCodel(fq) => fq.bytes(),
            Self::DualPi2(dual) => dual.bytes(),
        }
    }

    /// Returns the number of waiting packets that are not lost on the wire.
    pub(crate) fn present(&self) -> u64 {
        match self {
            Self::DropTail(queue)
            | Self::Codel(queue, _)
            | Self::Pie(queue, _)
            | Self::Red(queue, _) => queue.present(),
            Self::FqCodel(fq) => fq.present(),
            Self::DualPi2(dual) => dual.present(),
        }
    }
}

#[cfg(test)]
mod testing {
    use regatta_model::PacketCounters;

    use super::*;
    use crate::{
        flows::{self, Flows},
        impairments::PacketImpairments,
    };

    pub(super) const MS: u64 = 1_000_000;

    /// What a discipline has done.
    #[derive(Default)]
    pub(super) struct Counted {
        counters: PacketCounters<u64>,
        flows: Flows,
        discarded: Vec<Discarded<Vec<u8>>>,
    }

    impl Counted {
        pub(super) fn fates(&mut self, ecn: bool) -> Fates<'_, Vec<u8>> {
            Fates {
                counted: flows::Counted {
                    all: &mut self.counters,
                    flows: &mut self.flows,
                },
                discarded: &mut self.discarded,
                ecn,
            }
        }

        pub(super) fn dropped(&self) -> u64 {
            self.counters[PacketCounter::Discipline]
        }

        pub(super) fn overflowed(&self) -> u64 {
            self.counters[PacketCounter::Queue]
        }

        pub(super) fn marked(&self) -> u64 {
            self.counters[PacketCounter::Marked]
        }
    }

    pub(super) fn waiting(arrived: u64, size: u64, flow: u32, ecn: Ecn) -> Waiting<Vec<u8>> {
        Waiting {
            packet: Some(Vec::new()),
            size,
            arrived,
            ordinal: 0,
            impairments: PacketImpairments::default(),
            flow,
            ecn,
        }
    }
}
