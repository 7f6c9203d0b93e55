//! Steps of a script: both ends of a flow carry out the same ones, each of them its part.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use regatta_control::{Role, TrialOrder};
use regatta_model::{
    Spread,
    metric::{DelayMetrics, id},
    script::{self, Action, SentBy, Spaced, Step},
};

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
    /// Program of each flow, by its index.
    programs: Vec<Program>,
    /// Flows of the description, of which each may stand for several.
    groups: Vec<Group>,
}

/// What a flow does.
#[derive(Debug)]
struct Program {
    group: usize,
    operations: Vec<Operation>,
    /// Messages of the server; those of the client are the part's.
    from_server: Plan,
}

/// Equal flows.
#[derive(Debug)]
struct Group {
    after: Option<usize>,
    delay: Duration,
    /// Number of its flows that have not ended, at the client.
    left: AtomicUsize,
    /// Stop that is raised when all have ended.
    ended: Stop,
}

/// Part of a step that needs no other one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    /// The next message of a host, whole.
    Message(SentBy),
    /// Wait of a host from the end of the operation before.
    Wait { by: SentBy, time: Duration },
    /// Beginning of a schedule with this number.
    Begin(usize),
    /// Wait of a host for a moment of a schedule, which may have passed.
    Due {
        by: SentBy,
        schedule: usize,
        offset: Duration,
    },
    /// Beginning of a measured step.
    Measure,
    /// End of the measured step that began last.
    Measured,
}

/// Operations that are being made of steps.
struct Compiler {
    operations: Vec<Operation>,
    lengths: [Vec<u32>; 2],
    schedules: usize,
    random: ChaCha8Rng,
}

impl Compiler {
    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            if step.measured {
                self.operations.push(Operation::Measure);
            }
            self.action(&step.action);
            if step.measured {
                self.operations.push(Operation::Measured);
            }
        }
    }

    fn action(&mut self, action: &Action) {
        // The host of a wait is known when all operations are.
        let by = SentBy::Client;
        match action {
            Action::Send { by, size } => {
                self.operations.push(Operation::Message(*by));
                // A study has no message of more than 64 MiB.
                let length = u32::try_from(size.0).unwrap_or(u32::MAX);
                self.lengths[usize::from(*by == SentBy::Server)].push(length);
            }
            Action::Wait { time } => self.operations.push(Operation::Wait { by, time: *time }),
            Action::Repeat {
                times,
                every,
                steps,
            } => {
                let schedule = self.schedules;
                if every.is_some() {
                    self.schedules += 1;
                    self.operations.push(Operation::Begin(schedule));
                }
                let mut offset = Duration::ZERO;
                for _ in 0..*times {
                    if let Some(every) = every {
                        self.operations.push(Operation::Due {
                            by,
                            schedule,
                            offset,
                        });
                        offset = offset.saturating_add(self.interval(*every));
                    }
                    self.steps(steps);
                }
            }
        }
    }

    fn interval(&mut self, every: script::Every) -> Duration {
        match every.spaced {
            Spaced::Evenly => every.interval,
            Spaced::Exponentially => {
                let uniform: f64 = self.random.random();
                every.interval.mul_f64(-(1.0 - uniform).ln())
            }
        }
    }

    /// Ends with the hosts that wait: the one that sends the next message, at the end the client.
    fn finish(mut self) -> ([Arc<[u32]>; 2], Vec<Operation>) {
        let mut next = SentBy::Client;
        for operation in self.operations.iter_mut().rev() {
            match operation {
                Operation::Message(by) => next = *by,
                Operation::Wait { by, .. } | Operation::Due { by, .. } => *by = next,
                Operation::Begin(_) | Operation::Measure | Operation::Measured => {}
            }
        }
        (self.lengths.map(Arc::from), self.operations)
    }
}

