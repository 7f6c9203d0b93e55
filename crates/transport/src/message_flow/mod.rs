//! Trial of flows of messages: probes over the idle path, the flows with probes beside them, the
//! end by agreement of both ends or by the deadline. The workload decides what the flows carry.
//!
//! A transfer in both directions has two sets of flows. A transfer of one flow is a transfer of
//! several flows with n = 1; an exchange has one.

mod bulk;
mod connecting;
mod exchange;
mod listening;
mod receiving;
mod script;
mod sending;
mod tally;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use regatta_control::{Role, TrialOrder};
use regatta_model::{WorkloadKind, reason};

use crate::{
    clock::MonotonicTime,
    content::message_check::{MessageCheck, MessageSink},
    delivered::Delivered,
    error::{Result, TransportError},
    exchange::Exchange,
    stop::Stop,
    trial::{
        Trial,
        warm_up::WarmUp,
        watch::{ClientEnding, ServerEnding},
    },
};
use bulk::Bulk;
use script::MessageScript;
use tally::Tally;

/// Workload of flows of messages.
#[derive(Debug)]
pub(crate) struct Work {
    content: Content,
    /// Flows, by the role of the end that sends on each.
    flows: Vec<Role>,
    /// Bytes that the workload means to deliver, in both directions.
    size: u64,
    /// Whether the workload's goodput is meaningful.
    has_goodput: bool,
    /// Length of the longest message, in bytes.
    pub longest_message: usize,
    /// Length of the beginning that is left out of goodput and of CPU time.
    warm_up: Duration,
}

/// Content of the flows.
#[derive(Debug)]
enum Content {
    Bulk(Bulk),
    /// Requests and their answers, which the only flow carries.
    Exchange(Exchange),
    Script(MessageScript),
}

impl Work {
    /// Reads an order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for what only streams can do.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        match &order.workload.kind {
            WorkloadKind::Bulk { .. } => Bulk::work(order),
            WorkloadKind::StopAndWait { .. } | WorkloadKind::RequestResponse { .. } => {
                let exchange = Exchange::new(order)?;
                exchange.check_messages()?;
                Ok(Self {
                    flows: vec![Role::Sender],
                    size: exchange.requests.size,
                    has_goodput: exchange.has_goodput(),
                    longest_message: exchange.longest_message(),
                    warm_up: Duration::ZERO,
                    content: Content::Exchange(exchange),
                })
            }
            WorkloadKind::Script(script) => {
                let script = MessageScript::new(order, script)?;
                Ok(Self {
                    flows: vec![Role::Sender; script.flow_count()],
                    size: script.bytes(),
                    has_goodput: false,
                    longest_message: script.longest_message,
                    warm_up: Duration::ZERO,
                    content: Content::Script(script),
                })
            }
            WorkloadKind::ShortConnections { .. } | WorkloadKind::MultiStream { .. } => Err(
                TransportError::unsupported(reason::not_over_messages(), reason::choose_streams()),
            ),
        }
    }

    /// Returns the script, where there is one.
    const fn script(&self) -> Option<&MessageScript> {
        match &self.content {
            Content::Script(script) => Some(script),
            Content::Bulk(_) | Content::Exchange(_) => None,
        }
    }

    /// Whether payload comes back on flows from the client.
    fn answers(&self) -> bool {
        self.script().is_some_and(|it| it.script.has_answers())
    }

    /// Makes the receiver's part of a flow, over a transport that loses messages or not.
    fn sink(&self, flow: u16, reliable: bool) -> Box<dyn MessageSink> {
        match &self.content {
            Content::Bulk(bulk) => Box::new(MessageCheck::new(&bulk.part(flow).plan)),
            Content::Exchange(exchange) => Box::new(exchange.sink()),
            Content::Script(script) => Box::new(script.server(flow, reliable)),
        }
    }
}

/// Watch of an end, which ends the transfer.
enum Watch {
    Connecting(Arc<ClientEnding>),
    Listening(Arc<ServerEnding>),
}

/// State shared by the flows of one end.
pub(crate) struct Shared<'a> {
    pub trial: &'a Trial,
    work: &'a Work,
    /// Whether every message that was sent arrives.
    reliable: bool,
    /// Stop that ends the transfer: at the deadline, or when a flow breaks.
    pub stop: Stop,
    /// Stop that is raised when the work is over.
    over: Stop,
    /// Moment from which the transfer's time counts here.
    started: MonotonicTime,
    warm_up: WarmUp,
    watch: Watch,
    /// Numbers of flows that have not ended; of those that do not have everything yet, of those to
    /// this end; and of those that have something to send yet, of those from it.
    open: AtomicUsize,
    to_receive: AtomicUsize,
    to_send: AtomicUsize,
    tally: Mutex<Tally>,
}

impl<'a> Shared<'a> {
    fn new(
        (trial, work, reliable): (&'a Trial, &'a Work, bool),
        (stop, over): (&Stop, &Stop),
        started: MonotonicTime,
        watch: Watch,
    ) -> Self {
        let flows = &work.flows;
        let from_here = flows.iter().filter(|by| **by == trial.order.role).count();
        Self {
            trial,
            work,
            reliable,
            stop: stop.clone(),
            over: over.clone(),
            started,
            warm_up: WarmUp::since(&trial.context.observer, started, work.warm_up),
            watch,
            open: AtomicUsize::new(flows.len()),
            to_receive: AtomicUsize::new(flows.len() - from_here),
            to_send: AtomicUsize::new(from_here),
            tally: Mutex::new(Tally::new(trial.order.role.name(), started)),
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock()
    }

    fn sends(&self, flow: u16) -> bool {
        self.work.flows.get(usize::from(flow)) == Some(&self.trial.order.role)
    }

    /// Returns whether flows carry data from this end, and whether flows carry data to it.
    fn directions(&self) -> (bool, bool) {
        let here = self.trial.order.role;
        if self.work.answers() {
            return (true, true);
        }
        let out = self.work.flows.contains(&here);
        (out, self.work.flows.iter().any(|sent_by| *sent_by != here))
    }

    /// Returns what this end has got, by its live counters.
    fn delivered(&self) -> Delivered {
        self.trial.context.live.received()
    }

    /// Returns when the other end told what it had got, and what it told.
    fn theirs(&self) -> Option<(MonotonicTime, Delivered)> {
        self.trial.context.peer.read(|peer| peer.received)
    }

    /// Notes that a flow from this end has sent everything. For the last one, a note tells the other end.
    fn has_sent(&self) {
        if self.to_send.fetch_sub(1, Ordering::AcqRel) == 1 {
            let sent = self.trial.context.live.sent();
            self.trial.send_note(sent.sent_note(false));
        }
    }

    /// Stops all flows for the error of one: what the others still do is of no use.
    fn broke(&self, error: TransportError) {
        self.tally().error.get_or_insert(error);
        self.stop.stop();
    }

    /// Notes that a flow came to its end at this moment; the last one ends the transfer. Returns false
    /// if the transfer has ended otherwise.
    fn ended(&self, at: MonotonicTime) -> bool {
        let last_end = {
            let mut tally = self.tally();
            tally.last_end = tally.last_end.max(at);
            tally.last_end
        };
        let is_last = self.open.fetch_sub(1, Ordering::AcqRel) == 1;
        match &self.watch {
            _ if self.stop.is_stopped() => false,
            Watch::Connecting(watch) if is_last => {
                watch.acknowledged(last_end, self.delivered());
                true
            }
            Watch::Listening(watch) if is_last => watch.complete(self.delivered()),
            _ => true,
        }
    }
}
