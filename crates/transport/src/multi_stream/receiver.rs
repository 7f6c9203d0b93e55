//! Listening end: accepts every stream, and records when each message is complete.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use regatta_control::SideReport;
use regatta_model::{Spread, metric::DelayMetrics};

use super::{INDEX_BYTES, Messages, READY, arrivals::Arrivals};
use crate::{
    clock::MonotonicTime,
    content::acknowledgement::Acknowledgement,
    context::{Phase, WindowEdge},
    driver::TransportError,
    executor::Executor as _,
    opening::Purpose,
    stop::Stop,
    stream::{ByteStream, Received, StreamConnection, StreamEndpoint, await_close, read_exact},
    trial::{
        Trial,
        distribution::Distribution,
        findings::Findings,
        stream_admission::{Admitted, admit, admit_until_transfer, read_opening},
        watch::{Delivered, ReceiverEnd, ReceiverWatch},
    },
};

/// Memory to receive into, for each stream.
const SCRATCH_BYTES: usize = 32 << 10;

/// Length of the schedule's beginning, a moment that is sent on the first stream, in bytes.
const START_BYTES: usize = 8;

type StreamOf<E> = <<E as StreamEndpoint>::Connection as StreamConnection>::Stream;

/// The streams of the other end, in their order.
struct Taken<E: StreamEndpoint> {
    streams: Vec<StreamOf<E>>,
    /// Kept open as long as the streams are.
    _connections: Vec<(E::Connection, Stop)>,
    arrived: MonotonicTime,
    facts: std::collections::BTreeMap<String, String>,
}

fn out_of_order() -> TransportError {
    TransportError::Protocol {
        what: "a stream came that must not".to_owned(),
    }
}

/// Takes all streams: of the first connection, or of as many connections.
async fn take_all<E: StreamEndpoint>(
    trial: &Trial,
    work: &Messages,
    endpoint: &E,
    until: MonotonicTime,
    refused: &mut u64,
) -> Result<Taken<E>, TransportError> {
    let (_, first) = admit_until_transfer(trial, endpoint, until, refused).await?;
    let Admitted {
        connection,
        stream,
        rest,
        arrived,
        stop,
        ..
    } = first;
    let statistics = connection.statistics();
    trial
        .context
        .observer
        .on_connection(Purpose::Transfer, Arc::downgrade(&statistics));
    let facts = statistics.facts();
    trial.context.live.set_phase(Phase::Transfer);

    let mut connections = vec![(connection, stop)];
    let mut slots: Vec<Option<StreamOf<E>>> = Vec::new();
    slots.resize_with(work.streams, || None);
    let mut next = Some((stream, rest));
    for _ in 0..work.streams {
        let (mut stream, mut rest) = match (next.take(), work.spread) {
            (Some(first), _) => first,
            (None, Spread::Streams) => {
                let mut stream = connections[0].0.accept_stream(until).await?;
                let (purpose, rest) = read_opening(trial, &mut stream).await?;
                if purpose != Some(Purpose::Transfer) {
                    return Err(out_of_order());
                }
                (stream, rest)
            }
            (None, Spread::Connections) => {
                let admitted = admit(trial, endpoint, until, refused).await?;
                if admitted.purpose != Purpose::Transfer {
                    return Err(out_of_order());
                }
                connections.push((admitted.connection, admitted.stop));
                (admitted.stream, admitted.rest)
            }
        };
        let index: [u8; INDEX_BYTES] = read_exact(&mut stream, &mut rest, until).await?;
        let slot = slots
            .get_mut(u32::from_le_bytes(index) as usize)
            .filter(|slot| slot.is_none() && rest.is_empty())
            .ok_or_else(out_of_order)?;
        *slot = Some(stream);
    }
    Ok(Taken {
        streams: slots.into_iter().flatten().collect(),
        _connections: connections,
        arrived,
        facts,
    })
}

/// Messages that came over one stream.
struct Flow<'a> {
    arrivals: Arrivals<'a>,
    /// Beginning of the schedule, which the first stream brings.
    start: Option<MonotonicTime>,
    result: Result<(), TransportError>,
}

/// Receives one stream's messages.
async fn receive<S: ByteStream>(
    trial: &Trial,
    stream: &mut S,
    is_first: bool,
    flow: &mut Flow<'_>,
) -> Result<(), TransportError> {
    let live = &trial.context.live;
    let mut rest = Vec::new();
    if is_first {
        let start: [u8; START_BYTES] = read_exact(stream, &mut rest, MonotonicTime::NEVER).await?;
        flow.start = Some(MonotonicTime(i64::from_le_bytes(start)));
    }
    let mut take = |piece: &[u8]| {
        let delivered = flow.arrivals.take(piece, MonotonicTime::now());
        if delivered.messages > 0 {
            live.messages_delivered
                .fetch_add(delivered.messages, Ordering::Relaxed);
            live.bytes_delivered
                .fetch_add(delivered.bytes, Ordering::Release);
        }
        flow.arrivals.is_complete()
    };
    let mut complete = take(&rest);
    let mut scratch = vec![0; SCRATCH_BYTES];
    while !complete {
        let received = stream
            .receive(&mut scratch, MonotonicTime::NEVER, &mut |piece: &[u8]| {
                complete = take(piece);
            })
            .await?;
        if received == Received::Closed && !complete {
            return Err(TransportError::Closed { flow: "transfer" });
        }
    }
    Ok(())
}

