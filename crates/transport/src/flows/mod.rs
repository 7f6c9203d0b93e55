//! Flows of a trial: what a workload carries over streams or over messages.
//!
//! [`Flows`] describes it, made of the order at both ends: which flows there are, who sends on each, and their content. Two
//! interpreters carry it out, one over streams ([`streams`]) and one over messages ([`messages`]); they share the state of
//! an end ([`Shared`]) and its totals ([`Tally`]).
//!
//! A *flow* is one stream or one flow of messages, and has a connection of its own unless the workload is about the streams
//! of one connection. The flows of a transfer in both directions carry one direction each, because one task cannot read a
//! stream while it writes it; exchanges and scripts take turns. A transfer over one connection is a transfer of one flow.

pub(crate) mod messages;
pub(crate) mod schedule;
pub(crate) mod script;
mod shared;
pub(crate) mod streams;

use std::time::Duration;

use regatta_control::TrialOrder;
use regatta_model::{
    Amount, BulkOptions, Bytes, Direction, Finish, Opening, Pattern, Verify, WorkloadKind, reason,
};

use crate::{
    applicable,
    content::{
        message_check::MAX_MESSAGES,
        noise::Noise,
        part::{Part, index_of},
        plan::Plan,
    },
    descriptor::Carries,
    error::{Result, TransportError},
    exchange::Exchange,
};
use schedule::Schedule;
use script::Script;
use shared::{Received, Shared, Tally};

/// All flows of a trial. Both ends make the same from their orders.
#[derive(Debug)]
pub(crate) struct Flows {
    /// The flows, with the messages of the end that sends; those of a script with the client's.
    parts: Vec<Part>,
    content: Content,
    /// Options of a bulk transfer.
    options: BulkOptions,
    /// Time for which a bulk transfer sends, if it has no size.
    duration: Option<Duration>,
    /// Bytes of all flows, of a script and of a bulk transfer in both directions.
    size: u64,
    /// File that is sent, at an end that sends from one.
    noise: Option<Noise>,
    /// Bytes of the file, where there is one.
    file_bytes: u64,
}

/// Content of the flows.
#[derive(Debug)]
enum Content {
    Bulk,
    /// Requests and their answers, which the only flow carries.
    Exchange(Box<Exchange>),
    /// Messages that leave on a schedule, over streams.
    Scheduled(Schedule),
    Script(Script),
}

impl Flows {
    /// Makes the flows of the order's workload, over streams or messages.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for what this transport or these hosts cannot do,
    /// [`TransportError::Io`] for a file that cannot be made.
    pub(crate) fn new(order: &TrialOrder, carries: Carries) -> Result<Self> {
        let over_messages = carries == Carries::Messages;
        match &order.workload.kind {
            WorkloadKind::Script(script) => Self::of_script(order, script, over_messages),
            WorkloadKind::Bulk { .. } => Self::of_bulk(order, over_messages),
            WorkloadKind::StopAndWait { .. } | WorkloadKind::RequestResponse { .. } => {
                Self::of_exchange(Exchange::new(order)?, over_messages)
            }
            WorkloadKind::MultiStream {
                messages,
                message,
                messages_per_second,
                streams,
                spread,
            } if !over_messages => {
                let schedule = Schedule {
                    per_second: *messages_per_second,
                    flows: (*streams).into(),
                    spread: *spread,
                    clock_offset_ns: order.path.clock_offset_ns,
                };
                Self::of_schedule(order, schedule, (*messages, *message))
            }
            WorkloadKind::MultiStream { .. } | WorkloadKind::ShortConnections { .. } => Err(
                TransportError::unsupported(reason::not_over_messages(), reason::choose_streams()),
            ),
        }
    }

    /// Makes flows that are not those of a bulk transfer.
    fn of(parts: Vec<Part>, size: u64, content: Content) -> Self {
        Self {
            parts,
            content,
            options: BulkOptions::default(),
            size,
            duration: None,
            noise: None,
            file_bytes: 0,
        }
    }

    /// Makes the flows of a script.
    fn of_script(
        order: &TrialOrder,
        script: &regatta_model::Script,
        over_messages: bool,
    ) -> Result<Self> {
        if over_messages {
            applicable::script_over_messages(&order.transport.driver, script)?;
        }
        let (script, parts) = Script::new(order, script)?;
        let bytes = script.bytes(&parts);
        Ok(Self::of(parts, bytes, Content::Script(script)))
    }

    /// Makes the flow of an exchange.
    fn of_exchange(exchange: Exchange, over_messages: bool) -> Result<Self> {
        if over_messages {
            exchange.check_messages()?;
        }
        let flow = Part::from_client(0, exchange.requests.clone());
        let bytes = exchange.requests.size;
        Ok(Self::of(
            vec![flow],
            bytes,
            Content::Exchange(Box::new(exchange)),
        ))
    }

