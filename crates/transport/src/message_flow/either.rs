//! Either of two workloads as one type. The code around a workload is then compiled once for each
//! transport, not once for each pair of transport and workload.

use std::time::Duration;

use super::{MessageSink, MessageWork, Work};
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

/// One of two workloads, or the receiver's part of one.
#[derive(Debug)]
pub(crate) enum Either<A, B> {
    /// The first.
    A(A),
    /// The second.
    B(B),
}

/// Evaluates the same expression for either variant.
macro_rules! either {
    ($self:expr, $it:ident => $result:expr) => {
        match $self {
            Either::A($it) => $result,
            Either::B($it) => $result,
        }
    };
}

impl<A: Work, B: Work> Work for Either<A, B> {
    type Sent = (A::Sent, B::Sent);

    fn size(&self) -> u64 {
        either!(self, work => work.size())
    }

    fn has_goodput(&self) -> bool {
        either!(self, work => work.has_goodput())
    }

    fn report(&self, sent: &Self::Sent, findings: &mut Findings) {
        match self {
            Self::A(work) => work.report(&sent.0, findings),
            Self::B(work) => work.report(&sent.1, findings),
        }
    }
}

impl<A: MessageWork, B: MessageWork> MessageWork for Either<A, B> {
    type Sink = Either<A::Sink, B::Sink>;

    fn message_sink(&self) -> Self::Sink {
        match self {
            Self::A(work) => Either::A(work.message_sink()),
            Self::B(work) => Either::B(work.message_sink()),
        }
    }

    fn longest_message(&self) -> usize {
        either!(self, work => work.longest_message())
    }

    fn warm_up(&self) -> Duration {
        either!(self, work => work.warm_up())
    }

    async fn send<E: MessageEndpoint>(
        &self,
        trial: &Trial,
        endpoint: &E,
        flow: &mut E::Flow,
        ends: (&Stop, &SenderWatch),
        sent: &mut Self::Sent,
    ) -> Result<bool, TransportError> {
        match self {
            Self::A(work) => work.send(trial, endpoint, flow, ends, &mut sent.0).await,
            Self::B(work) => work.send(trial, endpoint, flow, ends, &mut sent.1).await,
        }
    }
}

impl<A: MessageSink, B: MessageSink> MessageSink for Either<A, B> {
    fn consume(&mut self, message: &[u8], now: MonotonicTime) -> Option<MonotonicTime> {
        either!(self, sink => sink.consume(message, now))
    }

    fn is_complete(&self) -> bool {
        either!(self, sink => sink.is_complete())
    }

    fn delivered(&self) -> Delivered {
        either!(self, sink => sink.delivered())
    }

    fn arrived_of(&self, sent: u64) -> u64 {
        either!(self, sink => sink.arrived_of(sent))
    }

    fn corrupted(&self) -> u64 {
        either!(self, sink => sink.corrupted())
    }

    async fn answer<F: MessageFlow>(&mut self, flow: &mut F) -> Result<(), TransportError> {
        either!(self, sink => sink.answer(flow).await)
    }

    fn report(&self, findings: &mut Findings) {
        either!(self, sink => sink.report(findings))
    }
}
