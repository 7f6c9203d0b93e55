//! Trial of one flow of messages: probes over the idle path, the flow with probes beside it, the
//! end by agreement of both ends or by the deadline. The workload decides what the flow carries.

pub(crate) mod bulk;
mod either;
mod message_receiver;
pub(crate) mod messages;

pub(crate) use either::Either;

use std::{future::Future, time::Duration};

use crate::{
    clock::MonotonicTime,
    driver::TransportError,
    message::{MessageEndpoint, MessageFlow},
    stop::Stop,
    trial::{
        Trial,
        findings::Findings,
        watch::{Delivered, SenderWatch},
    },
};

/// Workload that sends on one flow.
pub(crate) trait Work: Sync {
    /// Results of the sender, also when the deadline has stopped it.
    type Sent: Default + Send;

    /// Returns the bytes that the workload means to deliver.
    fn size(&self) -> u64;

    /// Whether the workload's goodput is meaningful.
    fn has_goodput(&self) -> bool {
        true
    }

    /// Adds the sender's results to the report.
    fn report(&self, sent: &Self::Sent, findings: &mut Findings) {
        let _ = (sent, findings);
    }
}

/// A workload over messages.
pub(crate) trait MessageWork: Work {
    /// Receiver's part of the workload.
    type Sink: MessageSink;

    /// Makes the receiver's part.
    fn message_sink(&self) -> Self::Sink;

    /// Returns the length of the longest message, in bytes.
    fn longest_message(&self) -> usize;

    /// Returns the length of the beginning that is left out of goodput and of CPU time.
    fn warm_up(&self) -> Duration {
        Duration::ZERO
    }

    /// Runs the sender's part: everything until both ends have agreed on what was delivered; it
    /// tells `watch`. Returns whether the acknowledgement came in the flow.
    fn send<E: MessageEndpoint>(
        &self,
        trial: &Trial,
        endpoint: &E,
        flow: &mut E::Flow,
        ends: (&Stop, &SenderWatch),
        sent: &mut Self::Sent,
    ) -> impl Future<Output = Result<bool, TransportError>>;
}

/// The receiver's part of a workload over messages.
pub(crate) trait MessageSink: Send {
    /// Takes one message; returns its time of sending if it carries one and is intact and new.
    fn consume(&mut self, message: &[u8], now: MonotonicTime) -> Option<MonotonicTime>;

    /// Whether all is here.
    fn is_complete(&self) -> bool;

    /// Returns the number of distinct messages that are here, and their bytes.
    fn delivered(&self) -> Delivered;

    /// Counts the messages that are here of the first `sent`.
    fn arrived_of(&self, sent: u64) -> u64;

    /// Returns the number of messages that came damaged.
    fn corrupted(&self) -> u64;

    /// Answers what has come, if the workload has answers.
    fn answer<F: MessageFlow>(
        &mut self,
        flow: &mut F,
    ) -> impl Future<Output = Result<(), TransportError>> {
        let _ = flow;
        async { Ok(()) }
    }

    /// Adds further results to the report.
    fn report(&self, findings: &mut Findings);
}
