//! Flows of a transport, of streams or of messages, as every trial opens, probes, admits and closes
//! them.

use std::{future::Future, net::SocketAddr, time::Duration};

use super::{Trial, findings::Findings, retransmissions::Counter};
use crate::{
    clock::MonotonicTime, error::Result, executor::Executor, opening::Purpose, stop::Stop,
};

/// A flow that has shown this trial's token.
pub(crate) struct Admitted<F> {
    pub purpose: Purpose,
    /// Index among the flows of this purpose, over messages.
    pub index: u16,
    pub flow: F,
    pub arrived: MonotonicTime,
    pub stop: Stop,
}

/// Flows to be admitted, and those refused.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Purposes and indices of those that were admitted, over messages.
    pub admitted: Vec<(Purpose, u16)>,
    /// Number of those that did not show this trial's token.
    pub refused: u64,
    /// Number of those that failed before they could show it.
    pub failed: u64,
    /// Time for which flows that were not admitted kept those that were waiting.
    pub held_up: Duration,
}

/// A flow on which probe messages are sent.
pub(crate) trait ProbeFlow {
    /// Whether a message, or its answer, can be lost for good.
    fn loses_messages(&self) -> bool;

    /// Whether a small message would leave at once, although others are under way.
    fn sends_at_once(&self) -> bool;

    /// Whether a message whose sending was cancelled has not left and never will.
    fn holds_back(&self) -> bool;

    /// Sends one message.
    fn send(&mut self, message: &[u8]) -> impl Future<Output = Result<()>>;

    /// Waits for answers, of `length` bytes each, and passes them to `answer`; returns false if the
    /// moment has come.
    fn receive(
        &mut self,
        length: usize,
        until: MonotonicTime,
        answer: &mut (impl FnMut(&[u8]) + Send),
    ) -> impl Future<Output = Result<bool>>;

    /// Sends the note that the probe is done, where that spares the other end a wait.
    fn send_done(&mut self, trial: &Trial, purpose: Purpose) -> impl Future<Output = ()>;
}

/// A transport's end, of streams or of messages.
pub(crate) trait Carrier: Sync {
    type Flow: ProbeFlow + Send;
    type Executor: Executor;

    fn executor(&self) -> &Self::Executor;

    /// Adds the facts and warnings of the endpoint that the sessions do not add.
    fn describe(&self, findings: &mut Findings);

    /// Closes a flow in good order, at most until `until`.
    fn close(flow: Self::Flow, until: MonotonicTime) -> impl Future<Output = ()>;

    /// Returns the source of the retransmissions of a flow's connection.
    fn retransmissions(&self, flow: &Self::Flow) -> Counter;
}

/// The end that connects.
pub(crate) trait ClientCarrier: Carrier {
    /// Opens a flow; returns when the other end has its purpose.
    fn open(
        &self,
        trial: &Trial,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> impl Future<Output = Result<Self::Flow>>;
}

/// The end that listens.
pub(crate) trait ServerCarrier: Carrier {
    /// Waits for a flow that shows this trial's token; refuses others. The flow may be the
    /// transfer's, so the window is opened.
    fn admit(
        &self,
        trial: &Trial,
        until: MonotonicTime,
        admission: &mut Admission,
    ) -> impl Future<Output = Result<Admitted<Self::Flow>>>;

    /// Sends the messages of a probe back, until its sender has done, or is known to have done once
    /// `over` is raised. `answering` is called before answers leave.
    fn echo(
        &self,
        trial: &Trial,
        probe: &mut Admitted<Self::Flow>,
        over: &Stop,
        answering: &(impl Fn() + Sync),
    ) -> impl Future<Output = ()>;

    /// Ends the answers to the probe under load once the transfer is over; `echoed` is raised when they have ended, as
    /// their sender does when it has enough.
    fn end_probe(&self, trial: &Trial, over: &Stop, echoed: &Stop) -> impl Future<Output = ()>;
}
