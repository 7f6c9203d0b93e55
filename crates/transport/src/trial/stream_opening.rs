//! Opening of flows over streams at the connecting end.

use std::net::SocketAddr;

use bytes::Bytes;

use super::{Trial, findings::Findings, stream_probe};
use crate::{
    clock::MonotonicTime,
    context::Phase,
    driver::TransportError,
    opening::{self, Purpose},
    probe::{Delays, Probed},
    stop::Stop,
    stream::{ByteStream, StreamConnection, StreamEndpoint},
};

/// Opens a connection whose first stream has sent its opening.
pub(crate) async fn open<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    peer: SocketAddr,
    purpose: Purpose,
    until: MonotonicTime,
    stop: &Stop,
) -> Result<(E::Connection, <E::Connection as StreamConnection>::Stream), TransportError> {
    let connection = endpoint.connect(peer, purpose, until, stop).await?;
    let stream = open_stream(trial, &connection, purpose, &[]).await?;
    Ok((connection, stream))
}

/// Opens a stream of a connection and sends its opening, and `index` right after it.
pub(crate) async fn open_stream<C: StreamConnection>(
    trial: &Trial,
    connection: &C,
    purpose: Purpose,
    index: &[u8],
) -> Result<C::Stream, TransportError> {
    let mut stream = connection.open_stream().await?;
    let head = [&opening::encode(trial.token, purpose)[..], index].concat();
    stream.send_message(&head, &Bytes::new()).await?;
    stream.flush().await?;
    Ok(stream)
}

/// Opens the connection of the probe under load.
pub(crate) async fn open_load_probe<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<(E::Connection, <E::Connection as StreamConnection>::Stream), TransportError> {
    let (purpose, until) = (Purpose::LoadProbe, trial.opening_until());
    open(trial, endpoint, peer, purpose, until, &trial.stop)
        .await
        .map_err(|error| trial.explain_opening(error))
}

/// Begins the report, with the idle path where it is to be probed.
pub(crate) async fn begin_report<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<Findings, TransportError> {
    trial.context.live.set_phase(Phase::Idle);
    let mut findings = Findings::default();
    if trial.probe.idle_messages > 0 {
        let probed = probe_idle(trial, endpoint, peer).await?;
        findings.idle_probe(trial, &probed);
    }
    Ok(findings)
}

/// Probes the idle path on a connection of its own.
async fn probe_idle<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<Probed, TransportError> {
    let opening_until = trial.opening_until();
    let stop = trial.stop.child();
    let purpose = Purpose::IdleProbe;
    match open(trial, endpoint, peer, purpose, opening_until, &stop).await {
        Ok((connection, mut stream)) => {
            let until = MonotonicTime::now() + trial.probe.idle_limit;
            let probed = stream_probe::idle(&mut stream, &trial.probe, until).await;
            drop(stream);
            connection.close(MonotonicTime::now()).await;
            Ok(probed)
        }
        // A path too lossy to connect in time is a result; whatever else is wrong will be wrong
        // with the transfer as well.
        Err(error @ TransportError::TimedOut { .. }) => Ok(Probed {
            delays: Delays::default(),
            broken: Some(error),
        }),
        Err(error) => Err(error),
    }
}
