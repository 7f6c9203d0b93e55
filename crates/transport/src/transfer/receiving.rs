//! Listening end, which receives.

use std::sync::{Arc, atomic::Ordering};

use regatta_control::SideReport;
use regatta_model::metric::id;

use super::{Connections, Content, Incoming, TransferEndpoint, offer::make_offer};
use crate::{
    clock::MonotonicTime,
    content::acknowledgement::Acknowledgement,
    context::{Phase, StatisticsSource},
    driver::TransportError,
    executor::Executor as _,
    opening::Purpose,
    stop::Stop,
    stream::{ByteStream, StreamEndpoint, await_close},
    trial::{
        Trial,
        findings::Findings,
        stream_admission::{admit_until_transfer, last_answers},
        stream_probe::echo,
        warm_up::WarmUp,
        watch::{Delivered, ReceiverEnd, ReceiverWatch},
    },
};

pub(crate) async fn run<E: TransferEndpoint>(
    trial: &Trial,
    content: Content,
    endpoint: &E,
) -> Result<SideReport, TransportError> {
    let flows = endpoint.flows();
    let watch = ReceiverWatch::new(trial)?;
    trial.context.live.set_phase(Phase::Idle);
    let mut findings = Findings::default();
    findings.endpoint(flows);
    let mut refused = 0;
    let flows_come = admit_until_transfer(trial, flows, watch.limit(), &mut refused).await;
    let (mut load, mut control) = match flows_come {
        Ok(flows) => flows,
        Err(error) => return findings.without_transfer(trial, &watch, error),
    };

    trial.context.live.set_phase(Phase::Transfer);
    let transfer = trial.stop.child();
    watch.transfer(&transfer);
    let observer = Arc::clone(&trial.context.observer);
    let warm_up = Arc::new(WarmUp::new(&observer, content.warm_up));
    let window = (Arc::clone(&observer), Arc::clone(&warm_up));
    let connections = Connections::arriving(trial.order.role.name(), window);
    let statistics: Arc<dyn StatisticsSource> = Arc::clone(&connections) as _;
    observer.on_connection(Purpose::Transfer, Arc::downgrade(&statistics));
    let incoming = Incoming::new(
        content,
        &trial.context.live,
        &warm_up,
        Some(watch.completion()),
    );
    let echoed = trial.stop.child();
    let (echoed_here, echoed_there) = (&echoed, &echoed);
    let (load_ref, stream) = (&mut load, &mut control.stream);
    let taking = Taking {
        watch: &watch,
        endpoint,
        incoming: &incoming,
        connections: &connections,
        stop: &transfer,
    };
    let (result, ()) = flows
        .executor()
        .join(
            move || async move {
                let result = taking.all(stream).await;
                let stopped = matches!(taking.watch.end(), Some(ReceiverEnd::Deadline { .. }));
                if stopped || result.is_err() {
                    last_answers(trial, flows, echoed_here).await;
                }
                // Wakes the echo, if it waits for what will not come any more.
                trial.stop.stop();
                result
            },
            move || async move {
                if let Some(load) = load_ref {
                    echo(&mut load.stream, std::mem::take(&mut load.rest)).await;
                }
                echoed_there.stop();
            },
        )
        .await;

    let end = watch.end_after_break();
    let stopped = transfer.is_stopped();
    let (ended, delivered, digest) = outcome(trial, end, result, (stopped, &incoming))?;
    findings.span(connections.first().unwrap_or(control.arrived), ended);
    if let Some(digest) = digest {
        findings.fact("digest.delivered", format!("{digest:016x}"));
    }
    findings.0.measurements.facts.extend(connections.facts());
    findings.stack(connections.as_ref());
    findings.delivery(delivered, incoming.corrupted(), incoming.deliveries());
    if !warm_up.length().is_zero() {
        let warm = trial.context.live.bytes_in_warm_up.load(Ordering::Acquire);
        // What comes after the deadline is in neither.
        findings.count(id::WARM_UP_BYTES, warm.min(delivered.bytes));
    }
    findings.refused(refused);
    findings.0.measurements.facts.extend(endpoint.facts());
    findings.0.measurements.warnings.extend(endpoint.warnings());
    trial.context.live.set_phase(Phase::Done);
    Ok(findings.0)
}

/// Returns when the transfer ended, what had arrived by then, and the digest of a whole content.
fn outcome(
    trial: &Trial,
    end: Option<ReceiverEnd>,
    result: Result<Option<u64>, TransportError>,
    (stopped, incoming): (bool, &Incoming),
) -> Result<(MonotonicTime, Delivered, Option<u64>), TransportError> {
    let digest = match result {
        Ok(digest) => digest,
        // What was whole must have come to a sound end as well, unless its sender was stopped before
        // it knew.
        Err(error) if matches!(end, Some(ReceiverEnd::Complete { .. })) && !stopped => {
            return Err(trial.explain(error));
        }
        Err(error) if end.is_none() => return Err(trial.explain(error)),
        Err(_) => None,
    };
    match end {
        // Messages in several parts are counted with the last of these.
        Some(ReceiverEnd::Complete { at, .. }) => Ok((at, incoming.delivered(), digest)),
        Some(ReceiverEnd::Deadline { at, delivered, .. }) => Ok((at, delivered, digest)),
        Some(ReceiverEnd::TimedOut) => Err(trial.timed_out()),
        None => Err(trial.explain(TransportError::Closed { flow: "transfer" })),
    }
}

/// State of the transfer itself at the receiver.
struct Taking<'a, E> {
    watch: &'a ReceiverWatch,
    endpoint: &'a E,
    incoming: &'a Arc<Incoming>,
    connections: &'a Arc<Connections>,
    stop: &'a Stop,
}

impl<E: TransferEndpoint> Taking<'_, E> {
    /// Receives everything and acknowledges it; returns the digest where one was asked for.
    async fn all<S: ByteStream>(&self, control: &mut S) -> Result<Option<u64>, TransportError> {
        make_offer(control, &self.endpoint.offer()?).await?;
        self.endpoint
            .receive(self.incoming, self.connections, self.stop)?;
        let digest = self.incoming.finish()?;
        let delivered = self.incoming.delivered();
        // A transfer of no bytes has no last one.
        self.watch.completion().complete(delivered);
        Acknowledgement {
            digest,
            ..delivered.into()
        }
        .send(control)
        .await?;
        await_close(control, self.watch.limit()).await;
        Ok(self.incoming.digests().then_some(digest))
    }
}
