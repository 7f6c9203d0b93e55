//! Listening end of a trial of flows of messages.

use std::sync::Arc;

use regatta_control::{Note, Role, SideReport};

use super::{Shared, Watch, Work, receiving::Receiver, sending, tally::Sent};
use crate::{
    driver::{Result, TransportError},
    executor::Executor as _,
    message::MessageEndpoint,
    opening::Purpose,
    stop::Stop,
    trial::{
        Trial,
        carrier::Admitted,
        findings::Findings,
        listening::Listening,
        messages::Messages,
        turns::Turns,
        watch::{Delivered, ReceiverEnd},
    },
};

/// Runs one end.
pub(super) async fn run<E: MessageEndpoint>(
    trial: &Trial,
    work: &Work,
    endpoint: &E,
) -> Result<SideReport> {
    let carrier = Messages(endpoint);
    let end = Listening::new(trial, &carrier)?;
    let end_ref = &end;
    let served = end
        .beside_echo(move |first, _| serve_all(end_ref, work, first))
        .await;
    match served {
        Ok(shared) => report(&end, &shared),
        Err(error) => end.without_transfer(Findings::default(), error),
    }
}

/// Serves the first flow and all that come after it.
async fn serve_all<'a, E: MessageEndpoint>(
    end: &'a Listening<'a, Messages<'a, E>>,
    work: &'a Work,
    first: Admitted<E::Flow>,
) -> Shared<'a> {
    let (trial, endpoint) = (end.trial, end.carrier.0);
    let shared = Shared::new(
        (trial, work, endpoint.reliable()),
        (&end.transfer, &Stop::new()),
        first.arrived,
        Watch::Listening(&end.watch),
    );
    // One at a time waits for a flow: a wait may find the first message of another one, which wakes nobody else.
    let (shared_ref, turns) = (&shared, &Turns::new(shared.work.flows.len(), &shared.stop));
    let tasks = std::iter::once(Some(first))
        .chain((1..shared.work.flows.len()).map(|_| None))
        .enumerate()
        .map(|(task, first)| {
            move || async move {
                turns.wait(task, end.carrier.0.executor()).await;
                let next = match first {
                    Some(first) => Some(first),
                    None => admit_next(end, shared_ref).await,
                };
                turns.pass(task);
                if let Some(admitted) = next {
                    serve(shared_ref, endpoint, admitted).await;
                }
            }
        })
        .collect();
    end.carrier.0.executor().join_all(tasks).await;
    shared
}

/// Waits for a further flow of the transfer; returns none once that has ended.
async fn admit_next<E: MessageEndpoint>(
    end: &Listening<'_, Messages<'_, E>>,
    shared: &Shared<'_>,
) -> Option<Admitted<E::Flow>> {
    let limit = end.watch.limit;
    let mut judge = |message: &[u8]| end.admission().flow(end.trial, message);
    while !shared.stop.is_stopped() {
        let admitting = end.carrier.admit_by(end.trial, limit, &mut judge);
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
async fn serve<E: MessageEndpoint>(
    shared: &Shared<'_>,
    endpoint: &E,
    mut admitted: Admitted<E::Flow>,
) {
    let flow = admitted.index;
    if usize::from(flow) >= shared.work.flows.len() {
        let what = format!("the other end opened flow {flow}, which this transfer does not have");
        return shared.broke(TransportError::protocol(what));
    }
    let all = shared.tally().opened(&admitted.flow);
    if shared.sends(flow) {
        if let Some(all) = all {
            let observer = &shared.trial.context.observer;
            observer.on_connection(Purpose::Transfer, Arc::downgrade(&all));
        }
        let _linked = shared.stop.link(&admitted.stop);
        sending::carry(shared, endpoint, flow, &mut admitted.flow).await;
        shared.close_window();
    } else {
        // The deadline ends what is delivered, and not the flow: what is under way arrives still.
        Receiver::new(shared, flow)
            .carry(endpoint.executor(), &mut admitted.flow)
            .await;
    }
    admitted.stop.stop();
    shared.tally().carried(&admitted.flow);
}

fn report<E: MessageEndpoint>(
    end: &Listening<'_, Messages<'_, E>>,
    shared: &Shared<'_>,
) -> Result<SideReport> {
    let (trial, watch) = (end.trial, &end.watch);
    let error = shared.tally().error.take();
    let outcome = end.outcome(error)?;
    if let Some(ReceiverEnd::Deadline { sent, .. }) = watch.end()
        && trial.late_arrivals_within().is_some()
        && shared.ways().1
    {
        let messages = arrived_of(end, shared, sent);
        trial.tell(Note::Arrived { messages });
    }
    let mut findings = Findings::default();
    findings.stack(shared.tally().statistics.as_ref());
    shared.report_flows(&mut findings);
    let (sends, receives) = shared.ways();
    if receives {
        shared.report_received(outcome.delivered, &mut findings);
    }
    if sends {
        let acknowledged = shared.tally().acknowledged();
        let theirs = match outcome.is_complete {
            true => acknowledged.or_else(|| Some(watch.theirs()?.1)),
            false => watch.theirs_after_break(),
        };
        let theirs = theirs.unwrap_or_default();
        let sent = Sent {
            handed_over: Delivered::sent(&trial.context.live),
            theirs,
            by_deadline: !outcome.is_complete,
            arrived: outcome.is_complete.then_some(theirs.messages),
        };
        shared.report_sent(end.carrier.0, &sent, &mut findings);
    }
    if trial.order.role == Role::Sender {
        findings.own_counters(trial);
    }
    Ok(end.report(findings, shared.started, outcome.at))
}

/// Returns the number of messages that arrived, before the deadline and after it, of those that left
/// the other end: at most `sent`.
fn arrived_of<E: MessageEndpoint>(
    end: &Listening<'_, Messages<'_, E>>,
    shared: &Shared<'_>,
    sent: u64,
) -> u64 {
    let most = shared.sent_on_flow(sent);
    let mut arrived = 0;
    for received in &shared.tally().received {
        // All have waited until nothing more can come.
        let left = match received.is_whole {
            true => None,
            false => end.watch.left_after_break(received.flow),
        };
        let left = left.map_or(most, |(_, messages)| messages.min(most));
        arrived += received.sink.arrived_of(left);
    }
    arrived
}
