//! The listening end of a transfer over flows.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use regatta_control::{Note, Role, SideReport};

use super::{Flow, Flows, Shared, receiving, sending};
use crate::{
    clock::MonotonicTime,
    context::{Phase, StatisticsSource},
    driver::TransportError,
    one_flow::without_transfer,
    opening::Purpose,
    stop::Stop,
    stream::{ByteStream, Received, StreamConnection, StreamEndpoint},
    trial::{
        Trial,
        findings::Findings,
        stream_admission::{Admitted, admit_further, admit_until_transfer},
        stream_probe::echo,
        watch::{ReceiverEnd, ReceiverWatch},
    },
};

/// Longest time that a flow may take to send its index, beside the path's longest round trip.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// State shared by the tasks of this end beside the flows' own.
struct Listening<'a, E> {
    shared: &'a Shared<'a>,
    watch: &'a ReceiverWatch,
    endpoint: &'a E,
    /// Stop that ends the wait for further connections once every flow has ended.
    accepting: Stop,
    refused: std::sync::atomic::AtomicU64,
}

pub(super) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    flows: &Flows,
    endpoint: &E,
) -> Result<SideReport, TransportError> {
    let watch = ReceiverWatch::new(trial)?;
    trial.context.live.set_phase(Phase::Idle);
    let mut findings = Findings::default();
    findings.0.facts.extend(endpoint.facts());
    findings.0.warnings.extend(endpoint.warnings());

    let mut refused = 0;
    let (mut load, first) =
        match admit_until_transfer(trial, endpoint, watch.limit(), &mut refused).await {
            Ok(admitted) => admitted,
            Err(error) => return without_transfer(trial, &watch, findings, error),
        };

    trial.context.live.set_phase(Phase::Transfer);
    let stop = trial.stop.child();
    watch.transfer(&stop);
    let started = first.arrived;
    let shared = Shared::new(trial, flows, &stop, started);
    let statistics: Arc<dyn StatisticsSource> = shared.statistics.clone();
    trial
        .context
        .observer
        .on_connection(Purpose::Transfer, Arc::downgrade(&statistics));
    let listening = Listening {
        shared: &shared,
        watch: &watch,
        endpoint,
        accepting: trial.stop.child(),
        refused: refused.into(),
    };
    let (listening_ref, load_ref) = (&listening, &mut load);
    endpoint
        .join(
            move || async move { serve(listening_ref, first).await },
            move || async move {
                if let Some(load) = load_ref {
                    let rest = std::mem::take(&mut load.rest);
                    let stop = load.stop.clone();
                    let echoing = echo(&mut load.stream, rest);
                    let ended = stop.unless_raised(async {
                        echoing.await;
                        Ok(())
                    });
                    // Its sender says what broke.
                    let _ = ended.await;
                }
            },
        )
        .await;
    trial.context.live.set_phase(Phase::Done);

    let error = shared.tally().error.take();
    let (ended, ours, theirs) = match watch.end_after_break() {
        Some(ReceiverEnd::Complete { at, delivered }) => (at, delivered, None),
        Some(ReceiverEnd::Deadline { at, delivered, .. }) => {
            let theirs = shared.ways().0.then(|| watch.theirs_after_break());
            (at, delivered, theirs.flatten())
        }
        Some(ReceiverEnd::TimedOut) => return Err(trial.timed_out()),
        None => {
            let error = error.unwrap_or(TransportError::Closed { flow: "transfer" });
            return Err(trial.explain(error));
        }
    };
    let whole = matches!(watch.end(), Some(ReceiverEnd::Complete { .. }));
    findings.span(started, ended);
    findings.0.facts.extend(shared.statistics.facts());
    findings.stack(shared.statistics.as_ref());
    shared.report(&mut findings, ours, theirs);
    if trial.order.role == Role::Sender {
        own_samples(&mut findings, &shared);
        if whole && !shared.abandons() {
            findings.count("messages_lost", 0);
            findings.metric("message_loss_ratio", 0.0);
        }
    }
    findings.refused(listening.refused.into_inner());
    Ok(findings.0)
}

/// Retransmissions of an end that sends though it listens; the sampler has the rest.
fn own_samples(findings: &mut Findings, shared: &Shared<'_>) {
    let Some(last) = shared.statistics.sample() else {
        return;
    };
    let again = last.retransmitted_packets.map(|count| count as f64);
    findings.metric("retransmitted_packets", again);
    if let (Some(again), Some(sent)) = (again, last.packets_sent.filter(|sent| *sent > 0)) {
        findings.metric("retransmit_ratio", again / sent as f64);
    }
    findings.metric("min_rtt_ns", last.min_rtt.map(|rtt| rtt.as_nanos() as f64));
}

/// Serves a connection, and beside it all that come after it, until every flow has ended.
fn serve<'a, E: StreamEndpoint>(
    listening: &'a Listening<'a, E>,
    admitted: Admitted<E>,
) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
    Box::pin(async move {
        let more = listening
            .shared
            .left
            .load(std::sync::atomic::Ordering::Acquire)
            > 0;
        if !more {
            return;
        }
        listening
            .endpoint
            .join(
                move || async move { attend(listening, admitted).await },
                move || async move { accept_next(listening).await },
            )
            .await;
    })
}

