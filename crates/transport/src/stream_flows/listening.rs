//! Listening end of a transfer over flows.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use regatta_control::{Note, Role, SideReport};
use regatta_model::metric::id;

use super::{Content, Flows, Shared, receiving, schedule::Arrivals, sending};
use crate::{
    clock::MonotonicTime,
    content::stream_check::StreamCheck,
    context::{Phase, StatisticsSource},
    driver::TransportError,
    exchange::streams::Responder,
    executor::Executor as _,
    opening::Purpose,
    stop::Stop,
    stream::{ByteStream, StreamConnection, StreamEndpoint, await_close, read_exact},
    trial::{
        Trial,
        connecting::CLOSING,
        findings::Findings,
        stream_admission::{
            Admitted, admit_further, admit_until_transfer, echo_on, last_answers, read_opening,
        },
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
    /// Number of connections that have not come: those of the flows, and that of the probe, whose
    /// opening can be lost and come again after the flows'.
    missing: AtomicUsize,
    /// Stop that is raised when the probe's messages are no longer sent back.
    echoed: Stop,
    refused: AtomicU64,
}

pub(super) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    flows: &Flows,
    endpoint: &E,
) -> Result<SideReport, TransportError> {
    let watch = ReceiverWatch::new(trial)?;
    trial.context.live.set_phase(Phase::Idle);
    let mut findings = Findings::default();
    findings.endpoint(endpoint);

    let mut refused = 0;
    let (mut load, first) =
        match admit_until_transfer(trial, endpoint, watch.limit(), &mut refused).await {
            Ok(admitted) => admitted,
            Err(error) => return findings.without_transfer(trial, &watch, error),
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
    let probe = &trial.probe;
    let probe_is_missing = probe.under_load && !probe.shares_connection() && load.is_none();
    let connections = if flows.share_connection() {
        1
    } else {
        flows.flows.len()
    };
    let listening = Listening {
        shared: &shared,
        watch: &watch,
        endpoint,
        accepting: trial.stop.child(),
        missing: AtomicUsize::new(connections + usize::from(probe_is_missing)),
        echoed: trial.stop.child(),
        refused: refused.into(),
    };
    let (listening_ref, load_ref) = (&listening, &mut load);
    endpoint
        .executor()
        .join(
            move || async move {
                serve(listening_ref, first).await;
                end_probe(listening_ref).await;
            },
            move || async move {
                if let Some(load) = load_ref {
                    echo(&mut load.stream, std::mem::take(&mut load.rest)).await;
                }
                if !trial.probe.shares_connection() {
                    listening_ref.echoed.stop();
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
    findings
        .0
        .measurements
        .facts
        .extend(shared.statistics.facts());
    findings.stack(shared.statistics.as_ref());
    shared.report(&mut findings, ours, theirs);
    if trial.order.role == Role::Sender {
        own_samples(&mut findings, &shared);
        if whole && !shared.abandons() {
            findings.nothing_lost();
        }
    }
    findings.refused(listening.refused.into_inner());
    Ok(findings.0)
}

/// Retransmissions of an end that sends though it listens; the sampler has the rest.
fn own_samples(findings: &mut Findings, shared: &Shared<'_>) {
    let last = shared.trial.context.observer.window_statistics().at_end;
    let again = last.retransmitted_packets.map(|count| count as f64);
    findings.metric(id::RETRANSMITTED_PACKETS, again);
    if let (Some(again), Some(sent)) = (again, last.packets_sent.filter(|sent| *sent > 0)) {
        findings.metric(id::RETRANSMIT_RATIO, again / sent as f64);
    }
    findings.metric(
        id::MIN_RTT_NS,
        last.min_rtt.map(|rtt| rtt.as_nanos() as f64),
    );
}

/// Serves a connection, and beside it all that come after it, until every flow has ended.
fn serve<'a, E: StreamEndpoint>(
    listening: &'a Listening<'a, E>,
    admitted: Admitted<E>,
) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
    Box::pin(async move {
        let is_last = admitted.purpose != Purpose::IdleProbe
            && listening.missing.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            attend(listening, admitted).await;
            return;
        }
        listening
            .endpoint
            .executor()
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
    listening.refused.fetch_add(refused, Ordering::Relaxed);
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
    let trial = shared.trial;
    if admitted.purpose != Purpose::Transfer {
        let rest = std::mem::take(&mut admitted.rest);
        echo(&mut admitted.stream, rest).await;
        return;
    }
    shared.statistics.add(admitted.connection.statistics());
    if !trial.probe.shares_connection() {
        let linked = Arc::new(Linked(admitted.stop.clone()));
        shared.stop.on_stop(&linked);
        carry_streams(listening, &mut admitted).await;
    } else {
        let (connection, stop) = (&admitted.connection, &trial.stop.child());
        let (stream, rest) = (&mut admitted.stream, &mut admitted.rest);
        listening
            .endpoint
            .executor()
            .join(
                move || async move {
                    let linked = Arc::new(Linked(stop.clone()));
                    listening.shared.stop.on_stop(&linked);
                    carry(listening, stream, rest).await;
                    end_probe(listening).await;
                },
                move || async move {
                    echo_on(trial, connection, MonotonicTime::NEVER).await;
                    listening.echoed.stop();
                },
            )
            .await;
    }
    if !shared.abandons() {
        drop(admitted.stream);
        let until = MonotonicTime::now() + CLOSING;
        admitted.connection.close(until).await;
    }
}

/// Ends the answers to the probe under load, once the transfer has ended: those that are under way at
/// the deadline still leave.
async fn end_probe<E: StreamEndpoint>(listening: &Listening<'_, E>) {
    let trial = listening.shared.trial;
    // The sender's end of the transfer may be seen before its note over control.
    let stopped = matches!(listening.watch.end(), Some(ReceiverEnd::Deadline { .. }));
    if stopped || listening.shared.tally().error.is_some() {
        last_answers(trial, listening.endpoint, &listening.echoed).await;
    }
    // Wakes the echo, if it waits for what will not come any more.
    trial.stop.stop();
}

/// Carries the flows of a connection: all of them where they share it.
async fn carry_streams<E: StreamEndpoint>(
    listening: &Listening<'_, E>,
    admitted: &mut Admitted<E>,
) {
    let (shared, flows) = (listening.shared, &listening.shared.flows.flows);
    let mut others = Vec::new();
    let accepting = async {
        while shared.flows.share_connection() && others.len() + 1 < flows.len() {
            let limit = listening.watch.limit();
            let mut stream = admitted.connection.accept_stream(limit).await?;
            let (purpose, rest) = read_opening(shared.trial, &mut stream).await?;
            if purpose != Some(Purpose::Transfer) {
                return Err(TransportError::Protocol {
                    what: "a stream came that must not".to_owned(),
                });
            }
            others.push((stream, rest));
        }
        Ok(())
    };
    if let Err(error) = shared.stop.unless_raised(accepting).await {
        shared.tally().error.get_or_insert(error);
        shared.stop.stop();
        return;
    }
    let first = std::iter::once((&mut admitted.stream, &mut admitted.rest));
    let others = others.iter_mut().map(|(stream, rest)| (stream, rest));
    let tasks = first
        .chain(others)
        .map(|(stream, rest)| move || async move { carry(listening, stream, rest).await })
        .collect();
    listening.endpoint.executor().join_all(tasks).await;
}

/// Carries a flow's part to its end, and waits until the other end has closed.
async fn carry<E: StreamEndpoint, S: ByteStream>(
    listening: &Listening<'_, E>,
    stream: &mut S,
    rest: &mut Vec<u8>,
) {
    let shared = listening.shared;
    let result = shared
        .stop
        .unless_raised(part(listening, stream, rest))
        .await;
    let sent_here = matches!(result, Ok((true, _)));
    let whole = result.is_ok();
    if shared.ended(result.map(|(_, at)| at)) {
        finish(listening);
    }
    shared.statistics.remember();
    if shared.abandons() || !whole {
        return;
    }
    if sent_here {
        // Says that the acknowledgement has arrived.
        let _ = stream.finish().await;
    }
    // The other end closes when it has the acknowledgement, and may be gone when that is seen here.
    await_close(stream, listening.watch.limit()).await;
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

/// Carries one flow's part; returns whether it was sent from here, and the moment of its end. `rest`
/// are the bytes that came with its opening.
async fn part<E: StreamEndpoint, S: ByteStream>(
    listening: &Listening<'_, E>,
    stream: &mut S,
    rest: &mut Vec<u8>,
) -> Result<(bool, MonotonicTime), TransportError> {
    let shared = listening.shared;
    let until = MonotonicTime::now() + INTRODUCTION + shared.trial.probe.longest_round_trip;
    let index = if shared.flows.have_indices() {
        u16::from_le_bytes(read_exact(stream, rest, until).await?)
    } else {
        0
    };
    let flows = &shared.flows.flows;
    let flow = flows
        .get(usize::from(index))
        .ok_or_else(|| TransportError::Protocol {
            what: format!("the other end opened flow {index}, which this transfer does not have"),
        })?;
    if shared.sends(flow) {
        let executor = listening.endpoint.executor();
        return Ok((true, sending::send(shared, executor, flow, stream).await?));
    }
    if shared.flows.are_welcomed() {
        receiving::welcome(stream).await?;
    }
    let at = match &shared.flows.content {
        Content::Bulk => {
            receiving::receive(shared, StreamCheck::new(&flow.plan), stream, rest).await?
        }
        Content::Exchange(exchange) => {
            receiving::receive(shared, Responder::new(exchange), stream, rest).await?
        }
        Content::Scheduled(schedule) => {
            let arrivals = Arrivals::new(schedule, flow.index, &flow.plan);
            receiving::receive(shared, arrivals, stream, rest).await?
        }
    };
    Ok((false, at))
}

/// Stop that is raised together with another one.
struct Linked(Stop);

impl crate::stop::Abort for Linked {
    fn abort(&self) {
        self.0.stop();
    }
}
