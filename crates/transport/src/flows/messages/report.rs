//! Report of the flows of messages of one end.

use regatta_control::Role;
use regatta_model::metric::{DelayMetrics, id};

use super::Shared;
use crate::{
    clock::MonotonicTime, content::message_check::Counts, delivered::Delivered,
    message::MessageEndpoint, timeout::RetransmissionTimeout, trial::findings::Findings,
};

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
        let retransmission = match self.own.reliable {
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

    /// Adds the results of the flows to this end, of which it had `delivered` when the transfer ended, at `ended`.
    pub(super) fn report_received(
        &self,
        (delivered, ended): (Delivered, MonotonicTime),
        findings: &mut Findings,
    ) {
        let tally = self.tally();
        let sinks = || tally.received.iter().map(|received| &received.sink);
        let sum = |count: fn(&Counts) -> u64| sinks().map(|sink| count(sink.counts())).sum();
        let deliveries = tally.deliveries.filter(|_| self.flows.has_goodput());
        findings.delivery(delivered, sum(|counts| counts.corrupted), deliveries);
        findings.warm_up_bytes(self.trial, self.flows.options.warm_up, (u64::MAX, ended));
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

    /// Adds the results that only this content has, and the facts of the flows.
    pub(super) fn report_flows(&self, findings: &mut Findings) {
        let timeout = RetransmissionTimeout::of_applications(&self.trial.order.path);
        self.report_content((!self.own.reliable).then_some(&timeout), findings);
        findings.facts(self.tally().facts.clone());
    }
}