    /// Makes the flows of messages that leave on a schedule.
    fn of_schedule(
        order: &TrialOrder,
        schedule: Schedule,
        (messages, message): (u64, Bytes),
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
    fn of_bulk(order: &TrialOrder, over_messages: bool) -> Result<Self> {
        let kind = &order.workload.kind;
        let WorkloadKind::Bulk {
            amount,
            message,
            pattern,
            options,
        } = *kind
        else {
            return Err(TransportError::order(reason::not_bulk(kind.name())));
        };
        if over_messages {
            check_over_messages(&options, pattern)?;
        }
        let file = kind.file_bytes();
        let size = amount.bytes();
        let file_bytes = file.unwrap_or(match amount {
            Amount::Bytes(size) => size.0,
            // As many messages as can be numbered.
            Amount::Time(_) if over_messages => message.0.saturating_mul(MAX_MESSAGES),
            // A message is not cut to a size that does not count.
            Amount::Time(_) => size.0.max(message.0),
        });
        let all_messages = Plan::of(order, "", Bytes(file_bytes), message, pattern)?;
        let parts = Part::of_bulk(&options, size.0, |part, index| match amount {
            Amount::Bytes(_) => all_messages.part(part, index),
            Amount::Time(_) if over_messages => all_messages.part(all_messages.size, index),
            Amount::Time(_) => all_messages.endless(index),
        })?;
        let most = parts.iter().map(|part| part.plan.count).max().unwrap_or(0);
        if over_messages && most > MAX_MESSAGES {
            return Err(TransportError::order(reason::too_many_messages(most)));
        }
        let sends = parts.iter().any(|flow| flow.sent_by == order.role);
        let noise = file.filter(|_| sends).map(Noise::of).transpose()?;
        let directions = 1 + u64::from(options.direction == Direction::Both);
        Ok(Self {
            options,
            duration: amount.time(),
            noise,
            file_bytes,
            ..Self::of(parts, size.0 * directions, Content::Bulk)
        })
    }

    /// Returns the length of the longest message, in bytes.
    pub(crate) fn longest_message(&self) -> usize {
        let ours = self.parts.iter().map(|part| part.plan.message);
        let theirs = match &self.content {
            Content::Exchange(exchange) => exchange.responses.message,
            // All messages of a script are parts of the longest.
            Content::Bulk | Content::Scheduled(_) | Content::Script(_) => 0,
        };
        ours.max().unwrap_or(0).max(theirs)
    }

    /// Whether a flow's opening has its index. A single one need not, which is a round trip to a
    /// transport that sends one message at a time.
    fn have_indices(&self) -> bool {
        self.parts.len() > 1
    }

    /// Whether all flows are streams of one connection.
    fn share_connection(&self) -> bool {
        match &self.content {
            Content::Scheduled(schedule) => schedule.shares_connection(),
            Content::Script(script) => script.shares_connection(),
            Content::Bulk | Content::Exchange(_) => false,
        }
    }

    /// Number of flows that are opened before any is carried, one after another.
    fn opened_first(&self) -> usize {
        match &self.content {
            // Its schedule begins when all are open.
            Content::Scheduled(_) => self.parts.len(),
            // They are set up side by side, each when it begins.
            Content::Script(script) if !script.shares_connection() => 0,
            Content::Bulk | Content::Exchange(_) | Content::Script(_) => 1,
        }
    }

    /// Whether the client sends the first message of a flow from it as soon as that is open.
    fn client_begins(&self, flow: &Part) -> bool {
        match &self.content {
            Content::Script(script) => script.client_begins(flow.index),
            Content::Bulk | Content::Exchange(_) | Content::Scheduled(_) => true,
        }
    }

    /// Whether a flow is known at the receiving end before its sender goes on: it could be closed
    /// before anything of it has left, its schedule could begin before, or the workload has it so.
    fn are_welcomed(&self) -> bool {
        self.options.finish == Finish::Abandon
            || self.options.opening == Opening::Answered
            || self.schedule().is_some()
    }

    /// Whether the goodput is meaningful.
    fn has_goodput(&self) -> bool {
        match &self.content {
            Content::Bulk => true,
            Content::Exchange(exchange) => exchange.has_goodput(),
            Content::Scheduled(_) | Content::Script(_) => false,
        }
    }

    /// Returns the schedule, where there is one.
    fn schedule(&self) -> Option<&Schedule> {
        match &self.content {
            Content::Scheduled(schedule) => Some(schedule),
            _ => None,
        }
    }

    /// Returns the script, where there is one.
    fn script(&self) -> Option<&Script> {
        match &self.content {
            Content::Script(script) => Some(script),
            _ => None,
        }
    }

    /// Whether payload comes back on flows from the client.
    fn answer(&self) -> bool {
        self.script().is_some_and(Script::has_answers)
    }
}

/// Refuses options of a bulk transfer that only streams have.
fn check_over_messages(options: &BulkOptions, pattern: Pattern) -> Result<()> {
    let of_streams = BulkOptions {
        finish: Finish::default(),
        verify: Verify::default(),
        ..*options
    };
    if *options != of_streams || pattern == Pattern::File {
        return Err(TransportError::unsupported(
            reason::not_bulk_over_messages(),
            reason::leave_keys_out(),
        ));
    }
    Ok(())
}
