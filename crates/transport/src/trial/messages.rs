//! Flows over messages that may be lost: opening, admission, and answers to probe messages.

use std::net::SocketAddr;

use regatta_model::fact;

use super::{
    Trial,
    carrier::{Admission, Admitted, Carrier, ClientCarrier, ProbeFlow, ServerCarrier},
    findings::Findings,
    message_control::{self, Control},
    retransmissions::Counter,
};
use crate::{
    clock::MonotonicTime,
    context::WindowEdge,
    endpoint::Accepted,
    error::{Result, TransportError},
    executor::Executor as _,
    message::{Arrival, MessageClient, MessageEndpoint, MessageFlow, MessageServer},
    opening::Purpose,
    stop::Stop,
};

impl<F: MessageFlow> ProbeFlow for F {
    fn loses_messages(&self) -> bool {
        true
    }

    fn sends_at_once(&self) -> bool {
        // One that sends again has a window of its own.
        self.is_drained()
    }

    fn holds_back(&self) -> bool {
        false
    }

    async fn send(&mut self, message: &[u8]) -> Result<()> {
        self.send_batch(message, message.len()).await
    }

    async fn receive(
        &mut self,
        _: usize,
        until: MonotonicTime,
        answer: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<bool> {
        let mut take = |arrival: Arrival<'_>| answer(arrival.data);
        Ok(self.receive_batch(until, &mut take).await? > 0)
    }

    async fn send_done(&mut self, trial: &Trial, purpose: Purpose) {
        // The other end may have closed already, which is no error.
        let _ = message_control::send(trial, self, purpose, Control::Done).await;
    }
}

impl Admission {
    /// Returns the purpose and the index of a flow whose first message is `message`, if it is to be
    /// admitted. The window is opened by all flows but the transfer's further ones.
    pub(crate) fn flow(&mut self, trial: &Trial, message: &[u8]) -> Option<(Purpose, u16)> {
        match Control::decode(trial, message) {
            // A copy of an opening that was sent again before the flow was there.
            Some((purpose, Control::Open(index))) if self.admitted.contains(&(purpose, index)) => {
                None
            }
            Some((purpose, Control::Open(index))) => {
                let is_further = (self.admitted.iter()).any(|(of, _)| *of == Purpose::Transfer);
                if !is_further {
                    trial.context.observer.on_window(WindowEdge::Start);
                }
                self.admitted.push((purpose, index));
                Some((purpose, index))
            }
            // A late message of a flow that has ended.
            Some(_) => None,
            None => {
                self.refused += 1;
                None
            }
        }
    }
}

/// An end of messages.
pub(crate) struct Messages<'a, E>(pub &'a E);

impl<E: MessageServer> Messages<'_, E> {
    /// Waits for a flow that `accept` admits by its first message, for its purpose and index.
    pub(crate) async fn admit_by(
        &self,
        trial: &Trial,
        until: MonotonicTime,
        accept: &mut (impl FnMut(&[u8]) -> Option<(Purpose, u16)> + Send),
    ) -> Result<Admitted<E::Connection>> {
        let stop = trial.stop.child();
        let mut admitted = None;
        let mut admit = |message: &[u8]| match accept(message) {
            Some(flow) => {
                admitted = Some((flow, MonotonicTime::now()));
                true
            }
            None => false,
        };
        let mut flow = match self.0.accept(until, &stop, &mut admit).await? {
            Accepted::Connection(flow) => flow,
            Accepted::Failed(error) => return Err(error),
        };
        let Some(((purpose, index), arrived)) = admitted else {
            return Err(TransportError::Closed { flow: "new flow" });
        };
        message_control::send(trial, &mut flow, purpose, Control::Opened).await?;
        Ok(Admitted {
            purpose,
            index,
            flow,
            arrived,
            stop,
        })
    }
}

impl<E: MessageEndpoint> Carrier for Messages<'_, E> {
    type Flow = E::Connection;
    type Executor = E::Executor;

    fn executor(&self) -> &E::Executor {
        self.0.executor()
    }

    fn describe(&self, _: &mut Findings) {}

    async fn close(_: E::Connection, _: MonotonicTime) {}

    fn retransmissions(&self, flow: &E::Connection) -> Counter {
        if !self.0.reliable() {
            return Counter::Never("messages");
        }
        (flow.statistics()).map_or_else(
            || Counter::Unknown(fact::stack_does_not_count()),
            Counter::Stack,
        )
    }
}

impl<E: MessageClient> ClientCarrier for Messages<'_, E> {
    async fn open(
        &self,
        trial: &Trial,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<E::Connection> {
        let mut flow = self.0.connect(peer, purpose, until, stop).await?;
        message_control::open(trial, &mut flow, (purpose, 0), until, &mut |_| false).await?;
        Ok(flow)
    }
}

impl<E: MessageServer> ServerCarrier for Messages<'_, E> {
    async fn admit(
        &self,
        trial: &Trial,
        until: MonotonicTime,
        admission: &mut Admission,
    ) -> Result<Admitted<E::Connection>> {
        let mut accept = |message: &[u8]| admission.flow(trial, message);
        self.admit_by(trial, until, &mut accept).await
    }

    async fn echo(
        &self,
        trial: &Trial,
        probe: &mut Admitted<E::Connection>,
        over: &Stop,
        answering: &(impl Fn() + Sync),
    ) {
        let (flow, purpose) = (&mut probe.flow, probe.purpose);
        let executor = self.0.executor();
        let mut until = MonotonicTime::NEVER;
        let mut back: Vec<Vec<u8>> = Vec::new();
        let mut done = false;
        while !done && !until.has_passed() && !trial.stop.is_stopped() {
            if until == MonotonicTime::NEVER && over.is_stopped() {
                // The last messages are answered after the transfer as well; their sender notes when
                // it has enough.
                until = MonotonicTime::now() + trial.probe.last_answers_within;
            }
            let mut take = |arrival: Arrival<'_>| match Control::decode(trial, arrival.data) {
                Some((of, Control::Open(_))) if of == purpose => {
                    back.push(Control::Opened.encode(trial, purpose).to_vec());
                }
                Some((of, Control::Done)) if of == purpose => done = true,
                Some(_) => {}
                None => back.push(arrival.data.to_vec()),
            };
            let receiving = flow.receive_batch(until, &mut take);
            let received = match until {
                MonotonicTime::NEVER => executor.wait_unless_stopped(over, receiving).await,
                _ => Some(receiving.await),
            };
            // The sender's end of the probe reports the error; here it only ends.
            if matches!(received, Some(Err(_))) {
                return;
            }
            if !back.is_empty() {
                answering();
            }
            for message in back.drain(..) {
                if flow.send_batch(&message, message.len()).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn end_probe(&self, _: &Trial, over: &Stop, _: &Stop) {
        over.stop();
    }
}
