//! Traits of the flows of messages, and their guarantees to the workloads.

use std::{future::Future, sync::Arc};

use regatta_model::Facts;

use crate::{
    clock::MonotonicTime,
    context::StatisticsSource,
    endpoint::{Client, Endpoint, Server},
    error::Result,
};

/// One message that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The whole message.
    pub data: &'a [u8],
}

/// A flow of messages between two ends: a connected socket, an association, a connection's
/// datagrams. It may lose, duplicate and reorder.
pub trait MessageFlow: Send {
    /// Returns the number of messages of `message_bytes` that the flow prefers to be handed at
    /// once; at least one.
    fn batch_messages(&self, message_bytes: usize) -> usize;

    /// Sends the messages that stand one after another in `batch`, all of `message_bytes` but the
    /// last, which may be shorter. Returns when the transport has taken them; one that it drops
    /// for want of memory counts as sent.
    fn send_batch(
        &mut self,
        batch: &[u8],
        message_bytes: usize,
    ) -> impl Future<Output = Result<()>>;

    /// Waits for messages, at most until `until`, and passes each to `consume`; returns their number, 0 at `until`. If
    /// `until` has already passed, messages that have arrived are still passed on.
    fn receive_batch(
        &mut self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> impl Future<Output = Result<usize>>;

    /// Waits a while, once the flow is stopped, until what it was handed has left this end, and
    /// gives up what has not left by then. Returns the number of messages given up: they were never
    /// sent, so that they are not lost either. A flow whose messages leave with the call gives up
    /// none.
    fn settle(&mut self) -> impl Future<Output = u64> {
        async { 0 }
    }

    /// Whether all that was handed over has been sent, and needs not be sent again. A flow that
    /// sends nothing again never has to wait for that; one that is reliable is not ended before.
    fn is_drained(&self) -> bool {
        true
    }

    /// Returns the flow's statistics, where its stack has any.
    fn statistics(&self) -> Option<Arc<dyn StatisticsSource>> {
        None
    }

    /// Returns facts about the flow, by the full name of the fact.
    fn facts(&self) -> Facts {
        Facts::default()
    }
}

/// One end whose connections are flows of messages.
pub trait MessageEndpoint: Endpoint<Connection: MessageFlow> {
    /// Returns the size of the largest message that the transport carries, in bytes.
    fn longest_message(&self) -> usize;

    /// Whether every message arrives, or the flow fails. An exchange over a transport that can
    /// lose messages gives an answer up after a time.
    fn reliable(&self) -> bool {
        false
    }

    /// Returns the rate at which the transfer's messages are to leave, in bits of messages per
    /// second; `None` for as fast as they are taken.
    fn pace(&self) -> Option<u64> {
        None
    }
}

/// The end of these that connects.
pub trait MessageClient: MessageEndpoint + Client {}

impl<E: MessageEndpoint + Client> MessageClient for E {}

/// The end of these that listens.
pub trait MessageServer: MessageEndpoint + Server {}

impl<E: MessageEndpoint + Server> MessageServer for E {}
