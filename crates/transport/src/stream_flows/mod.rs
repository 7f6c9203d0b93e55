//! Trial over the streams of one or several connections: a bulk transfer, an exchange of requests
//! and responses, messages that leave on a schedule, or the steps of a script.
//!
//! A *flow* is one stream, and has a connection of its own unless the workload is about the streams of one connection. The
//! flows of a transfer in both directions carry one direction each, because one task cannot read a stream while it writes
//! it; exchanges and scripts take turns. A transfer over one connection is a transfer of one flow.

mod connecting;
mod content;
mod exchange;
mod listening;
mod receiving;
mod schedule;
mod script;
mod sending;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use regatta_model::{BulkOptions, Finish, Opening, Verify, metric::id};

use crate::{
    clock::MonotonicTime,
    content::{noise::Noise, part::Part},
    delivered::Delivered,
    error::{Result, TransportError},
    exchange::ExchangeResult,
    script::run::StepResults,
    statistics::AllConnections,
    stop::Stop,
    trial::{
        Trial,
        distribution::Distribution,
        findings::{Deliveries, Findings},
        warm_up::WarmUp,
    },
};
use content::Content;

/// All flows of a trial. Both ends make the same from their orders.
#[derive(Debug)]
pub(crate) struct Flows {
    flows: Vec<Part>,
    /// Options of a bulk transfer.
    options: BulkOptions,
    /// Time for which a bulk transfer sends, if it has no size.
    duration: Option<Duration>,
    content: Content,
    /// File that is sent, at an end that sends from one.
    noise: Option<Noise>,
    /// Bytes of the file, where there is one.
    file_bytes: u64,
    /// Size of each direction, of a script of both together, in bytes.
    size: u64,
}

impl Flows {
    /// Whether a flow's opening has its index. A single one need not, which is a round trip to a
    /// transport that sends one message at a time.
    fn have_indices(&self) -> bool {
        self.flows.len() > 1
    }

    /// Whether all flows are streams of one connection.
    fn share_connection(&self) -> bool {
        match &self.content {
            Content::Scheduled(schedule) => schedule.shares_connection(),
            Content::Script(script) => script.shares_connection(),
            Content::Bulk | Content::Exchange(_) => false,
        }
    }

    /// Whether a flow is known at the receiving end before its sender goes on: it could be closed
    /// before anything of it has left, its schedule could begin before, or the workload has it so.
    fn are_welcomed(&self) -> bool {
        self.options.finish == Finish::Abandon
            || self.options.opening == Opening::Answered
            || self.schedule().is_some()
    }
}

/// State shared by the tasks of one end.
pub(crate) struct Shared<'a> {
    trial: &'a Trial,
    flows: &'a Flows,
    /// Stop that ends the transfer: at the deadline, or when a flow breaks.
    stop: Stop,
    /// Stop of the connections: [`Self::stop`], but where the probe has a stream of the same
    /// connection, so that its last answers come after the deadline, too.
    connections: Stop,
    /// Stop that is raised when every flow has ended.
    over: Stop,
    statistics: Arc<AllConnections>,
    started: MonotonicTime,
    /// Moments of the schedule, once it has begun, at its sending end.
    scheduled: OnceLock<schedule::Begun>,
    /// Moment at which the transport had the last message of the schedule, in nanoseconds.
    last_left: AtomicI64,
    warm_up: WarmUp,
    left: AtomicUsize,
    /// Sum over the flows of the digests of what was sent, and of what was delivered.
    digest_sent: AtomicU64,
    digest_delivered: AtomicU64,
    tally: Mutex<Tally>,
}

/// Totals over the flows.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    corrupted: u64,
    deliveries: Option<Deliveries>,
    /// Sum of the other end's acknowledgements.
    acknowledged: Delivered,
    last_end: Option<MonotonicTime>,
    /// Results of the exchange at the end that asks.
    exchange: Option<ExchangeResult>,
    /// Delays of messages that had a moment to leave, at the end that gets them.
    delays: Option<Distribution>,
    /// Measured steps of a script, at the client.
    steps: StepResults,
    /// Error of the first flow that failed.
    error: Option<TransportError>,
}

