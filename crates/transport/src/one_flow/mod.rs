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

/// What a workload sends on its one flow, whatever it is carried by.
pub(crate) trait Work: Sync {
    /// What its sender knows of it, also when the deadline has stopped it.
    type Sent: Default + Send;

    /// All that it means to deliver, in bytes.
    fn size(&self) -> u64;

    /// Whether delivered bits over time say something about it.
    fn has_goodput(&self) -> bool {
        true
    }

    /// Adds what its sender knows to the report.
    fn report(&self, sent: &Self::Sent, findings: &mut Findings) {
        let _ = (sent, findings);
    }
}

/// A workload over a stream.
pub(crate) trait StreamWork: Work {
    /// Takes what arrives.
    type Sink: StreamSink;

    /// Makes the receiver's part.
    fn stream_sink(&self) -> Self::Sink;

    /// The sender's part: everything until the acknowledgement has arrived; it tells `watch`.
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

    /// What is here, whole and sound.
    fn delivered(&self) -> Delivered;

    /// Messages that came damaged.
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
    /// Takes what arrives.
    type Sink: MessageSink;

    /// Makes the receiver's part.
    fn message_sink(&self) -> Self::Sink;

    /// Longest message, in bytes.
    fn longest_message(&self) -> usize;

    /// How much of the beginning is left out of goodput and of CPU time.
    fn warm_up(&self) -> Duration {
        Duration::ZERO
    }

    /// The sender's part: everything until both ends have agreed on what was delivered; it tells
    /// `watch`. Returns whether the acknowledgement came in the flow.
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
    /// Takes one message; returns when it was sent if it is a good and new one that says so.
    fn consume(&mut self, message: &[u8], now: MonotonicTime) -> Option<MonotonicTime>;

    /// Whether all is here.
    fn is_complete(&self) -> bool;

    /// What is here: distinct messages and their bytes.
    fn delivered(&self) -> Delivered;

    /// How many of the first so many messages are here.
    fn arrived_of(&self, sent: u64) -> u64;

    /// Messages that came damaged.
    fn corrupted(&self) -> u64;

    /// Answers what has come, if the workload has answers.
    fn answer<F: MessageFlow>(
        &mut self,
        flow: &mut F,
    ) -> impl Future<Output = Result<(), TransportError>> {
        let _ = flow;
        async { Ok(()) }
    }

    /// Adds what else is known to the report.
    fn report(&self, findings: &mut Findings);
}
