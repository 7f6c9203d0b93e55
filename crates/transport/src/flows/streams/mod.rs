//! Interpreter of flows over the streams of one or several connections.

mod arrivals;
mod connecting;
mod exchange;
mod listening;
mod receiving;
mod script;
mod sending;

use std::sync::{
    OnceLock,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use regatta_model::{Finish, Verify, metric::id};

use super::{Content, schedule};
use crate::{
    clock::MonotonicTime,
    content::{part::Part, stream_check::StreamCheck},
    delivered::Delivered,
    error::Result,
    executor::Executor,
    stop::Stop,
    stream::ByteStream,
    trial::{Trial, findings::Findings},
};
use arrivals::Arrivals;
use exchange::Responder;
use receiving::receive;

/// State of an end of streams.
type Shared<'a> = super::Shared<'a, StreamState>;

/// Part of the state of an end that only streams have.
pub(crate) struct StreamState {
    /// Stop of the connections: that of the transfer, but where the probe has a stream of the same
    /// connection, so that its last answers come after the deadline, too.
    connections: Stop,
    /// Moments of the schedule, once it has begun, at its sending end.
    scheduled: OnceLock<schedule::Begun>,
    /// Moment at which the transport had the last message of the schedule, in nanoseconds.
    last_left: AtomicI64,
    /// Sum over the flows of the digests of what was sent, and of what was delivered.
    digest_sent: AtomicU64,
    digest_delivered: AtomicU64,
}

impl StreamState {
    /// Makes the state of a transfer that `stop` ends.
    fn new(trial: &Trial, stop: &Stop) -> Self {
        Self {
            connections: match trial.probe.shares_connection() {
                true => trial.stop.child(),
                false => stop.clone(),
            },
            scheduled: OnceLock::new(),
            last_left: AtomicI64::new(0),
            digest_sent: AtomicU64::new(0),
            digest_delivered: AtomicU64::new(0),
        }
    }
}

impl Shared<'_> {
    fn abandons(&self) -> bool {
        self.flows.options.finish == Finish::Abandon
    }

    /// Whether the probe under load has a stream of the flow's connection: that of the first one.
    fn has_probe(&self, flow: &Part) -> bool {
        flow.index == 0 && self.trial.probe.shares_connection()
    }

    /// Notes the end of a flow, with the moment of it; returns whether it was the last one.
    fn ended(&self, result: Result<MonotonicTime>) -> bool {
        let at = result.map_err(|error| self.broke(error)).ok();
        let last = self.flow_ended(at);
        if last {
            self.over.stop();
        }
        last
    }

    /// Takes a flow's part and acknowledges it; returns the moment of its end. `rest` are the bytes
    /// that came with its opening.
    async fn receive(
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

    fn report_digest(&self, name: &str, digest: &AtomicU64, findings: &mut Findings) {
        if self.flows.options.verify == Verify::Digest {
            findings.digest(name, digest.load(Ordering::Relaxed));
        }
    }

    /// Adds the results of the flows to this end's report. `ours` is what this end had got when the
    /// transfer ended, at `ended`; `theirs` is what the other end has got of this end's, where that is known.
    fn report(
        &self,
        findings: &mut Findings,
        (ours, ended): (Delivered, MonotonicTime),
        theirs: Option<Delivered>,
    ) {
        let (sends, receives) = self.directions();
        let options = &self.flows.options;
        let tally = self.tally();
        if sends {
            // The counters do not include the message under way at the deadline, part of which
            // may have been delivered.
            let sent = self.sent().max(theirs.unwrap_or_default());
            findings.count(id::BYTES_SENT, sent.bytes);
            findings.count(id::MESSAGES_SENT, sent.messages);
            if let Some((schedule, begun)) = self.flows.schedule().zip(self.own.scheduled.get()) {
                let left = MonotonicTime(self.own.last_left.load(Ordering::Relaxed));
                let ratio = schedule.rate_ratio(*begun, self.sent().messages, left);
                findings.metric(id::MESSAGE_RATE_RATIO, ratio);
            }
            if let Some(theirs) = theirs.filter(|_| self.abandons()) {
                findings.lost(sent.messages - theirs.messages, sent.messages);
            }
            self.report_digest("digest.sent", &self.own.digest_sent, findings);
        }
        if receives {
            let deliveries = tally.deliveries.filter(|_| self.flows.has_goodput());
            findings.delivery(ours, tally.corrupted, deliveries);
            // What comes after the deadline is in neither.
            findings.warm_up_bytes(self.trial, options.warm_up, (ours.bytes, ended));
            self.report_digest("digest.delivered", &self.own.digest_delivered, findings);
        }
        if self.trial.order.connects() {
            findings.warm_up(options.warm_up);
        }
        drop(tally);
        self.report_content(None, findings);
        if self.abandons() {
            findings.abandoned(self.trial.order.role);
        }
        if let Some(noise) = &self.flows.noise {
            findings.fact("file", noise.name());
        }
    }
}