impl Script {
    /// Makes the flows of a script, each with the client's messages.
    ///
    /// # Errors
    /// [`TransportError::Order`] for more than 65536 flows.
    pub(super) fn new(order: &TrialOrder, script: &script::Script) -> Result<(Self, Vec<Part>)> {
        let (mut programs, mut parts) = (Vec::new(), Vec::new());
        for (group, flow) in script.flows.iter().enumerate() {
            for _ in 0..flow.count {
                let index = index_of(parts.len())?;
                let mut compiler = Compiler {
                    operations: Vec::new(),
                    lengths: [Vec::new(), Vec::new()],
                    schedules: 0,
                    random: ChaCha8Rng::seed_from_u64(order.seed),
                };
                compiler.random.set_stream(index.into());
                compiler.steps(&flow.steps);
                let ([from_client, from_server], operations) = compiler.finish();
                let plan = |name, lengths| Plan::of_lengths(order, (name, index), lengths);
                programs.push(Program {
                    group,
                    operations,
                    from_server: plan("server", from_server)?,
                });
                parts.push(Part::from_client(index, plan("", from_client)?));
            }
        }
        let groups = script.flows.iter().map(|flow| Group {
            after: flow.after,
            delay: flow.delay,
            left: AtomicUsize::new(flow.count as usize),
            ended: Stop::new(),
        });
        let this = Self {
            spread: script.spread,
            programs,
            groups: groups.collect(),
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

    /// Whether the first thing that a flow does is a message of the client.
    pub(super) fn client_begins(&self, flow: &Part) -> bool {
        let mut operations = self.program(flow).operations.iter();
        let first = operations.find(|it| !matches!(it, Operation::Begin(_) | Operation::Measure));
        match first {
            Some(Operation::Message(by)) => *by == SentBy::Client,
            Some(Operation::Due { by, offset, .. }) => *by == SentBy::Client && offset.is_zero(),
            _ => false,
        }
    }

    /// Waits at the client until a flow begins.
    ///
    /// # Errors
    /// [`TransportError::Cancelled`] where the transfer ends before.
    pub(super) async fn await_beginning(
        &self,
        shared: &Shared<'_>,
        executor: &impl Executor,
        flow: &Part,
    ) -> Result<()> {
        let group = &self.groups[self.program(flow).group];
        let mut since = shared.started;
        if let Some(after) = group.after.and_then(|after| self.groups.get(after)) {
            let ended = shared.stop.child();
            let _link = after.ended.link(&ended);
            executor
                .sleep_unless_stopped(MonotonicTime::NEVER, &ended)
                .await;
            since = MonotonicTime::now();
        }
        let begins = since + group.delay;
        if shared.stop.is_stopped() || executor.sleep_unless_stopped(begins, &shared.stop).await {
            return Err(TransportError::Cancelled);
        }
        Ok(())
    }

    /// Notes at the client that a flow has ended.
    fn ended(&self, flow: &Part) {
        let group = &self.groups[self.program(flow).group];
        if group.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            group.ended.stop();
        }
    }

    /// Carries out the steps of a flow at the client, and waits for the acknowledgement of its messages; returns the moment
    /// of its arrival. `opening` leaves with the first message.
    pub(super) async fn carry<S: ByteStream>(
        &self,
        shared: &Shared<'_>,
        executor: &impl Executor,
        flow: &Part,
        (stream, opening): (&mut S, &[u8]),
    ) -> Result<MonotonicTime> {
        let program = self.program(flow);
        let mut end = End::new(shared, SentBy::Client, (&flow.plan, &program.from_server));
        opening.clone_into(&mut end.before);
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
        self.ended(flow);
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
        let mut end = End::new(shared, SentBy::Server, (&program.from_server, &flow.plan));
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

/// One end of a flow.
struct End<'a> {
    shared: &'a Shared<'a>,
    host: SentBy,
    messages: &'a Plan,
    /// Number of messages that were handed over.
    sent: u64,
    /// What leaves with the next message.
    before: Vec<u8>,
    /// Whether the transport may hold something back.
    unflushed: bool,
    arrivals: StreamCheck,
    /// Number of the other end's messages that the steps have come to.
    awaited: u64,
    /// What was counted as delivered.
    counted: Delivered,
    /// Bytes that came after the messages.
    after: Vec<u8>,
    last_arrival: MonotonicTime,
    /// Beginnings of the schedules.
    schedules: Vec<MonotonicTime>,
    /// Scheduled beginning of what comes next.
    due: Option<MonotonicTime>,
    /// Beginnings of the measured steps that have not ended.
    measured: Vec<MonotonicTime>,
}

impl<'a> End<'a> {
    fn new(shared: &'a Shared<'a>, host: SentBy, (ours, theirs): (&'a Plan, &Plan)) -> Self {
        Self {
            shared,
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
        }
    }

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
                    if let Some(begun) = self.measured.pop() {
                        let mut tally = self.shared.tally();
                        tally
                            .steps
                            .get_or_insert_default()
                            .add(begun, self.last_arrival);
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

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_model::Bytes;

    fn send(by: SentBy, size: u64) -> Step {
        Step {
            action: Action::Send {
                by,
                size: Bytes(size),
            },
            measured: false,
        }
    }

    fn repeat(times: u64, every: Option<script::Every>, steps: Vec<Step>, measured: bool) -> Step {
        Step {
            action: Action::Repeat {
                times,
                every,
                steps,
            },
            measured,
        }
    }

    fn compile(steps: &[Step]) -> ([Arc<[u32]>; 2], Vec<Operation>) {
        let mut compiler = Compiler {
            operations: Vec::new(),
            lengths: [Vec::new(), Vec::new()],
            schedules: 0,
            random: ChaCha8Rng::seed_from_u64(1),
        };
        compiler.steps(steps);
        compiler.finish()
    }

    #[test]
    fn the_host_that_sends_next_waits() {
        let wait = Step {
            action: Action::Wait {
                time: Duration::from_secs(1),
            },
            measured: false,
        };
        let steps = [
            send(SentBy::Client, 10),
            wait.clone(),
            send(SentBy::Server, 20),
            wait,
        ];
        let ([client, server], operations) = compile(&steps);
        assert_eq!((&*client, &*server), (&[10][..], &[20][..]));
        let waits: Vec<_> = (operations.iter())
            .filter_map(|operation| match operation {
                Operation::Wait { by, .. } => Some(*by),
                _ => None,
            })
            .collect();
        assert_eq!(waits, [SentBy::Server, SentBy::Client]);
    }

    #[test]
    fn a_schedule_begins_at_once_and_its_intervals_add_up() {
        let every = |spaced| {
            Some(script::Every {
                interval: Duration::from_millis(100),
                spaced,
            })
        };
        let offsets = |spaced| {
            let exchange = vec![send(SentBy::Client, 1), send(SentBy::Server, 1)];
            let (_, operations) = compile(&[repeat(1000, every(spaced), exchange, false)]);
            let offsets = operations.iter().filter_map(|operation| match operation {
                Operation::Due { by, offset, .. } => Some((*by, *offset)),
                _ => None,
            });
            offsets.collect::<Vec<_>>()
        };
        let even = offsets(Spaced::Evenly);
        assert_eq!(even[0], (SentBy::Client, Duration::ZERO));
        assert_eq!(even[999], (SentBy::Client, Duration::from_millis(99_900)));
        let random = offsets(Spaced::Exponentially);
        assert_eq!(random, offsets(Spaced::Exponentially), "the seed decides");
        // The mean of 999 exponential intervals has a standard deviation of 3.2 %; this one is of a fixed seed.
        let mean = random[999].1.as_secs_f64() / 999.0;
        assert!((mean - 0.1).abs() < 0.01, "{mean}");
    }

    #[test]
    fn measured_steps_nest() {
        let inner = repeat(1, None, vec![send(SentBy::Server, 5)], true);
        let (_, operations) = compile(&[repeat(2, None, vec![inner], true)]);
        use Operation::{Measure, Measured, Message};
        let one = [Measure, Message(SentBy::Server), Measured];
        let expected = [&[Measure][..], &one, &one, &[Measured]].concat();
        assert_eq!(operations, expected);
    }
}
