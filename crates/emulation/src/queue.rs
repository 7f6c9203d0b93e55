//! The packets that wait for the bottleneck.

use std::collections::VecDeque;

use crate::{impairments::PacketImpairments, packet::Ecn};

/// A packet that waits.
#[derive(Debug, Clone)]
pub(crate) struct Waiting<P> {
    /// Packet, or `None` if it is lost on the wire: it takes its share of queue and rate all the
    /// same.
    pub(crate) packet: Option<P>,
    pub(crate) size: u64,
    pub(crate) arrived: u64,
    pub(crate) ordinal: u64,
    pub(crate) impairments: PacketImpairments,
    /// Hash of the packet's flow, where the discipline reads it.
    pub(crate) flow: u32,
    /// Codepoint of the packet, where the discipline reads it.
    pub(crate) ecn: Ecn,
}

/// First-in, first-out queue that counts its packets and bytes.
#[derive(Debug, Clone)]
pub(crate) struct Queue<P> {
    waiting: VecDeque<Waiting<P>>,
    bytes: u64,
    /// Number of waiting packets that are not lost on the wire.
    present: u64,
}

impl<P> Queue<P> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            present: 0,
        }
    }

    pub(crate) fn push(&mut self, waiting: Waiting<P>) {
        self.bytes += waiting.size;
        self.present += u64::from(waiting.packet.is_some());
        self.waiting.push_back(waiting);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<P>> {
        let waiting = self.waiting.pop_front()?;
        self.bytes -= waiting.size;
        self.present -= u64::from(waiting.packet.is_some());
        Some(waiting)
    }

    /// Returns the size of the packet at the head, in bytes.
    pub(crate) fn head(&self) -> Option<u64> {
        self.waiting.front().map(|waiting| waiting.size)
    }

    /// Returns the time at which the packet at the head arrived.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        self.waiting.front().map(|waiting| waiting.arrived)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn present(&self) -> u64 {
        self.present
    }
}
