//! Listening end of a trial of flows of messages.

use std::sync::Arc;

use regatta_model::reason;

use regatta_control::{Note, Role};

use super::{MessageState, Shared, Watch, receiving::Receiver, report::Sent, sending};
use crate::{
    clock::MonotonicTime,
    delivered::Delivered,
    error::TransportError,
    executor::Executor as _,
    flows::Flows,
    message::MessageServer,
    opening::Purpose,
    stop::Stop,
    trial::{
        Carried,
        carrier::Admitted,
        findings::Findings,
        listening::{Listening, ListeningWork, Outcome},
        messages::Messages,
        wait_queue::{WaitQueue, serve_in_turns},
        watch::ServerEnd,
    },
};

impl<'a, E: MessageServer> ListeningWork<'a, Messages<'a, E>> for &'a Flows {
    type Carried = Shared<'a>;

    async fn carry(&self, end: &Listening<'a, Messages<'a, E>>) -> Carried<Shared<'a>> {
        let serving = end.beside_echo(move |first, _| serve_all(end, self, first));
        let shared = serving.await?;
        let error = shared.tally().error.take();
        Ok((shared, error))
    }

    fn report(
        &self,
        shared: Shared<'a>,
        end: &Listening<'a, Messages<'a, E>>,
        outcome: &Outcome,
        findings: &mut Findings,
    ) -> MonotonicTime {
        let (trial, watch) = (end.trial, &end.watch);
        if let Some(ServerEnd::Deadline { sent, .. }) = watch.end()
            && trial.late_arrivals_within().is_some()
            && shared.directions().1
        {
            let messages = arrived_of(end, &shared, sent);
            trial.send_note(Note::Arrived { messages });
        }
        findings.stack(shared.statistics.as_ref());
        shared.report_flows(findings);
        let (sends, receives) = shared.directions();
        if receives {
            shared.report_received((outcome.delivered, outcome.at), findings);
        }
        if sends {
            let is_complete = outcome.is_complete;
            let handed_over = shared.sent();
            let theirs = match is_complete {
                // The client tells it over control, once it has all that comes.
                true if self.answer() && !shared.own.reliable => received_there(end),
                true if self.answer() => Some(handed_over),
                true => (shared.acknowledged()).or_else(|| Some(shared.theirs()?.1)),
                false => received_there(end),
            };
            let arrived = theirs.map(|theirs| theirs.messages);
            let sent = Sent {
                handed_over,
                theirs: theirs.unwrap_or_default(),
                by_deadline: !is_complete,
                arrived: arrived.filter(|_| is_complete),
            };
            shared.report_sent(end.carrier.0, &sent, findings);
        }
        if trial.order.role == Role::Sender || self.answer() {
            findings.own_counters(trial);
        }
        shared.started
    }
}

/// Waits for the other end's account of what it got, once the flows have ended.
fn received_there<E: MessageServer>(end: &Listening<'_, Messages<'_, E>>) -> Option<Delivered> {
    end.watch.told_after_break(|peer| Some(peer.received?.1))
}

/// Serves the first flow and all that come after it.
async fn serve_all<'a, E: MessageServer>(
    end: &Listening<'a, Messages<'a, E>>,
    flows: &'a Flows,
    first: Admitted<E::Connection>,
) -> Shared<'a> {
    let (trial, endpoint) = (end.trial, end.carrier.0);
    let watch = Watch::Listening(Arc::clone(&end.watch));
    let own = MessageState::new((trial, flows), endpoint.reliable(), watch);
    let stops = (&end.transfer, &Stop::new());
    let shared = Shared::new((trial, flows), stops, first.arrived, own);
    // One at a time waits for a flow: a wait may find the first message of another one, which wakes no other task.
    let next = async |_: &WaitQueue, _: usize| admit_next(end, &shared).await;
    let serve = async |admitted| serve(&shared, endpoint, admitted).await;
    let tasks = (flows.parts.len(), &shared.stop);
    serve_in_turns(endpoint.executor(), tasks, first, next, serve).await;
    shared
}

/// Waits for a further flow of the transfer; returns none once that has ended.
async fn admit_next<E: MessageServer>(
    end: &Listening<'_, Messages<'_, E>>,
    shared: &Shared<'_>,
) -> Option<Admitted<E::Connection>> {
    let limit = end.watch.limit;
    let mut accept = |message: &[u8]| end.admission().flow(end.trial, message);
    while !shared.stop.is_stopped() {
        let admitting = end.carrier.admit_by(end.trial, limit, &mut accept);
        let executor = end.carrier.0.executor();
        match executor
            .wait_unless_stopped(&shared.stop, admitting)
            .await?
        {
            Ok(admitted) if admitted.purpose == Purpose::Transfer => return Some(admitted),
            // One that was given up, as its opening took too long.
            Ok(_) => {}
            Err(_) if shared.stop.is_stopped() => {}
            Err(error) => {
                shared.broke(error);
                return None;
            }
        }
    }
    None
}

/// Carries one flow to its end.
async fn serve<E: MessageServer>(
    shared: &Shared<'_>,
    endpoint: &E,
    mut admitted: Admitted<E::Connection>,
) {
    let flow = admitted.index;
    if usize::from(flow) >= shared.flows.parts.len() {
        let what = reason::unknown_flow(flow.into());
        return shared.broke(TransportError::protocol(what));
    }
    let all = shared.opened(&admitted.flow);
    if let Some(all) = all.filter(|_| shared.sends(flow) || shared.flows.answer()) {
        let observer = &shared.trial.context.observer;
        observer.on_connection(Purpose::Transfer, Arc::downgrade(&all));
    }
    if shared.sends(flow) {
        let _linked = shared.stop.link(&admitted.stop);
        sending::carry(shared, endpoint, (flow, &mut admitted.flow), None).await;
        shared.close_window();
    } else {
        // The deadline ends what is delivered, and not the flow: what is under way arrives still.
        Receiver::new(shared, flow)
            .carry(endpoint.executor(), &mut admitted.flow)
            .await;
    }
    admitted.stop.stop();
    shared.carried(&admitted.flow);
}

/// Returns the number of messages that arrived, before the deadline and after it, of those that left
/// the other end: at most `sent`.
fn arrived_of<E: MessageServer>(
    end: &Listening<'_, Messages<'_, E>>,
    shared: &Shared<'_>,
    sent: u64,
) -> u64 {
    let most = shared.sent_on_flow(sent);
    let mut arrived = 0;
    for received in &shared.tally().received {
        // All have waited until nothing more can come.
        let left = match received.is_complete {
            true => None,
            false => (end.watch).told_after_break(|peer| peer.left.get(&received.flow).copied()),
        };
        let left = left.map_or(most, |(_, messages)| messages.min(most));
        arrived += received.sink.arrived_of(left);
    }
    arrived
}