/// Receives all streams' messages, and acknowledges them on the first stream.
async fn receive_all<'a, E: StreamEndpoint>(
    trial: &Trial,
    work: &'a Messages,
    endpoint: &E,
    watch: &ReceiverWatch,
    streams: &mut [StreamOf<E>],
) -> Result<Vec<Flow<'a>>, TransportError> {
    if let Some(first) = streams.first_mut() {
        first.send_message(&[READY], &Bytes::new()).await?;
        first.flush().await?;
    }
    let tasks = streams
        .iter_mut()
        .enumerate()
        .map(|(index, stream)| {
            move || async move {
                let mut flow = Flow {
                    arrivals: Arrivals::new(work, index),
                    start: None,
                    result: Ok(()),
                };
                let receiving = receive(trial, stream, index == 0, &mut flow);
                let result = trial.stop.unless_raised(receiving).await;
                if result.is_err() {
                    // What the others wait for does not come any more either.
                    trial.stop.stop();
                }
                flow.result = result;
                flow
            }
        })
        .collect();
    let flows = endpoint.executor().join_all(tasks).await;
    if flows.iter().any(|flow| flow.result.is_err()) {
        return Ok(flows);
    }
    let corrupted: u64 = flows.iter().map(|flow| flow.arrivals.corrupted()).sum();
    let total = work.total();
    let delivered = Delivered {
        messages: total.messages - corrupted,
        bytes: total.bytes - corrupted * work.length as u64,
    };
    let Some(first) = streams.first_mut() else {
        return Ok(flows);
    };
    Acknowledgement::from(delivered).send(first).await?;
    if watch.complete(delivered) {
        trial.context.observer.on_window(WindowEdge::End);
    }
    await_close(first, watch.limit()).await;
    Ok(flows)
}

/// Runs the listening end.
pub(super) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    work: &Messages,
    endpoint: &E,
) -> Result<SideReport, TransportError> {
    let watch = ReceiverWatch::new(trial)?;
    trial.context.live.set_phase(Phase::Idle);
    let mut findings = Findings::default();
    findings.endpoint(endpoint);
    let mut refused = 0;
    let taking = take_all(trial, work, endpoint, watch.limit(), &mut refused);
    let taken = trial.stop.unless_raised(taking).await;
    let mut error = None;
    let mut flows = Vec::new();
    let mut arrived = None;
    match taken {
        Ok(mut taken) => {
            arrived = Some(taken.arrived);
            findings
                .0
                .measurements
                .facts
                .extend(std::mem::take(&mut taken.facts));
            match receive_all(trial, work, endpoint, &watch, &mut taken.streams).await {
                Ok(received) => flows = received,
                Err(failed) => error = Some(failed),
            }
        }
        Err(failed) => error = Some(failed),
    }

    let broken = flows
        .iter_mut()
        .filter_map(|flow| std::mem::replace(&mut flow.result, Ok(())).err());
    // One that only was stopped with the others tells nothing.
    let error = error.into_iter().chain(broken).reduce(|a, b| {
        if matches!(a, TransportError::Cancelled) {
            b
        } else {
            a
        }
    });
    let (ended, delivered) = match watch.end_after_break() {
        Some(
            ReceiverEnd::Complete { at, delivered } | ReceiverEnd::Deadline { at, delivered, .. },
        ) => (at, delivered),
        Some(ReceiverEnd::TimedOut) => return Err(trial.timed_out()),
        None => {
            return Err(trial.explain(error.unwrap_or(TransportError::Closed { flow: "transfer" })));
        }
    };
    findings.span(arrived.unwrap_or(ended), ended);
    let corrupted = flows.iter().map(|flow| flow.arrivals.corrupted()).sum();
    findings.delivery(delivered, corrupted, None);
    let start = flows.first().and_then(|first| first.start);
    if let Some(start) = start {
        let mut delays = Distribution::new();
        for flow in &flows {
            flow.arrivals.delays(start, &mut delays);
        }
        delays.report(DelayMetrics::MESSAGE, "receiver", &mut findings);
    }
    findings.refused(refused);
    trial.context.live.set_phase(Phase::Done);
    Ok(findings.0)
}
