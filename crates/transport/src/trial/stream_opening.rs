//! Opening flows over streams, at the connecting end.

use std::net::SocketAddr;

use bytes::Bytes;

use super::{Trial, stream_probe};
use crate::{
    clock::MonotonicTime,
    driver::TransportError,
    opening::{self, Purpose},
    probe::{Delays, Probed},
    stop::Stop,
    stream::{ByteStream, StreamConnection, StreamEndpoint},
};

/// A connection whose first stream has said what it is for.
pub(crate) async fn open<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    peer: SocketAddr,
    purpose: Purpose,
    until: MonotonicTime,
    stop: &Stop,
) -> Result<(E::Connection, <E::Connection as StreamConnection>::Stream), TransportError> {
    let connection = endpoint.connect(peer, purpose, until, stop).await?;
    let stream = open_stream(trial, &connection, purpose).await?;
    Ok((connection, stream))
}

pub(crate) async fn open_stream<C: StreamConnection>(
    trial: &Trial,
    connection: &C,
    purpose: Purpose,
) -> Result<C::Stream, TransportError> {
    let mut stream = connection.open_stream().await?;
    stream
        .send_message(&opening::encode(trial.token, purpose), &Bytes::new())
        .await?;
    stream.flush().await?;
    Ok(stream)
}

/// Probes the idle path on a connection of its own.
pub(crate) async fn probe_idle<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    peer: SocketAddr,
) -> Result<Probed, TransportError> {
    let until = MonotonicTime::now() + trial.probe.idle_limit;
    let opening_until = trial.opening_until();
    let stop = trial.stop.child();
    let purpose = Purpose::IdleProbe;
    match open(trial, endpoint, peer, purpose, opening_until, &stop).await {
        Ok((connection, mut stream)) => {
            let probed = stream_probe::idle(&mut stream, &trial.probe, until).await;
            drop(stream);
            connection.close(MonotonicTime::now()).await;
            Ok(probed)
        }
        // A path too lossy to connect in time is a result; whatever else is wrong will be wrong
        // with the transfer as well.
        Err(error @ TransportError::TimedOut { .. }) => Ok(Probed {
            delays: Delays::new(),
            broken: Some(error),
        }),
        Err(error) => Err(error),
    }
}
