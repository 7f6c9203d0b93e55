//! The listening end of a transfer over streams.

use std::{sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use regatta_control::SideReport;

use super::{
    plan::{ALIGNMENT, Plan},
    stream_check::StreamCheck,
    streams::{Acknowledgement, SCRATCH_BYTES},
};
use crate::{
    clock::MonotonicTime,
    context::{Phase, WindowEdge},
    driver::TransportError,
    opening::{self, OPENING_BYTES, Purpose},
    stop::Stop,
    stream::{Accepted, ByteStream, Received, StreamConnection, StreamEndpoint},
    trial::{
        Trial,
        findings::{Deliveries, Findings},
        stream_probe::echo,
        watch::{Delivered, ReceiverEnd, ReceiverWatch},
    },
};

/// How long a flow may take to say what it is for: some retransmissions of a lossy path.
const OPENING_TIME: Duration = Duration::from_secs(5);

/// A flow that has shown this trial's token.
struct Admitted<E: StreamEndpoint> {
    purpose: Purpose,
    connection: E::Connection,
    stream: <E::Connection as StreamConnection>::Stream,
    /// What came right after the opening.
    rest: Vec<u8>,
    arrived: MonotonicTime,
    stop: Stop,
}

/// Reads a stream's opening: its purpose, or `None` if it has none of this trial, and what came
/// after it.
async fn read_opening<S: ByteStream>(
    trial: &Trial,
    stream: &mut S,
) -> Result<(Option<Purpose>, Vec<u8>), TransportError> {
    let until = MonotonicTime::now() + OPENING_TIME + trial.probe.longest_round_trip;
    let mut bytes = Vec::with_capacity(OPENING_BYTES);
    let mut scratch = [0; OPENING_BYTES];
    while bytes.len() < OPENING_BYTES {
        let missing = OPENING_BYTES - bytes.len();
        let received = stream
            .receive(&mut scratch[..missing], until, &mut |piece: &[u8]| {
                bytes.extend_from_slice(piece);
            })
            .await?;
        if !matches!(received, Received::Bytes(_)) {
            return Ok((None, Vec::new()));
        }
    }
    let rest = bytes.split_off(OPENING_BYTES);
    let Ok(bytes) = <[u8; OPENING_BYTES]>::try_from(bytes) else {
        return Ok((None, Vec::new()));
    };
    Ok((opening::decode(&bytes, trial.token), rest))
}

/// Waits for a connection whose first stream shows this trial's token; refuses others.
async fn admit<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    until: MonotonicTime,
    refused: &mut u64,
) -> Result<Admitted<E>, TransportError> {
    loop {
        let stop = trial.stop.child();
        let mut arrived = MonotonicTime::now();
        let accepted = endpoint
            .accept(until, &stop, &mut || {
                // This may be the transfer; the last call before it counts.
                trial.context.observer.on_window(WindowEdge::Start);
                arrived = MonotonicTime::now();
            })
            .await?;
        let Accepted::Connection(connection) = accepted else {
            *refused += 1;
            continue;
        };
        let opened = async {
            let within = MonotonicTime::now() + OPENING_TIME + trial.probe.longest_round_trip;
            let mut stream = connection.accept_stream(within.min(until)).await?;
            let (purpose, rest) = read_opening(trial, &mut stream).await?;
            Ok::<_, TransportError>((stream, purpose, rest))
        };
        match opened.await {
            Ok((stream, Some(purpose), rest)) => {
                return Ok(Admitted {
                    purpose,
                    connection,
                    stream,
                    rest,
                    arrived,
                    stop,
                });
            }
            Err(error) if trial.stop.is_stopped() => return Err(error),
            Ok((_, None, _)) | Err(_) => *refused += 1,
        }
    }
}

/// What came of the transfer.
struct Taken {
    check: StreamCheck,
    deliveries: Option<Deliveries>,
    result: Result<(), TransportError>,
}

async fn take<S: ByteStream>(
    (trial, plan): (&Trial, &Plan),
    watch: &ReceiverWatch,
    deadline: &Stop,
    stream: &mut S,
    rest: &[u8],
) -> Taken {
    let mut taken = Taken {
        check: StreamCheck::new(plan),
        deliveries: None,
        result: Ok(()),
    };
    let taking = take_all(trial, watch, stream, rest, &mut taken);
    let result = deadline.unless_raised(taking).await;
    taken.result = result;
    taken
}

