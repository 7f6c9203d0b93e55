//! Listening end, which receives.

use std::sync::Arc;

use regatta_control::SideReport;

use super::{Connections, Content, Incoming, TransferEndpoint, offer::make_offer};
use crate::{
    content::acknowledgement::Acknowledgement,
    context::StatisticsSource,
    driver::Result,
    opening::Purpose,
    stream::{ByteStream, await_close},
    trial::{
        Trial,
        carrier::Admitted,
        findings::Findings,
        listening::Listening,
        streams::{FlowOf, Streams},
        warm_up::WarmUp,
    },
};

pub(crate) async fn run<E: TransferEndpoint>(
    trial: &Trial,
    content: Content,
    endpoint: &E,
) -> Result<SideReport> {
    let carrier = Streams(endpoint.flows());
    let end = Listening::new(trial, &carrier)?;
    let mut findings = Findings::default();
    findings.endpoint(endpoint.flows());
    let observer = Arc::clone(&trial.context.observer);
    let warm_up = Arc::new(WarmUp::new(&observer, content.warm_up));
    let window = (Arc::clone(&observer), Arc::clone(&warm_up));
    let connections = Connections::new(trial, Some(window), None);
    let statistics: Arc<dyn StatisticsSource> = connections.all.clone();
    let completion = Some(Arc::clone(&end.watch));
    let incoming = Incoming::new(content, &trial.context.live, &warm_up, completion);
    let (end_ref, incoming_ref, connections_ref) = (&end, &incoming, &connections);
    let taking = move |mut control: Admitted<FlowOf<E::Flows>>, _: bool| async move {
        observer.on_connection(Purpose::Transfer, Arc::downgrade(&statistics));
        let stream = &mut control.flow.stream;
        let taking = take_all(endpoint, end_ref, stream, (incoming_ref, connections_ref));
        let result = taking.await;
        if result.is_err() {
            end_ref.end_probe(true).await;
        }
        (result, control.arrived)
    };
    let taken = end.beside_echo(taking).await;
    let (result, arrived) = match taken {
        Ok(taken) => taken,
        Err(error) => return end.without_transfer(findings, error),
    };

    // What was whole must have come to a sound end as well, unless its sender was stopped before it
    // knew.
    let (digest, error) = match result {
        Ok(digest) => (digest, None),
        Err(error) if end.watch.is_complete() && !end.transfer.is_stopped() => {
            return Err(trial.explain(error));
        }
        Err(error) => (None, Some(error)),
    };
    let outcome = end.outcome(error)?;
    // Messages in several parts are counted with the last of these.
    let delivered = match outcome.is_complete {
        true => incoming.delivered(),
        false => outcome.delivered,
    };
    if let Some(digest) = digest {
        findings.digest("digest.delivered", digest);
    }
    findings.connection(connections.all.as_ref());
    let (corrupted, deliveries) = incoming.arrivals();
    findings.delivery(delivered, corrupted, deliveries);
    // What comes after the deadline is in neither.
    findings.warm_up_bytes(trial, warm_up.length, delivered.bytes);
    findings.facts(endpoint.facts());
    findings.warnings(endpoint.warnings());
    Ok(end.report(
        findings,
        connections.times.lock().first.unwrap_or(arrived),
        outcome.at,
    ))
}

/// Receives everything and acknowledges it; returns the digest where one was asked for.
async fn take_all<E: TransferEndpoint, S: ByteStream>(
    endpoint: &E,
    end: &Listening<'_, Streams<'_, E::Flows>>,
    control: &mut S,
    (incoming, connections): (&Arc<Incoming>, &Arc<Connections>),
) -> Result<Option<u64>> {
    make_offer(control, &endpoint.offer()?).await?;
    endpoint.receive(incoming, connections, &end.transfer)?;
    let digest = incoming.finish()?;
    let delivered = incoming.delivered();
    // A transfer of no bytes has no last one.
    end.watch.complete_window(delivered);
    let acknowledgement = Acknowledgement { delivered, digest };
    acknowledgement.send(control).await?;
    await_close(control, end.watch.limit).await;
    Ok(incoming.digest.then_some(digest))
}
