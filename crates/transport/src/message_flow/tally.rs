//! Results of all flows of one end, and their report.

use std::sync::Arc;

use regatta_control::Role;
use regatta_model::Facts;
use regatta_model::metric::{DelayMetrics, id};

use super::Shared;
use crate::{
    clock::MonotonicTime,
    content::message_check::{Counts, MessageSink},
    context::StatisticsSource,
    delivered::Delivered,
    error::TransportError,
    exchange::ExchangeResult,
    message::{MessageEndpoint, MessageFlow},
    script::run::StepResults,
    statistics::AllConnections,
    trial::{
        distribution::Distribution,
        findings::{Deliveries, Findings},
    },
};

/// A flow to this end, when it has ended.
#[derive(Debug)]
pub(super) struct Received {
    pub flow: u16,
    pub sink: Box<dyn MessageSink>,
    /// Whether it came to its end before the deadline.
    pub is_complete: bool,
}

/// Totals over the flows.
pub(super) struct Tally {
    /// Flows to this end.
    pub received: Vec<Received>,
    pub deliveries: Option<Deliveries>,
    pub one_way: Distribution,
    /// Sum of the other end's acknowledgements, and whether all came in their flows.
    pub acknowledged: Delivered,
    pub all_in_band: bool,
    /// Number of messages that have left this end, of flows that the deadline stopped and of those that
    /// had ended.
    pub left: u64,
    /// Smallest ratio of a flow's rate to the configured one, over the paced flows from this end.
    pub rate_ratio: Option<f64>,
    /// Results of an exchange at the end that asks.
    pub exchange: ExchangeResult,
    /// Measured steps of a script, at the client.
    pub steps: StepResults,
    /// Latest end of a flow; the beginning of the transfer before the first.
    pub last_end: MonotonicTime,
    pub statistics: Arc<AllConnections>,
    pub facts: Facts,
    /// Error of the first flow that failed.
    pub error: Option<TransportError>,
}

impl Tally {
    /// Makes the totals of an end, `sender` or `receiver`, of a transfer that began at `started`.
    pub(super) fn new(end: &'static str, started: MonotonicTime) -> Self {
        Self {
            received: Vec::new(),
            deliveries: None,
            one_way: Distribution::default(),
            acknowledged: Delivered::default(),
            all_in_band: true,
            left: 0,
            rate_ratio: None,
            exchange: ExchangeResult::default(),
            steps: StepResults::default(),
            last_end: started,
            statistics: Arc::new(AllConnections::new(end)),
            facts: Facts::default(),
            error: None,
        }
    }

    /// Adds a flow to this end that has ended.
    pub(super) fn add(
        &mut self,
        received: Received,
        deliveries: Option<Deliveries>,
        one_way: &Distribution,
    ) {
        Deliveries::merge(&mut self.deliveries, deliveries);
        self.one_way.merge(one_way);
        self.received.push(received);
    }

    /// Adds the messages to this end of a flow that carries messages both ways.
    pub(super) fn add_both_ways(&mut self, flow: u16, sink: Box<dyn MessageSink>) {
        self.received.push(Received {
            flow,
            sink,
            is_complete: true,
        });
    }

    /// Notes the ratio of a flow's rate to the configured one, of a flow from this end.
    pub(super) fn note_rate(&mut self, ratio: f64) {
        self.rate_ratio = Some(self.rate_ratio.map_or(ratio, |least| least.min(ratio)));
    }

    /// Returns the sum of the other end's acknowledgements, if all came in their flows.
    pub(super) fn acknowledged(&self) -> Option<Delivered> {
        self.all_in_band.then_some(self.acknowledged)
    }

    /// Adds the statistics of a flow's connection. Returns those of all if it is the first one.
    pub(super) fn opened(&self, flow: &impl MessageFlow) -> Option<Arc<dyn StatisticsSource>> {
        let is_first = self.statistics.is_empty();
        self.statistics.add(flow.statistics()?);
        is_first.then(|| Arc::clone(&self.statistics) as Arc<dyn StatisticsSource>)
    }

    /// Notes that a flow was carried to its end.
    pub(super) fn carried(&mut self, flow: &impl MessageFlow) {
        self.statistics.remember();
        self.facts.extend(flow.facts());
    }
}

