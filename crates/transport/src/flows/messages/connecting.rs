//! Connecting end of a trial of flows of messages.

use std::{sync::Arc, time::Duration};

use super::{
    MessageState, Shared, Watch, receiving::Receiver, report::Sent, script::ScriptClient, sending,
};
use crate::{
    clock::MonotonicTime,
    delivered::Delivered,
    endpoint::Endpoint,
    error::{Result, TransportError},
    executor::Executor as _,
    flows::Flows,
    message::{MessageClient, MessageFlow},
    opening::Purpose,
    trial::{
        Carried, LEAVING, MARGIN,
        connecting::{Connecting, ConnectingWork, Ended},
        findings::Findings,
        message_control,
        messages::Messages,
        watch::ClientEnd,
    },
};

/// Longest time that the receiver's note about late messages may take beyond those messages.
const LATE_ANSWER: Duration = Duration::from_secs(3);

impl<'a, E: MessageClient> ConnectingWork<'a, Messages<'a, E>> for &'a Flows {
    type Carried = Shared<'a>;

    async fn carry(&self, end: &mut Connecting<'a, Messages<'a, E>>) -> Carried<Shared<'a>> {
        end.begin();
        let end = &*end;
        let watch = Watch::Connecting(Arc::clone(&end.watch));
        let stops = (&end.transfer, &end.over);
        let (trial, flows) = (end.trial, *self);
        let own = MessageState::new((trial, flows), end.carrier.0.reliable(), watch);
        let shared = Shared::new((trial, flows), stops, end.started, own);
        let client = &Client {
            shared: &shared,
            end,
        };
        // Starting the probe's thread takes longer than connecting over a short path. Flows of a script begin when it has them
        // begin.
        let first = match self.script() {
            Some(_) => None,
            None => Some(client.open(0, end.started).await),
        };
        end.beside_probe(move || client.carry_all(first)).await;
        let error = shared.tally().error.take();
        Ok((shared, error))
    }

    async fn report(
        &self,
        shared: Shared<'a>,
        ended: &mut Ended<'a, Messages<'a, E>>,
        findings: &mut Findings,
    ) -> Result<()> {
        let (trial, flows) = (shared.trial, self);
        let (sends, receives) = shared.directions();
        let ours = ended.end.delivered();
        let handed_over = match ended.end {
            ClientEnd::Deadline { sent, .. } => sent,
            ClientEnd::Acknowledged { .. } => trial.context.live.sent(),
        };
        // The server of a script learns in no other way what came of its messages.
        if receives && (ended.by_deadline() || flows.script().is_some()) {
            trial.send_note(ours.received_note());
        }
        let theirs = match sends || ended.by_deadline() {
            true => theirs(&shared, ended.by_deadline())?,
            false => Delivered::default(),
        };
        ended.report(findings, flows.size, ours + theirs, flows.has_goodput());
        if receives {
            shared.report_received((ours, ended.end.at()), findings);
        }
        findings.warm_up(flows.options.warm_up);
        if sends {
            report_sent(&shared, (handed_over, theirs), ended, findings);
        }
        shared.report_flows(findings);
        Ok(())
    }
}

/// Adds the results of the flows from this end.
fn report_sent<E: MessageClient>(
    shared: &Shared<'_>,
    (handed_over, theirs): (Delivered, Delivered),
    ended: &Ended<'_, Messages<'_, E>>,
    findings: &mut Findings,
) {
    let by_deadline = ended.by_deadline();
    let arrived = match by_deadline {
        // What a reliable flow would have sent again is not known, and with data in both directions
        // messages under way are not waited for.
        true if shared.own.reliable || shared.directions().1 => None,
        true if theirs.messages < handed_over.messages => arrived_late(shared),
        _ => Some(theirs.messages),
    };
    findings.acknowledgement(!shared.tally().over_control && !by_deadline);
    findings.counters(shared.trial, ended.time());
    let sent = Sent {
        handed_over,
        theirs,
        by_deadline,
        arrived,
    };
    shared.report_sent(ended.carrier.0, &sent, findings);
}

/// Returns what came to the other end: by the acknowledgements of all flows, or by its account over
/// control.
fn theirs(shared: &Shared<'_>, by_deadline: bool) -> Result<Delivered> {
    let acknowledged = shared.acknowledged().filter(|_| !by_deadline);
    match acknowledged.or_else(|| Some(shared.theirs()?.1)) {
        Some(theirs) => Ok(theirs),
        None => shared.trial.answer_over_control(),
    }
}

