//! A trial of one flow: probes over the idle path, the flow itself with probes beside it, the end
//! by agreement of both ends or by the deadline. What is sent on the flow is the workload's.

pub(crate) mod acknowledgement;
mod either;
mod message_receiver;
pub(crate) mod messages;
mod stream_receiver;
pub(crate) mod streams;

pub(crate) use either::Either;
pub(crate) use stream_receiver::without_transfer;

use std::{future::Future, time::Duration};

use crate::{
    clock::MonotonicTime,
    driver::TransportError,
    message::{MessageEndpoint, MessageFlow},
    stop::Stop,
    stream::ByteStream,
    trial::{
        Trial,
        findings::Findings,
        watch::{Delivered, SenderWatch},
    },
};

/// Workload that sends on one flow, over streams or messages.
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

/// A workload over a stream.
pub(crate) trait StreamWork: Work {
    /// Receiver's part of the workload.
    type Sink: StreamSink;

    /// Makes the receiver's part.
    fn stream_sink(&self) -> Self::Sink;

    /// Runs the sender's part: everything until the acknowledgement has arrived; it tells `watch`.
    fn send<S: ByteStream>(
        &self,
        trial: &Trial,
        stream: &mut S,
        watch: &SenderWatch,
        sent: &mut Self::Sent,
    ) -> impl Future<Output = Result<(), TransportError>>;
}

/// The receiver's part of a workload over a stream.
pub(crate) trait StreamSink: Send {
    /// Takes the next bytes of the stream; returns how many belong to the workload.
    fn consume(&mut self, piece: &[u8]) -> usize;

    /// Whether all is here.
    fn is_complete(&self) -> bool;

    /// Returns the bytes and messages that are here, whole and sound.
    fn delivered(&self) -> Delivered;

    /// Returns the number of messages that came damaged.
    fn corrupted(&self) -> u64;

    /// Answers what has come, if the workload has answers.
    fn answer<S: ByteStream>(
        &mut self,
        stream: &mut S,
    ) -> impl Future<Output = Result<(), TransportError>> {
        let _ = stream;
        async { Ok(()) }
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
