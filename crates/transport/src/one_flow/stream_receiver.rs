//! The listening end of a trial of one flow over streams.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use regatta_control::SideReport;

use super::{StreamSink, StreamWork, acknowledgement::Acknowledgement, streams::SCRATCH_BYTES};
use crate::{
    clock::MonotonicTime,
    content::plan::ALIGNMENT,
    context::{Phase, WindowEdge},
    driver::TransportError,
    opening::Purpose,
    stop::Stop,
    stream::{ByteStream, Received, StreamConnection, StreamEndpoint},
    trial::{
        Trial,
        findings::{Deliveries, Findings},
        stream_admission::{admit_until_transfer, echo_on, last_answers},
        stream_probe::echo,
        watch::{Delivered, ReceiverEnd, ReceiverWatch},
    },
};

/// Results of the transfer.
struct Taken<K> {
    sink: K,
    deliveries: Option<Deliveries>,
    result: Result<(), TransportError>,
}

async fn take<W: StreamWork, S: ByteStream>(
    (trial, work): (&Trial, &W),
    watch: &ReceiverWatch,
    deadline: &Stop,
    stream: &mut S,
    rest: &[u8],
) -> Taken<W::Sink> {
    let mut taken = Taken {
        sink: work.stream_sink(),
        deliveries: None,
        result: Ok(()),
    };
    let taking = take_all(trial, watch, stream, rest, &mut taken);
    let result = deadline.unless_raised(taking).await;
    taken.result = result;
    taken
}

async fn take_all<K: StreamSink, S: ByteStream>(
    trial: &Trial,
    watch: &ReceiverWatch,
    stream: &mut S,
    rest: &[u8],
    taken: &mut Taken<K>,
) -> Result<(), TransportError> {
    let live = &trial.context.live;
    let mut scratch = vec![0; SCRATCH_BYTES + ALIGNMENT];
    let start = scratch.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let scratch = &mut scratch[start..start + SCRATCH_BYTES];
    let sink = &mut taken.sink;
    let mut came = sink.consume(rest);
    loop {
        if came > 0 {
            let now = MonotonicTime::now();
            let delivered = sink.delivered();
            Deliveries::note(&mut taken.deliveries, now, delivered.bytes);
            live.messages_delivered
                .store(delivered.messages, Ordering::Relaxed);
            live.bytes_delivered
                .store(delivered.bytes, Ordering::Release);
            sink.answer(stream).await?;
        }
        if sink.is_complete() {
            break;
        }
        came = 0;
        let received = stream
            .receive(scratch, MonotonicTime::NEVER, &mut |piece: &[u8]| {
                came += sink.consume(piece);
            })
            .await?;
        if received == Received::Closed {
            return Err(TransportError::Closed { flow: "transfer" });
        }
    }
    let delivered = sink.delivered();
    stream
        .send_message(&Acknowledgement(delivered).encode(), &Bytes::new())
        .await?;
    stream.flush().await?;
    if watch.complete(delivered) {
        trial.context.observer.on_window(WindowEdge::End);
    }
    // The sender closes when it has the acknowledgement, and may be gone when that is seen here.
    while let Ok(Received::Bytes(_)) = stream
        .receive(scratch, watch.limit(), &mut |_: &[u8]| {})
        .await
    {}
    Ok(())
}

/// Runs the listening end.
pub(super) async fn run<W: StreamWork, E: StreamEndpoint>(
    trial: &Trial,
    work: &W,
    endpoint: &E,
) -> Result<SideReport, TransportError> {
    let watch = ReceiverWatch::new(trial)?;
    trial.context.live.set_phase(Phase::Idle);
    let mut findings = Findings::default();
    findings.0.facts.extend(endpoint.facts());
    findings.0.warnings.extend(endpoint.warnings());
    let mut refused = 0;

    let flows = admit_until_transfer(trial, endpoint, watch.limit(), &mut refused).await;
    let (mut load, mut transfer) = match flows {
        Ok(flows) => flows,
        Err(error) => return without_transfer(trial, &watch, findings, error),
    };

    trial.context.live.set_phase(Phase::Transfer);
    let statistics = transfer.connection.statistics();
    trial
        .context
        .observer
        .on_connection(Purpose::Transfer, Arc::downgrade(&statistics));
    let connection = &transfer.connection;
    let (stream, rest, stop) = (&mut transfer.stream, &transfer.rest, &transfer.stop);
    let (load, watch_ref) = (&mut load, &watch);
    // The probe's stream on the same connection outlives the transfer's.
    let deadline = if trial.probe.shares_connection() {
        trial.stop.child()
    } else {
        stop.clone()
    };
    watch.transfer(&deadline);
    let deadline = &deadline;
    let echoed = Stop::new();
    let (echoed_here, echoed_there) = (&echoed, &echoed);
    let (taken, ()) = endpoint
        .join(
            move || async move {
                let taken = take((trial, work), watch_ref, deadline, stream, rest).await;
                // The sender's end of the transfer may be seen before its word over control.
                let stopped = matches!(watch_ref.end(), Some(ReceiverEnd::Deadline { .. }));
                if stopped || taken.result.is_err() {
                    last_answers(trial, endpoint, echoed_here).await;
                }
                // Wakes the echo, if it waits for what will not come any more.
                trial.stop.stop();
                taken
            },
            move || async move {
                match load {
                    Some(load) => echo(&mut load.stream, std::mem::take(&mut load.rest)).await,
                    None if trial.probe.shares_connection() => {
                        echo_on(trial, connection, MonotonicTime::NEVER).await;
                    }
                    None => {}
                }
                echoed_there.stop();
            },
        )
        .await;
    stop.stop();

    let (ended, delivered) = match watch.end_after_break() {
        Some(
            ReceiverEnd::Complete { at, delivered } | ReceiverEnd::Deadline { at, delivered, .. },
        ) => (at, delivered),
        Some(ReceiverEnd::TimedOut) => return Err(trial.timed_out()),
        None => {
            return Err(trial.explain(
                taken
                    .result
                    .err()
                    .unwrap_or(TransportError::Closed { flow: "transfer" }),
            ));
        }
    };
    findings.span(transfer.arrived, ended);
    findings.0.facts.extend(statistics.facts());
    findings.stack(statistics.as_ref());
    let deliveries = taken.deliveries.filter(|_| work.has_goodput());
    findings.delivery(delivered, taken.sink.corrupted(), deliveries);
    findings.refused(refused);
    trial.context.live.set_phase(Phase::Done);
    Ok(findings.0)
}

/// Returns the report of a receiver that the transfer never reached.
pub(crate) fn without_transfer(
    trial: &Trial,
    watch: &ReceiverWatch,
    mut findings: Findings,
    error: TransportError,
) -> Result<SideReport, TransportError> {
    match watch.end() {
        Some(ReceiverEnd::Deadline { at, .. }) => {
            findings.span(at, at);
            findings.delivery(Delivered::default(), 0, None);
            trial.context.live.set_phase(Phase::Done);
            Ok(findings.0)
        }
        Some(ReceiverEnd::TimedOut) => Err(trial.timed_out()),
        _ => Err(trial.explain(error)),
    }
}