/// State of the messages of an end that sends, when the transfer has ended.
pub(super) struct Sent {
    /// Bytes and messages that were handed over.
    pub handed_over: Delivered,
    /// Bytes and messages that came to the other end.
    pub theirs: Delivered,
    /// Whether the deadline ended the transfer: what was under way then is not lost, and what never left
    /// this end neither.
    pub by_deadline: bool,
    /// Number of messages that arrived in the end; `None` if it is not known.
    pub arrived: Option<u64>,
}

impl Shared<'_> {
    /// Adds the results of the flows from this end.
    pub(super) fn report_sent<E: MessageEndpoint>(
        &self,
        endpoint: &E,
        sent: &Sent,
        findings: &mut Findings,
    ) {
        let tally = self.tally();
        // The counters do not include the batch under way at the deadline, part of which may
        // have been delivered.
        let Delivered {
            bytes,
            mut messages,
        } = sent.handed_over.max(sent.theirs);
        let mut left = messages;
        if sent.by_deadline {
            // As the receiver counts them: a batch that was handed over after the deadline is in neither.
            left = (tally.left).min(self.sent_on_flow(sent.handed_over.messages));
            messages = messages.max(left);
        }
        let retransmission = match self.reliable {
            true => "by the transport",
            false => "none",
        };
        findings.fact("retransmission", retransmission);
        findings.count(id::BYTES_SENT, bytes);
        findings.count(id::MESSAGES_SENT, messages);
        findings.metric(id::MESSAGE_RATE_RATIO, tally.rate_ratio);
        if let Some(arrived) = sent.arrived {
            let lost = left.max(sent.theirs.messages).saturating_sub(arrived);
            findings.count(id::MESSAGES_LOST, lost);
            if messages > 0 {
                findings.metric(id::MESSAGE_LOSS_RATIO, lost as f64 / messages as f64);
            }
            if sent.by_deadline {
                let given_up = sent.handed_over.messages.saturating_sub(left);
                findings.fact("messages_given_up.sender", given_up.to_string());
            }
        }
        findings.warnings(endpoint.warnings());
    }

    /// Adds the results of the flows to this end, of which it had `delivered` when the transfer ended.
    pub(super) fn report_received(&self, delivered: Delivered, findings: &mut Findings) {
        let tally = self.tally();
        let sinks = || tally.received.iter().map(|received| &received.sink);
        let sum = |count: fn(&Counts) -> u64| sinks().map(|sink| count(sink.counts())).sum();
        let deliveries = tally.deliveries.filter(|_| self.work.has_goodput);
        findings.delivery(delivered, sum(|counts| counts.corrupted), deliveries);
        findings.warm_up_bytes(self.trial, self.work.warm_up, u64::MAX);
        if sinks().all(|sink| sink.has_numbers()) {
            // As iperf3 has it: the mean over the flows that have one; of none it is not a number and left out.
            let jitters: Vec<f64> = sinks().filter_map(|it| it.interarrival_jitter()).collect();
            let jitter = jitters.iter().sum::<f64>() / jitters.len() as f64;
            findings.fact("message_check", "sequence");
            findings.count(id::MESSAGES_DUPLICATED, sum(|counts| counts.duplicated));
            findings.count(id::MESSAGES_REORDERED, sum(|counts| counts.reordered));
            findings.metric(id::INTERARRIVAL_JITTER_NS, jitter);
        } else {
            findings.fact("message_check", "count");
        }
        // Of a transfer in both directions the delay is that of the way from the connecting host.
        let role = self.trial.order.role;
        if role == Role::Receiver {
            let names = DelayMetrics::ONE_WAY;
            tally.one_way.report(names, role.name(), findings);
        }
    }

    /// Adds the number of flows of a bulk transfer, and the facts of the flows.
    pub(super) fn report_flows(&self, findings: &mut Findings) {
        if let super::Content::Bulk(_) = &self.work.content {
            let (out, back) = self.directions();
            let per_direction =
                self.work.flows.len() / (usize::from(out) + usize::from(back)).max(1);
            findings.fact("flows", per_direction.to_string());
        }
        let tally = self.tally();
        findings.facts(tally.facts.clone());
    }
}
