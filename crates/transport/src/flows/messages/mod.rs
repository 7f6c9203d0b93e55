//! Interpreter of flows of messages.

mod agreement;
mod connecting;
mod exchange;
mod listening;
mod receiving;
mod report;
mod script;
mod sending;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{Content, Flows};
use crate::{
    clock::MonotonicTime,
    content::message_check::{MessageCheck, MessageSink},
    context::StatisticsSource,
    delivered::Delivered,
    message::MessageFlow,
    trial::{
        Trial,
        watch::{ClientEnding, ServerEnding},
    },
};
use script::ScriptServer;

/// State of an end of messages.
type Shared<'a> = super::Shared<'a, MessageState>;

/// Watch of an end, which ends the transfer.
enum Watch {
    Connecting(Arc<ClientEnding>),
    Listening(Arc<ServerEnding>),
}

/// Part of the state of an end that only messages have.
pub(crate) struct MessageState {
    /// Whether every message that was sent arrives.
    reliable: bool,
    watch: Watch,
    /// Numbers of flows that do not have everything yet, of those to this end, and of those that have something to send
    /// yet, of those from it.
    to_receive: AtomicUsize,
    to_send: AtomicUsize,
}

impl MessageState {
    /// Makes the state of an end, over a transport that loses messages or not.
    fn new((trial, flows): (&Trial, &Flows), reliable: bool, watch: Watch) -> Self {
        let here = trial.order.role;
        let from_here = flows.parts.iter().filter(|part| part.sent_by == here);
        let from_here = from_here.count();
        Self {
            reliable,
            watch,
            to_receive: AtomicUsize::new(flows.parts.len() - from_here),
            to_send: AtomicUsize::new(from_here),
        }
    }
}

impl Shared<'_> {
    /// Makes the receiver's part of a flow.
    fn sink(&self, flow: u16) -> Box<dyn MessageSink> {
        let plan = &self.flows.parts[usize::from(flow)].plan;
        match &self.flows.content {
            // A schedule is one over streams.
            Content::Bulk | Content::Scheduled(_) => Box::new(MessageCheck::new(plan)),
            Content::Exchange(exchange) => Box::new(exchange.sink()),
            Content::Script(script) => Box::new(ScriptServer::new(self, script, flow)),
        }
    }

    /// Returns when the other end told what it had got, and what it told.
    fn theirs(&self) -> Option<(MonotonicTime, Delivered)> {
        self.trial.context.peer.read(|peer| peer.received)
    }

    /// Returns the sum of the other end's acknowledgements, if all came in their flows.
    fn acknowledged(&self) -> Option<Delivered> {
        let tally = self.tally();
        (!tally.over_control).then_some(tally.acknowledged)
    }

    /// Notes that a flow from this end has sent everything. For the last one, a note tells the other end.
    fn has_sent(&self) {
        if self.own.to_send.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.trial.send_note(self.sent().sent_note(false));
        }
    }

    /// Notes that a flow came to its end at this moment; the last one ends the transfer. Returns false
    /// if the transfer has ended otherwise.
    fn ended(&self, at: MonotonicTime) -> bool {
        let is_last = self.flow_ended(Some(at));
        let last_end = self.tally().last_end.unwrap_or(at);
        match &self.own.watch {
            _ if self.stop.is_stopped() => false,
            Watch::Connecting(watch) if is_last => {
                watch.acknowledged(last_end, self.delivered());
                true
            }
            Watch::Listening(watch) if is_last => watch.complete(self.delivered()),
            _ => true,
        }
    }

    /// Adds the statistics of a flow's connection. Returns those of all if it is the first one.
    fn opened(&self, flow: &impl MessageFlow) -> Option<Arc<dyn StatisticsSource>> {
        let is_first = self.statistics.is_empty();
        self.statistics.add(flow.statistics()?);
        is_first.then(|| Arc::clone(&self.statistics) as Arc<dyn StatisticsSource>)
    }

    /// Notes that a flow was carried to its end.
    fn carried(&self, flow: &impl MessageFlow) {
        self.statistics.remember();
        self.tally().facts.extend(flow.facts());
    }
}
