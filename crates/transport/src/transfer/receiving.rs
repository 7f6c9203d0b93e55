//! Listening end, which receives.

use std::sync::Arc;

use regatta_control::SideReport;

use super::{Connections, Content, Incoming, TransferEndpoint, offer::make_offer};
use crate::{
    content::acknowledgement::Acknowledgement,
    context::StatisticsSource,
    driver::TransportError,
    opening::Purpose,
    stop::Stop,
    stream::{ByteStream, await_close},
    trial::{
        Trial,
        carrier::Admitted,
        findings::Findings,
        listening::Listening,
        streams::{FlowOf, Streams},
        warm_up::WarmUp,
        watch::ReceiverWatch,
    },
};

pub(crate) async fn run<E: TransferEndpoint>(
    trial: &Trial,
    content: Content,
    endpoint: &E,
) -> Result<SideReport, TransportError> {
    let carrier = Streams(endpoint.flows());
    let end = Listening::new(trial, &carrier)?;
    let mut findings = Findings::default();
    findings.endpoint(endpoint.flows());
    let observer = Arc::clone(&trial.context.observer);
    let warm_up = Arc::new(WarmUp::new(&observer, content.warm_up));
    let window = (Arc::clone(&observer), Arc::clone(&warm_up));
    let connections = Connections::new(trial, Some(window), None);
    let statistics: Arc<dyn StatisticsSource> = connections.all.clone();
    let completion = Some(end.watch.completion());
    let incoming = Incoming::new(content, &trial.context.live, &warm_up, completion);
    let taking = Taking {
        watch: &end.watch,
        endpoint,
        incoming: &incoming,
        connections: &connections,
        stop: &end.transfer,
    };
    let (taking_ref, end_ref) = (&taking, &end);
    let taken = end
        .beside_echo(
            move |mut control: Admitted<FlowOf<E::Flows>>, _| async move {
                observer.on_connection(Purpose::Transfer, Arc::downgrade(&statistics));
                let result = taking_ref.all(&mut control.flow.stream).await;
                if result.is_err() {
                    end_ref.end_probe(true).await;
                }
                (result, control.arrived)
            },
        )
        .await;
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
    findings.delivery(delivered, incoming.corrupted(), incoming.deliveries());
    // What comes after the deadline is in neither.
    findings.warm_up_bytes(trial, warm_up.length(), delivered.bytes);
    findings.facts(endpoint.facts());
    findings.warnings(endpoint.warnings());
    Ok(end.report(findings, connections.first().unwrap_or(arrived), outcome.at))
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
        let acknowledgement = Acknowledgement { delivered, digest };
        acknowledgement.send(control).await?;
        await_close(control, self.watch.limit()).await;
        Ok(self.incoming.digests().then_some(digest))
    }
}
