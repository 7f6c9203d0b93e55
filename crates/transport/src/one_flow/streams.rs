//! A trial of one flow over any transport of streams: its connecting end.

use std::{collections::BTreeMap, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use regatta_control::{Role, SideReport};

use super::{StreamWork, stream_receiver};
use crate::{
    clock::MonotonicTime,
    context::Phase,
    driver::TransportError,
    opening::Purpose,
    probe::Probed,
    stop::Stop,
    stream::{ByteStream, StreamConnection, StreamEndpoint},
    trial::{
        Trial,
        connecting::Begun,
        stream_opening::{begin_report, open_load_probe, open_stream},
        stream_probe,
        watch::{SenderEnd, SenderWatch},
    },
};

/// Memory to receive into. Large enough that a system call is cheap beside its copy, small enough
/// to stay in a core's cache between copy and check.
pub(crate) const SCRATCH_BYTES: usize = 128 << 10;

/// Longest time that closing may take once both ends agree on what was delivered.
const CLOSING: Duration = Duration::from_secs(2);

/// Runs one end.
pub(crate) async fn run<W: StreamWork, E: StreamEndpoint>(
    trial: &Trial,
    work: &W,
    endpoint: &E,
    peer: Option<SocketAddr>,
) -> Result<SideReport, TransportError> {
    match trial.order.role {
        Role::Sender => send_side(trial, work, endpoint, trial.peer_of(peer)?).await,
        Role::Receiver => stream_receiver::run(trial, work, endpoint).await,
    }
}

/// Runs the connecting end.
async fn send_side<W: StreamWork, E: StreamEndpoint>(
    trial: &Trial,
    work: &W,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<SideReport, TransportError> {
    let live = &trial.context.live;
    let mut findings = begin_report(trial, endpoint, peer).await?;
    let load = if trial.probe.under_load && !trial.probe.shares_connection() {
        Some(open_load_probe(trial, endpoint, peer).await?)
    } else {
        None
    };

    let Begun {
        transfer,
        watch,
        started,
    } = trial.begin()?;
    let mut sent = Sent::<W::Sent>::default();
    let flows = (&transfer, &watch, load);
    let result = send_transfer((trial, work), endpoint, peer, started, flows, &mut sent).await;
    live.set_phase(Phase::Done);
    let loaded = watch.loaded_since();
    let (end, samples) = watch.finish();
    let (end, delivered) = trial.outcome(end, result, sent.set_up.is_some())?;
    findings.fact("acknowledgement", acknowledgement_fact(&end));
    findings.transfer(trial, (started, work.size()), &end, delivered, sent.set_up);
    if work.has_goodput() {
        findings.goodput(delivered, end.at().since(started));
    }
    work.report(&sent.work, &mut findings);
    findings.samples(trial, &samples, end.at().since(started));
    // The counters lag behind by the message under way when the deadline came, part of which may
    // have been delivered.
    let bytes = live.bytes_sent.load(Ordering::Relaxed);
    let messages = live.messages_sent.load(Ordering::Relaxed);
    findings.count("bytes_sent", bytes.max(delivered.bytes));
    findings.count("messages_sent", messages.max(delivered.messages));
    if let SenderEnd::Acknowledged { .. } = end {
        findings.count("messages_lost", 0);
        findings.metric("message_loss_ratio", 0.0);
    }
    if let Some(probed) = &sent.probed {
        findings.load_probe(trial, probed, (loaded, &end));
    }
    findings.0.facts.extend(endpoint.facts());
    findings.0.warnings.extend(endpoint.warnings());
    findings.0.facts.extend(sent.facts);
    Ok(findings.0)
}

pub(crate) fn acknowledgement_fact(end: &SenderEnd) -> &'static str {
    match end {
        SenderEnd::Acknowledged { .. } => "in_band",
        SenderEnd::Deadline { .. } => "control",
    }
}

/// Results of the transfer at its sender.
#[derive(Debug, Default)]
struct Sent<W> {
    set_up: Option<Duration>,
    work: W,
    probed: Option<Probed>,
    facts: BTreeMap<String, String>,
}

type Opened<E> = (
    <E as StreamEndpoint>::Connection,
    <<E as StreamEndpoint>::Connection as StreamConnection>::Stream,
);

async fn send_transfer<W: StreamWork, E: StreamEndpoint>(
    (trial, work): (&Trial, &W),
    endpoint: &E,
    peer: SocketAddr,
    started: MonotonicTime,
    (stop, watch, load): (&Stop, &SenderWatch, Option<Opened<E>>),
    sent: &mut Sent<W::Sent>,
) -> Result<(), TransportError> {
    // The watch ends a connect call that takes too long; this limit only stands behind it.
    let until = started + trial.order.longest_transfer() + CLOSING;
    // Where the probe has a stream of the same connection, the deadline ends the transfer's stream
    // alone: the probe's last answers are waited for over every transport.
    let connection_stop = if trial.probe.shares_connection() {
        trial.stop.child()
    } else {
        stop.clone()
    };
    let connection = stop
        .unless_raised(endpoint.connect(peer, Purpose::Transfer, until, &connection_stop))
        .await?;
    sent.set_up = Some(watch.connected(MonotonicTime::now()).since(started));
    let statistics = connection.statistics();
    sent.facts = statistics.facts();
    watch.connection(&statistics);
    let mut stream = stop
        .unless_raised(open_stream(trial, &connection, Purpose::Transfer))
        .await?;
    let (load_connection, mut load_stream) = match load {
        Some((connection, stream)) => (Some(connection), Some(stream)),
        None if trial.probe.under_load => (
            None,
            Some(
                stop.unless_raised(open_stream(trial, &connection, Purpose::LoadProbe))
                    .await?,
            ),
        ),
        None => (None, None),
    };

    let over = Stop::new();
    let (over_ref, stream_ref, load_ref) = (&over, &mut stream, &mut load_stream);
    let work_sent = &mut sent.work;
    let (result, probed) = endpoint
        .join(
            move || async move {
                let sending = work.send(trial, stream_ref, watch, work_sent);
                let result = stop.unless_raised(sending).await;
                if result.is_err() {
                    stream_ref.abandon();
                }
                over_ref.stop();
                result
            },
            move || async move {
                match load_ref {
                    Some(stream) => Some(
                        stream_probe::under_load(
                            stream,
                            &trial.probe,
                            watch.loaded_since(),
                            over_ref,
                        )
                        .await,
                    ),
                    None => None,
                }
            },
        )
        .await;

    sent.probed = probed;
    // Some of it is known only now.
    sent.facts = statistics.facts();
    drop(statistics);
    if result.is_err() {
        connection_stop.stop();
    }
    result?;
    let until = MonotonicTime::now() + CLOSING;
    drop((stream, load_stream));
    connection.close(until).await;
    if let Some(load) = load_connection {
        load.close(until).await;
    }
    Ok(())
}
