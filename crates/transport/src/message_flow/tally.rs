//! Results of all flows of one end, and their report.

use std::{collections::BTreeMap, sync::Arc};

use hdrhistogram::Histogram as Hdr;
use regatta_control::Role;
use regatta_model::metric::id;

use super::{MessageSink, Shared};
use crate::{
    clock::MonotonicTime,
    context::StatisticsSource,
    driver::TransportError,
    exchange::Asked,
    message::MessageEndpoint,
    probe,
    statistics::AllConnections,
    trial::{
        findings::{Deliveries, Findings},
        watch::Delivered,
    },
};

/// Result of the check of the messages of a flow, or of several.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Check {
    /// Whether messages have numbers: without them they are counted and nothing else is known.
    pub has_numbers: bool,
    /// Messages that came damaged.
    pub corrupted: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// Smoothed interarrival jitter, in nanoseconds.
    pub jitter: Option<f64>,
}

impl Check {
    /// Combines the checks of several flows: counts are sums, the jitter is the mean over the flows that
    /// have one, as iperf3 has it.
    fn of_all(checks: &[Self]) -> Self {
        let jitters: Vec<f64> = checks.iter().filter_map(|check| check.jitter).collect();
        let sum = |count: fn(&Self) -> u64| checks.iter().map(count).sum();
        Self {
            has_numbers: checks.iter().all(|check| check.has_numbers),
            corrupted: sum(|check| check.corrupted),
            duplicated: sum(|check| check.duplicated),
            reordered: sum(|check| check.reordered),
            jitter: (!jitters.is_empty())
                .then(|| jitters.iter().sum::<f64>() / jitters.len() as f64),
        }
    }

    fn report(&self, findings: &mut Findings) {
        if !self.has_numbers {
            findings.fact("message_check", "count");
            return;
        }
        findings.fact("message_check", "sequence");
        findings.count(id::MESSAGES_DUPLICATED, self.duplicated);
        findings.count(id::MESSAGES_REORDERED, self.reordered);
        findings.metric(id::INTERARRIVAL_JITTER_NS, self.jitter);
    }
}

/// A flow to this end, when it has ended.
#[derive(Debug)]
pub(super) struct Received {
    pub flow: u16,
    pub sink: Box<dyn MessageSink>,
    /// Whether it came to its end before the deadline.
    pub is_whole: bool,
}

/// Totals over the flows.
pub(super) struct Tally {
    /// Flows to this end.
    pub received: Vec<Received>,
    pub deliveries: Option<Deliveries>,
    pub one_way: Hdr<u64>,
    /// Sum of the other end's acknowledgements; meaningless unless all came in their flows.
    pub acknowledged: Delivered,
    pub all_in_band: bool,
    /// Number of messages that have left this end, of flows that the deadline stopped and of those that
    /// had ended.
    pub left: u64,
    /// Part of the asked rate that the flow which kept least of it kept, of paced flows from this end.
    pub rate_ratio: Option<f64>,
    /// Results of an exchange at the end that asks.
    pub asked: Asked,
    pub last_end: Option<MonotonicTime>,
    pub statistics: Arc<AllConnections>,
    pub facts: BTreeMap<String, String>,
    /// Error of the first flow that failed.
    pub error: Option<TransportError>,
}

impl Tally {
    /// Makes the totals of an end, `sender` or `receiver`.
    pub(super) fn new(end: &'static str) -> Self {
        Self {
            received: Vec::new(),
            deliveries: None,
            one_way: probe::new_histogram(),
            acknowledged: Delivered::default(),
            all_in_band: true,
            left: 0,
            rate_ratio: None,
            asked: Asked::default(),
            last_end: None,
            statistics: Arc::new(AllConnections::new(end)),
            facts: BTreeMap::new(),
            error: None,
        }
    }

    /// Notes the part of the asked rate that a flow from this end kept.
    pub(super) fn note_rate(&mut self, ratio: f64) {
        self.rate_ratio = Some(self.rate_ratio.map_or(ratio, |least| least.min(ratio)));
    }

    /// Adds the statistics of a flow's connection. Returns those of all if it is the first one.
    pub(super) fn add_statistics(
        &self,
        of_flow: Option<Arc<dyn StatisticsSource>>,
    ) -> Option<Arc<dyn StatisticsSource>> {
        let is_first = self.statistics.is_empty();
        self.statistics.add(of_flow?);
        is_first.then(|| Arc::clone(&self.statistics) as Arc<dyn StatisticsSource>)
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
        // The counters lag behind by the batch under way when the deadline came, part of which may
        // have been delivered.
        let bytes = sent.handed_over.bytes.max(sent.theirs.bytes);
        let mut messages = sent.handed_over.messages.max(sent.theirs.messages);
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
        let warnings = endpoint.warnings(self.work.longest_message());
        findings.0.measurements.warnings.extend(warnings);
    }

    /// Adds the results of the flows to this end, of which it had `delivered` when the transfer ended.
    pub(super) fn report_received(&self, delivered: Delivered, findings: &mut Findings) {
        let tally = self.tally();
        let checks: Vec<Check> = (tally.received.iter())
            .map(|received| received.sink.check())
            .collect();
        let check = Check::of_all(&checks);
        let deliveries = tally.deliveries.filter(|_| self.work.has_goodput());
        findings.delivery(delivered, check.corrupted, deliveries);
        findings.warm_up_bytes(self.trial, self.work.warm_up(), u64::MAX);
        check.report(findings);
        // Of a transfer in both directions the delay is that of the way from the connecting host.
        let role = self.trial.order.role;
        if role == Role::Receiver && !tally.one_way.is_empty() {
            let median = tally.one_way.value_at_quantile(0.5) as f64;
            findings.metric(id::ONE_WAY_DELAY_NS, median);
            let histogram = probe::encode(id::ONE_WAY_DELAY_NS, role.name(), &tally.one_way);
            findings.0.measurements.histograms.extend(histogram);
        }
    }

    /// Adds the number of flows of a bulk transfer, and the facts of the flows.
    pub(super) fn report_flows(&self, findings: &mut Findings) {
        if let super::Work::Bulk(_) = self.work {
            let (out, back) = self.ways();
            let per_way = self.flows.len() / (usize::from(out) + usize::from(back)).max(1);
            findings.fact("flows", per_way.to_string());
        }
        let tally = self.tally();
        findings.facts(tally.facts.clone());
    }
}
