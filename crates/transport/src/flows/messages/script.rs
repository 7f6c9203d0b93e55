//! Scripts over messages: each flow of a script is a flow of messages. The client gives up what can be lost after a time,
//! and the server follows it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use regatta_model::script::SentBy;

use super::{
    Shared,
    agreement::{Agreed, agree},
};
use crate::{
    clock::MonotonicTime,
    content::{
        message_check::{Answer, Counts, MessageSink},
        numbered::{self, NumberedCheck},
        plan::Plan,
    },
    delivered::Delivered,
    error::{Result, TransportError},
    executor::Executor,
    flows::{
        Received,
        script::{
            Script,
            run::{Next, Run},
        },
    },
    message::{Arrival, MessageEndpoint, MessageFlow},
    timeout::RetransmissionTimeout,
    trial::message_control::Control,
};

/// Makes the run of one end of a flow.
fn run(shared: &Shared<'_>, script: &Script, flow: u16, host: SentBy) -> Run {
    let path = &shared.trial.order.path;
    let timeout = RetransmissionTimeout::of_applications(path);
    let losing = (!shared.own.reliable).then_some((timeout, path.keeps_order));
    Run::new(script.operations(flow), host, losing)
}

/// The server's end of a flow, which the flow's receiver has send what is due.
#[derive(Debug)]
pub(super) struct ScriptServer {
    run: Run,
    from_client: NumberedCheck,
    from_server: Plan,
    /// Whether the flow ends when all messages of the client are here. Else the client ends it, which waits for answers.
    may_end_first: bool,
    /// Memory for a message.
    message: Vec<u8>,
}

impl ScriptServer {
    /// Makes the end of a flow on which nothing has come.
    pub(super) fn new(shared: &Shared<'_>, script: &Script, flow: u16) -> Self {
        let from_client = &shared.flows.parts[usize::from(flow)].plan;
        let from_server = script.server_messages(flow);
        // The client has every answer before its last message, or waits for none.
        let ends_with_client = script.last_sender(flow) == Some(SentBy::Client);
        let nothing_lost = shared.own.reliable || from_server.count == 0;
        Self {
            run: run(shared, script, flow, SentBy::Server),
            from_client: NumberedCheck::new(from_client),
            from_server: from_server.clone(),
            may_end_first: ends_with_client && nothing_lost,
            message: from_server.content.to_vec(),
        }
    }
}

impl MessageSink for ScriptServer {
    fn consume(&mut self, message: &[u8], now: MonotonicTime) -> Option<MonotonicTime> {
        if let Some(number) = self.from_client.take(message) {
            self.run.arrived(number, now);
        }
        None
    }

    fn counts(&self) -> &Counts {
        self.from_client.counts()
    }

    fn is_complete(&self) -> bool {
        self.may_end_first && self.run.is_done() && self.from_client.is_complete()
    }

    fn next_answer(&mut self) -> Answer<'_> {
        loop {
            let now = MonotonicTime::now();
            match self.run.next(now, self.from_client.counts()) {
                Next::Send(number) => {
                    let message = &mut self.message[..self.from_server.length(number)];
                    numbered::write(&self.from_server, number, message);
                    return Answer::Message(message);
                }
                Next::Wait(until) if until <= now => {}
                Next::Wait(until) | Next::Receive(until) => return Answer::NotBefore(until),
                // Other flows wait for steps at the client.
                Next::StepEnded(_) => {}
                Next::Done => return Answer::NotBefore(MonotonicTime::NEVER),
            }
        }
    }
}

/// The client's end of a flow, from the flow's opening on.
pub(super) struct ScriptClient<'a> {
    shared: &'a Shared<'a>,
    script: &'a Script,
    flow: u16,
    run: Run,
    from_server: NumberedCheck,
    /// Part of the live counters that is the flow's.
    counted: Delivered,
    /// Arrival of the messages of one batch.
    arrived: Option<MonotonicTime>,
    /// The server's account of what it got, if it has sent that.
    acknowledged: Option<(MonotonicTime, Delivered)>,
    /// Whether the server, which has given its account, has closed the flow.
    peer_closed: bool,
}

impl<'a> ScriptClient<'a> {
    /// Makes the end of a flow on which nothing has come.
    pub(super) fn new(shared: &'a Shared<'a>, script: &'a Script, flow: u16) -> Self {
        Self {
            shared,
            script,
            flow,
            run: run(shared, script, flow, SentBy::Client),
            from_server: NumberedCheck::new(script.server_messages(flow)),
            counted: Delivered::default(),
            arrived: None,
            acknowledged: None,
            peer_closed: false,
        }
    }

