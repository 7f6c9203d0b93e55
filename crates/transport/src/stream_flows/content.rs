//! Contents of the flows: the workloads over streams, one variant each.

use regatta_control::TrialOrder;
use regatta_model::{Amount, BulkOptions, Bytes, Pattern, WorkloadKind, metric::DelayMetrics};

use super::{
    Flows, Shared, Tally,
    exchange::Responder,
    receiving::receive,
    schedule::{Arrivals, Schedule},
};
use crate::{
    clock::MonotonicTime,
    content::{
        noise::Noise,
        part::{Part, index_of},
        plan::Plan,
        stream_check::StreamCheck,
    },
    error::Result,
    exchange::Exchange,
    executor::Executor,
    script::Script,
    stream::ByteStream,
    trial::findings::Findings,
};

/// Content of the flows.
#[derive(Debug)]
pub(super) enum Content {
    Bulk,
    /// Requests and their answers, which the only flow carries.
    Exchange(Box<Exchange>),
    Scheduled(Schedule),
    Script(Script),
}

impl Flows {
    /// Makes the flows of the order's workload.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for what this transport or these hosts cannot do,
    /// [`TransportError::Io`] for a file that cannot be made.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        match order.workload.kind {
            WorkloadKind::Script(ref script) => {
                let (script, parts) = Script::new(order, script)?;
                let bytes = script.bytes(&parts);
                Ok(Self::of(parts, bytes, Content::Script(script)))
            }
            WorkloadKind::Bulk {
                amount,
                message,
                pattern,
                options,
            } => Self::of_bulk(order, amount, (message, pattern), options),
            WorkloadKind::MultiStream {
                messages,
                message,
                messages_per_second,
                streams,
                spread,
            } => {
                let schedule = Schedule {
                    per_second: messages_per_second,
                    flows: streams.into(),
                    spread,
                    clock_offset_ns: order.path.clock_offset_ns,
                };
                Self::of_schedule(order, schedule, messages, message)
            }
            WorkloadKind::StopAndWait { .. }
            | WorkloadKind::RequestResponse { .. }
            | WorkloadKind::ShortConnections { .. } => Ok(Self::of_exchange(Exchange::new(order)?)),
        }
    }

    /// Makes flows that are not those of a bulk transfer.
    fn of(flows: Vec<Part>, size: u64, content: Content) -> Self {
        Self {
            flows,
            options: BulkOptions::default(),
            duration: None,
            content,
            noise: None,
            file_bytes: 0,
            size,
        }
    }

    /// Makes the flow of an exchange.
    fn of_exchange(exchange: Exchange) -> Self {
        let flow = Part::from_client(0, exchange.requests.clone());
        Self::of(
            vec![flow],
            exchange.requests.size,
            Content::Exchange(Box::new(exchange)),
        )
    }

    /// Makes the flows of messages that leave on a schedule.
    fn of_schedule(
        order: &TrialOrder,
        schedule: Schedule,
        messages: u64,
        message: Bytes,
    ) -> Result<Self> {
        schedule.check(messages)?;
        let size = messages.saturating_mul(message.0);
        let all_messages = Plan::of(order, "", Bytes(size), message, Pattern::Random)?;
        let flow = |number: u64| {
            let count = schedule.of_flow(number, messages);
            let index = index_of(number as usize)?;
            let plan = all_messages.part(count * message.0, index.into());
            Ok(Part::from_client(index, plan))
        };
        let flows = (0..schedule.flows).map(flow);
        let flows = flows.collect::<Result<_>>()?;
        Ok(Self::of(flows, size, Content::Scheduled(schedule)))
    }

    /// Makes the flows of a bulk transfer.
    fn of_bulk(
        order: &TrialOrder,
        amount: Amount,
        (message, pattern): (Bytes, Pattern),
        options: BulkOptions,
    ) -> Result<Self> {
        let size = amount.bytes();
        let file = order.workload.kind.file_bytes();
        // A message is not cut to a size that does not count.
        let file_bytes = file.unwrap_or(match amount {
            Amount::Bytes(size) => size.0,
            Amount::Time(_) => size.0.max(message.0),
        });
        let all_messages = Plan::of(order, "", Bytes(file_bytes), message, pattern)?;
        let flows = Part::of_bulk(&options, size.0, |part, index| match amount {
            Amount::Bytes(_) => all_messages.part(part, index),
            Amount::Time(_) => all_messages.endless(index),
        })?;
        let sends = flows.iter().any(|flow| flow.sent_by == order.role);
        let noise = file.filter(|_| sends).map(Noise::of).transpose()?;
        Ok(Self {
            options,
            duration: amount.time(),
            noise,
            file_bytes,
            ..Self::of(flows, size.0, Content::Bulk)
        })
    }

    pub(super) fn has_goodput(&self) -> bool {
        match &self.content {
            Content::Bulk => true,
            Content::Exchange(exchange) => exchange.has_goodput(),
            Content::Scheduled(_) | Content::Script(_) => false,
        }
    }

    pub(super) fn schedule(&self) -> Option<&Schedule> {
        match &self.content {
            Content::Scheduled(schedule) => Some(schedule),
            _ => None,
        }
    }
}

impl Shared<'_> {
    /// Takes a flow's part and acknowledges it; returns the moment of its end. `rest` are the bytes
    /// that came with its opening.
    pub(super) async fn receive(
        &self,
        executor: &impl Executor,
        flow: &Part,
        stream: &mut impl ByteStream,
        rest: &[u8],
    ) -> Result<MonotonicTime> {
        let plan = &flow.plan;
        match &self.flows.content {
            Content::Bulk => receive(self, StreamCheck::new(plan), stream, rest).await,
            Content::Exchange(exchange) => {
                receive(self, Responder::new(exchange), stream, rest).await
            }
            Content::Scheduled(schedule) => {
                let arrivals = Arrivals::new(schedule, flow.index, plan);
                receive(self, arrivals, stream, rest).await
            }
            Content::Script(script) => script.answer(self, executor, flow, (stream, rest)).await,
        }
    }

    /// Adds the results that only flows of this content have.
    pub(super) fn report_content(&self, tally: &Tally, receives: bool, findings: &mut Findings) {
        match &self.flows.content {
            Content::Bulk => findings.fact("flows", self.flows.options.flows.to_string()),
            Content::Exchange(exchange) => {
                if let Some(result) = &tally.exchange {
                    exchange.report(result, findings);
                }
            }
            Content::Script(script) => {
                script.report(self.trial, &tally.steps, None, findings);
            }
            Content::Scheduled(_) => {
                if let Some(delays) = tally.delays.as_ref().filter(|_| receives) {
                    delays.report(DelayMetrics::MESSAGE, "receiver", findings);
                }
            }
        }
    }
}