async fn take_all<S: ByteStream>(
    trial: &Trial,
    watch: &ReceiverWatch,
    stream: &mut S,
    rest: &[u8],
    taken: &mut Taken,
) -> Result<(), TransportError> {
    let live = &trial.context.live;
    let mut scratch = vec![0; SCRATCH_BYTES + ALIGNMENT];
    let start = scratch.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let scratch = &mut scratch[start..start + SCRATCH_BYTES];
    let check = &mut taken.check;
    let mut came = check.consume(rest);
    loop {
        if came > 0 {
            let now = MonotonicTime::now();
            Deliveries::note(&mut taken.deliveries, now, check.bytes);
            live.messages_delivered
                .store(check.messages, Ordering::Relaxed);
            live.bytes_delivered.store(check.bytes, Ordering::Release);
        }
        if check.is_complete() {
            break;
        }
        came = 0;
        let received = stream
            .receive(scratch, MonotonicTime::NEVER, &mut |piece: &[u8]| {
                came += check.consume(piece);
            })
            .await?;
        if received == Received::Closed {
            return Err(TransportError::Closed { flow: "transfer" });
        }
    }
    let delivered = Delivered {
        bytes: check.bytes,
        messages: check.messages,
    };
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

/// Gives the probe under load the time that its sender waits for its last answers.
async fn last_answers<E: StreamEndpoint>(trial: &Trial, endpoint: &E, echoed: &Stop) {
    const LOOK: Duration = Duration::from_millis(5);
    let until = MonotonicTime::now() + trial.probe.last_answers_within();
    while !echoed.is_stopped() && !trial.stop.is_stopped() && !until.has_passed() {
        endpoint.sleep_until(MonotonicTime::now() + LOOK).await;
    }
}

/// Accepts the load probe's stream on the transfer's connection and sends its messages back.
async fn echo_on<C: StreamConnection>(trial: &Trial, connection: &C, until: MonotonicTime) {
    let Ok(mut stream) = connection.accept_stream(until).await else {
        return;
    };
    if let Ok((Some(Purpose::LoadProbe), rest)) = read_opening(trial, &mut stream).await {
        echo(&mut stream, rest).await;
    }
}

/// Runs the listening end.
pub(super) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    plan: &Plan,
    endpoint: &E,
) -> Result<SideReport, TransportError> {
    let watch = ReceiverWatch::new(&trial.context, &trial.stop, trial.limit())?;
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
        .on_connection(Purpose::Transfer, std::sync::Arc::downgrade(&statistics));
    let connection = &transfer.connection;
    let (stream, rest, stop) = (&mut transfer.stream, &transfer.rest, &transfer.stop);
    let (load, watch_ref) = (&mut load, &watch);
    // The probe's stream on the same connection outlives the transfer's.
    let deadline = if E::MULTIPLEXES {
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
                let taken = take((trial, plan), watch_ref, deadline, stream, rest).await;
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
                    None if E::MULTIPLEXES && trial.probe.under_load => {
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
        Some(ReceiverEnd::TimedOut) => return Err(timed_out(trial)),
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
    findings.delivery(delivered, taken.check.corrupted, taken.deliveries);
    findings.refused(refused);
    trial.context.live.set_phase(Phase::Done);
    Ok(findings.0)
}

/// Admits flows until the transfer's comes; the idle probe is answered meanwhile.
async fn admit_until_transfer<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    until: MonotonicTime,
    refused: &mut u64,
) -> Result<(Option<Admitted<E>>, Admitted<E>), TransportError> {
    let mut load = None;
    let mut idle: Option<Admitted<E>> = None;
    loop {
        let next = match idle.take() {
            None => admit(trial, endpoint, until, refused).await,
            Some(mut idle) => {
                let (refused, idle_stop) = (&mut *refused, idle.stop.clone());
                let (stream, rest) = (&mut idle.stream, std::mem::take(&mut idle.rest));
                // The next flow is admitted even if the end of the idle probe's is under way
                // still: its last packet may be lost and come again much later.
                let (next, ()) = endpoint
                    .join(
                        move || async move {
                            let next = admit(trial, endpoint, until, refused).await;
                            idle_stop.stop();
                            next
                        },
                        move || async move { echo(stream, rest).await },
                    )
                    .await;
                next
            }
        }?;
        match next.purpose {
            Purpose::IdleProbe => idle = Some(next),
            Purpose::LoadProbe => load = Some(next),
            Purpose::Transfer => return Ok((load, next)),
        }
    }
}

/// The report of a receiver that the transfer never reached.
fn without_transfer(
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
        Some(ReceiverEnd::TimedOut) => Err(timed_out(trial)),
        _ => Err(trial.explain(error)),
    }
}

pub(super) fn timed_out(trial: &Trial) -> TransportError {
    TransportError::TimedOut {
        what: "end of the transfer".to_owned(),
        seconds: trial.limit().as_secs_f64(),
    }
}