/// Waits for the next connection, unless every flow has ended.
async fn accept_next<E: StreamEndpoint>(listening: &Listening<'_, E>) {
    let mut refused = 0;
    let next = listening
        .accepting
        .unless_raised(admit_here(listening, &mut refused))
        .await;
    listening
        .refused
        .fetch_add(refused, std::sync::atomic::Ordering::Relaxed);
    match next {
        Ok(admitted) => serve(listening, admitted).await,
        Err(error) => {
            if !listening.accepting.is_stopped() && !listening.shared.stop.is_stopped() {
                listening.shared.tally().error.get_or_insert(error);
                listening.shared.stop.stop();
            }
        }
    }
}

async fn admit_here<E: StreamEndpoint>(
    listening: &Listening<'_, E>,
    refused: &mut u64,
) -> Result<Admitted<E>, TransportError> {
    // A blocking driver's wait cannot be woken, so it is made in short ones.
    const LOOK: Duration = Duration::from_millis(200);
    let limit = listening.watch.limit();
    loop {
        let until = limit.min(MonotonicTime::now() + LOOK);
        match admit_further(listening.shared.trial, listening.endpoint, until, refused).await {
            Err(TransportError::TimedOut { .. })
                if !listening.accepting.is_stopped() && !limit.has_passed() => {}
            other => return other,
        }
    }
}

/// Serves one connection: a flow, or the probe under load.
async fn attend<E: StreamEndpoint>(listening: &Listening<'_, E>, mut admitted: Admitted<E>) {
    let shared = listening.shared;
    if admitted.purpose != Purpose::Transfer {
        let rest = std::mem::take(&mut admitted.rest);
        echo(&mut admitted.stream, rest).await;
        return;
    }
    shared.statistics.add(admitted.connection.statistics());
    // Wakes what blocks in this flow when the transfer is stopped.
    let stop = admitted.stop.clone();
    let linked = Arc::new(Linked(stop));
    shared.stop.on_stop(&linked);
    let result = shared
        .stop
        .unless_raised(part(listening, &mut admitted))
        .await;
    let sent_here = matches!(result, Ok(true));
    shared.statistics.remember();
    if shared.ended(result.map(|_| ())) {
        finish(listening);
    }
    if shared.abandons() {
        return;
    }
    let until = listening
        .watch
        .limit()
        .min(MonotonicTime::now() + INTRODUCTION);
    if sent_here {
        // Says that the acknowledgement has arrived.
        let _ = admitted.stream.finish().await;
    }
    receiving::await_close(&mut admitted.stream, until).await;
    drop(admitted.stream);
    admitted.connection.close(until).await;
}

/// Completes the transfer, if no flow failed, and ends the wait for further connections; called
/// when every flow has ended.
fn finish<E: StreamEndpoint>(listening: &Listening<'_, E>) {
    let shared = listening.shared;
    if shared.tally().error.is_none() {
        let delivered = shared.delivered();
        if listening.watch.complete(delivered) {
            let observer = &shared.trial.context.observer;
            observer.on_window(crate::context::WindowEdge::End);
            if shared.abandons() {
                observer.send_note(Note::Received {
                    messages: delivered.messages,
                    bytes: delivered.bytes,
                });
            }
        }
    }
    listening.accepting.stop();
}

/// Carries one flow's part; returns whether it was sent from here.
async fn part<E: StreamEndpoint>(
    listening: &Listening<'_, E>,
    admitted: &mut Admitted<E>,
) -> Result<bool, TransportError> {
    let shared = listening.shared;
    let (flow, rest) = introduced(shared, admitted).await?;
    if shared.abandons() && !shared.sends(flow) {
        receiving::welcome(&mut admitted.stream).await?;
    }
    if shared.sends(flow) {
        sending::send(shared, flow, &mut admitted.stream).await?;
        Ok(true)
    } else {
        receiving::receive(shared, flow, &mut admitted.stream, &rest).await?;
        Ok(false)
    }
}

/// Reads a flow's index; returns the flow and the bytes that came after the index.
async fn introduced<'a, E: StreamEndpoint>(
    shared: &Shared<'a>,
    admitted: &mut Admitted<E>,
) -> Result<(&'a Flow, Vec<u8>), TransportError> {
    let until = MonotonicTime::now() + INTRODUCTION + shared.trial.probe.longest_round_trip;
    let mut bytes = std::mem::take(&mut admitted.rest);
    let mut scratch = [0; receiving::INTRODUCTION_BYTES];
    while bytes.len() < receiving::INTRODUCTION_BYTES {
        let missing = receiving::INTRODUCTION_BYTES - bytes.len();
        let received = admitted
            .stream
            .receive(&mut scratch[..missing], until, &mut |piece: &[u8]| {
                bytes.extend_from_slice(piece);
            })
            .await?;
        if !matches!(received, Received::Bytes(_)) {
            return Err(TransportError::Closed { flow: "transfer" });
        }
    }
    let rest = bytes.split_off(receiving::INTRODUCTION_BYTES);
    let index = u16::from_le_bytes([bytes[0], bytes[1]]);
    let flow =
        shared
            .flows
            .flows
            .get(usize::from(index))
            .ok_or_else(|| TransportError::Protocol {
                what: format!(
                    "the other end opened flow {index}, which this transfer does not have"
                ),
            })?;
    Ok((flow, rest))
}

/// Stop that is raised together with another one.
struct Linked(Stop);

impl crate::stop::Abort for Linked {
    fn abort(&self) {
        self.0.stop();
    }
}
