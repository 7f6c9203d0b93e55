//! The connecting end of a transfer over flows.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use regatta_control::{Note, Role, SideReport};

use super::{Flow, Flows, Shared, receiving, sending};
use crate::{
    clock::MonotonicTime,
    context::{Phase, StatisticsSource},
    driver::TransportError,
    one_flow::streams::acknowledgement_fact,
    opening::Purpose,
    probe::Probed,
    stream::{ByteStream, StreamConnection, StreamEndpoint},
    trial::{
        CONTROL_ANSWER, Trial,
        connecting::Begun,
        stream_opening::{begin_report, open_load_probe, open_stream},
        stream_probe,
        watch::{Delivered, SenderEnd, SenderWatch},
    },
};

/// Longest time that closing may take once both ends agree on what was delivered.
const CLOSING: Duration = Duration::from_secs(2);

/// Task of the connecting end.
enum Part<'a, S> {
    Flow(&'a Flow),
    Probe(&'a mut S),
}

pub(super) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    flows: &Flows,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<SideReport, TransportError> {
    let live = &trial.context.live;
    let mut findings = begin_report(trial, endpoint, peer).await?;
    let mut load = None;
    if trial.probe.under_load {
        load = Some(open_load_probe(trial, endpoint, peer).await?);
    }

    let Begun {
        transfer,
        watch,
        started,
    } = trial.begin()?;
    let shared = Shared::new(trial, flows, &transfer, started);
    let statistics: Arc<dyn StatisticsSource> = shared.statistics.clone();
    watch.connection(&statistics);

    let mut parts: Vec<_> = flows.flows.iter().map(Part::Flow).collect();
    if let Some((_, stream)) = &mut load {
        parts.push(Part::Probe(stream));
    }
    let (shared_ref, watch_ref) = (&shared, &watch);
    let tasks: Vec<_> = parts
        .into_iter()
        .map(|part| {
            move || async move {
                match part {
                    Part::Probe(stream) => {
                        let over = &shared_ref.over;
                        Some(stream_probe::under_load(stream, &trial.probe, started, over).await)
                    }
                    Part::Flow(flow) => {
                        carry(shared_ref, flow, endpoint, peer, watch_ref).await;
                        None
                    }
                }
            }
        })
        .collect();
    let probed: Option<Probed> = endpoint.join_all(tasks).await.into_iter().flatten().next();
    live.set_phase(Phase::Done);
    let loaded = watch.loaded_since();
    let (end, samples) = watch.finish();
    let (error, set_up, acknowledged) = {
        let mut tally = shared.tally();
        let acknowledged = Delivered {
            bytes: tally.acknowledged.bytes,
            messages: tally.acknowledged.messages,
        };
        (tally.error.take(), tally.mean_set_up(), acknowledged)
    };
    let Some(end) = end else {
        let error = error.unwrap_or(TransportError::Closed { flow: "transfer" });
        return Err(trial.explain(error));
    };
    if set_up.is_none() && matches!(end, SenderEnd::Deadline { .. }) {
        return Err(trial.no_connection());
    }
    let (ours, theirs) = delivered_each_way(endpoint, &shared, &end, acknowledged).await?;
    let delivered = Delivered {
        bytes: ours.bytes + theirs.bytes,
        messages: ours.messages + theirs.messages,
    };
    let size = flows.size
        * if flows
            .flows
            .iter()
            .any(|flow| flow.sent_by == Role::Receiver)
        {
            2
        } else {
            1
        };
    findings.fact("acknowledgement", acknowledgement_fact(&end));
    findings.transfer(trial, (started, size), &end, delivered, set_up);
    if trial.order.role == Role::Sender {
        findings.samples(trial, &samples, end.at().since(started));
        if matches!(end, SenderEnd::Acknowledged { .. }) && !shared.abandons() {
            findings.count("messages_lost", 0);
            findings.metric("message_loss_ratio", 0.0);
        }
    }
    shared.report(&mut findings, ours, Some(theirs));
    if let Some(probed) = &probed {
        findings.load_probe(trial, probed, (loaded, &end));
    }
    findings.0.facts.extend(endpoint.facts());
    findings.0.warnings.extend(endpoint.warnings());
    findings.0.facts.extend(shared.statistics.facts());
    findings.stack(shared.statistics.as_ref());
    if let Some((connection, stream)) = load {
        drop(stream);
        connection.close(MonotonicTime::now() + CLOSING).await;
    }
    Ok(findings.0)
}

/// Returns the bytes and messages delivered to this end, and those delivered to the other one:
/// `acknowledged` where the transfer came to its end.
async fn delivered_each_way<E: StreamEndpoint>(
    endpoint: &E,
    shared: &Shared<'_>,
    end: &SenderEnd,
    acknowledged: Delivered,
) -> Result<(Delivered, Delivered), TransportError> {
    let trial = shared.trial;
    Ok(match *end {
        SenderEnd::Deadline {
            delivered: ours, ..
        } => {
            if shared.ways().1 {
                trial.context.observer.send_note(Note::Received {
                    messages: ours.messages,
                    bytes: ours.bytes,
                });
            }
            (ours, trial.answer_over_control()?)
        }
        SenderEnd::Acknowledged {
            delivered: ours, ..
        } if shared.abandons() => (ours, answer_while_closing(trial, endpoint).await?),
        SenderEnd::Acknowledged {
            delivered: ours, ..
        } => (ours, acknowledged),
    })
}

/// Waits for the receiver's account of what it got, while the stack closes the connections that
/// were abandoned: a stack that runs on this thread needs to be polled for that.
async fn answer_while_closing<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
) -> Result<Delivered, TransportError> {
    const LOOK: Duration = Duration::from_millis(5);
    let until = MonotonicTime::now() + CONTROL_ANSWER;
    loop {
        match trial.context.mailbox.try_take() {
            Some(Note::Received { messages, bytes }) => return Ok(Delivered { bytes, messages }),
            Some(_) => {}
            None if until.has_passed() || trial.stop.is_stopped() => {
                return Err(trial.explain(TransportError::TimedOut {
                    what: "answer of the receiver over control".to_owned(),
                    seconds: CONTROL_ANSWER.as_secs_f64(),
                }));
            }
            None => endpoint.sleep_until(MonotonicTime::now() + LOOK).await,
        }
    }
}

