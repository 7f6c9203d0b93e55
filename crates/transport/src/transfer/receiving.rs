//! Listening end, which receives.

use std::sync::Arc;

use super::{Connections, FileReceiver, Incoming, Transfer, offer::make_offer};
use crate::{
    clock::MonotonicTime,
    content::acknowledgement::Acknowledgement,
    context::StatisticsSource,
    error::Result,
    opening::Purpose,
    stream::{ByteStream, await_close},
    trial::{
        Carried,
        carrier::Admitted,
        findings::Findings,
        listening::{Listening, ListeningWork, Outcome},
        streams::{FlowOf, Streams},
        warm_up::WarmUp,
    },
};

impl<'a, E: FileReceiver> ListeningWork<'a, Streams<'a, E::Flows>> for Transfer<'a, E> {
    /// The content, its connections, its digest, and the arrival of the control stream.
    type Carried = (Arc<Incoming>, Arc<Connections>, Option<u64>, MonotonicTime);

    async fn carry(&self, end: &Listening<'a, Streams<'a, E::Flows>>) -> Carried<Self::Carried> {
        let (trial, endpoint) = (end.trial, self.endpoint);
        let observer = &trial.context.observer;
        let warm_up = Arc::new(WarmUp::new(observer, self.content.warm_up));
        let window = (Arc::clone(observer), Arc::clone(&warm_up));
        let connections = Connections::new(trial, Some(window), None);
        let statistics: Arc<dyn StatisticsSource> = connections.all.clone();
        let completion = Some(Arc::clone(&end.watch));
        let incoming = Incoming::new(
            self.content.clone(),
            &trial.context.live,
            &warm_up,
            completion,
        );
        let (incoming_ref, connections_ref) = (&incoming, &connections);
        let taking = move |mut control: Admitted<FlowOf<E::Flows>>, _: bool| async move {
            observer.on_connection(Purpose::Transfer, Arc::downgrade(&statistics));
            let stream = &mut control.flow.stream;
            let taking = take_all(endpoint, end, stream, (incoming_ref, connections_ref));
            (taking.await, control.arrived)
        };
        let (result, arrived) = end.beside_echo(taking).await?;
        let (digest, error) = match result {
            Ok(digest) => (digest, None),
            // What was whole must have come to a sound end as well, unless its sender was stopped before it
            // knew.
            Err(error) if end.watch.is_complete() && !end.transfer.is_stopped() => {
                return Err(error);
            }
            Err(error) => (None, Some(error)),
        };
        Ok(((incoming, connections, digest, arrived), error))
    }

    fn report(
        &self,
        (incoming, connections, digest, arrived): Self::Carried,
        end: &Listening<'a, Streams<'a, E::Flows>>,
        outcome: &Outcome,
        findings: &mut Findings,
    ) -> MonotonicTime {
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
        findings.warm_up_bytes(
            end.trial,
            self.content.warm_up,
            (delivered.bytes, outcome.at),
        );
        findings.facts(self.endpoint.facts());
        findings.warnings(self.endpoint.warnings());
        connections.times.lock().first.unwrap_or(arrived)
    }
}

/// Receives everything and acknowledges it; returns the digest where the order has digests.
async fn take_all<E: FileReceiver, S: ByteStream>(
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
