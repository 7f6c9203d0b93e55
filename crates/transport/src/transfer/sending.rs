//! Connecting end, which sends.

use std::{net::SocketAddr, sync::Arc};

use regatta_control::SideReport;
use regatta_model::metric::id;

use super::{Connections, Content, Outgoing, TransferEndpoint, offer::await_offer};
use crate::{
    clock::MonotonicTime,
    content::acknowledgement::Acknowledgement,
    context::{LiveCounters, Phase, StatisticsSource},
    driver::TransportError,
    executor::Executor as _,
    opening::Purpose,
    probe::Probed,
    stop::Stop,
    stream::{StreamConnection, StreamEndpoint},
    trial::{
        Trial,
        connecting::{Begun, CLOSING},
        findings::Findings,
        stream_opening::{begin_report, open, open_load_probe},
        stream_probe,
        warm_up::WarmUp,
        watch::{Delivered, SenderEnd},
    },
};

pub(crate) async fn run<E: TransferEndpoint>(
    trial: &Trial,
    content: Content,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<SideReport, TransportError> {
    let (live, flows) = (&trial.context.live, endpoint.flows());
    let mut findings = begin_report(trial, flows, peer).await?;
    let mut load = None;
    if trial.probe.under_load {
        load = Some(open_load_probe(trial, flows, peer).await?);
    }
    let (connection, mut control, offer) = open_control(trial, flows, peer)
        .await
        .map_err(|error| trial.explain_opening(error))?;
    let warm_up = Arc::new(WarmUp::new(&trial.context.observer, content.warm_up));
    let outgoing = Outgoing::new(content, live, &warm_up);

    let Begun {
        transfer,
        watch,
        started,
    } = trial.begin()?;
    let connections = Connections::made_here(trial.order.role.name(), watch.on_connected());
    warm_up.begin(started);
    let statistics: Arc<dyn StatisticsSource> = Arc::clone(&connections) as _;
    watch.connection(&statistics);
    let whole = Delivered {
        bytes: outgoing.size(),
        messages: outgoing.messages(),
    };
    let over = Stop::new();
    let (over_ref, load_ref, watch_ref) = (&over, &mut load, &watch);
    let (outgoing_ref, connections_ref, transfer_ref) = (&outgoing, &connections, &transfer);
    let (result, probed): (_, Option<Probed>) = flows
        .executor()
        .join(
            move || async move {
                let result = endpoint.send(&offer, outgoing_ref, connections_ref, transfer_ref);
                over_ref.stop();
                result.map(|at| watch_ref.acknowledged(at, whole))
            },
            move || async move {
                match load_ref {
                    Some((_, stream)) => Some(
                        stream_probe::under_load(stream, &trial.probe, started, over_ref).await,
                    ),
                    None => None,
                }
            },
        )
        .await;
    live.set_phase(Phase::Done);
    let loaded = watch.loaded_since();
    let end = watch.finish();
    let (end, delivered) = trial.outcome(end, result, !connections.all.is_empty())?;
    if let SenderEnd::Acknowledged { .. } = end {
        let got = Acknowledgement::of(&mut control, Vec::new()).await;
        let got = got.map_err(|error| trial.explain(error))?;
        check(&got, &outgoing, &mut findings)?;
    }
    let time = end.at().since(started);
    findings.transfer(
        trial,
        (started, outgoing.size()),
        &end,
        delivered,
        connections.set_up(),
    );
    findings.goodput(delivered, time);
    if !warm_up.length().is_zero() {
        findings.metric(id::WARM_UP_NS, warm_up.length().as_nanos() as f64);
    }
    findings.counters(trial, time);
    report_sent(&mut findings, live, delivered);
    if let Some(probed) = &probed {
        findings.load_probe(trial, probed, (loaded, &end));
    }
    if let Some(file) = outgoing.file() {
        findings.fact("file", file);
    }
    findings.endpoint(flows);
    findings.0.measurements.facts.extend(connections.facts());
    findings.stack(connections.as_ref());
    findings.0.measurements.facts.extend(endpoint.facts());
    findings.0.measurements.warnings.extend(endpoint.warnings());
    let until = MonotonicTime::now() + CLOSING;
    drop(control);
    connection.close(until).await;
    if let Some((connection, stream)) = load {
        drop(stream);
        connection.close(until).await;
    }
    Ok(findings.0)
}

/// Checks that the receiver has all that was sent.
fn check(
    got: &Acknowledgement,
    outgoing: &Outgoing,
    findings: &mut Findings,
) -> Result<(), TransportError> {
    got.check_bytes(outgoing.size())?;
    got.check_digest(outgoing.digest()?)?;
    findings.nothing_lost();
    if outgoing.digests() {
        findings.fact("digest.sent", format!("{:016x}", got.digest));
    }
    Ok(())
}

/// Opens the connection on which both ends meet, and waits for the receiver's offer.
async fn open_control<E: StreamEndpoint>(
    trial: &Trial,
    flows: &E,
    peer: SocketAddr,
) -> Result<
    (
        E::Connection,
        <E::Connection as StreamConnection>::Stream,
        String,
    ),
    TransportError,
> {
    let until = trial.opening_until();
    let (connection, mut stream) =
        open(trial, flows, peer, Purpose::Transfer, until, &trial.stop).await?;
    let offer = await_offer(&mut stream, until).await?;
    Ok((connection, stream, offer))
}

/// Adds the bytes and messages that were sent: at least those delivered, as the counters run ahead by
/// what was read for the connections and has not left.
fn report_sent(findings: &mut Findings, live: &LiveCounters, delivered: Delivered) {
    let sent = Delivered::sent(live);
    findings.count(id::BYTES_SENT, sent.bytes.max(delivered.bytes));
    findings.count(id::MESSAGES_SENT, sent.messages.max(delivered.messages));
}
