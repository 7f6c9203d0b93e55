//! Connecting end, which sends.

use std::sync::Arc;

use regatta_model::metric::id;

use super::{Connections, FileSender, Outgoing, Transfer, offer::await_offer};
use crate::{
    clock::MonotonicTime,
    content::acknowledgement::Acknowledgement,
    context::{LiveCounters, StatisticsSource},
    delivered::Delivered,
    error::Result,
    opening::Purpose,
    trial::{
        Carried,
        carrier::{Carrier as _, ClientCarrier as _},
        connecting::{Connecting, ConnectingWork, Ended},
        findings::Findings,
        streams::{FlowOf, Streams},
        warm_up::WarmUp,
    },
};

impl<'a, E: FileSender> ConnectingWork<'a, Streams<'a, E::Flows>> for Transfer<'a, E> {
    /// The control stream, the content and its connections.
    type Carried = (FlowOf<E::Flows>, Arc<Outgoing>, Arc<Connections>);

    async fn carry(
        &self,
        end: &mut Connecting<'a, Streams<'a, E::Flows>>,
    ) -> Carried<Self::Carried> {
        let (trial, endpoint) = (end.trial, self.endpoint);
        // The connection on which both ends meet is open, and the receiver's offer is here, before the
        // clock starts.
        let (purpose, until) = (Purpose::Transfer, trial.opening_until());
        let opening = (end.carrier).open(trial, end.peer, purpose, until, &trial.stop);
        let mut control = opening.await?;
        let offer = await_offer(&mut control.stream, until).await?;
        let context = &trial.context;
        let warm_up = Arc::new(WarmUp::new(&context.observer, self.content.warm_up));
        let outgoing = Outgoing::new(self.content.clone(), &context.live, &warm_up);

        end.begin();
        let end = &*end;
        let connections = Connections::new(trial, None, Some(Arc::clone(&end.watch)));
        warm_up.begin(end.started);
        let statistics: Arc<dyn StatisticsSource> = connections.all.clone();
        end.watch.connection(&statistics);
        let all = Delivered {
            bytes: outgoing.size(),
            messages: outgoing.plan.count,
        };
        let (outgoing_ref, connections_ref) = (&outgoing, &connections);
        let sending = end.beside_probe(move || async move {
            let sending = endpoint.send(&offer, outgoing_ref, connections_ref, &end.transfer);
            sending.map(|at| end.watch.acknowledged(at, all))
        });
        let error = sending.await.err();
        Ok(((control, outgoing, connections), error))
    }

    async fn report(
        &self,
        (mut control, outgoing, connections): Self::Carried,
        ended: &mut Ended<'a, Streams<'a, E::Flows>>,
        findings: &mut Findings,
    ) -> Result<()> {
        let endpoint = self.endpoint;
        let trial = ended.trial;
        ended.set_up = connections.times.lock().set_up.clone();
        let delivered = ended.delivered()?;
        if !ended.by_deadline() {
            let got = Acknowledgement::of(&mut control.stream, Vec::new()).await;
            let got = got.map_err(|error| trial.explain(error))?;
            check(&got, &outgoing, findings)?;
        }
        ended.report(findings, outgoing.size(), delivered, true);
        findings.warm_up(self.content.warm_up);
        findings.counters(trial, ended.time());
        report_sent(findings, &trial.context.live, delivered);
        if let Some(noise) = &outgoing.noise {
            findings.fact("file", noise.name());
        }
        ended.carrier.describe(findings);
        findings.connection(connections.all.as_ref());
        findings.facts(endpoint.facts());
        findings.warnings(endpoint.warnings());
        Streams::<E::Flows>::close(control, MonotonicTime::now()).await;
        Ok(())
    }
}

/// Checks that the receiver has all that was sent.
fn check(got: &Acknowledgement, outgoing: &Outgoing, findings: &mut Findings) -> Result<()> {
    got.check_bytes(outgoing.size())?;
    got.check_digest(outgoing.digest()?)?;
    findings.nothing_lost();
    if outgoing.digests.is_some() {
        findings.digest("digest.sent", got.digest);
    }
    Ok(())
}

/// Adds the bytes and messages that were sent: at least those delivered, as the counters run ahead by
/// what was read for the connections and has not left.
fn report_sent(findings: &mut Findings, live: &LiveCounters, delivered: Delivered) {
    let sent = live.sent().max(delivered);
    findings.count(id::BYTES_SENT, sent.bytes);
    findings.count(id::MESSAGES_SENT, sent.messages);
}
