//! Connecting end, which sends.

use std::{net::SocketAddr, sync::Arc};

use regatta_control::SideReport;
use regatta_model::metric::id;

use super::{Connections, Content, Outgoing, TransferEndpoint, offer::await_offer};
use crate::{
    clock::MonotonicTime,
    content::acknowledgement::Acknowledgement,
    context::{LiveCounters, StatisticsSource},
    driver::Result,
    opening::Purpose,
    trial::{
        Trial, carrier::Carrier as _, connecting::Connecting, findings::Findings, streams::Streams,
        warm_up::WarmUp, watch::Delivered,
    },
};

pub(crate) async fn run<E: TransferEndpoint>(
    trial: &Trial,
    content: Content,
    endpoint: &E,
    peer: Option<SocketAddr>,
) -> Result<SideReport> {
    let (live, carrier) = (&trial.context.live, Streams(endpoint.flows()));
    let (mut end, mut findings) = Connecting::new(trial, &carrier, peer).await?;
    // The connection on which both ends meet is open, and the receiver's offer is here, before the
    // clock starts.
    let opening = async {
        let until = trial.opening_until();
        let opening = carrier.open(trial, end.peer, Purpose::Transfer, until, &trial.stop);
        let mut control = opening.await?;
        let offer = await_offer(&mut control.stream, until).await?;
        Ok((control, offer))
    };
    let opened = opening.await;
    let (mut control, offer) = opened.map_err(|error| trial.explain_opening(error))?;
    let warm_up = Arc::new(WarmUp::new(&trial.context.observer, content.warm_up));
    let outgoing = Outgoing::new(content, live, &warm_up);

    end.begin();
    let connections = Connections::new(trial, None, Some(Arc::clone(&end.watch)));
    warm_up.begin(end.started);
    let statistics: Arc<dyn StatisticsSource> = connections.all.clone();
    end.watch.connection(&statistics);
    let whole = Delivered {
        bytes: outgoing.size(),
        messages: outgoing.plan.count,
    };
    let (outgoing_ref, connections_ref, end_ref) = (&outgoing, &connections, &end);
    let result = end
        .beside_probe(move || async move {
            let sending = endpoint.send(&offer, outgoing_ref, connections_ref, &end_ref.transfer);
            sending.map(|at| end_ref.watch.acknowledged(at, whole))
        })
        .await;
    let mut ended = end.end(result.err(), !connections.all.is_empty())?;
    ended.set_up = connections.times.lock().set_up.clone();
    let delivered = ended.delivered()?;
    if !ended.by_deadline() {
        let got = Acknowledgement::of(&mut control.stream, Vec::new()).await;
        let got = got.map_err(|error| trial.explain(error))?;
        check(&got, &outgoing, &mut findings)?;
    }
    ended.report(&mut findings, outgoing.size(), delivered, true);
    findings.warm_up(warm_up.length);
    findings.counters(trial, ended.time());
    report_sent(&mut findings, live, delivered);
    if let Some(noise) = &outgoing.noise {
        findings.fact("file", noise.name());
    }
    findings.endpoint(endpoint.flows());
    findings.connection(connections.all.as_ref());
    findings.facts(endpoint.facts());
    findings.warnings(endpoint.warnings());
    Streams::<E::Flows>::close(control, MonotonicTime::now()).await;
    ended.close().await;
    Ok(findings.0)
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
    let sent = Delivered::sent(live).max(delivered);
    findings.count(id::BYTES_SENT, sent.bytes);
    findings.count(id::MESSAGES_SENT, sent.messages);
}
