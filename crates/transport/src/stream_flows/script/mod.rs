//! Steps of a script, of which both ends of a flow carry out their parts in the same order.

mod program;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{
    Pattern, Spread,
    metric::{DelayMetrics, id},
    reason,
    script::{self, Event, SentBy},
};

use self::program::{Compiled, Operation, compile};
use super::{Shared, Tally, receiving::SCRATCH_BYTES};
use crate::{
    clock::MonotonicTime,
    content::{
        acknowledgement::Acknowledgement,
        part::{Part, index_of},
        plan::Plan,
        stream_check::{StreamCheck, encode_header},
    },
    delivered::Delivered,
    error::{Result, TransportError},
    executor::Executor,
    stop::Stop,
    stream::{ByteStream, Received, send_now},
    trial::{distribution::Distribution, findings::Findings},
};

/// Flows of a script.
#[derive(Debug)]
pub(super) struct Script {
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
    operations: Vec<Operation>,
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
    pub(super) fn new(order: &TrialOrder, script: &script::Script) -> Result<(Self, Vec<Part>)> {
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
                    operations,
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
    pub(super) fn bytes(&self, parts: &[Part]) -> u64 {
        let from_client = parts.iter().map(|part| part.plan.size);
        let from_server = self.programs.iter().map(|program| program.from_server.size);
        from_client.chain(from_server).sum()
    }

    /// Whether all flows are streams of one connection.
    pub(super) fn shares_connection(&self) -> bool {
        self.spread == Spread::Streams
    }

    /// Whether any message comes from the server.
    pub(super) fn has_answers(&self) -> bool {
        self.programs
            .iter()
            .any(|program| program.from_server.count > 0)
    }

    fn program(&self, flow: &Part) -> &Program {
        &self.programs[usize::from(flow.index)]
    }

    /// Whether a flow begins with a message of the client, without a wait.
    pub(super) fn client_begins(&self, flow: &Part) -> bool {
        let mut operations = self.program(flow).operations.iter();
        let first = operations.find(|it| !matches!(it, Operation::Begin(_) | Operation::Measure));
        match first {
            Some(Operation::Message(by)) => *by == SentBy::Client,
            Some(Operation::Due { by, offset, .. }) => *by == SentBy::Client && offset.is_zero(),
            _ => false,
        }
    }

    /// Waits at the client until a flow is to begin.
    ///
    /// # Errors
    /// [`TransportError::Cancelled`] where the transfer ends before.
    pub(super) async fn await_beginning(
        &self,
        shared: &Shared<'_>,
        executor: &impl Executor,
        flow: &Part,
    ) -> Result<()> {
        let description = &self.descriptions[self.program(flow).description];
        let mut since = shared.started;
        if let Some(after) = description.after
            && let Some(awaited) = self.awaited.iter().find(|it| it.event == after)
        {
            let either = shared.stop.child();
            let _link = awaited.happened.link(&either);
            executor
                .sleep_unless_stopped(MonotonicTime::NEVER, &either)
                .await;
            since = MonotonicTime::now();
        }
        let begins = since + description.delay;
        if shared.stop.is_stopped() || executor.sleep_unless_stopped(begins, &shared.stop).await {
            return Err(TransportError::Cancelled);
        }
        Ok(())
    }

    /// Notes an event of a flow at the client.
    fn happened(&self, event: Event) {
        // Several flows may wait for one event.
        for awaited in self.awaited.iter().filter(|it| it.event == event) {
            if awaited.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                awaited.happened.stop();
            }
        }
    }

