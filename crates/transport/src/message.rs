//! Traits of a driver of messages, and their guarantees to the workloads.
//!
//! As with streams, functions are `async` so that one workload serves blocking and asynchronous
//! stacks.

use std::{future::Future, net::SocketAddr, sync::Arc};

use regatta_model::{Facts, Warning};

use crate::{
    clock::MonotonicTime, context::StatisticsSource, error::Result, executor::Executor,
    opening::Purpose, stop::Stop,
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

    /// Waits for messages, at most until `until`, and passes each to `consume`; returns how many
    /// there were: zero if the moment has come. A moment that has passed still gets what is there.
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

/// One end of a driver of messages in one trial: it listens from the moment when it is made for a
/// server's order.
pub trait MessageEndpoint: Send + Sync + Sized + 'static {
    /// Flow of messages that the endpoint makes.
    type Flow: MessageFlow;

    /// Executor of the driver's futures: [`Blocking`](crate::Blocking) for a stack whose calls block.
    type Executor: Executor;

    /// Returns what runs this end's futures.
    fn executor(&self) -> &Self::Executor;

    /// Returns the address on which the endpoint listens; `None` at a client.
    fn listen_address(&self) -> Option<SocketAddr>;

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

    /// Makes a flow to the peer; sends nothing. The flow is registered with `stop`.
    fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        stop: &Stop,
    ) -> impl Future<Output = Result<Self::Flow>>;

    /// Waits for the first message of a new flow from the announced peer, and passes it to
    /// `admit`. If that returns true a flow to its sender is made; if not, the message is dropped
    /// and the wait goes on.
    ///
    /// `stop` belongs to the flow that comes: the flow is registered with it, listening is not.
    /// The wait ends soon, within some tens of milliseconds, after it is raised.
    ///
    /// # Errors
    /// The error that makes listening impossible; [`TransportError::TimedOut`] at `until`.
    fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> impl Future<Output = Result<Self::Flow>>;

    /// Returns facts about this end, by the full name of the fact. Facts about a flow take
    /// precedence.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// Returns warnings about messages of `message_bytes` over this path.
    fn warnings(&self, message_bytes: usize) -> Vec<Warning> {
        let _ = message_bytes;
        Vec::new()
    }
}