/// Makes a flow's connection and carries its part; the last flow ends the transfer.
async fn carry<E: StreamEndpoint>(
    shared: &Shared<'_>,
    flow: &Flow,
    endpoint: &E,
    peer: SocketAddr,
    watch: &SenderWatch,
) {
    let result = shared
        .stop
        .unless_raised(connect(shared, flow, endpoint, peer, watch))
        .await;
    let (result, opened) = match result {
        Ok((connection, mut stream)) => {
            let part = async {
                if shared.sends(flow) {
                    sending::send(shared, flow, &mut stream).await
                } else {
                    receiving::receive(shared, flow, &mut stream, &[]).await
                }
            };
            let result = shared.stop.unless_raised(part).await;
            (result, Some((connection, stream)))
        }
        Err(error) => (Err(error), None),
    };
    let whole = result.is_ok();
    let abandoned = shared.abandons();
    shared.statistics.remember();
    if shared.ended(result) {
        let tally = shared.tally();
        let (at, sound) = (tally.last_end, tally.error.is_none());
        drop(tally);
        if let Some(at) = at.filter(|_| sound) {
            let sent = shared.sent();
            if abandoned {
                // The receiver counts what comes until the end of the flow.
                shared.trial.context.observer.send_note(Note::Sent {
                    messages: sent.messages,
                    bytes: sent.bytes,
                    deadline_reached: false,
                });
            }
            watch.acknowledged(at, shared.delivered());
        }
    }
    let Some((connection, mut stream)) = opened else {
        return;
    };
    if !whole {
        stream.abandon();
    } else if !abandoned {
        let until = MonotonicTime::now() + CLOSING;
        if !shared.sends(flow) {
            // The other end closes once it has the acknowledgement, which closing here would lose.
            receiving::await_close(&mut stream, until).await;
        }
        drop(stream);
        connection.close(until).await;
    }
}

/// Opens a flow's connection and its stream, and sends the flow's index.
async fn connect<E: StreamEndpoint>(
    shared: &Shared<'_>,
    flow: &Flow,
    endpoint: &E,
    peer: SocketAddr,
    watch: &SenderWatch,
) -> Result<(E::Connection, <E::Connection as StreamConnection>::Stream), TransportError> {
    // The watch ends a connect call that takes too long; this limit only stands behind it.
    let until = shared.started + shared.trial.order.longest_transfer() + CLOSING;
    let begun = MonotonicTime::now();
    let connection = endpoint
        .connect(peer, Purpose::Transfer, until, &shared.stop)
        .await?;
    let now = MonotonicTime::now();
    watch.connected(now);
    shared.statistics.add(connection.statistics());
    shared.tally().set_up.push(now.since(begun));
    let mut stream = open_stream(shared.trial, &connection, Purpose::Transfer).await?;
    sending::introduce(flow, &mut stream).await?;
    if shared.abandons() && shared.sends(flow) {
        // A flow that is closed before anything of it has left would never be known there.
        sending::await_welcome(&mut stream).await?;
    }
    Ok((connection, stream))
}