    /// Carries out the steps of a flow at the client, and waits for the acknowledgement of its messages; returns the moment
    /// of its arrival. `opening` leaves with the first message. Steps that end after `deadline` are not measured.
    pub(super) async fn carry<S: ByteStream>(
        &self,
        (shared, deadline): (&Shared<'_>, MonotonicTime),
        executor: &impl Executor,
        flow: &Part,
        (stream, opening): (&mut S, &[u8]),
    ) -> Result<MonotonicTime> {
        let program = self.program(flow);
        let mut end = FlowRun::new(shared, SentBy::Client, (&flow.plan, &program.from_server));
        opening.clone_into(&mut end.before);
        end.deadline = deadline;
        end.events = Some((self, program.description));
        let carried = end.carry(executor, &program.operations, stream).await;
        shared.tally().corrupted += end.arrivals.corrupted;
        carried?;
        end.flush(stream).await?;
        let got = Acknowledgement::of(stream, end.after).await?;
        let arrived = MonotonicTime::now();
        got.check_bytes(flow.plan.size)?;
        {
            let mut tally = shared.tally();
            tally.acknowledged = tally.acknowledged + got.delivered;
        }
        self.happened(Event::FlowsEnded(program.description));
        Ok(arrived)
    }

    /// Carries out the steps of a flow at the server, and acknowledges the client's messages; returns the moment of its end.
    /// `rest` are the bytes that came with its opening.
    pub(super) async fn answer<S: ByteStream>(
        &self,
        shared: &Shared<'_>,
        executor: &impl Executor,
        flow: &Part,
        (stream, rest): (&mut S, &[u8]),
    ) -> Result<MonotonicTime> {
        let program = self.program(flow);
        let mut end = FlowRun::new(shared, SentBy::Server, (&program.from_server, &flow.plan));
        end.take(rest);
        let carried = end.carry(executor, &program.operations, stream).await;
        shared.tally().corrupted += end.arrivals.corrupted;
        carried?;
        let acknowledgement = Acknowledgement {
            delivered: end.arrivals.delivered,
            digest: 0,
        };
        // The last message leaves together with it.
        acknowledgement.send(stream).await?;
        Ok(MonotonicTime::now())
    }

    /// Adds the results that only a script has.
    pub(super) fn report(&self, trial: &super::Trial, tally: &Tally, findings: &mut Findings) {
        if !trial.order.connects() {
            return;
        }
        let measures =
            (self.programs.iter()).any(|program| program.operations.contains(&Operation::Measure));
        if measures {
            findings.count(
                id::STEPS_MEASURED,
                tally.steps.as_ref().map_or(0, Distribution::len),
            );
        }
        if let Some(steps) = &tally.steps {
            steps.report(DelayMetrics::STEP, Role::Sender.name(), findings);
        }
        findings.fact("flows", self.programs.len().to_string());
        findings.fact("spread", spread_name(self.spread));
    }
}

/// Returns the fact `spread`.
pub(super) const fn spread_name(spread: Spread) -> &'static str {
    match spread {
        Spread::Streams => "streams of one connection",
        Spread::Connections | Spread::Either => "connections",
    }
}

/// Run of a flow at one end.
struct FlowRun<'a> {
    shared: &'a Shared<'a>,
    /// Script and description of the flow whose events are noted, at the client.
    events: Option<(&'a Script, usize)>,
    host: SentBy,
    messages: &'a Plan,
    /// Number of messages that were handed over.
    sent: u64,
    /// Bytes that leave with the next message.
    before: Vec<u8>,
    /// Whether the transport may hold back messages.
    unflushed: bool,
    arrivals: StreamCheck,
    /// Number of messages of the other end up to the current operation.
    awaited: u64,
    /// Delivered bytes and messages that were counted.
    counted: Delivered,
    /// Bytes that came after the messages.
    after: Vec<u8>,
    last_arrival: MonotonicTime,
    /// Beginnings of the schedules.
    schedules: Vec<MonotonicTime>,
    /// Scheduled beginning of the next operation.
    due: Option<MonotonicTime>,
    /// Beginnings of the measured steps that have not ended.
    measured: Vec<MonotonicTime>,
    deadline: MonotonicTime,
}

