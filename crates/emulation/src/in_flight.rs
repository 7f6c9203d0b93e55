//! Packets under way, from the bottleneck to the far end.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

/// A packet on its way, ordered by the time it is due, then by its arrival.
#[derive(Debug, Clone)]
pub(crate) struct InFlightPacket<P> {
    pub(crate) at: u64,
    pub(crate) ordinal: u64,
    pub(crate) packet: P,
}

impl<P> PartialEq for InFlightPacket<P> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.ordinal) == (other.at, other.ordinal)
    }
}

impl<P> Eq for InFlightPacket<P> {}

impl<P> PartialOrd for InFlightPacket<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for InFlightPacket<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.ordinal).cmp(&(other.at, other.ordinal))
    }
}

/// Packets under way. Where order is kept they are due in the order of arrival, so that a plain
/// queue suffices.
#[derive(Debug, Clone)]
pub(crate) enum InFlight<P> {
    InOrder(VecDeque<InFlightPacket<P>>),
    Reordering(BinaryHeap<Reverse<InFlightPacket<P>>>),
}

impl<P> InFlight<P> {
    pub(crate) fn new(reordering: bool) -> Self {
        if reordering {
            Self::Reordering(BinaryHeap::new())
        } else {
            Self::InOrder(VecDeque::new())
        }
    }

    /// Allows packets to overtake one another from now on.
    pub(crate) fn allow_reordering(&mut self) {
        if let Self::InOrder(queue) = self {
            *self = Self::Reordering(queue.drain(..).map(Reverse).collect());
        }
    }

    pub(crate) fn keeps_order(&self) -> bool {
        matches!(self, Self::InOrder(_))
    }

    #[inline]
    pub(crate) fn push(&mut self, held: InFlightPacket<P>) {
        match self {
            Self::InOrder(queue) => queue.push_back(held),
            Self::Reordering(heap) => heap.push(Reverse(held)),
        }
    }

    pub(crate) fn next(&self) -> Option<u64> {
        match self {
            Self::InOrder(queue) => queue.front().map(|held| held.at),
            Self::Reordering(heap) => heap.peek().map(|held| held.0.at),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<InFlightPacket<P>> {
        match self {
            Self::InOrder(queue) => queue.pop_front(),
            Self::Reordering(heap) => heap.pop().map(|held| held.0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::InOrder(queue) => queue.len(),
            Self::Reordering(heap) => heap.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What orders packets also says which are equal, as `Ord` asks for.
    #[test]
    fn packets_are_equal_if_neither_comes_first() {
        let [a, b] = [0, 1].map(|packet| InFlightPacket {
            at: 5,
            ordinal: 1,
            packet,
        });
        let later = InFlightPacket {
            ordinal: 2,
            ..a.clone()
        };
        assert!(a == b && a.cmp(&b).is_eq());
        assert!(a != later && a < later);
    }
}
