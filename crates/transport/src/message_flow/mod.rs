//! Trial of one flow of messages: probes over the idle path, the flow with probes beside it, the
//! end by agreement of both ends or by the deadline. The workload decides what the flow carries.

pub(crate) mod bulk;
mod message_receiver;
pub(crate) mod messages;

use std::{fmt, time::Duration};

use regatta_control::TrialOrder;
use regatta_model::WorkloadKind;

use crate::{
    clock::MonotonicTime,
    driver::{TransportError, Unsupported},
    exchange::{Asked, Exchange},
    message::MessageEndpoint,
    trial::{connecting::Connecting, findings::Findings, messages::Messages, watch::Delivered},
};

/// Workload of one flow of messages.
#[derive(Debug)]
pub(crate) enum Work {
    Bulk(bulk::Bulk),
    Exchange(Exchange),
}

impl Work {
    /// Reads an order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for what only streams can do.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        match &order.workload.kind {
            WorkloadKind::Bulk { .. } => Ok(Self::Bulk(bulk::Bulk::new(order)?)),
            WorkloadKind::StopAndWait { .. } | WorkloadKind::RequestResponse { .. } => {
                let work = Exchange::new(order)?;
                work.check_messages()?;
                Ok(Self::Exchange(work))
            }
            WorkloadKind::ShortConnections { .. } | WorkloadKind::MultiStream { .. } => {
                Err(TransportError::Unsupported(Unsupported {
                    reason: "messages without connections or streams cannot run this workload"
                        .to_owned(),
                    hint: "choose a transport of streams".to_owned(),
                }))
            }
        }
    }

    /// Returns the bytes that the workload means to deliver.
    fn size(&self) -> u64 {
        match self {
            Self::Bulk(bulk) => bulk.size,
            Self::Exchange(exchange) => exchange.size(),
        }
    }

    /// Whether the workload's goodput is meaningful.
    fn has_goodput(&self) -> bool {
        match self {
            Self::Bulk(_) => true,
            Self::Exchange(exchange) => exchange.has_goodput(),
        }
    }

    /// Returns the length of the longest message, in bytes.
    pub(crate) fn longest_message(&self) -> usize {
        match self {
            Self::Bulk(bulk) => bulk.plan.message,
            Self::Exchange(exchange) => exchange.longest_message(),
        }
    }

    /// Returns the length of the beginning that is left out of goodput and of CPU time.
    fn warm_up(&self) -> Duration {
        match self {
            Self::Bulk(bulk) => bulk.warm_up,
            Self::Exchange(_) => Duration::ZERO,
        }
    }

    /// Makes the receiver's part.
    fn sink(&self) -> Box<dyn MessageSink> {
        match self {
            Self::Bulk(bulk) => Box::new(bulk.sink()),
            Self::Exchange(exchange) => Box::new(exchange.sink()),
        }
    }

    /// Runs the sender's part: everything until both ends have agreed on what was delivered; it
    /// tells the watch. Returns whether the acknowledgement came in the flow.
    async fn send<E: MessageEndpoint>(
        &self,
        end: &Connecting<'_, Messages<'_, E>>,
        flow: &mut E::Flow,
        asked: &mut Asked,
    ) -> Result<bool, TransportError> {
        match self {
            Self::Bulk(bulk) => bulk.send(end, flow).await,
            Self::Exchange(exchange) => exchange.send(end, flow, asked).await,
        }
    }

    /// Adds the sender's results to the report.
    fn report(&self, asked: &Asked, findings: &mut Findings) {
        match self {
            Self::Bulk(bulk) => findings.warm_up(bulk.warm_up),
            Self::Exchange(exchange) => exchange.report(asked, findings),
        }
    }
}

/// The receiver's part of a workload over messages.
pub(crate) trait MessageSink: Send + fmt::Debug {
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

    /// Returns the next answer to what has come, if the workload has answers.
    fn next_answer(&mut self) -> Option<&[u8]> {
        None
    }

    /// Adds further results to the report.
    fn report(&self, findings: &mut Findings);
}