    /// Takes a message.
    pub(super) fn take(&mut self, message: &[u8]) {
        let now = *self.arrived.get_or_insert_with(MonotonicTime::now);
        let trial = self.shared.trial;
        match Control::decode(trial, message) {
            Some((_, Control::Acknowledgement(delivered))) => {
                self.acknowledged.get_or_insert((now, delivered));
            }
            Some(_) => {}
            None => {
                if let Some(number) = self.from_server.take(message) {
                    self.run.arrived(number, now);
                    let delivered = self.from_server.counts().delivered;
                    let new = delivered - std::mem::replace(&mut self.counted, delivered);
                    let warm_up = &self.shared.warm_up;
                    warm_up.count(&trial.context.live, now, new);
                }
            }
        }
    }

    /// Carries out the steps, counts the messages that leave in `sent`, and agrees on the flow's end with the server. Steps
    /// that end after `deadline` are not measured.
    pub(super) async fn carry<E: MessageEndpoint>(
        mut self,
        endpoint: &E,
        flow: &mut E::Connection,
        (sent, deadline): (&AtomicU64, MonotonicTime),
    ) -> Result<Agreed> {
        self.run.begin(MonotonicTime::now(), deadline);
        let carried = self.carry_steps(endpoint, flow, sent).await;
        let (shared, script, index) = (self.shared, self.script, self.flow);
        {
            let mut tally = shared.tally();
            tally.steps.merge(&self.run.results);
            tally.received.push(Received {
                flow: index,
                sink: Box::new(self.from_server),
                is_complete: true,
            });
        }
        let handed_over = carried?;
        let over = MonotonicTime::now();
        // A flow whose last message is the server's is over with that; what follows is counting.
        let is_over = script.last_sender(index) == Some(SentBy::Server);
        if is_over {
            script.flow_ended(index);
        }
        let agreed = match self.acknowledged {
            Some((at, delivered)) => Agreed::in_band(at, delivered),
            None => agree(shared, flow, handed_over, over).await?,
        };
        if is_over {
            return Ok(Agreed { at: over, ..agreed });
        }
        script.flow_ended(index);
        Ok(agreed)
    }

    /// Carries out the steps; returns what was handed over.
    async fn carry_steps<E: MessageEndpoint>(
        &mut self,
        endpoint: &E,
        flow: &mut E::Connection,
        sent: &AtomicU64,
    ) -> Result<Delivered> {
        let (shared, executor) = (self.shared, endpoint.executor());
        let (stop, live) = (&shared.stop, &shared.trial.context.live);
        let plan = &shared.flows.parts[usize::from(self.flow)].plan;
        let mut message = plan.content.to_vec();
        let pace = endpoint.pace().map(|bits| bits.max(1) as f64);
        let mut departs = MonotonicTime(0);
        let mut handed_over = Delivered::default();
        loop {
            if stop.is_stopped() {
                return Err(TransportError::Cancelled);
            }
            match self
                .run
                .next(MonotonicTime::now(), self.from_server.counts())
            {
                Next::Send(number) => {
                    let message = &mut message[..plan.length(number)];
                    numbered::write(plan, number, message);
                    if pace.is_some() && executor.sleep_unless_stopped(departs, stop).await {
                        return Err(TransportError::Cancelled);
                    }
                    flow.send_batch(message, message.len()).await?;
                    self.run.left(MonotonicTime::now());
                    handed_over.messages += 1;
                    handed_over.bytes += message.len() as u64;
                    sent.store(handed_over.messages, Ordering::Relaxed);
                    live.messages_sent.fetch_add(1, Ordering::Relaxed);
                    live.bytes_sent
                        .fetch_add(message.len() as u64, Ordering::Relaxed);
                    if let Some(bits) = pace {
                        let seconds = message.len() as f64 * 8.0 / bits;
                        let span = Duration::try_from_secs_f64(seconds);
                        departs = MonotonicTime::now() + span.unwrap_or(Duration::MAX);
                    }
                }
                Next::Wait(until) | Next::Receive(until) => {
                    self.receive(executor, flow, until).await?;
                }
                Next::StepEnded(step) => self.script.step_ended(self.flow, step),
                Next::Done => return Ok(handed_over),
            }
        }
    }

    /// Takes what arrives, at most until `until`.
    async fn receive<F: MessageFlow>(
        &mut self,
        executor: &impl Executor,
        flow: &mut F,
        until: MonotonicTime,
    ) -> Result<()> {
        let shared = self.shared;
        let stop = &shared.stop;
        if self.peer_closed {
            executor.sleep_unless_stopped(until, stop).await;
            return Ok(());
        }
        self.arrived = None;
        let mut take = |arrival: Arrival<'_>| self.take(arrival.data);
        let receiving = flow.receive_batch(until, &mut take);
        match executor.wait_unless_stopped(stop, receiving).await {
            None | Some(Ok(_)) => Ok(()),
            // The server has all and may have left; what is lost keeps its time all the same.
            Some(Err(_)) if self.acknowledged.is_some() && !stop.is_stopped() => {
                self.peer_closed = true;
                Ok(())
            }
            Some(Err(error)) => Err(error),
        }
    }
}