/// Waits for the receiver's note about messages that arrived after the deadline; returns the number
/// of all that have arrived, or `None` if the note takes too long.
fn arrived_late(shared: &Shared<'_>) -> Option<u64> {
    let trial = shared.trial;
    let until = MonotonicTime::now() + LEAVING + trial.late_arrivals_within()? + LATE_ANSWER;
    trial.context.peer.wait_for(until, |peer| peer.arrived)
}

/// What this end does on a flow that it has opened.
enum FlowWork<'a> {
    Send,
    Receive(Box<Receiver<'a>>),
    /// Carry out the steps of a script.
    Script(Box<ScriptClient<'a>>),
}

impl FlowWork<'_> {
    /// Takes a message that comes before the answer to the flow's opening, which may be lost where the data is not; returns
    /// whether it belongs to the flow.
    fn take(&mut self, message: &[u8]) -> bool {
        match self {
            Self::Send => return false,
            Self::Receive(receiver) => receiver.take(message),
            Self::Script(client) => client.take(message),
        }
        true
    }
}

/// Flow of a driver, and the work on it.
type Opened<'a, E> = (<E as Endpoint>::Connection, FlowWork<'a>);

/// The connecting end while the flows are carried.
struct Client<'a, 'c, E: MessageClient> {
    shared: &'a Shared<'a>,
    end: &'a Connecting<'c, Messages<'c, E>>,
}

impl<'a, E: MessageClient> Client<'a, '_, E> {
    /// Carries all flows, of which the first may be opened already.
    async fn carry_all(&self, mut first: Option<Result<Opened<'a, E>>>) {
        let tasks = (0..self.shared.flows.parts.len())
            .map(|index| {
                let opened = first.take();
                // The number of flows was checked when they were made.
                move || self.carry(u16::try_from(index).unwrap_or(u16::MAX), opened)
            })
            .collect();
        self.end.carrier.0.executor().join_all(tasks).await;
    }

    /// Carries one flow to its end, and opens it before that unless it is `opened`.
    async fn carry(&self, index: u16, opened: Option<Result<Opened<'a, E>>>) {
        let shared = self.shared;
        let endpoint = self.end.carrier.0;
        let opening = async {
            if let Some(opened) = opened {
                return opened;
            }
            if let Some(script) = shared.flows.script() {
                let since = (shared.started, &shared.stop);
                let executor = endpoint.executor();
                (script.await_beginning(index, executor, since)).await?;
            }
            self.open(index, MonotonicTime::now()).await
        };
        let (mut flow, work) = match opening.await {
            Ok(opened) => opened,
            Err(error) => return shared.broke(error),
        };
        let script = match work {
            FlowWork::Receive(receiver) => {
                receiver.carry(endpoint.executor(), &mut flow).await;
                return shared.carried(&flow);
            }
            FlowWork::Send => None,
            FlowWork::Script(client) => {
                let deadline = self.end.watch.loaded_since() + shared.trial.order.deadline;
                Some((*client, deadline))
            }
        };
        sending::carry(shared, endpoint, (index, &mut flow), script).await;
        shared.carried(&flow);
    }

    /// Makes a flow and opens it; its set-up counts from `begun`.
    async fn open(&self, index: u16, begun: MonotonicTime) -> Result<Opened<'a, E>> {
        let (shared, end) = (self.shared, self.end);
        let (trial, endpoint) = (end.trial, end.carrier.0);
        let until = MonotonicTime::now() + trial.order.connect_deadline;
        let connecting = endpoint.connect(end.peer, Purpose::Transfer, until, &end.transfer);
        let mut flow = connecting.await.map_err(|error| match error {
            // A stack that has the same limit may notice it before the watch.
            TransportError::TimedOut { .. } => trial.no_connection(),
            error => error,
        })?;
        let mut work = match shared.flows.script() {
            Some(script) => FlowWork::Script(Box::new(ScriptClient::new(shared, script, index))),
            None if shared.sends(index) => FlowWork::Send,
            None => FlowWork::Receive(Box::new(Receiver::new(shared, index))),
        };
        let until = end.started + trial.order.longest_transfer() + MARGIN;
        let name = (Purpose::Transfer, index);
        let mut take = |message: &[u8]| work.take(message);
        message_control::open(trial, &mut flow, name, until, &mut take).await?;
        end.connected(begun);
        shared.tally().facts.extend(flow.facts());
        if let Some(all) = shared.opened(&flow) {
            end.watch.connection(&all);
        }
        Ok((flow, work))
    }
}
