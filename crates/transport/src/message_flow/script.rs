//! Scripts over messages: each flow of a script is a flow of messages. The client gives up what can be lost after a time,
//! and the server follows it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use regatta_control::TrialOrder;
use regatta_model::script::SentBy;

use super::{
    Shared,
    sending::{Agreed, agree},
};
use crate::{
    clock::MonotonicTime,
    content::{
        message_check::{Answer, Counts, MessageSink},
        numbered::{self, NumberedCheck},
        part::Part,
        plan::Plan,
    },
    delivered::Delivered,
    error::{Result, TransportError},
    executor::Executor,
    message::{Arrival, MessageEndpoint, MessageFlow},
    script::{
        Script,
        run::{Next, Run},
    },
    timeout::RetransmissionTimeout,
    trial::message_control::Control,
};

/// Flows of a script over messages.
#[derive(Debug)]
pub(super) struct MessageScript {
    pub script: Script,
    /// Messages of the client, by flow.
    parts: Vec<Part>,
    /// Time after which the client gives up a message that can be lost.
    timeout: RetransmissionTimeout,
    /// Whether messages keep their order on the path.
    keeps_order: bool,
    pub longest_message: usize,
}

impl MessageScript {
    /// Reads an order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for a script that no study can have, and for more messages than can be numbered.
    pub(super) fn new(order: &TrialOrder, script: &regatta_model::Script) -> Result<Self> {
        let longest_message = script.largest_message().0 as usize;
        let (script, parts) = Script::new(order, script)?;
        Ok(Self {
            script,
            parts,
            timeout: RetransmissionTimeout::of_applications(&order.path),
            keeps_order: order.path.keeps_order,
            longest_message,
        })
    }

    pub(super) const fn flow_count(&self) -> usize {
        self.parts.len()
    }

    /// Returns the bytes of all messages.
    pub(super) fn bytes(&self) -> u64 {
        self.script.bytes(&self.parts)
    }

    /// Returns the time after which the client gives up a message, as at the beginning, over a transport that can lose it.
    pub(super) fn timeout(&self, reliable: bool) -> Option<RetransmissionTimeout> {
        (!reliable).then_some(self.timeout)
    }

    fn run(&self, flow: u16, host: SentBy, reliable: bool) -> Run {
        let timeout = self.timeout(reliable);
        let losing = timeout.map(|timeout| (timeout, self.keeps_order));
        Run::new(self.script.operations(flow), host, losing)
    }

    /// Makes the server's end of a flow.
    pub(super) fn server(&self, flow: u16, reliable: bool) -> ScriptServer {
        let (from_client, from_server) = (
            &self.parts[usize::from(flow)].plan,
            self.script.server_messages(flow),
        );
        // The client has every answer before its last message, or waits for none.
        let ends_with_client = self.script.last_sender(flow) == Some(SentBy::Client);
        ScriptServer {
            run: self.run(flow, SentBy::Server, reliable),
            from_client: NumberedCheck::new(from_client),
            from_server: from_server.clone(),
            may_end_first: ends_with_client && (reliable || from_server.count == 0),
            message: from_server.content.to_vec(),
        }
    }
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
    script: &'a MessageScript,
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
    pub(super) fn new(shared: &'a Shared<'a>, script: &'a MessageScript, flow: u16) -> Self {
        Self {
            shared,
            script,
            flow,
            run: script.run(flow, SentBy::Client, shared.reliable),
            from_server: NumberedCheck::new(script.script.server_messages(flow)),
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
        let (shared, index) = (self.shared, self.flow);
        let script = &self.script.script;
        {
            let mut tally = shared.tally();
            tally.steps.merge(&self.run.results);
            tally.add_both_ways(index, Box::new(self.from_server));
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
        let plan = &self.script.parts[usize::from(self.flow)].plan;
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
                Next::StepEnded(step) => self.script.script.step_ended(self.flow, step),
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