impl<'a> FlowRun<'a> {
    fn new(shared: &'a Shared<'a>, host: SentBy, (ours, theirs): (&'a Plan, &Plan)) -> Self {
        Self {
            shared,
            events: None,
            host,
            messages: ours,
            sent: 0,
            before: Vec::new(),
            unflushed: false,
            arrivals: StreamCheck::new(theirs),
            awaited: 0,
            counted: Delivered::default(),
            after: Vec::new(),
            last_arrival: MonotonicTime::NEVER,
            schedules: Vec::new(),
            due: None,
            measured: Vec::new(),
            deadline: MonotonicTime::NEVER,
        }
    }

    /// Carries out the operations.
    async fn carry<S: ByteStream>(
        &mut self,
        executor: &impl Executor,
        operations: &[Operation],
        stream: &mut S,
    ) -> Result<()> {
        let most = self.arrivals.largest().clamp(4096, SCRATCH_BYTES);
        let mut scratch = vec![0; most];
        for operation in operations {
            match *operation {
                Operation::Message(by) if by == self.host => {
                    self.send(stream).await?;
                    self.due = None;
                }
                Operation::Message(_) => {
                    self.receive(stream, &mut scratch).await?;
                    self.due = None;
                }
                Operation::Wait { by, time } => {
                    self.due = None;
                    if by == self.host {
                        let until = MonotonicTime::now() + time;
                        self.wait(executor, stream, until).await?;
                    }
                }
                Operation::Begin(schedule) => {
                    self.schedules.truncate(schedule);
                    self.schedules.resize(schedule + 1, MonotonicTime::now());
                }
                Operation::Due {
                    by,
                    schedule,
                    offset,
                } => {
                    self.due = None;
                    if by == self.host
                        && let Some(begun) = self.schedules.get(schedule)
                    {
                        let due = *begun + offset;
                        self.due = Some(due);
                        self.wait(executor, stream, due).await?;
                    }
                }
                Operation::Measure if self.host == SentBy::Client => {
                    let begun = self.due.unwrap_or_else(MonotonicTime::now);
                    self.measured.push(begun);
                }
                Operation::Measured => {
                    let begun = self.measured.pop();
                    if let Some(begun) = begun.filter(|_| self.last_arrival <= self.deadline) {
                        let mut tally = self.shared.tally();
                        let steps = tally.steps.get_or_insert_default();
                        steps.add(begun, self.last_arrival);
                    }
                }
                Operation::StepEnded(step) => {
                    if let Some((script, description)) = self.events {
                        script.happened(Event::StepEnded(description, step));
                    }
                }
                Operation::Measure => {}
            }
        }
        Ok(())
    }

    /// Waits until a moment, after everything has left.
    async fn wait<S: ByteStream>(
        &mut self,
        executor: &impl Executor,
        stream: &mut S,
        until: MonotonicTime,
    ) -> Result<()> {
        self.flush(stream).await?;
        if !until.has_passed()
            && executor
                .sleep_unless_stopped(until, &self.shared.stop)
                .await
        {
            return Err(TransportError::Cancelled);
        }
        Ok(())
    }

    /// Hands the next message to the transport.
    async fn send<S: ByteStream>(&mut self, stream: &mut S) -> Result<()> {
        let length = self.messages.length(self.sent);
        let header = Plan::header(length);
        let head = encode_header(self.messages, self.sent, length);
        let payload = self.messages.payload(length);
        match std::mem::take(&mut self.before).as_slice() {
            [] => stream.send_message(&head[..header], &payload).await?,
            before => {
                let head = [before, &head[..header]].concat();
                stream.send_message(&head, &payload).await?;
            }
        }
        self.sent += 1;
        self.unflushed = true;
        let live = &self.shared.trial.context.live;
        live.messages_sent.fetch_add(1, Ordering::Relaxed);
        live.bytes_sent.fetch_add(length as u64, Ordering::Relaxed);
        Ok(())
    }

    async fn flush<S: ByteStream>(&mut self, stream: &mut S) -> Result<()> {
        if !self.before.is_empty() {
            send_now(stream, &std::mem::take(&mut self.before)).await?;
        }
        if std::mem::take(&mut self.unflushed) {
            stream.flush().await?;
        }
        Ok(())
    }

    /// Waits until the next message of the other end is here.
    async fn receive<S: ByteStream>(&mut self, stream: &mut S, scratch: &mut [u8]) -> Result<()> {
        self.flush(stream).await?;
        self.awaited += 1;
        while self.arrivals.complete_messages() < self.awaited {
            let mut take = |piece: &[u8]| self.take(piece);
            let receiving = stream.receive(scratch, MonotonicTime::NEVER, &mut take);
            if receiving.await? == Received::Closed
                && self.arrivals.complete_messages() < self.awaited
            {
                return Err(TransportError::Closed { flow: "transfer" });
            }
        }
        Ok(())
    }

    /// Takes bytes that have come.
    fn take(&mut self, piece: &[u8]) {
        let taken = self.arrivals.consume(piece);
        self.after.extend_from_slice(&piece[taken..]);
        let delivered = self.arrivals.delivered;
        if delivered != self.counted {
            let (shared, now) = (self.shared, MonotonicTime::now());
            let new = delivered - self.counted;
            shared.warm_up.count(&shared.trial.context.live, now, new);
            self.counted = delivered;
            self.last_arrival = now;
        }
    }
}