impl<'a> Shared<'a> {
    fn new(
        trial: &'a Trial,
        flows: &'a Flows,
        (stop, over): (&Stop, &Stop),
        started: MonotonicTime,
    ) -> Self {
        Self {
            trial,
            flows,
            stop: stop.clone(),
            connections: match trial.probe.shares_connection() {
                true => trial.stop.child(),
                false => stop.clone(),
            },
            over: over.clone(),
            statistics: Arc::new(AllConnections::new(trial.order.role.name())),
            started,
            scheduled: OnceLock::new(),
            last_left: AtomicI64::new(0),
            warm_up: WarmUp::since(&trial.context.observer, started, flows.options.warm_up),
            left: AtomicUsize::new(flows.flows.len()),
            digest_sent: AtomicU64::new(0),
            digest_delivered: AtomicU64::new(0),
            tally: Mutex::default(),
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock()
    }

    fn abandons(&self) -> bool {
        self.flows.options.finish == Finish::Abandon
    }

    fn sends(&self, flow: &Part) -> bool {
        flow.sent_by == self.trial.order.role
    }

    /// Whether the probe under load has a stream of the flow's connection: that of the first one.
    fn has_probe(&self, flow: &Part) -> bool {
        flow.index == 0 && self.trial.probe.shares_connection()
    }

    /// Stops all flows for the error of one: what the others still do is of no use.
    fn broke(&self, error: TransportError) {
        self.tally().error.get_or_insert(error);
        self.stop.stop();
    }

    /// Notes the end of a flow, with the moment of it; returns whether it was the last one.
    fn ended(&self, result: Result<MonotonicTime>) -> bool {
        match result {
            Err(error) => self.broke(error),
            Ok(at) => {
                let mut tally = self.tally();
                tally.last_end = tally.last_end.max(Some(at));
            }
        }
        let last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            self.over.stop();
        }
        last
    }

    /// Returns whether flows carry data from this end, and whether flows carry data to it.
    fn directions(&self) -> (bool, bool) {
        let flows = &self.flows.flows;
        if let Content::Script(script) = &self.flows.content
            && script.has_answers()
        {
            return (true, true);
        }
        let out = flows.iter().any(|flow| self.sends(flow));
        (out, !flows.iter().all(|flow| self.sends(flow)))
    }

    /// Returns the bytes and messages that this end has sent, by its live counters.
    fn sent(&self) -> Delivered {
        self.trial.context.live.sent()
    }

    /// Returns the bytes and messages that this end has got, by its live counters.
    fn delivered(&self) -> Delivered {
        self.trial.context.live.received()
    }

    fn report_digest(&self, name: &str, digest: &AtomicU64, findings: &mut Findings) {
        if self.flows.options.verify == Verify::Digest {
            findings.digest(name, digest.load(Ordering::Relaxed));
        }
    }

    /// Adds the results of the flows to this end's report. `ours` is what this end had got when the
    /// transfer ended; `theirs` is what the other end has got of this end's, where that is known.
    fn report(&self, findings: &mut Findings, ours: Delivered, theirs: Option<Delivered>) {
        let (sends, receives) = self.directions();
        let options = &self.flows.options;
        let tally = self.tally();
        if sends {
            // The counters do not include the message under way at the deadline, part of which
            // may have been delivered.
            let sent = self.sent().max(theirs.unwrap_or_default());
            findings.count(id::BYTES_SENT, sent.bytes);
            findings.count(id::MESSAGES_SENT, sent.messages);
            if let Some((schedule, begun)) = self.flows.schedule().zip(self.scheduled.get()) {
                let left = MonotonicTime(self.last_left.load(Ordering::Relaxed));
                let ratio = schedule.rate_ratio(*begun, self.sent().messages, left);
                findings.metric(id::MESSAGE_RATE_RATIO, ratio);
            }
            if let Some(theirs) = theirs.filter(|_| self.abandons()) {
                findings.lost(sent.messages - theirs.messages, sent.messages);
            }
            self.report_digest("digest.sent", &self.digest_sent, findings);
        }
        if receives {
            let deliveries = tally.deliveries.filter(|_| self.flows.has_goodput());
            findings.delivery(ours, tally.corrupted, deliveries);
            // What comes after the deadline is in neither.
            findings.warm_up_bytes(self.trial, options.warm_up, ours.bytes);
            self.report_digest("digest.delivered", &self.digest_delivered, findings);
        }
        if self.trial.order.connects() {
            findings.warm_up(options.warm_up);
        }
        self.report_content(&tally, receives, findings);
        if self.abandons() {
            findings.abandoned(self.trial.order.role);
        }
        if let Some(noise) = &self.flows.noise {
            findings.fact("file", noise.name());
        }
    }
}
