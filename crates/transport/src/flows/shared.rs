//! State of one end of a trial over flows, and its totals.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::{Mutex, MutexGuard};
use regatta_model::{Facts, metric::DelayMetrics};

use super::{Content, Flows, script::run::StepResults};
use crate::{
    clock::MonotonicTime,
    content::message_check::MessageSink,
    delivered::Delivered,
    error::TransportError,
    exchange::ExchangeResult,
    statistics::AllConnections,
    stop::Stop,
    timeout::RetransmissionTimeout,
    trial::{
        Trial,
        distribution::Distribution,
        findings::{Deliveries, Findings},
        warm_up::WarmUp,
    },
};

/// State shared by the tasks of one end. `own` is that of streams or of messages.
pub(crate) struct Shared<'a, X> {
    pub trial: &'a Trial,
    pub flows: &'a Flows,
    /// Stop that ends the transfer: at the deadline, or when a flow breaks.
    pub stop: Stop,
    /// Stop that is raised when the work is over.
    pub over: Stop,
    pub statistics: Arc<AllConnections>,
    /// Moment from which the transfer's time counts here.
    pub started: MonotonicTime,
    pub warm_up: WarmUp,
    /// Number of flows that have not ended.
    open: AtomicUsize,
    tally: Mutex<Tally>,
    pub own: X,
}

/// A flow of messages to this end, when it has ended.
#[derive(Debug)]
pub(crate) struct Received {
    pub flow: u16,
    pub sink: Box<dyn MessageSink>,
    /// Whether it came to its end before the deadline.
    pub is_complete: bool,
}

/// Totals over the flows.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Messages that came damaged.
    pub corrupted: u64,
    pub deliveries: Option<Deliveries>,
    /// Flows of messages to this end.
    pub received: Vec<Received>,
    /// One-way delays of messages that carry the time of sending.
    pub one_way: Distribution,
    /// Sum of the other end's acknowledgements, and whether one came over control instead of in its flow.
    pub acknowledged: Delivered,
    pub over_control: bool,
    /// Number of messages that have left this end over flows of messages, of flows that the deadline stopped and of those
    /// that had ended.
    pub left: u64,
    /// Smallest ratio of a flow's rate to the configured one, over the paced flows from this end.
    pub rate_ratio: Option<f64>,
    /// Results of the exchange at the end that asks.
    pub exchange: ExchangeResult,
    /// Delays of messages that had a moment to leave, at the end that gets them.
    pub delays: Option<Distribution>,
    /// Measured steps of a script, at the client.
    pub steps: StepResults,
    /// Latest end of a flow.
    pub last_end: Option<MonotonicTime>,
    /// Facts of flows of messages.
    pub facts: Facts,
    /// Error of the first flow that failed.
    pub error: Option<TransportError>,
}

impl<'a, X> Shared<'a, X> {
    /// Makes the state of an end whose transfer began at `started`. `stop` ends the transfer, and `over` is raised with the
    /// end of the work.
    pub(super) fn new(
        (trial, flows): (&'a Trial, &'a Flows),
        (stop, over): (&Stop, &Stop),
        started: MonotonicTime,
        own: X,
    ) -> Self {
        Self {
            trial,
            flows,
            stop: stop.clone(),
            over: over.clone(),
            statistics: Arc::new(AllConnections::new(trial.order.role.name())),
            started,
            warm_up: WarmUp::since(&trial.context.observer, started, flows.options.warm_up),
            open: AtomicUsize::new(flows.parts.len()),
            tally: Mutex::default(),
            own,
        }
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock()
    }

    /// Whether this end sends on a flow; of a script the client.
    pub(super) fn sends(&self, flow: u16) -> bool {
        let part = self.flows.parts.get(usize::from(flow));
        part.is_some_and(|part| part.sent_by == self.trial.order.role)
    }

    /// Returns whether flows carry payload from this end, and whether flows carry payload to it.
    pub(super) fn directions(&self) -> (bool, bool) {
        if self.flows.answer() {
            return (true, true);
        }
        let here = self.trial.order.role;
        let mut senders = self.flows.parts.iter().map(|part| part.sent_by);
        let out = senders.clone().any(|sender| sender == here);
        (out, senders.any(|sender| sender != here))
    }

    /// Returns the bytes and messages that this end has sent, by its live counters.
    pub(super) fn sent(&self) -> Delivered {
        self.trial.context.live.sent()
    }

    /// Returns the bytes and messages that this end has got, by its live counters.
    pub(super) fn delivered(&self) -> Delivered {
        self.trial.context.live.received()
    }

    /// Stops all flows for the error of one: what the others still do is of no use.
    pub(super) fn broke(&self, error: TransportError) {
        self.tally().error.get_or_insert(error);
        self.stop.stop();
    }

    /// Notes that a flow has ended, with the moment if it came to its end; returns whether it was the last one.
    pub(super) fn flow_ended(&self, at: Option<MonotonicTime>) -> bool {
        {
            let mut tally = self.tally();
            tally.last_end = tally.last_end.max(at);
        }
        self.open.fetch_sub(1, Ordering::AcqRel) == 1
    }
    /// Adds the results that only this content has. `timeout` is the time after which messages of a script are given up, where
    /// they can be lost.
    pub(super) fn report_content(
        &self,
        timeout: Option<&RetransmissionTimeout>,
        findings: &mut Findings,
    ) {
        let tally = self.tally();
        match &self.flows.content {
            Content::Bulk => findings.fact("flows", self.flows.options.flows.to_string()),
            Content::Exchange(exchange) => exchange.report(&tally.exchange, findings),
            Content::Script(script) => script.report(self.trial, &tally.steps, timeout, findings),
            Content::Scheduled(_) => {
                if let Some(delays) = &tally.delays {
                    delays.report(DelayMetrics::MESSAGE, "receiver", findings);
                }
            }
        }
    }
}
