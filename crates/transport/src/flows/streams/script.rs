//! Scripts over streams.

use std::sync::atomic::Ordering;

use regatta_model::script::SentBy;

use super::{Shared, exchange::send_one, receiving::SCRATCH_BYTES};
use crate::{
    clock::MonotonicTime,
    content::{
        acknowledgement::Acknowledgement, part::Part, plan::Plan, stream_check::StreamCheck,
    },
    delivered::Delivered,
    error::{Result, TransportError},
    executor::Executor,
    flows::script::{
        Script,
        run::{Next, Run},
    },
    stream::{ByteStream, Received, send_now},
};

impl Script {
    /// Carries out the steps of a flow at the client, and waits for the acknowledgement of its messages; returns the moment
    /// of its arrival. `opening` leaves with the first message. Steps that end after `deadline` are not measured.
    pub(super) async fn carry<S: ByteStream>(
        &self,
        (shared, deadline): (&Shared<'_>, MonotonicTime),
        executor: &impl Executor,
        flow: &Part,
        (stream, opening): (&mut S, &[u8]),
    ) -> Result<MonotonicTime> {
        let from_server = self.server_messages(flow.index);
        let mut end = FlowEnd::new(
            (shared, self),
            (flow.index, SentBy::Client),
            (&flow.plan, from_server),
        );
        opening.clone_into(&mut end.before);
        end.run.begin(MonotonicTime::now(), deadline);
        let carried = end.carry(executor, stream).await;
        end.add_to_tally();
        carried?;
        end.flush(stream).await?;
        let got = Acknowledgement::of(stream, end.after).await?;
        let arrived = MonotonicTime::now();
        got.check_bytes(flow.plan.size)?;
        {
            let mut tally = shared.tally();
            tally.acknowledged = tally.acknowledged + got.delivered;
        }
        self.flow_ended(flow.index);
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
        let from_server = self.server_messages(flow.index);
        let mut end = FlowEnd::new(
            (shared, self),
            (flow.index, SentBy::Server),
            (from_server, &flow.plan),
        );
        end.take(rest);
        let carried = end.carry(executor, stream).await;
        end.add_to_tally();
        carried?;
        let acknowledgement = Acknowledgement {
            delivered: end.arrivals.delivered,
            digest: 0,
        };
        // The last message leaves together with it.
        acknowledgement.send(stream).await?;
        Ok(MonotonicTime::now())
    }
}

/// One end of a flow.
struct FlowEnd<'a> {
    shared: &'a Shared<'a>,
    script: &'a Script,
    flow: u16,
    run: Run,
    messages: &'a Plan,
    /// Bytes that leave with the next message.
    before: Vec<u8>,
    /// Whether the transport may hold back messages.
    unflushed: bool,
    arrivals: StreamCheck,
    /// Delivered bytes and messages that were counted.
    counted: Delivered,
    /// Bytes that came after the messages.
    after: Vec<u8>,
}

impl<'a> FlowEnd<'a> {
    fn new(
        (shared, script): (&'a Shared<'a>, &'a Script),
        (flow, host): (u16, SentBy),
        (ours, theirs): (&'a Plan, &Plan),
    ) -> Self {
        Self {
            shared,
            script,
            flow,
            run: Run::new(script.operations(flow), host, None),
            messages: ours,
            before: Vec::new(),
            unflushed: false,
            arrivals: StreamCheck::new(theirs),
            counted: Delivered::default(),
            after: Vec::new(),
        }
    }

    /// Carries out the operations.
    async fn carry<S: ByteStream>(
        &mut self,
        executor: &impl Executor,
        stream: &mut S,
    ) -> Result<()> {
        let most = self.arrivals.largest().clamp(4096, SCRATCH_BYTES);
        let mut scratch = vec![0; most];
        loop {
            match self.run.next(MonotonicTime::now(), &self.arrivals) {
                Next::Send(number) => self.send(number, stream).await?,
                Next::Wait(until) => {
                    self.flush(stream).await?;
                    let stop = &self.shared.stop;
                    if !until.has_passed() && executor.sleep_unless_stopped(until, stop).await {
                        return Err(TransportError::Cancelled);
                    }
                }
                Next::Receive(until) => {
                    self.flush(stream).await?;
                    let before = self.arrivals.complete_messages();
                    let mut take = |piece: &[u8]| self.take(piece);
                    let received = stream.receive(&mut scratch, until, &mut take).await?;
                    // The last bytes may come with the end.
                    if received == Received::Closed && self.arrivals.complete_messages() == before {
                        return Err(TransportError::Closed { flow: "transfer" });
                    }
                }
                Next::StepEnded(step) => self.script.step_ended(self.flow, step),
                Next::Done => return Ok(()),
            }
        }
    }

    /// Hands a message to the transport.
    async fn send<S: ByteStream>(&mut self, number: u64, stream: &mut S) -> Result<()> {
        let before = std::mem::take(&mut self.before);
        let length = send_one(self.messages, number, stream, &before).await?;
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
            self.run.arrived(self.arrivals.complete_messages(), now);
        }
    }

    /// Adds the results of this end to those of all flows.
    fn add_to_tally(&self) {
        let mut tally = self.shared.tally();
        tally.corrupted += self.arrivals.corrupted;
        tally.steps.merge(&self.run.results);
    }
}
