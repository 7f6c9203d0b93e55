//! Scripts: flows of steps, of which both ends of a flow carry out their parts in the same order. What they do next is
//! decided here, over any transport; streams and messages carry it out.

pub(crate) mod program;
pub(crate) mod run;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{
    Pattern, Spread,
    metric::{DelayMetrics, id},
    reason,
    script::{self, Event, SentBy},
};

use self::{
    program::{Compiled, Operation, compile},
    run::StepResults,
};
use crate::{
    clock::MonotonicTime,
    content::{
        part::{Part, index_of},
        plan::Plan,
    },
    error::{Result, TransportError},
    executor::Executor,
    stop::Stop,
    timeout::RetransmissionTimeout,
    trial::{Trial, distribution::Distribution, findings::Findings},
};

/// Flows of a script.
#[derive(Debug)]
pub(crate) struct Script {
    spread: Spread,
    /// Program of each flow, by the index of the flow.
    programs: Vec<Program>,
    /// Descriptions of flows, each of one or several.
    descriptions: Vec<Description>,
    /// Events at the client for which flows wait.
    awaited: Vec<AwaitedEvent>,
}

/// Operations of a flow.
#[derive(Debug)]
struct Program {
    description: usize,
    operations: Arc<[Operation]>,
    /// Messages of the server; those of the client are in the part.
    from_server: Plan,
}

/// Beginning of the flows of one description.
#[derive(Debug)]
struct Description {
    after: Option<Event>,
    delay: Duration,
}

/// Event that has happened when it has in each flow of a description.
#[derive(Debug)]
struct AwaitedEvent {
    event: Event,
    /// Number of flows in which it has not happened.
    left: AtomicUsize,
    /// Stop that is raised when it has happened in all.
    happened: Stop,
}

impl Script {
    /// Makes the flows of a script, each with the client's messages.
    ///
    /// # Errors
    /// [`TransportError::Order`] for a script that no study can have.
    pub(crate) fn new(order: &TrialOrder, script: &script::Script) -> Result<(Self, Vec<Part>)> {
        if !script.is_sound() {
            return Err(TransportError::order(reason::not_a_script()));
        }
        let largest = script.largest_message();
        // All messages are parts of one, which each end holds once.
        let whole = Plan::of(order, "", largest, largest, Pattern::Random)?;
        let (mut programs, mut parts) = (Vec::new(), Vec::new());
        for (description, flow) in script.flows.iter().enumerate() {
            for _ in 0..flow.count {
                let index = index_of(parts.len())?;
                let Compiled {
                    operations,
                    lengths: [from_client, from_server],
                } = compile(&flow.steps, (order.seed, index));
                let number = 2 * u32::from(index);
                programs.push(Program {
                    description,
                    operations: operations.into(),
                    from_server: whole.of_lengths(from_server, number + 1),
                });
                parts.push(Part::from_client(
                    index,
                    whole.of_lengths(from_client, number),
                ));
            }
        }
        let descriptions = script.flows.iter().map(|flow| Description {
            after: flow.after,
            delay: flow.delay,
        });
        let events = script.flows.iter().filter_map(|flow| flow.after);
        let awaited = events.map(|event| AwaitedEvent {
            event,
            left: AtomicUsize::new(script.flows[event.flow()].count as usize),
            happened: Stop::new(),
        });
        let this = Self {
            spread: script.spread,
            programs,
            descriptions: descriptions.collect(),
            awaited: awaited.collect(),
        };
        Ok((this, parts))
    }

    /// Returns the bytes of all messages.
    pub(crate) fn bytes(&self, parts: &[Part]) -> u64 {
        let from_client = parts.iter().map(|part| part.plan.size);
        let from_server = self.programs.iter().map(|program| program.from_server.size);
        from_client.chain(from_server).sum()
    }

    /// Whether all flows are streams of one connection.
    pub(crate) fn shares_connection(&self) -> bool {
        self.spread == Spread::Streams
    }

    /// Whether any message comes from the server.
    pub(crate) fn has_answers(&self) -> bool {
        self.programs
            .iter()
            .any(|program| program.from_server.count > 0)
    }

    fn program(&self, flow: u16) -> &Program {
        &self.programs[usize::from(flow)]
    }

    /// Returns the operations of a flow.
    pub(crate) fn operations(&self, flow: u16) -> &Arc<[Operation]> {
        &self.program(flow).operations
    }

    /// Returns the messages of the server on a flow.
    pub(crate) fn server_messages(&self, flow: u16) -> &Plan {
        &self.program(flow).from_server
    }

    /// Returns the sender of the last message of a flow.
    pub(crate) fn last_sender(&self, flow: u16) -> Option<SentBy> {
        let mut operations = self.operations(flow).iter().rev();
        operations.find_map(|operation| match operation {
            Operation::Message(by) => Some(*by),
            _ => None,
        })
    }

    /// Whether a flow begins with a message of the client, without a wait.
    pub(crate) fn client_begins(&self, flow: u16) -> bool {
        let mut operations = self.operations(flow).iter();
        let first = operations.find(|it| !matches!(it, Operation::Begin(_) | Operation::Measure));
        match first {
            Some(Operation::Message(by)) => *by == SentBy::Client,
            Some(Operation::Due { by, offset, .. }) => *by == SentBy::Client && offset.is_zero(),
            _ => false,
        }
    }

    /// Waits at the client until a flow of a transfer that began at `started` is to begin, unless `stop` is raised.
    ///
    /// # Errors
    /// [`TransportError::Cancelled`] where the transfer ends before.
    pub(crate) async fn await_beginning(
        &self,
        flow: u16,
        executor: &impl Executor,
        (started, stop): (MonotonicTime, &Stop),
    ) -> Result<()> {
        let description = &self.descriptions[self.program(flow).description];
        let mut since = started;
        if let Some(after) = description.after
            && let Some(awaited) = self.awaited.iter().find(|it| it.event == after)
        {
            let either = stop.child();
            let _link = awaited.happened.link(&either);
            executor
                .sleep_unless_stopped(MonotonicTime::NEVER, &either)
                .await;
            since = MonotonicTime::now();
        }
        let begins = since + description.delay;
        if stop.is_stopped() || executor.sleep_unless_stopped(begins, stop).await {
            return Err(TransportError::Cancelled);
        }
        Ok(())
    }

    /// Notes at the client that a step of a flow has ended.
    pub(crate) fn step_ended(&self, flow: u16, step: usize) {
        self.happened(Event::StepEnded(self.program(flow).description, step));
    }

    /// Notes at the client that a flow has ended.
    pub(crate) fn flow_ended(&self, flow: u16) {
        self.happened(Event::FlowsEnded(self.program(flow).description));
    }

    fn happened(&self, event: Event) {
        // Several flows may wait for one event.
        for awaited in self.awaited.iter().filter(|it| it.event == event) {
            if awaited.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                awaited.happened.stop();
            }
        }
    }

    /// Adds the results that only a script has. `timeout` is the time after which messages are given up, where they can be
    /// lost.
    pub(crate) fn report(
        &self,
        trial: &Trial,
        results: &StepResults,
        timeout: Option<&RetransmissionTimeout>,
        findings: &mut Findings,
    ) {
        if !trial.order.connects() {
            return;
        }
        let mut programs = self.programs.iter();
        if programs.any(|program| program.operations.contains(&Operation::Measure)) {
            let measured = results.times.as_ref().map_or(0, Distribution::len);
            findings.count(id::STEPS_MEASURED, measured);
            if timeout.is_some() {
                findings.count(id::STEPS_LOST, results.lost);
            }
        }
        if let Some(times) = &results.times {
            times.report(DelayMetrics::STEP, Role::Sender.name(), findings);
        }
        if let Some(timeout) = timeout.filter(|_| self.has_answers()) {
            findings.given_up_answers(timeout, results.late);
        }
        findings.fact("flows", self.programs.len().to_string());
        findings.fact("spread", spread_name(self.spread));
    }
}

/// Returns the fact `spread`.
pub(crate) const fn spread_name(spread: Spread) -> &'static str {
    match spread {
        Spread::Streams => "streams of one connection",
        Spread::Connections | Spread::Either => "connections",
    }
}
